"""Results whose sizes only the data say."""

from __future__ import annotations

import numpy as np

from ..case import ONNX, ORT, Family
from ..graphs import Array, Graph
from ..graphs import Weight as W

FAMILY = Family("selection")
op = FAMILY.op

RNG = np.random.default_rng(11)
NO_ONNX = {"judges": (ORT,), "because": "onnx.reference fails"}
BY_ONNX = {"judges": (ONNX,), "because": "ONNX Runtime lacks the type"}
ALL_TYPES = (np.float32, np.float64, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64)


def few(*shape: int, dtype: type = np.float32) -> Array:
    """Few values, zero among them."""
    low = 0 if np.dtype(dtype).kind == "u" else -2
    return RNG.integers(low, 3, shape).astype(dtype)


# ---- NonZero
for dtype in ALL_TYPES:
    case = None if dtype in (np.float32, np.int32, np.int64, np.uint8) else BY_ONNX
    op(f"NonZero, {np.dtype(dtype).name}", "NonZero", few(4, 5, dtype=dtype), case=case)
op("NonZero, bool", "NonZero", few(3, 2, 5) > 0)
op("NonZero, none", "NonZero", np.zeros((2, 3), np.float32))
op("NonZero, all", "NonZero", np.ones(7, np.float32))
op("NonZero of nothing", "NonZero", np.zeros((0, 3), np.float32))
op("NonZero, zeros of both signs, NaN", "NonZero", np.array([0.0, -0.0, np.nan, 1e-45, -np.inf], np.float32))

# ---- Compress
for dtype in ALL_TYPES:
    flags = np.array([True, False, True, True])
    op(f"Compress, {np.dtype(dtype).name}", "Compress", few(4, 5, dtype=dtype), flags, axis=0)
op("Compress, fewer flags", "Compress", few(3, 5), np.array([False, True]), axis=1)
op("Compress, last axis", "Compress", few(3, 5, 2), np.array([True, True]), axis=-1)
op("Compress, flat", "Compress", few(3, 5), RNG.integers(0, 2, 15) > 0)
op("Compress, none", "Compress", few(3, 5), np.zeros(3, bool), axis=0)

# ---- Unique
COMMON = (np.float32, np.float64, np.int8, np.int64)
for dtype in ALL_TYPES:
    case = None if dtype in COMMON else BY_ONNX
    op(f"Unique, {np.dtype(dtype).name}", "Unique", few(37, dtype=dtype), outputs=4, case=case)
op("Unique in the order of occurrence", "Unique", few(4, 9), outputs=4, sorted=0, case=NO_ONNX)
op("Unique rows", "Unique", few(9, 2), outputs=4, axis=0)
op("Unique columns", "Unique", few(2, 9), outputs=4, axis=-1)
op("Unique slices in the order of occurrence", "Unique", few(2, 9, 2), outputs=4, axis=1, sorted=0, case=NO_ONNX)
op("Unique, values only", "Unique", few(20))
op("Unique, counts only", "Unique", few(20), outputs=[True, False, False, True])
op("Unique, all alike", "Unique", np.full(5, 7, np.int64), outputs=4)

# ---- sizes that are operands
for k in (0, 1, 4, 9):
    op(f"TopK, {k} from data", "TopK", few(3, 9), np.array([k]), outputs=2)
op("TopK, k from data, first axis", "TopK", few(5, 3), np.array([2]), outputs=2, axis=0, largest=0)
op("OneHot, depth from data", "OneHot", np.array([[0, 2], [-1, 5]]), np.array(6), np.array([0, 1], np.float32))
for start, limit, step in ((0, 7, 1), (5, -4, -2), (3, 3, 1), (2, 30, 7), (4, 1, 1)):
    for number in (np.int64, np.int32, np.float32, np.float64):
        text = f"Range, {np.dtype(number).name}, {start} to {limit} by {step}"
        op(text, "Range", *(np.array(each, number) for each in (start, limit, step)))
op("Range, float16", "Range", *(np.array(each, np.float16) for each in (0.5, 5, 0.75)), case=BY_ONNX)
op("Range of fractions", "Range", *(np.array(each, np.float32) for each in (0.5, 3.1, 0.25)))
for keep in (0, 1):
    for axes in ([1], [-1], [0, 2], [2, 0, 1]):
        text = f"over {axes} from data{'' if keep else ', axes dropped'}"
        for name in ("ReduceSum", "ReduceMax", "ReduceMean", "ReduceLogSumExp"):
            op(f"{name} {text}", name, few(3, 4, 5), np.array(axes), keepdims=keep)
op("ReduceSum, int64, axes from data", "ReduceSum", few(3, 4, dtype=np.int64), np.array([0]))


# ---- what follows
def gathered(g: Graph) -> str:
    """The classical pair: coordinates of some elements, then these elements."""
    x = g.input(few(4, 5))
    places = g("Transpose", g("NonZero", x), perm=[1, 0])
    return g("Mul", g("GatherND", x, places), W(np.array(3, np.float32)))


def selected_rows(g: Graph) -> str:
    """Rows by a computed mask, through a product and a softmax over what is left."""
    x = g.input((6, 4))
    mask = g("Greater", g("ReduceSum", x, W(np.array([1])), keepdims=0), W(np.array(0, np.float32)))
    rows = g("Compress", x, mask, axis=0)
    return g("Softmax", g("MatMul", rows, W((4, 3))), axis=0)


def counted(g: Graph) -> str:
    """A size that is computed with."""
    kept = g("NonZero", g.input(few(3, 7)))
    return g("Cast", g("Size", kept), to=1)


FAMILY.graph("NonZero, then GatherND", gathered)
FAMILY.graph("rows by a mask", selected_rows)
FAMILY.graph("a size that is counted", counted)
