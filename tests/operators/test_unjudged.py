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


def test_max_roi_pool(tmp_path: Path) -> None:
    """Bins of whole pixels, cut off at the image's edge; an empty one holds 0."""
    graph = Graph("")
    x = graph.draw(2, 11, 6, 7)
    rois = np.array(
        [[0, 1, 1, 4, 5], [1, 4, 2, 20, 9], [0, 12, 12, 14, 13], [1, 3, 3, 3, 3], [0, 1.5, -2, 6, 2.5]], np.float32
    )
    graph.output(graph("MaxRoiPool", x, rois, pooled_shape=[2, 3], spatial_scale=0.5))
    path = mcpc.compile(serialize_untyped(graph), "host", tmp_path / "pool.mcp26bin")
    with mcpc.load(path) as session:
        (got,) = session.run(None, graph.feeds)
    want = np.zeros((5, 11, 2, 3), np.float32)
    for index, (item, *corners) in enumerate(rois):
        x1, y1, x2, y2 = (int(np.copysign(np.floor(abs(c) * 0.5 + 0.5), c)) for c in corners)
        for row, column in np.ndindex(2, 3):
            rows = _bin(y1, y2, row, 2, 6)
            columns = _bin(x1, x2, column, 3, 7)
            if rows and columns:
                window = x[int(item)][:, rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
                want[index, :, row, column] = window.max((1, 2))
    np.testing.assert_array_equal(got, want)


def _bin(low: int, high: int, index: int, bins: int, size: int) -> range:
    step = max(high - low + 1, 1) / bins
    first, last = low + int(np.floor(index * step)), low + int(np.ceil((index + 1) * step))
    return range(min(max(first, 0), size), min(max(last, 0), size))
