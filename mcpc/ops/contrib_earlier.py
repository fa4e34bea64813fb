"""Operators that ONNX Runtime had before ai.onnx did (domain com.microsoft), see :mod:`mcpc.ops.contrib`."""

from __future__ import annotations

from collections.abc import Sequence

from mcpc.ir import DType, Value
from mcpc.ops.context import choice
from mcpc.ops.contrib import Expansion, stands_for


def _scalar(e: Expansion, index: int) -> Value:
    """One number, as a scalar or in a vector."""
    value = e.input(index)
    return value if value.type.rank == 0 else e("Reshape", value, e.ints())


@stands_for("Trilu")
def trilu(e: Expansion) -> Sequence[Value | None]:
    return [e("Trilu", e.input(0), e.node.input(1), **e.node.attrs)]


@stands_for("GatherND")
def gather_nd(e: Expansion) -> Sequence[Value | None]:
    return [e("GatherND", e.input(0), e("Cast", e.input(1), to=DType.int64))]


@stands_for("Range")
def arange(e: Expansion) -> Sequence[Value | None]:
    start = _scalar(e, 0)
    step = e.scalar(1, start) if e.node.input(2) is None else _scalar(e, 2)
    return [e("Range", start, _scalar(e, 1), step)]


@stands_for("Pad")
def pad(e: Expansion) -> Sequence[Value | None]:
    value = None if e.node.input(2) is None else _scalar(e, 2)
    return [e("Pad", e.input(0), e.input(1), value, **e.node.attrs)]


@stands_for("Unique")
def unique(e: Expansion) -> Sequence[Value | None]:
    """In the order of first occurrence."""
    return e.several("Unique", (True, False, True, True), e.input(0), sorted=0)


@stands_for("ExpandDims")
def expand_dims(e: Expansion) -> Sequence[Value | None]:
    return [e("Unsqueeze", e.input(0), e("Cast", e("Reshape", e.input(1), e.ints(1)), to=DType.int64))]


@stands_for("GridSample")
def grid_sample(e: Expansion) -> Sequence[Value | None]:
    modes = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}
    mode = modes[choice(e.node, "mode", "bilinear", list(modes))]
    return [e("GridSample", e.input(0), e.input(1), **{**e.node.attrs, "mode": mode})]


@stands_for("CDist")
def distances(e: Expansion) -> Sequence[Value | None]:
    """|a|² - 2 a b + |b|² for all rows a of A and b of B, as ONNX Runtime computes it, or the root."""
    a, b = e.input(0), e.input(1)
    metric = choice(e.node, "metric", "sqeuclidean", ["sqeuclidean", "euclidean"])
    left = e("ReduceSum", e("Mul", a, a), e.ints(1), keepdims=1)
    right = e("ReduceSum", e("Mul", b, b), e.ints(1), keepdims=0)
    products = e("Mul", e("MatMul", a, e("Transpose", b, perm=[1, 0])), e.scalar(-2, a))
    squares = e("Max", e("Add", e("Add", products, left), right), e.scalar(0, a))
    return [squares if metric == "sqeuclidean" else e("Sqrt", squares)]
