"""What the reader cannot read and what the target has no code for are told in one run."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import TensorProto, helper

import mcpc
from mcpc.errors import ErrorGroup
from mcpc.targets.native import emit


def test_unknown_and_declined_operators_come_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = emit.refusal
    monkeypatch.setattr(emit, "refusal", lambda node: "no kernel for it" if node.op == "Neg" else known(node))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in ("y", "e")]
    nodes = [
        helper.make_node("Unknown", ["x", "x"], ["e"], "first", domain="acme"),
        helper.make_node("Neg", ["x"], ["c"], "second"),
        helper.make_node("Relu", ["c"], ["y"], "third"),
    ]
    graph = helper.make_graph(nodes, "two faults", [x], outputs)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("acme", 1)]
    model = helper.make_model(graph, opset_imports=opsets).SerializeToString()
    with pytest.raises(ErrorGroup) as caught:
        mcpc.compile(model, "host", tmp_path / "out.mcp26bin")
    assert [(error.code, error.node) for error in caught.value.errors] == [("E101", "first"), ("E101", "second")]
