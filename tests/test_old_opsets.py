"""Operators whose meaning changed with an opset: what a model of an old one means is what is computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

import mcpc
from mcpc.reference import run_model

X = np.random.default_rng(5).standard_normal((1, 2, 4, 6), np.float32)
TF = {"coordinate_transformation_mode": "tf_half_pixel_for_nn", "nearest_mode": "floor", "mode": "nearest"}
CASES: list[tuple[int, str, list[float], dict[str, Any]]] = [
    (7, "Upsample", [], {"mode": "nearest", "scales": [1.0, 1.0, 2.0, 3.0]}),
    (8, "Upsample", [], {"mode": "linear", "scales": [1.0, 1.0, 2.0, 2.0]}),
    (9, "Upsample", [1, 1, 1.5, 2], {"mode": "nearest"}),
    (10, "Resize", [1, 1, 2.5, 2], {"mode": "nearest"}),
    (10, "Resize", [1, 1, 0.5, 0.5], {"mode": "nearest"}),
    (10, "Resize", [1, 1, 0.5, 1.5], {"mode": "linear"}),
    (11, "Resize", [1, 1, 2, 1.5], {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"}),
    (11, "Resize", [1, 1, 2, 3], TF),
    (12, "Resize", [1, 1, 0.5, 1.5], TF),
]


@pytest.mark.parametrize("as_node", [False, True], ids=["initializer", "Constant"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[1]}-{case[0]} {case[2]} {case[3]['mode']}")
def test_resize_and_upsample_as_in_onnx_runtime(
    case: tuple[int, str, list[float], dict[str, Any]], as_node: bool, tmp_path: Path
) -> None:
    opset, op, scales, attrs = case
    constants = {"scales": np.array(scales, np.float32)} if scales else {}
    if opset >= 11:
        constants["roi"] = np.zeros(0, np.float32)
    inputs = ["x", *(["roi", "scales"] if opset >= 11 else list(constants))]
    tensors = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    nodes = [helper.make_node("Constant", [], [tensor.name], value=tensor) for tensor in tensors] if as_node else []
    graph = helper.make_graph(
        [*nodes, helper.make_node(op, inputs, ["y"], **attrs)],
        "old",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [] if as_node else tensors,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=5)
    (want,) = run_model(model.SerializeToString(), {"x": X}, ["y"])
    with mcpc.load(mcpc.compile(model.SerializeToString(), "host", tmp_path / "old.mcp26bin", golden=0)) as session:
        (got,) = session.run(None, {"x": X})
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [[2, 3, 3], ["N", 3, "H", "W"], [2, 3]], ids=str)
def test_slopes_of_prelu_are_one_a_channel(shape: list[int | str], tmp_path: Path) -> None:
    """ONNX Runtime knows PRelu from opset 7 on. With three columns the slopes would broadcast to these, unnoticed."""
    x = np.random.default_rng(6).standard_normal([size if isinstance(size, int) else 3 for size in shape], np.float32)
    slopes = np.array([0.25, -2, 0], np.float32)
    graph = helper.make_graph(
        [helper.make_node("PRelu", ["x", "slopes"], ["y"])],
        "old",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(slopes, "slopes")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 6)], ir_version=3)
    with mcpc.load(mcpc.compile(model.SerializeToString(), "host", tmp_path / "old.mcp26bin", golden=0)) as session:
        (got,) = session.run(None, {"x": x})
    column = slopes.reshape([-1, *[1] * (x.ndim - 2)])
    np.testing.assert_array_equal(got, np.where(x < 0, column * x, x))


@pytest.mark.parametrize(
    "node",
    [
        helper.make_node("Clip", ["x"], ["q"], min=-0.5, max=0.5),
        helper.make_node("Softmax", ["x"], ["q"], axis=0),  # over all elements, as a vector
        helper.make_node("ReduceSum", ["x"], ["q"], axes=[0], keepdims=1),
    ],
    ids=lambda node: str(node.op_type),
)
def test_bodies_of_scan_are_of_the_models_opset(node: NodeProto, tmp_path: Path) -> None:
    def tensor(name: str, *shape: int) -> ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    nodes = [node, helper.make_node("Add", ["s", "q"], ["t"]), helper.make_node("Mul", ["t", "scale"], ["y"])]
    body = helper.make_graph(
        nodes, "body", [tensor("s", 2, 4), tensor("x", 2, 4)], [tensor("t", 2, 4), tensor("y", 2, 4)]
    )
    graph = helper.make_graph(
        [helper.make_node("Scan", ["", "s0", "xs"], ["last", "ys"], body=body, num_scan_inputs=1)],
        "old",
        [tensor("s0", 2, 2, 4), tensor("xs", 2, 3, 2, 4)],
        [tensor("last", 2, 2, 4), tensor("ys", 2, 3, 2, 4)],
        [numpy_helper.from_array(np.array([3], np.float32), "scale")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 8)], ir_version=5)
    rng = np.random.default_rng(7)
    feeds = {"s0": rng.standard_normal((2, 2, 4), np.float32), "xs": rng.standard_normal((2, 3, 2, 4), np.float32)}
    want = run_model(model.SerializeToString(), feeds, ["last", "ys"])
    with mcpc.load(mcpc.compile(model.SerializeToString(), "host", tmp_path / "scan.mcp26bin", golden=0)) as session:
        got = session.run(None, feeds)
    for mine, other in zip(got, want, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("opset", [11, 17, 24])
def test_a_loop_may_end_before_its_condition(opset: int, tmp_path: Path) -> None:
    scalar = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["still"]), helper.make_node("Mul", ["i", "i"], ["y"])],
        "body",
        [scalar("i", TensorProto.INT64, []), scalar("go", TensorProto.BOOL, [])],
        [scalar("still", TensorProto.BOOL, []), scalar("y", TensorProto.INT64, [])],
    )
    graph = helper.make_graph(
        [helper.make_node("Loop", ["n"], ["squares"], body=body)],
        "loop",
        [scalar("n", TensorProto.INT64, [])],
        [scalar("squares", TensorProto.INT64, ["k"])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    with mcpc.load(mcpc.compile(model.SerializeToString(), "host", tmp_path / "loop.mcp26bin", golden=0)) as session:
        (got,) = session.run(None, {"n": np.int64(5)})
    assert got.tolist() == [0, 1, 4, 9, 16]
