"""Models that are legal but odd, as exporters and optimisers write them, compiled and compared with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper
from onnx.numpy_helper import from_array

import mcpc
from mcpc.sample_inputs import sample_inputs

Array = np.ndarray[Any, Any]
Build = Callable[[], ModelProto]

RNG = np.random.default_rng(5)
MODELS: dict[str, Build] = {}


def case(build: Build) -> Build:
    MODELS[build.__name__] = build
    return build


def tensor(name: str, *shape: int | str | None, dtype: int = TensorProto.FLOAT) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def node(op: str, inputs: str, outputs: str, **attrs: Any) -> NodeProto:
    return helper.make_node(op, inputs.split(), outputs.split(), **attrs)


def floats(*shape: int) -> Array:
    return RNG.standard_normal(shape, np.float32)


def model(
    nodes: list[NodeProto],
    inputs: list[ValueInfoProto],
    outputs: list[ValueInfoProto],
    constants: dict[str, Array] | None = None,
    opset: int = 17,
    ir_version: int = 8,
) -> ModelProto:
    initial = [from_array(np.asarray(array), name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(nodes, "odd", inputs, outputs, initial)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)


# ---- outputs


@case
def outputs_that_are_an_input_and_a_constant() -> ModelProto:
    outputs = [tensor("x", 2, 3), tensor("c", 2), tensor("y", 2, 3)]
    return model([node("Relu", "x", "y")], [tensor("x", 2, 3)], outputs, {"c": floats(2)})


@case
def one_output_twice() -> ModelProto:
    return model([node("Relu", "x", "y")], [tensor("x", 2, 3)], [tensor("y", 2, 3), tensor("y", 2, 3)])


@case
def outputs_that_alias() -> ModelProto:
    nodes = [node("Relu", "x", "a"), node("Identity", "a", "b"), node("Identity", "a", "c"), node("Identity", "x", "d")]
    return model(nodes, [tensor("x", 2, 3)], [tensor(name, 2, 3) for name in "abcd"])


@case
def no_nodes() -> ModelProto:
    return model([], [tensor("x", "N", 3)], [tensor("x", "N", 3)])


@case
def no_inputs() -> ModelProto:
    nodes = [node("Constant", "", "a", value_floats=[1.0, -2.0]), node("Neg", "a", "y")]
    return model(nodes, [], [tensor("y", 2)])


@case
def no_type_of_the_output() -> ModelProto:
    return model([node("Cast", "x", "y", to=TensorProto.INT32)], [tensor("x", 2)], [ValueInfoProto(name="y")])


@case
def stale_declared_shapes() -> ModelProto:
    result = model([node("Relu", "x", "a"), node("Neg", "a", "y")], [tensor("x", 2, 3)], [tensor("y", 5, 3)])
    result.graph.value_info.append(tensor("a", 7, 7))
    return result


# ---- inputs


@case
def one_tensor_as_several_operands() -> ModelProto:
    nodes = [
        node("MatMul", "x x", "m"), node("Add", "m m", "a"), node("Concat", "a a x", "y", axis=0),
        node("Where", "c a a", "z"),
    ]  # fmt: skip
    return model(nodes, [tensor("x", 3, 3), tensor("c", 3, 3, dtype=TensorProto.BOOL)], [tensor("y"), tensor("z")])


@case
def sizes_with_odd_names() -> ModelProto:
    x, z = tensor("x", "?", "p2o.DynamicDimension.1", 3), tensor("z", "", None, 4)
    z.type.tensor_type.shape.dim[1].dim_value = -1
    return model([node("Relu", "x", "y"), node("Neg", "z", "w")], [x, z], [tensor("y", "unrelated", 7, 3), tensor("w")])


@case
def every_weight_listed_as_an_input() -> ModelProto:
    weights = {"w": floats(4, 2, 3, 3), "b": floats(4), **{name: floats(4) for name in ("s", "t", "m")}}
    weights["v"] = np.abs(floats(4))
    nodes = [node("Conv", "x w b", "c"), node("BatchNormalization", "c s t m v", "y")]
    listed = [tensor(name, *array.shape) for name, array in weights.items()]
    return model(nodes, [tensor("x", 1, 2, 5, 5), *listed], [tensor("y", 1, 4, 3, 3)], weights, opset=9, ir_version=4)


@case
def empty_tensors() -> ModelProto:
    nodes = [node("Concat", "x z", "c", axis=0), node("Relu", "c", "y"), node("ReduceSum", "z", "s", keepdims=0)]
    return model(nodes, [tensor("x", 2, 3), tensor("z", 0, 3)], [tensor("y", 2, 3), tensor("s")])


@case
def scalars() -> ModelProto:
    nodes = [node("Add", "x c", "a"), node("Mul", "a a", "y"), node("Unsqueeze", "y axes", "z")]
    constants = {"c": np.array(2, np.float32), "axes": np.array([0])}
    return model(nodes, [tensor("x")], [tensor("y"), tensor("z", 1)], constants)


# ---- nodes


@case
def every_form_of_constant() -> ModelProto:
    numbers = helper.make_tensor("v", TensorProto.FLOAT, [2], [1.5, 2.5])
    sparse = helper.make_sparse_tensor(numbers, helper.make_tensor("i", TensorProto.INT64, [2], [1, 4]), [2, 3])
    nodes = [
        node("Constant", "", "f", value_float=2.0), node("Constant", "", "fs", value_floats=[1.0, 2.0, 3.0]),
        node("Constant", "", "i", value_int=1), node("Constant", "", "is", value_ints=[3, 2]),
        node("Constant", "", "s", sparse_value=sparse), node("Constant", "", "t", value=from_array(floats(2, 1))),
        node("Mul", "x f", "a"), node("Add", "a fs", "b"), node("Add", "b s", "c"), node("Sub", "c t", "d"),
        node("Reshape", "d is", "e"), node("Gather", "e i", "y"),
    ]  # fmt: skip
    return model(nodes, [tensor("x", 2, 3)], [tensor("y", 2)])


@case
def nodes_out_of_order_and_dead_ones() -> ModelProto:
    nodes = [node("Neg", "b", "y"), node("Relu", "a", "b"), node("Exp", "x", "dead"), node("Abs", "x", "a")]
    return model(nodes, [tensor("x", 2, 3)], [tensor("y", 2, 3)], {"unused": floats(3)})


@case
def operands_and_results_left_out() -> ModelProto:
    nodes = [helper.make_node("Clip", ["x", "", ""], ["c"]), helper.make_node("Dropout", ["c", "", ""], ["y", ""])]
    return model(nodes, [tensor("x", 2, 3)], [tensor("y", 2, 3)])


@case
def names_that_collide_or_mean_something_elsewhere() -> ModelProto:
    names = ["x/y:0", "x_y_0", "int", "a b", "a.b", "%s%n\n\"'\\", "*/ #define y", "日本"]
    nodes = [
        helper.make_node(op, [before], [after], name=after)
        for op, before, after in zip(["Relu", "Neg", "Abs", "Exp", "Neg", "Abs", "Neg"], names, names[1:], strict=False)
    ]
    return model(nodes, [tensor(names[0], 2)], [tensor(names[-1], 2)])


@case
def texts_that_nobody_needs() -> ModelProto:
    result = model([node("Relu", "x", "y", doc_string="é")], [tensor("x", 2, 3)], [tensor("y", 2, 3)])
    helper.set_model_props(result, {"author": "é", "names": "a,b"})
    result.graph.node[0].metadata_props.add(key="k", value="v")
    result.graph.node[0].domain = "ai.onnx"
    return result


@case
def three_thousand_nodes_in_a_chain() -> ModelProto:
    operators, nodes, last = ("Relu", "Sigmoid", "Neg", "Add"), [], "x"
    for index in range(3000):
        operator = operators[index % len(operators)]
        nodes.append(node(operator, f"{last} c" if operator == "Add" else last, f"t{index}"))
        last = f"t{index}"
    return model(nodes, [tensor("x", "N", 4)], [tensor(last, "N", 4)], {"c": floats(4)})


@pytest.mark.parametrize("name", MODELS)
def test_an_odd_model_computes_what_onnx_runtime_does(name: str, tmp_path: Path) -> None:
    serialized = MODELS[name]().SerializeToString()
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    reference = ort.InferenceSession(serialized, options, providers=["CPUExecutionProvider"])
    with mcpc.load(mcpc.compile(serialized, output=tmp_path / "m.mcp26bin"), threads=1) as session:
        assert [each.name for each in session.get_outputs()] == [each.name for each in reference.get_outputs()]
        for seed in (0, 1):
            feeds = sample_inputs(session.get_inputs(), seed)
            for got, want in zip(session.run(None, feeds), reference.run(None, feeds), strict=True):
                assert (got.shape, got.dtype) == (want.shape, want.dtype)
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("opset", [7, 8, 9, 10, 11, 12, 13, 15, 18, 21, 24, 26, 28])
def test_every_opset_is_read(opset: int, tmp_path: Path) -> None:
    """Operators whose operands moved from attributes to inputs, each in the form of its opset."""

    def given(since: int, op: str, **operands: list[Any]) -> None:
        """A node of ``p`` that takes ``operands`` as attributes, from opset ``since`` on as inputs."""
        result = f"{op.lower()}{len(nodes)}"
        if opset < since:
            nodes.append(node(op, "p", result, **operands))
        else:
            inputs = ["p", *(f"{result}.{name}" for name in operands)]
            nodes.append(helper.make_node(op, inputs, [result]))
            constants.update({f"{result}.{name}": np.array(values) for name, values in operands.items()})
        outputs.append(tensor(result))

    nodes = [node("Conv", "x w", "c", pads=[1, 1, 1, 1]), node("MaxPool", "c", "p", kernel_shape=[2, 2])]
    constants: dict[str, Array] = {"w": floats(4, 2, 3, 3)}
    outputs: list[ValueInfoProto] = []
    given(13, "Squeeze", axes=[0])
    given(13, "Unsqueeze", axes=[1])
    given(13, "ReduceSum", axes=[1, 3])
    given(18, "ReduceMean", axes=[2])
    given(10, "Slice", starts=[1], ends=[3], axes=[1])
    if opset < 10:
        nodes.append(node("Slice", "p", "sliced", starts=[1, 0], ends=[3, 2]))
        outputs.append(tensor("sliced"))
    given(11, "Pad", pads=[0, 0, 1, 0, 0, 0, 0, 2])
    nodes.append(node("Softmax", "p", "softmax", axis=1))
    outputs.append(tensor("softmax"))
    for each in outputs:
        each.type.tensor_type.ClearField("shape")
    serialized = model(nodes, [tensor("x", 1, 2, 6, 6)], outputs, constants, opset, 8).SerializeToString()
    x = {"x": floats(1, 2, 6, 6)}
    options = ort.SessionOptions()
    options.log_severity_level = 4
    want = ort.InferenceSession(serialized, options, providers=["CPUExecutionProvider"]).run(None, x)
    with mcpc.load(mcpc.compile(serialized, output=tmp_path / "m.mcp26bin", golden=0), threads=1) as session:
        for got, wanted in zip(session.run(None, x), want, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
