"""The place of the extreme element, and the k largest or smallest."""

from __future__ import annotations

import numpy as np

from ..case import ONNX, Family
from ..graphs import Array
from ..graphs import Weight as W

FAMILY = Family("searching")
op = FAMILY.op

RNG = np.random.default_rng(7)
ALL_TYPES = (np.float32, np.float64, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64)
#: Those that ONNX Runtime searches too.
COMMON = (np.float32, np.float64, np.int32, np.int64)
BY_ONNX = {"judges": (ONNX,), "because": "ONNX Runtime lacks the type"}
NAN = {"judges": (ONNX,), "because": "ONNX Runtime compares NaN as it comes"}


def tied(*shape: int, dtype: type = np.float32) -> Array:
    """Few values, so that many are equal."""
    low = 0 if np.dtype(dtype).kind == "u" else -3
    return RNG.integers(low, 4, shape).astype(dtype)


# ---- ArgMax, ArgMin
for name in ("ArgMax", "ArgMin"):
    for dtype in ALL_TYPES:
        case = None if dtype in COMMON or (dtype in (np.int8, np.uint8)) else BY_ONNX
        text = np.dtype(dtype).name
        op(f"{name} of rows, {text}", name, tied(3, 43, dtype=dtype), axis=1, case=case)
        op(f"{name} of columns, {text}", name, tied(5, 11, dtype=dtype), axis=0, case=case)
    for last in (0, 1):
        for axis in (0, 1, 2, -1):
            text = f"axis {axis}{', the last' if last else ''}"
            op(f"{name}, {text}", name, tied(4, 9, 17), axis=axis, select_last_index=last)
            op(f"{name}, {text}, axis dropped", name, tied(4, 9, 17), axis=axis, select_last_index=last, keepdims=0)
        op(
            f"{name} of equals{', the last' if last else ''}",
            name,
            np.zeros((2, 21), np.float32),
            axis=1,
            select_last_index=last,
        )
        special = np.array(
            [[1, np.nan, 3, np.nan], [np.inf, -np.inf, np.inf, -np.inf], [0.0, -0.0, 0.0, -0.0]], np.float32
        )
        for axis in (0, 1):
            text = f"axis {axis}{', the last' if last else ''}"
            op(f"{name} of special numbers, {text}", name, special, axis=axis, select_last_index=last, case=NAN)
    op(f"{name} of one element", name, (3, 1), axis=1)
    op(
        f"{name} of all equal to the limit",
        name,
        np.full((2, 9), -np.inf if name == "ArgMax" else np.inf, np.float32),
        axis=1,
    )

# ---- TopK
for largest in (1, 0):
    side = "largest" if largest else "smallest"
    for dtype in ALL_TYPES:
        case = None if dtype in COMMON else BY_ONNX
        text = f"{side}, {np.dtype(dtype).name}"
        op(f"TopK, {text}", "TopK", tied(3, 37, dtype=dtype), W(np.array([5])), outputs=2, largest=largest, case=case)
    for axis in (0, 1, -1):
        for k in (0, 1, 3, 4):
            text = f"{side}, {k} along axis {axis}"
            op(f"TopK, {text}", "TopK", tied(4, 5, 6), W(np.array([k])), outputs=2, largest=largest, axis=axis)
    op(f"TopK, {side}, everything", "TopK", tied(2, 100), W(np.array([100])), outputs=2, largest=largest)
    op(f"TopK, {side}, of many", "TopK", (2, 1000), W(np.array([17])), outputs=2, largest=largest)
    order = np.arange(64, dtype=np.float32)
    op(f"TopK, {side}, ascending", "TopK", order, W(np.array([9])), outputs=2, largest=largest)
    op(f"TopK, {side}, descending", "TopK", order[::-1].copy(), W(np.array([9])), outputs=2, largest=largest)
    op(
        f"TopK, {side}, infinities",
        "TopK",
        np.array([np.inf, 1, -np.inf, np.inf, 2], np.float32),
        W(np.array([4])),
        outputs=2,
        largest=largest,
    )
for part, what in enumerate(("values", "indices")):
    FAMILY.graph(f"TopK, {what} only", lambda g, i=part: g("TopK", tied(3, 20), W(np.array([4])), outputs=2)[i])
op(
    "TopK, NaN is the largest",
    "TopK",
    np.array([1, np.nan, 3, np.nan, -np.inf], np.float32),
    W(np.array([4])),
    outputs=2,
    case=NAN,
)
op(
    "TopK, NaN is not small",
    "TopK",
    np.array([np.nan, 1, np.nan, -2], np.float32),
    W(np.array([3])),
    outputs=2,
    largest=0,
    case=NAN,
)
op(
    "TopK, unsorted is sorted too",
    "TopK",
    tied(2, 9),
    W(np.array([9])),
    outputs=2,
    sorted=0,
    case={"judges": (ONNX,), "because": "the order is free"},
)
