"""The ONNX writer: what it writes runs in ONNX Runtime and computes what was read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import ModelProto, TensorProto, helper
from onnx.numpy_helper import from_array

from mcpc.ir import MCPC, OPSET, DType, Graph, TensorType, Value, symbol
from mcpc.judge import judge
from mcpc.onnx_reader import read
from mcpc.onnx_writer import Weights, to_model, write

Array = np.ndarray[Any, Any]
F32 = DType.float32


def run(model: ModelProto | Path, feeds: dict[str, Array], optimise: bool) -> list[Array]:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    level = ort.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimise else level.ORT_DISABLE_ALL
    source = str(model) if isinstance(model, Path) else model.SerializeToString()
    return list(ort.InferenceSession(source, options, ["CPUExecutionProvider"]).run(None, feeds))


def check(graph: Graph, feeds: dict[str, Array], expected: list[Array]) -> ModelProto:
    """``graph`` is written as a valid model that computes ``expected``, optimised or not."""
    graph.verify()
    model = to_model(graph)
    onnx.checker.check_model(model, full_check=True)
    for optimise in (False, True):
        actual = run(model, feeds, optimise)
        for given, wanted in zip(actual, expected, strict=True):
            np.testing.assert_allclose(given, wanted, rtol=1e-5, atol=1e-5)
    return model


def numbers(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def network(opset: int = 17) -> ModelProto:
    """Convolution, pool, LSTM, shape arithmetic and constants of several types, batch 'N'."""
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Clip", ["c", "", "six"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
        helper.make_node("Shape", ["p"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"], axis=0),
        helper.make_node("Concat", ["n", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["p", "target"], ["f"]),
        helper.make_node("Transpose", ["f"], ["t"], perm=[1, 0, 2]),
        helper.make_node("LSTM", ["t", "lw", "lr"], ["", "h"], hidden_size=3),
        helper.make_node("Squeeze", ["h", "zero"], ["q"]),
        helper.make_node("Cast", ["q"], ["y"], to=TensorProto.DOUBLE),
    ]
    constants = {
        "w": numbers(4, 2, 3, 3), "b": numbers(4), "six": np.array(0.6, np.float32), "zero": np.array([0]),
        "rest": np.array([4, -1]), "lw": numbers(1, 12, 4), "lr": numbers(1, 12, 3),
    }  # fmt: skip
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 2, 8, 8])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.DOUBLE, ["N", 3])]
    initializers = [from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "network", inputs, outputs, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


@pytest.mark.parametrize("opset", [15, 17, 24])
def test_a_network_computes_the_same_after_reading_and_writing(opset: int) -> None:
    original = network(opset)
    feeds = {"x": numbers(3, 2, 8, 8)}
    model = check(read(original), feeds, run(original, feeds, optimise=False))
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", OPSET)]
    assert model.graph.input[0].type == original.graph.input[0].type
    check(read(model), feeds, run(original, feeds, optimise=False))


@pytest.mark.parametrize("weights", ["inline", "external", "auto"])
def test_files(tmp_path: Path, weights: Weights) -> None:
    original, feeds = network(), {"x": numbers(1, 2, 8, 8)}
    graph, path = read(original), tmp_path / "m.onnx"
    large = graph.constant("large", numbers(64, 64))
    graph.outputs.extend(graph.emit("Neg", [large], [large.type]))
    write(graph, path, weights)
    data = tmp_path / "m.onnx.data"
    assert data.exists() == (weights == "external")
    assert path.stat().st_mode & 0o777 == 0o666 & ~current_umask()
    assert sorted(tmp_path.iterdir()) == sorted({path} | ({data} if weights == "external" else set()))
    wanted = [*run(original, feeds, optimise=False), -numbers(64, 64)]
    for given, expected in zip(run(path, feeds, optimise=False), wanted, strict=True):
        np.testing.assert_array_equal(given, expected)
    again = read(path)
    assert is_mapped(again, "large") == (weights == "external")


def is_mapped(graph: Graph, name: str) -> bool:
    (data,) = [value.data for value in graph.constants() if value.name == name]
    return isinstance(data, np.memmap)


def current_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_mapped_weights_survive_writing_over_their_own_files(tmp_path: Path) -> None:
    graph = Graph("big")
    x = graph.add_input("x", TensorType(F32, (64,)))
    first, second = graph.constant("first", numbers(64, 64)), graph.constant("second", numbers(64, 64) + 1)
    (h,) = graph.emit("MatMul", [x, first], [x.type])
    graph.outputs = list(graph.emit("MatMul", [h, second], [x.type]))
    path, feeds = tmp_path / "m.onnx", {"x": numbers(64)}
    write(graph, path, "external")
    expected = run(path, feeds, optimise=False)
    mapped = read(path)
    mapped.set_inputs(mapped.nodes[0], [mapped.inputs[0], mapped.nodes[1].inputs[1]])
    write(mapped, path)  # 'auto': mapped weights stay external
    wanted = run(to_model(mapped), feeds, optimise=False)
    np.testing.assert_array_equal(run(path, feeds, optimise=False)[0], wanted[0])
    assert not np.array_equal(wanted[0], expected[0])


def fused(body: Graph, inputs: list[Value | None], graph: Graph, type: TensorType, name: str) -> Value:
    (result,) = graph.emit("Fused", inputs, [type], {"body": body}, name=name, domain=MCPC)
    return result


def body_of(scale: float) -> Graph:
    """relu(a · b) · scale"""
    body = Graph("mul relu")
    type = TensorType(F32, (symbol("N"), 4))
    a, b = body.add_input("a", type), body.add_input("b", TensorType(F32, (4,)))
    (product,) = body.emit("Mul", [a, b], [type], names=["product"])
    (relu,) = body.emit("Relu", [product], [type], names=["relu"])
    body.outputs = list(
        body.emit("Mul", [relu, body.constant("s", np.array(scale, np.float32))], [type], names=["out"])
    )
    return body


def test_fused_nodes_become_functions() -> None:
    """Three nodes with two distinct bodies of the same name, and the names of outer and inner values are the same."""
    graph = Graph("outer")
    type = TensorType(F32, (symbol("N"), 4))
    x, b = graph.add_input("a", type), graph.constant("product", numbers(4))
    h = fused(body_of(2.0), [x, b], graph, type, "one")
    h = fused(body_of(3.0), [h, b], graph, type, "two")
    graph.outputs = [fused(body_of(2.0), [h, b], graph, type, "three")]
    value = numbers(3, 4)
    expected = np.maximum(value * numbers(4), 0) * 2
    expected = np.maximum(expected * numbers(4), 0) * 3
    expected = np.maximum(expected * numbers(4), 0) * 2
    model = check(graph, {"a": value}, [expected])
    assert len(model.functions) == 2 and len({function.name for function in model.functions}) == 2
    assert {function.domain for function in model.functions} == {MCPC}
    versions = {(entry.domain, entry.version) for function in model.functions for entry in function.opset_import}
    assert versions == {("", OPSET)}
    assert [node.op for node in read(model).nodes] == ["Mul", "Relu", "Mul"] * 3


def test_large_constants_of_bodies_are_passed_in() -> None:
    body = Graph("product")
    type = TensorType(F32, (64,))
    x = body.add_input("x", type)
    body.outputs = list(body.emit("MatMul", [x, body.constant("w", numbers(64, 64))], [type]))
    graph = Graph("outer")
    w = graph.add_input("w", type)
    graph.outputs = [fused(body, [w], graph, type, "f")]
    model = check(graph, {"w": numbers(64)}, [numbers(64) @ numbers(64, 64)])
    assert [tensor.name for tensor in model.graph.initializer] == ["w.1"]


def test_bodies_that_hand_on_inputs_and_nest() -> None:
    inner = Graph("inner")
    type = TensorType(F32, (4,))
    i = inner.add_input("i", type)
    inner.outputs = list(inner.emit("Neg", [i], [type]))
    outer = Graph("outer body")
    o = outer.add_input("o", type)
    (negative,) = outer.emit("Fused", [o], [type], {"body": inner}, domain=MCPC)
    outer.outputs = [o, negative, negative]
    graph = Graph("graph")
    x = graph.add_input("x", type)
    graph.outputs = list(graph.emit("Fused", [x], [type] * 3, {"body": outer}, domain=MCPC))
    value = numbers(4)
    check(graph, {"x": value}, [value, -value, -value])


def test_operands_of_a_fused_node_may_be_left_out() -> None:
    body = Graph("clip")
    type = TensorType(F32, (4,))
    x, low, high = (
        body.add_input(name, t) for name, t in (("x", type), ("l", TensorType(F32, ())), ("h", TensorType(F32, ())))
    )
    body.outputs = list(body.emit("Clip", [x, low, high], [type]))
    graph = Graph("graph")
    value = graph.add_input("x", type)
    graph.outputs = [fused(body, [value, None, graph.constant("top", np.array(0, np.float32))], graph, type, "f")]
    check(graph, {"x": numbers(4)}, [np.minimum(numbers(4), 0)])


def test_layouts_leave_no_trace() -> None:
    graph = Graph("layouts")
    type = TensorType(F32, (1, 2, 3, 4))
    x = graph.add_input("x", type)
    (inside,) = graph.emit("Identity", [x], [type.with_layout((0, 2, 3, 1))])
    graph.outputs = list(graph.emit("Relu", [inside], [type]))
    value = numbers(1, 2, 3, 4)
    model = check(graph, {"x": value}, [np.maximum(value, 0)])
    assert [node.op_type for node in model.graph.node] == ["Identity", "Relu"]


def test_sizes_that_are_expressions_stay_open() -> None:
    graph = Graph("sizes")
    n = symbol("N")
    x = graph.add_input("x", TensorType(F32, (n, 2)))
    graph.outputs = list(graph.emit("Concat", [x, x], [TensorType(F32, (2 * n, 2))], {"axis": 0}))
    value = numbers(3, 2)
    model = check(graph, {"x": value}, [np.concatenate([value, value])])
    dims = model.graph.output[0].type.tensor_type.shape.dim
    assert not dims[0].HasField("dim_param") and dims[1].dim_value == 2


@pytest.mark.parametrize("dtype", DType)
def test_every_element_type(dtype: DType, tmp_path: Path) -> None:
    graph = Graph("types")
    data = (np.arange(2048).reshape(2, -1) % 2).astype(dtype.numpy)
    constant = graph.constant("c", data)
    graph.outputs = list(graph.emit("Identity", [constant], [constant.type], names=["y"]))
    for weights in ("inline", "external"):
        write(graph, tmp_path / "m.onnx", weights)
        again = read(tmp_path / "m.onnx").constants()[0]
        assert again.data is not None and again.dtype is dtype
        assert again.data.tobytes() == data.tobytes()


def test_empty_lists_and_types_of_attributes() -> None:
    graph = Graph("attributes")
    x = graph.add_input("x", TensorType(F32, (2,)))
    (y,) = graph.emit("Elu", [x], [x.type], {"alpha": 1})  # an integer where ONNX declares a float
    graph.outputs = list(graph.emit("Transpose", [y], [x.type], {"perm": [0]}))
    model = check(graph, {"x": np.array([1, -1], np.float32)}, [np.array([1, np.expm1(-1)])])
    assert model.graph.node[0].attribute[0].type == onnx.AttributeProto.FLOAT


def test_the_same_graph_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(read(network()), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


LINEAR: dict[str, Any] = {"q_num_heads": 2, "kv_num_heads": 2, "update_rule": "linear"}
NEWER: dict[str, tuple[str, list[Any], dict[str, Any], int]] = {
    "Relu": ("Relu", [(2, 4)], {}, OPSET),
    "CumProd": ("CumProd", [(2, 4), np.array(1)], {}, 26),
    "SpaceToDepth, the only mode before": ("SpaceToDepth", [(1, 2, 4, 4)], {"blocksize": 2, "mode": "DCR"}, OPSET),
    "SpaceToDepth, the mode that came later": ("SpaceToDepth", [(1, 2, 4, 4)], {"blocksize": 2, "mode": "CRD"}, 28),
    "an operator that another defines": ("SwiGLU", [(2, 4), (2, 4)], {}, OPSET),
    "LinearAttention": ("LinearAttention", [(1, 3, 8)] * 3, LINEAR, 27),
}


@pytest.mark.parametrize("case", NEWER)
def test_the_opset_is_the_first_that_has_all_operators(case: str) -> None:
    """Read at opset 28, beside an operator that is the same in all of them."""
    op, operands, attrs, opset = NEWER[case]
    rng = np.random.default_rng(0)
    feeds = {
        f"x{i}": each if isinstance(each, np.ndarray) else rng.standard_normal(each, np.float32)
        for i, each in enumerate(operands)
    }
    outputs = ["y", "state"] if op == "LinearAttention" else ["y"]
    nodes = [helper.make_node(op, list(feeds), outputs, op, **attrs), helper.make_node("Neg", ["y"], ["z"], "minus")]
    inputs = [
        helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for k, v in feeds.items()
    ]
    graph = helper.make_graph(nodes, "newer", inputs, [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 28)], ir_version=12)
    written = to_model(read(model))
    onnx.checker.check_model(written, full_check=True)
    assert {entry.domain: entry.version for entry in written.opset_import} == {"": opset}
    want, got = (judge(each.SerializeToString(), ["z"])(feeds)[0] for each in (model, written))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
