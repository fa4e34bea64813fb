"""Operators that neither ONNX Runtime nor ONNX's evaluator has in this opset, against others that mean the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mcpc
from mcpc.artifact import Artifact

from .graphs import Graph, serialize_untyped


@pytest.mark.parametrize("order", [1, 2, 3])
def test_global_lp_pool(order: int, tmp_path: Path) -> None:
    """GlobalLpPool is the LpPool of the whole image; a model with it has no self-test."""
    graph = Graph("")
    x = graph.input((2, 35, 3, 4))
    graph.output(graph("GlobalLpPool", x, p=order), graph("LpPool", x, kernel_shape=[3, 4], p=order))
    path = mcpc.compile(serialize_untyped(graph), "host", tmp_path / "pool.mcp26bin")
    with mcpc.load(path) as session:
        got, want = session.run(None, graph.feeds)
    np.testing.assert_allclose(got, want, rtol=1e-5)
    with Artifact.open(path) as artifact:
        assert artifact.golden() == []
