"""The ONNX backend interface: models and nodes are compiled for this host, and nothing is evaluated in Python."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import onnx.backend.test.loader as onnx_tests
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.runner import Runner

import mcpc.backend
from mcpc.errors import UsageError

#: Tests of onnx's own, one a way into the compiler: shapes from data, several outputs, types, scalars, attributes.
SAMPLE = (
    *("add_bcast", "argmax_negative_axis_keepdims_example", "cast_FLOAT_to_FLOAT16", "clip_default_inbounds"),
    *("concat_3d_axis_negative_2", "conv_with_strides_and_asymmetric_padding", "expand_dim_changed"),
    *("gather_negative_indices", "matmul_4d", "maxpool_2d_ceil", "or_bcast4v2d", "reshape_negative_dim"),
    *("transpose_default", "reduce_max_empty_set", "split_variable_parts_2d_opset18", "where_long_example"),
)


def array(each: Any) -> Any:
    return numpy_helper.to_array(each) if isinstance(each, TensorProto) else np.asarray(each)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # onnx computes its cases when they are listed
def test_nodes_of_onnx_itself() -> None:
    found = {case.name: case for case in onnx_tests.load_model_tests(kind="node")}
    for name in SAMPLE:
        case = found[f"test_{name}"]
        assert case.model is not None
        rep = mcpc.backend.prepare(case.model)
        for inputs, outputs in case.data_sets or []:
            got = list(rep.run([array(each) for each in inputs]))
            Runner.assert_similar_outputs([array(each) for each in outputs], got, case.rtol, case.atol)


def relu() -> Any:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N"]) for name in "xy")
    w = numpy_helper.from_array(np.array([10], np.float32), "w")
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Add", ["r", "w"], ["y"])]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("w", TensorProto.FLOAT, [1]), x], [y], [w])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_inputs_come_in_order_by_name_or_alone() -> None:
    rep = mcpc.backend.prepare(relu(), "CPU:0")
    x, w = np.array([-1, 2], np.float32), np.array([1], np.float32)
    for inputs, want in ((x, [10, 12]), ([x], [10, 12]), ({"x": x, "w": w}, [1, 3]), ((x, w), [1, 3])):
        assert rep.run(inputs)[0].tolist() == want
    assert mcpc.backend.run_model(relu(), [x[:1]])[0].tolist() == [10]
    with pytest.raises(UsageError, match="3 inputs are given"):
        rep.run([x, w, w])


def test_one_node_runs_alone() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    node = helper.make_node("Split", ["x"], ["a", "b"], axis=1, num_outputs=2)
    first, second = mcpc.backend.run_node(node, [x], opset_version=18)
    assert np.array_equal(first, x[:, :2]) and np.array_equal(second, x[:, 2:])
    (product,) = mcpc.backend.run_node(helper.make_node("Mul", ["x", "x"], ["y"]), [x])
    assert np.array_equal(product, x * x)


def test_what_it_takes() -> None:
    assert mcpc.backend.supports_device("CPU") and not mcpc.backend.supports_device("CUDA")
    assert not mcpc.backend.supports_device("no such thing")
    model = relu()
    assert mcpc.backend.is_compatible(model)
    model.graph.node[0].op_type = "NoSuchOperator"
    assert not mcpc.backend.is_compatible(model)
    with pytest.raises(UsageError, match="no device 'CUDA'"):
        mcpc.backend.prepare(relu(), "CUDA")


def test_it_is_found_from_the_package_and_loaded_when_used() -> None:
    program = "import sys, mcpc; assert 'onnx' not in sys.modules; mcpc.backend.prepare; assert 'onnx' in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)
