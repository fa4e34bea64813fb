"""Operators that neither ONNX Runtime nor ONNX's evaluator has in this opset, against others that mean the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mcpc
from mcpc.artifact import Artifact

from .graphs import Graph, serialize_untyped
from .graphs import Weight as W


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


def _agree(*graphs: Graph, tmp_path: Path) -> None:
    """All graphs, fed alike, compute what the first one does."""
    feeds = list(graphs[0].feeds.values())
    results = []
    for graph in graphs:
        path = mcpc.compile(serialize_untyped(graph), "host", tmp_path / "form.mcp26bin", golden=0)
        with mcpc.load(path) as session:
            results.append(session.run(None, dict(zip(graph.feeds, feeds, strict=True))))
    for other in results[1:]:
        for got, want in zip(other, results[0], strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


CONTRIB = {"domain": "com.microsoft"}


@pytest.mark.parametrize("held", [2, 3])
def test_packed_heads(held: int, tmp_path: Path) -> None:
    """MultiHeadAttention of keys and values, or queries too, in one tensor of rank 5, and of each by itself."""
    whole = np.random.default_rng(3).standard_normal((2, 5, 3, held, 4)).astype(np.float32)
    queries = [] if held == 3 else [np.ones((2, 4, 12), np.float32)]
    packed, apart = Graph(""), Graph("")
    packed.output(packed("MultiHeadAttention", *queries, whole, num_heads=3, **CONTRIB))
    names = [apart.input(each) for each in queries]
    x = apart.input(whole)
    for part in range(held):
        one = apart("Gather", x, W(np.array(part)), axis=3)
        names.append(apart("Reshape", one, apart.constant([0, 0, 12])))
    apart.output(apart("MultiHeadAttention", *names, num_heads=3, **CONTRIB))
    _agree(apart, packed, tmp_path=tmp_path)


def test_normalised_heads(tmp_path: Path) -> None:
    """GroupQueryAttention that normalises heads, and one of heads that are normalised before."""
    rng = np.random.default_rng(4)
    feeds = [rng.standard_normal((1, 3, heads * 16)).astype(np.float32) for heads in (4, 2, 2)]
    scales = [W(rng.standard_normal(16).astype(np.float32)) for _ in range(2)]
    counts = W(np.array([2], np.int32)), W(np.array(3, np.int32))
    attrs = {"num_heads": 4, "kv_num_heads": 2, **CONTRIB}
    inside, before = Graph(""), Graph("")
    operands = (*feeds, None, None, *counts, *[None] * 7, *scales)
    inside.output(*inside("GroupQueryAttention", *operands, qk_norm_epsilon=1e-3, outputs=3, **attrs))
    new = []
    for x, scale, heads in zip(feeds, [*scales, None], (4, 2, 2), strict=True):
        name = before.input(x)
        if scale is not None:
            apart = before("Reshape", name, before.constant([0, 0, heads, 16]))
            normal = before("RMSNormalization", apart, scale, epsilon=1e-3)
            name = before("Reshape", normal, before.constant([0, 0, heads * 16]))
        new.append(name)
    before.output(*before("GroupQueryAttention", *new, None, None, *counts, outputs=3, **attrs))
    _agree(before, inside, tmp_path=tmp_path)


def test_mask_of_megatron(tmp_path: Path) -> None:
    """A mask [B, 1, M, M] means its last rows before the number of keys, as far as there are keys."""
    rng = np.random.default_rng(5)
    mask = rng.integers(0, 2, (2, 1, 9, 9)).astype(np.int32)
    mask[..., 0] = 1
    x, past = (rng.standard_normal(shape).astype(np.float32) for shape in ((2, 4, 8), (2, 2, 2, 3, 4)))
    weights = W((8, 24)), W((24,))
    square, rows = Graph(""), Graph("")
    square.output(*square("Attention", x, *weights, W(mask), past, num_heads=2, outputs=2, **CONTRIB))
    rows.output(*rows("Attention", x, *weights, W(mask[:, 0, 3:7, :7]), past, num_heads=2, outputs=2, **CONTRIB))
    _agree(rows, square, tmp_path=tmp_path)


def test_simplified_layer_normalization(tmp_path: Path) -> None:
    """It is the same in both domains."""
    ours, theirs = Graph(""), Graph("")
    ours.output(*ours("SimplifiedLayerNormalization", (2, 3, 8), W((8,)), outputs=2))
    theirs.output(*theirs("SimplifiedLayerNormalization", (2, 3, 8), W((8,)), outputs=2, **CONTRIB))
    _agree(ours, theirs, tmp_path=tmp_path)


def _bin(low: int, high: int, index: int, bins: int, size: int) -> range:
    step = max(high - low + 1, 1) / bins
    first, last = low + int(np.floor(index * step)), low + int(np.ceil((index + 1) * step))
    return range(min(max(first, 0), size), min(max(last, 0), size))
