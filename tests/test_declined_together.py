"""What the reader cannot read and what the target has no code for are told in one run."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import TensorProto, helper

import mcpc
from mcpc.errors import ErrorGroup


def test_unknown_and_declined_operators_come_together(tmp_path: Path) -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in ("y", "e")]
    axis = helper.make_tensor("axis", TensorProto.INT64, [], [0])
    nodes = [
        helper.make_node("Einsum", ["x", "x"], ["e"], "first", equation="ij,ij->ij"),
        helper.make_node("CumSum", ["x", "axis"], ["c"], "second"),
        helper.make_node("Relu", ["c"], ["y"], "third"),
    ]
    graph = helper.make_graph(nodes, "two faults", [x], outputs, [axis])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()
    with pytest.raises(ErrorGroup) as caught:
        mcpc.compile(model, "host", tmp_path / "out.mcp26bin")
    assert [(error.code, error.node) for error in caught.value.errors] == [("E101", "first"), ("E101", "second")]
