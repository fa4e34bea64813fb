"""Recurrent networks of sequences without steps and of batches without items, of which ONNX Runtime dies."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import mcpc

from .families.recurrent import FORMS
from .graphs import Graph, serialize_untyped
from .graphs import Weight as W


@pytest.mark.parametrize("is_symbolic", [False, True], ids=["fixed", "symbolic"])
@pytest.mark.parametrize(("time", "batch"), [(0, 2), (3, 0), (0, 0)])
@pytest.mark.parametrize("op", FORMS)
def test_no_steps(op: str, time: int, batch: int, is_symbolic: bool, tmp_path: Path) -> None:
    """The last states are zero, as ONNX Runtime has them for an item without steps among others."""
    gates, states = FORMS[op]
    graph = Graph("")
    x, first = graph.input((time, batch, 3)), graph.input((2, batch, 4))
    weights = [W((2, 4 * gates, 3)), W((2, 4 * gates, 4)), None, None]
    attrs = {"hidden_size": 4, "direction": "bidirectional"}
    graph.output(*graph(op, x, *weights, *[first] * states, outputs=1 + states, **attrs))
    model = onnx.ModelProto.FromString(serialize_untyped(graph))
    if is_symbolic:
        for value, axes in zip(model.graph.input, ((0, 1), (1,)), strict=True):
            for axis in axes:
                value.type.tensor_type.shape.dim[axis].dim_param = f"n{axis}"
    path = mcpc.compile(model.SerializeToString(), "host", tmp_path / "empty.mcp26bin", golden=0)
    with mcpc.load(path) as session:
        y, *last = session.run(None, graph.feeds)
    assert y.shape == (time, 2, batch, 4)
    for state in last:
        np.testing.assert_array_equal(state, np.zeros((2, batch, 4), np.float32))
