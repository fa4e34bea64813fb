"""Reading and writing at places that are data, and what depends on where an element is."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from ..case import ONNX, ORT, Family
from ..graphs import Array, Graph
from ..graphs import Weight as W

FAMILY = Family("indexing")
op = FAMILY.op

RNG = np.random.default_rng(5)
MOVED = {"float32": np.float32, "float64": np.float64, "int8": np.int8, "int16": np.int16, "int64": np.int64}
REDUCED = (np.float32, np.float64, np.int8, np.int32, np.int64, np.uint8, np.uint32, np.uint64)
NO_ONNX = {"judges": (ORT,), "because": "onnx.reference lacks the form"}
#: onnx.reference's ScatterElements reads negative indices otherwise, its ScatterND knows no duplicates.
BY_ORT = {"judges": (ORT,), "because": "onnx.reference computes something else"}
BY_ONNX = {"judges": (ONNX,), "because": "ONNX Runtime lacks the type"}


def numbers(*shape: int, dtype: type = np.float32, low: int = -9, high: int = 10) -> Array:
    low = max(low, 0) if np.dtype(dtype).kind == "u" else low
    return RNG.integers(low, high, shape).astype(dtype)


def within(*shape: int, size: int, dtype: type = np.int64) -> Array:
    """Indices of either sign into an axis."""
    return RNG.integers(-size, size, shape).astype(dtype)


# ---- Gather in its odder forms
op("Gather by a negative scalar", "Gather", (5, 3), np.array(-2))
op("Gather, 2-D indices, negative axis", "Gather", (3, 5, 2), within(2, 3, size=5), axis=-2)

# ---- GatherElements
for text, dtype in MOVED.items():
    op(f"GatherElements, {text}", "GatherElements", numbers(4, 5, dtype=dtype), within(4, 3, size=5), axis=1)
op("GatherElements, int32 indices", "GatherElements", (4, 5), within(4, 5, size=4, dtype=np.int32))
op("GatherElements, bool", "GatherElements", numbers(3, 9) > 0, within(2, 9, size=3))
op("GatherElements, in between", "GatherElements", (2, 5, 3), within(2, 7, 3, size=5), axis=1)
op("GatherElements, fewer rows", "GatherElements", (4, 5, 3), within(2, 5, 2, size=5), axis=-2, case=NO_ONNX)
op("GatherElements of one axis", "GatherElements", (9,), within(33, size=9))
op("GatherElements by a constant", "GatherElements", (4, 5), W(within(4, 1, size=5)), axis=1)
op("GatherElements, rank 5", "GatherElements", (2, 3, 2, 3, 2), within(2, 3, 4, 3, 2, size=2), axis=2)

# ---- GatherND
for text, dtype in MOVED.items():
    op(f"GatherND of rows, {text}", "GatherND", numbers(4, 5, dtype=dtype), within(3, 1, size=4))
op("GatherND of elements", "GatherND", (4, 5), within(7, 2, size=4))
op("GatherND of one element", "GatherND", (4, 5), np.array([-1, 3]))
op("GatherND of blocks", "GatherND", (3, 4, 5), within(2, 3, 2, size=3))
op("GatherND, one batch dimension", "GatherND", (3, 4, 5), within(3, 2, size=4), batch_dims=1)
op("GatherND, a batch of tuples", "GatherND", (3, 4, 5), within(3, 6, 1, size=4), batch_dims=1)
op("GatherND, two batch dimensions", "GatherND", (2, 3, 4, 5), within(2, 3, 2, 2, size=4), batch_dims=2)

# ---- ScatterElements
for text, dtype in MOVED.items():
    places = np.argsort(numbers(4, 5), axis=1)[:, :3]
    update = numbers(4, 3, dtype=dtype)
    op(f"ScatterElements, {text}", "ScatterElements", numbers(4, 5, dtype=dtype), places, update, axis=1)
for reduction in ("add", "mul", "max", "min"):
    for kind in REDUCED:
        text = np.dtype(kind).name
        operands = (numbers(4, 5, dtype=kind), within(6, 5, size=4), numbers(6, 5, dtype=kind, low=-3, high=4))
        op(f"ScatterElements, {reduction}, {text}", "ScatterElements", *operands, reduction=reduction, case=BY_ORT)
op(
    "ScatterElements, the last duplicate wins",
    "ScatterElements",
    *((3, 7), np.array([[1, 1, -2, 1, 0], [6, -1, 6, 2, 2]])),
    (2, 5),
    axis=-1,
    case=BY_ORT,
)
op("ScatterElements, int32 indices", "ScatterElements", (5, 3), np.array([[4, 0, 2]], np.int32), (1, 3))
op("ScatterElements of nothing", "ScatterElements", (5, 3), np.zeros((0, 3), np.int64), np.zeros((0, 3), np.float32))
op("ScatterElements, in between", "ScatterElements", (2, 5, 3), np.array([[[4, 0, 2]], [[1, 1, 1]]]), (2, 1, 3), axis=1)
op("ScatterElements of one axis", "ScatterElements", (9,), np.array([8, -9, 3]), (3,), case=BY_ORT)

# ---- ScatterND
for text, dtype in MOVED.items():
    op(
        f"ScatterND of rows, {text}",
        "ScatterND",
        numbers(4, 5, dtype=dtype),
        np.array([[2], [0]]),
        numbers(2, 5, dtype=dtype),
    )
for reduction in ("add", "mul", "max", "min"):
    for kind in (np.float32, np.int32, np.int64):
        text = np.dtype(kind).name
        operands = (numbers(3, 9, dtype=kind), within(5, 1, size=3), numbers(5, 9, dtype=kind, low=-3, high=4))
        op(f"ScatterND, {reduction}, {text}", "ScatterND", *operands, reduction=reduction, case=BY_ORT)
op("ScatterND of elements", "ScatterND", (4, 5), np.array([[0, -1], [3, 2], [-4, 0]]), (3,), case=BY_ORT)
op("ScatterND of blocks", "ScatterND", (3, 2, 4, 5), np.array([[[2, 1]], [[0, 0]]]), (2, 1, 4, 5))
op("ScatterND, the last duplicate wins", "ScatterND", (3, 4), np.array([[1], [1], [0]]), (3, 4))
op("ScatterND of the whole", "ScatterND", (3, 4), np.array([1]), (4,))


# ---- in place, where nobody else needs the data
def scattered(g: Graph, *, is_needed: bool) -> list[str]:
    """Three scatters one after another."""
    x = first = g("Neg", g.input((4, 5)))
    x = g("ScatterND", x, W(np.array([[2], [0]])), (2, 5))
    x = g("ScatterElements", x, np.array([[0, 3, -1]]), (1, 3), axis=1)
    x = g("ScatterND", x, W(np.array([[1, 1]])), (1,), reduction="add")
    return [g("Neg", x), *([g("Abs", first)] if is_needed else [])]


FAMILY.graph("scatters in place", lambda g: scattered(g, is_needed=False))
FAMILY.graph("scatters into data that are needed", lambda g: scattered(g, is_needed=True))

# ---- OneHot
VALUES = np.array([-1.5, 2.5], np.float32)
op("OneHot", "OneHot", np.array([0, 4, 2, -1, -5]), W(np.array(5)), VALUES)
op(
    "OneHot, indices that are out of range",
    "OneHot",
    np.array([5, -6, 2**62, -(2**63)]),
    W(np.array(5)),
    W(VALUES),
    case=BY_ORT,
)
op("OneHot, first axis", "OneHot", within(3, 4, size=5), W(np.array([5])), VALUES, axis=0, case=NO_ONNX)
op("OneHot, axis in between", "OneHot", within(3, 4, size=5), W(np.array(5)), VALUES, axis=1)
op("OneHot of float32", "OneHot", np.array([[0, 2.0], [1, 1]], np.float32), W(np.array(3.0, np.float32)), VALUES)
op("OneHot, int64 of int64", "OneHot", np.array([2, 0]), W(np.array(3)), np.array([5, -7]))

# ---- CumSum
SUMMED = {"float32": np.float32, "float64": np.float64, "int32": np.int32, "int64": np.int64}
for exclusive in (0, 1):
    for reverse in (0, 1):
        text = ("exclusive " if exclusive else "") + ("reverse" if reverse else "forward")
        for axis in (0, 1, -1):
            flags = {"exclusive": exclusive, "reverse": reverse}
            op(f"CumSum, {text}, axis {axis}", "CumSum", (3, 5, 11), W(np.array(axis)), **flags)
        op(
            f"CumSum, {text}, axis from data",
            "CumSum",
            (3, 5, 11),
            np.array(-2, np.int32),
            exclusive=exclusive,
            reverse=reverse,
        )
for text, dtype in SUMMED.items():
    op(f"CumSum, {text}", "CumSum", numbers(3, 19, dtype=dtype), W(np.array([1], np.int32)), case=NO_ONNX)
op("CumSum of one row", "CumSum", (37,), W(np.array(0)))
for kind in (np.uint32, np.uint64):
    op(f"CumSum, {np.dtype(kind).name}", "CumSum", numbers(4, 9, dtype=kind), W(np.array(0)), case=BY_ONNX)

# ---- Trilu
for upper in (1, 0):
    side = "upper" if upper else "lower"
    op(f"Trilu, {side}", "Trilu", (4, 4), upper=upper)
    for k in (-9, -2, -1, 0, 1, 3, 9):
        op(f"Trilu, {side}, {k}", "Trilu", (2, 4, 6), W(np.array(k)), upper=upper)
    op(f"Trilu, {side}, tall, diagonal from data", "Trilu", (2, 2, 7, 3), np.array(-2), upper=upper)
op("Trilu, int64", "Trilu", numbers(5, 5, dtype=np.int64), np.array(2**62))
op("Trilu, bool", "Trilu", np.ones((3, 5), bool), upper=0)

# ---- EyeLike, ReverseSequence
op("EyeLike", "EyeLike", (3, 5))
op("EyeLike, diagonal above", "EyeLike", (3, 5), k=2)
op("EyeLike, diagonal below", "EyeLike", (5, 3), k=-2)
op("EyeLike, diagonal outside", "EyeLike", (3, 3), k=7)
for code in (TensorProto.INT64, TensorProto.DOUBLE, TensorProto.INT32):
    op(f"EyeLike, type {code}", "EyeLike", numbers(3, 4, dtype=np.int32), dtype=code)
op("ReverseSequence", "ReverseSequence", (5, 3, 2), np.array([2, 5, 0]), case=BY_ORT)
op("ReverseSequence, batch first", "ReverseSequence", (3, 5), np.array([2, 5, 1]), batch_axis=0, time_axis=1)
op(
    "ReverseSequence, int64",
    "ReverseSequence",
    numbers(4, 2, 3, 2, dtype=np.int64),
    np.array([4, 3]),
    batch_axis=1,
    time_axis=0,
)
