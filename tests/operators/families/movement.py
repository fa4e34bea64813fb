"""Operators that only move elements: shapes, views, copies, and the indices that they are told by."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from ..case import ONNX, ORT, Family
from ..graphs import Array, Operand
from ..graphs import Weight as W

FAMILY = Family("movement")
op = FAMILY.op
LAST = np.iinfo(np.int64).max


def count(*shape: int, dtype: type = np.float32) -> Array:
    """Each element has a number of its own."""
    return np.arange(np.prod(shape, dtype=int)).astype(dtype).reshape(shape)


def ints(*numbers: int) -> W:
    return W(np.array(numbers, np.int64))


# ---- Transpose
for rank in (2, 3, 4):
    for perm in itertools.permutations(range(rank)):
        op(f"Transpose {perm}", "Transpose", count(*(2, 3, 4, 5)[:rank]), perm=perm)
op("Transpose by default", "Transpose", count(2, 3, 4))
op("Transpose of rank 5", "Transpose", count(2, 3, 2, 3, 2), perm=[3, 1, 4, 0, 2])
for shape, perm in (
    ((17, 33), (1, 0)),
    ((2, 16, 24), (0, 2, 1)),
    ((3, 9, 10, 8), (0, 3, 1, 2)),
    ((8, 1, 8), (2, 1, 0)),
):
    op(f"Transpose {shape} {perm}", "Transpose", count(*shape), perm=perm)
for dtype in (np.bool_, np.uint8, np.int32, np.int64, np.float64, np.int16):
    op(f"Transpose, {dtype.__name__}", "Transpose", count(9, 11, dtype=dtype), perm=[1, 0])

op("Transpose of rank 9", "Transpose", count(*(2,) * 9), perm=[8, 7, 6, 5, 4, 3, 2, 1, 0])
op("Transpose of rank 11", "Transpose", count(*(2,) * 9, 3, 1), perm=[8, 0, 7, 1, 6, 2, 9, 5, 10, 3, 4])
op("Tile of rank 6", "Tile", count(2, 1, 2, 2, 1, 3), ints(2, 3, 1, 2, 2, 2))

# ---- Concat and Split
for axis in (0, 1, 2, -1):
    op(f"Concat over axis {axis}", "Concat", *[count(2, 3, 4) + 100 * i for i in range(3)], axis=axis)
for axis in (0, 1, 2):
    many = [count(*(3 if other != axis else 1 + i % 4 for other in range(3))) - i for i in range(40)]
    op(f"Concat of many over axis {axis}", "Concat", *many[:-1], many[0], W(many[-1]), axis=axis)
op("Concat of parts of different size", "Concat", count(2, 1, 3), count(2, 5, 3), W(count(2, 2, 3)), axis=1)
op("Concat of long parts", "Concat", count(3, 5000), count(3, 4097), axis=1)
op("Concat of one", "Concat", count(2, 3), axis=0)
op("Concat with an empty part", "Concat", count(2, 3), count(0, 3), count(1, 3), axis=0)
op("Concat, int64", "Concat", count(3, dtype=np.int64), W(count(2, dtype=np.int64)), axis=0)
op("Concat, bool", "Concat", count(3, 2, dtype=np.bool_), count(3, 1, dtype=np.bool_), axis=1)
for axis in (0, 1, 2, -1):
    op(f"Split over axis {axis}", "Split", count(4, 6, 8), outputs=2, axis=axis, num_outputs=2)
op("Split into given sizes", "Split", count(3, 7), ints(2, 4, 1), outputs=3, axis=1)
op("Split, a last part that is smaller", "Split", count(7, 2), outputs=3, axis=0, num_outputs=3)
CRASHES = {"judges": (ONNX,), "because": "ONNX Runtime crashes where a Split's output has no name"}
for text, asked in {
    "first not": [False, True, True],
    "middle": [False, True, False],
    "last not": [True, True, False],
}.items():
    op(f"Split, {text} asked for", "Split", count(6, 2), outputs=asked, axis=0, num_outputs=3, case=CRASHES)
op("Split into parts with an empty one", "Split", count(5, 2), ints(2, 0, 3), outputs=3, axis=0)


# ---- Slice
def cut(
    name: str,
    shape: Sequence[int],
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int] | None = None,
    steps: Sequence[int] | None = None,
    dtype: type = np.int64,
) -> None:
    bounds = [None if part is None else W(np.array(part, dtype)) for part in (starts, ends, axes, steps)]
    while bounds[-1] is None:
        bounds.pop()
    op(f"Slice, {name}", "Slice", count(*shape), *bounds)
    if axes is not None:
        told: list[Operand] = [None if part is None else np.array(part, dtype) for part in (starts, ends, axes, steps)]
        op(f"Slice, {name}, as told", "Slice", count(*shape), *told[: len(bounds)])


cut("outermost axis", (5, 3, 4), [1], [4])
cut("middle axis", (3, 5, 4), [1], [3], [1])
cut("innermost axis", (3, 4, 9), [2], [7], [2])
cut("all axes", (4, 5, 6), [1, 2, 3], [3, 5, 6])
cut("steps", (9, 10), [1, 0], [9, 10], [0, 1], [3, 4])
cut("negative bounds", (6, 7), [-4, -3], [-1, -1], [0, 1])
cut("negative steps", (6, 7), [-1, 5], [-100, 0], [0, 1], [-1, -2])
cut("reversed innermost axis", (3, 9), [LAST], [-LAST], [1], [-1])
cut("end beyond all", (3, 9), [2], [LAST], [1])
cut("end of int32 beyond all", (3, 9), [2], [2**31 - 1], [1], dtype=np.int32)
cut("start before the first", (5, 2), [-100], [3], [0])
cut("nothing left", (5, 2), [3], [3], [0])
cut("axes out of order and negative", (4, 5, 6), [1, 2], [4, 4], [-1, 0])
cut("one row", (1, 5, 4), [2], [3], [1])
cut("one run behind axes of one", (1, 1, 9), [3], [8], [2])
cut("steps along a long line", (20000,), [3], [LAST], [0], [2])
cut("everything", (3, 4), [0], [LAST], [0])
op("Slice, only the steps are data", "Slice", count(9, 10), ints(1, 8), ints(9, 0), ints(0, 1), np.array([3, -2]))
op("Slice, bounds are data", "Slice", count(4, 5, 6), np.array([1, 2]), np.array([4, 4]))
op("Slice, only the axes are data", "Slice", count(4, 5, 6), ints(1, 2), ints(4, 4), np.array([-1, 0]))
FAMILY.graph(
    "Slice of another layout, axes are data",
    lambda g: g(
        "Slice",
        g("Conv", (1, 8, 4, 4), W((8, 8, 1, 1))),
        *(np.array(part) for part in ([3, 1], [0, 4], [1, 3], [-2, 1])),
    ),
)

# ---- Pad
for mode in ("constant", "reflect", "edge", "wrap"):
    op(f"Pad, {mode}", "Pad", count(3, 4), ints(1, 2, 2, 3), mode=mode)
    op(f"Pad, {mode}, rank 4", "Pad", count(2, 3, 4, 5), ints(0, 1, 2, 3, 1, 2, 1, 4), mode=mode)
    op(f"Pad, {mode}, one axis", "Pad", count(9), ints(4, 5), mode=mode)
    op(f"Pad, {mode}, axes", "Pad", count(2, 3, 4), ints(1, 2, 1, 2), None, ints(2, -2), mode=mode)
    op(f"Pad, {mode}, int64", "Pad", count(3, 3, dtype=np.int64), ints(1, 0, 2, 1), mode=mode)
op("Pad with a value", "Pad", count(2, 3), ints(1, 1, 1, 1), W(np.array(-1.5, np.float32)))
op("Pad with minus infinity", "Pad", count(2, 3), ints(0, 1, 0, 1), W(np.array(-np.inf, np.float32)))
op("Pad, bool", "Pad", count(2, 3, dtype=np.bool_), ints(1, 0, 0, 1), W(np.array(True)))
DRAWN = {"judges": (ONNX,), "because": "ONNX Runtime draws no random numbers of opset 22"}
NAMED = {"judges": (ONNX,), "because": "ONNX Runtime asks for a Dropout's first output"}
CUTS = {"judges": (ORT,), "because": "onnx.reference knows no negative padding"}
op("Pad, negative", "Pad", count(5, 6), ints(-1, -2, -1, 0), case=CUTS)
op("Pad, negative and positive", "Pad", count(5, 6), ints(-1, 2, 3, -2), W(np.array(7, np.float32)), case=CUTS)
op("Pad, edge, negative at one end", "Pad", count(5, 6), ints(-1, 2, 3, -2), mode="edge", case=CUTS)
op("Pad, reflect, negative at one end", "Pad", count(5, 6), ints(-1, 2, 3, -2), mode="reflect", case=CUTS)
op("Pad, a long line", "Pad", count(9000), ints(5, 7), mode="reflect")
for mode in ("constant", "reflect"):
    axes, pads = np.array([2, -2]), np.array([1, 2, 1, 2])
    op(f"Pad, {mode}, as told", "Pad", count(2, 3, 4), pads, None, axes, mode=mode)
    op(f"Pad, {mode}, axes are data", "Pad", count(2, 3, 4), ints(1, 2, 1, 2), None, axes, mode=mode)
op(
    "Pad, all as told",
    "Pad",
    count(5, 6),
    np.array([-1, 3]),
    np.array(7, np.float32),
    np.array([1], np.int32),
    case=CUTS,
)
op("Pad by nothing", "Pad", count(2, 3), ints(0, 0, 0, 0))

# ---- Gather
for axis in (0, 1, 2, -1):
    op(f"Gather over axis {axis}", "Gather", count(3, 4, 5), np.array([2, 0, 1, 1], np.int64), axis=axis)
op("Gather, negative indices", "Gather", count(4, 3), np.array([-1, -4, 0, 3], np.int64))
op("Gather, a scalar index", "Gather", count(4, 3), np.array(2, np.int64))
op("Gather, a constant scalar index", "Gather", count(4, 3), W(np.array(-1, np.int64)), axis=1)
op("Gather, indices of rank 2", "Gather", count(5, 3), np.array([[0, 4, 2], [1, 1, 3]], np.int64))
op("Gather, indices of rank 2, last axis", "Gather", count(2, 5), np.array([[0, 4], [1, 3]], np.int64), axis=1)
op("Gather, int32 indices", "Gather", count(5, 20), np.array([3, -5], np.int32))
op("Gather from a constant", "Gather", W(count(50, 33)), np.array([[7, 49, 0]], np.int64))
op("Gather, int64 data", "Gather", count(6, dtype=np.int64), np.array([5, 0], np.int64))
op("Gather, bool data", "Gather", count(6, dtype=np.bool_), np.array([5, 0], np.int64))
op("Gather, no index", "Gather", count(6, 2), np.array([], np.int64))

# ---- Expand and Tile
for shape, to in (
    ((3, 1), (2, 3, 4)),
    ((1,), (5,)),
    ((), (2, 3)),
    ((2, 3), (1, 1)),
    ((2, 1, 3), (2, 4, 3)),
    ((1, 1, 9), (4, 2, 1)),
):
    op(f"Expand {shape} to {to}", "Expand", count(*shape), ints(*to))
for shape, repeats in (
    ((3,), (4,)),
    ((2, 3), (2, 3)),
    ((2, 1, 3), (1, 5, 2)),
    ((2, 2, 2, 2), (2, 1, 2, 3)),
    ((1, 3), (4, 1)),
):
    op(f"Tile {shape} by {repeats}", "Tile", count(*shape), ints(*repeats))
op("Tile, int64", "Tile", count(2, 2, dtype=np.int64), ints(2, 2))

# ---- shapes
op("Reshape", "Reshape", count(2, 3, 4), ints(4, 6))
op("Reshape, 0 and -1", "Reshape", count(2, 3, 4), ints(0, -1, 2))
op("Reshape, allowzero", "Reshape", count(0, 3), ints(3, 0), allowzero=1)
op("Reshape to a scalar", "Reshape", count(1, 1), W(np.array([], np.int64)))
op("Squeeze all", "Squeeze", count(1, 3, 1))
op("Squeeze axes", "Squeeze", count(1, 3, 1), ints(-1))
op("Unsqueeze", "Unsqueeze", count(3, 4), ints(0, -1))
op("Unsqueeze a scalar", "Unsqueeze", np.array(5, np.float32), ints(0))
for axis in (0, 1, 2, 3, -1):
    op(f"Flatten at {axis}", "Flatten", count(2, 3, 4), axis=axis)
op("Dropout", "Dropout", count(2, 3))
op("Dropout, mask", "Dropout", count(2, 3), W(np.array(0.9, np.float32)), outputs=2)
op("Dropout, mask only", "Dropout", count(2, 3), outputs=[False, True], case=NAMED)
for name, training in (("constant", W(np.array(True))), ("computed", np.array(True))):
    op(f"Dropout of nothing, {name}", "Dropout", count(2, 3), W(np.array(0, np.float32)), training, outputs=2,
       case=DRAWN)  # fmt: skip
op("Dropout that does not train", "Dropout", count(2, 3), np.array(0.5), np.array(False), outputs=2, case=DRAWN)
op("Identity", "Identity", count(2, 3))
for mode in ("DCR", "CRD"):
    op(f"DepthToSpace, {mode}", "DepthToSpace", count(2, 12, 3, 2), blocksize=2, mode=mode)
op("DepthToSpace by 3", "DepthToSpace", count(1, 18, 2, 3), blocksize=3)
op("SpaceToDepth", "SpaceToDepth", count(2, 3, 4, 6), blocksize=2)

# ---- Squeeze and Unsqueeze by axes that are data
op("Squeeze as told", "Squeeze", count(1, 3, 1, 5), np.array([2]))
op("Squeeze as told, two axes", "Squeeze", count(1, 3, 1, 5), np.array([-2, 0]))
op("Squeeze as told, to a scalar", "Squeeze", count(1, 1), np.array([1, 0]))
op("Unsqueeze as told", "Unsqueeze", count(3, 4, 5), np.array([1]))
op("Unsqueeze as told, out of order", "Unsqueeze", count(3, 4, 5), np.array([5, -5, 3]))
FAMILY.graph(
    "Squeeze as told between others",
    lambda g: g("Relu", g("Squeeze", g("Softmax", (3, 1, 4)), np.array([1]))),
)
FAMILY.graph(
    "Unsqueeze as told of another layout",
    lambda g: g("Relu", g("Unsqueeze", g("Conv", (1, 8, 4, 4), W((8, 8, 1, 1))), np.array([2]))),
)
