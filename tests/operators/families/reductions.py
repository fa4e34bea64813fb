"""Reductions over every choice of axes, Softmax over every axis."""

from __future__ import annotations

import numpy as np

from ..case import ONNX, ORT, Family
from ..graphs import Array
from ..graphs import Weight as W

FAMILY = Family("reductions")
op = FAMILY.op

KINDS = ("Sum", "Mean", "Max", "Min", "Prod", "SumSquare", "L1", "L2", "LogSum", "LogSumExp")
ALL_TYPES = ("Sum", "Mean", "Max", "Min", "Prod", "SumSquare")


def axes(*numbers: int) -> W:
    return W(np.array(numbers, np.int64))


def positive(*shape: int) -> Array:
    size = int(np.prod(shape))
    return ((np.arange(size) * 7 % 19 + 1) / np.float32(8)).astype(np.float32).reshape(shape)


def whole(*shape: int, dtype: type) -> Array:
    size = int(np.prod(shape))
    return (np.arange(size) * 7 % 11 - 5).astype(dtype).reshape(shape)


# ---- each kind: rows, columns, in between, all; several vectors and none
for kind in KINDS:
    op(f"{kind} of rows", f"Reduce{kind}", positive(5, 9), axes(1))
    op(f"{kind} of long rows", f"Reduce{kind}", positive(3, 77) / np.float32(2), axes(-1), keepdims=0)
    op(f"{kind} of columns", f"Reduce{kind}", positive(5, 43), axes(0))
    op(f"{kind} in between", f"Reduce{kind}", positive(2, 3, 5), axes(1), keepdims=0)
    op(f"{kind} of all", f"Reduce{kind}", positive(2, 3, 5))
    op(f"{kind} of none", f"Reduce{kind}", positive(2, 3, 5), noop_with_empty_axes=1)
for kind in ALL_TYPES:
    for text, dtype in {"int32": np.int32, "int64": np.int64}.items():
        widens = {"judges": (ORT,), "because": "onnx.reference makes int64 of it"} if kind == "SumSquare" else None
        op(f"{kind} of rows, {text}", f"Reduce{kind}", whole(3, 35, dtype=dtype), axes(1), case=widens)
        op(f"{kind} of columns, {text}", f"Reduce{kind}", whole(5, 11, dtype=dtype), axes(0), keepdims=0, case=widens)
    op(f"{kind} of rows, float64", f"Reduce{kind}", positive(3, 35).astype(np.float64), axes(1))
    op(f"{kind} of columns, float64", f"Reduce{kind}", positive(5, 11).astype(np.float64), axes(0), keepdims=0)
BY_ONNX = {"judges": (ONNX,), "because": "ONNX Runtime lacks the type"}
for kind in ("L1", "L2", "LogSum"):
    floats = {"judges": (ORT,), "because": "onnx.reference makes float64 of it"}
    for dtype in (np.float64, np.int32):
        text = np.dtype(dtype).name
        case = floats if dtype is np.int32 else None
        op(f"{kind} of rows, {text}", f"Reduce{kind}", (8 * positive(3, 35)).astype(dtype), axes(1), case=case)
        op(f"{kind} of columns, {text}", f"Reduce{kind}", (8 * positive(5, 11)).astype(dtype), axes(0), case=case)
op("LogSumExp of rows, float64", "ReduceLogSumExp", positive(3, 35).astype(np.float64), axes(1))
op("LogSumExp of columns, float64", "ReduceLogSumExp", positive(5, 11).astype(np.float64), axes(0))
for kind in ("Max", "Min"):
    for dtype in (np.int8, np.uint8):
        text = np.dtype(dtype).name
        op(f"{kind} of rows, {text}", f"Reduce{kind}", whole(3, 75, dtype=dtype), axes(1))
        op(f"{kind} of columns, {text}", f"Reduce{kind}", whole(5, 43, dtype=dtype), axes(0), keepdims=0)
    truth = np.array([[True] * 9, [False] * 9, [True, False, True] * 3])
    op(f"{kind} of rows, bool", f"Reduce{kind}", truth, axes(1))
    op(f"{kind} of columns, bool", f"Reduce{kind}", truth, axes(0), case=BY_ONNX)
for kind in ("Sum", "Mean", "Max", "Prod"):
    for dtype in (np.uint32, np.uint64):
        values = np.array([[2**31, 7, 2**32 - 1], [3, 2**31 + 5, 9]], np.uint64).astype(dtype)
        op(f"{kind} of rows, {np.dtype(dtype).name}", f"Reduce{kind}", values, axes(1), case=BY_ONNX)

# ---- axes
for keep in (1, 0):
    text = "" if keep else ", axes dropped"
    for chosen in (
        (0,),
        (1,),
        (2,),
        (3,),
        (0, 1),
        (1, 2),
        (2, 3),
        (0, 2),
        (0, 3),
        (1, 3),
        (0, 1, 3),
        (0, 2, 3),
        (-1, 1),
        (3, 1),
    ):
        op(f"Sum over {chosen}{text}", "ReduceSum", positive(2, 3, 4, 5), axes(*chosen), keepdims=keep)
op("Sum over a computed size's axes", "ReduceSum", positive(2, 3, 4), axes(-3, -1))
op("Sum, empty axes mean all", "ReduceSum", positive(2, 3), W(np.array([], np.int64)))
op("Sum, empty axes mean none", "ReduceSum", positive(2, 3), W(np.array([], np.int64)), noop_with_empty_axes=1)
op("Sum of a scalar", "ReduceSum", np.array(3, np.float32))
op("Mean over axes of size 1", "ReduceMean", positive(2, 1, 5, 1), axes(1, 3), keepdims=0)
op("Mean over images", "ReduceMean", (2, 11, 5, 4), axes(2, 3))
op("Mean over images, axes dropped", "ReduceMean", (2, 11, 5, 4), axes(2, 3), keepdims=0)
op("Sum over rank 6, apart", "ReduceSum", positive(2, 3, 2, 3, 2, 3), axes(1, 3, 5))
op("Sum of a constant", "ReduceSum", W(positive(3, 4)), axes(1))

# ---- special numbers
ROWS = np.array([[1, np.nan, 2, -np.inf] * 10, [np.inf, 1, 2, 3] * 10, [np.inf, -np.inf, 0, -0.0] * 10], np.float32)
MAXIMUM = {"judges": (ONNX,), "because": "ONNX Runtime's maximum loses a NaN"}
for kind in ("Sum", "Max", "Min", "L1", "Prod"):
    options = MAXIMUM if kind in ("Max", "Min") else None
    op(f"{kind} of special numbers", f"Reduce{kind}", ROWS, axes(1), case=options)
    op(f"{kind} of special numbers, columns", f"Reduce{kind}", ROWS, axes(0), case=options)
EXTREME = np.array([[1, np.nan, 2], [np.inf, 1, 2], [np.inf, -np.inf, 3], [1e30, 1, 2], [-500] * 3], np.float32)
op(
    "LogSumExp of special numbers",
    "ReduceLogSumExp",
    EXTREME,
    axes(1),
    case={"judges": (ONNX,), "because": "unlike ONNX Runtime"},
)
op("LogSumExp of special numbers, columns", "ReduceLogSumExp", EXTREME[3:], axes(0))
MASKED = np.full((2, 9), -np.inf, np.float32)
for axis in (0, 1):
    case = {"judges": (ORT,), "because": "onnx.reference makes NaN of it"}
    op(f"LogSumExp of nothing but minus infinity, axis {axis}", "ReduceLogSumExp", MASKED, axes(axis), case=case)
op("LogSum of nothing but zeros", "ReduceLogSum", np.zeros((2, 9), np.float32), axes(1))

# ---- Hardmax
for axis in range(-3, 3):
    op(f"Hardmax over axis {axis}", "Hardmax", whole(3, 4, 11, dtype=np.float32), axis=axis)
op("Hardmax, float64", "Hardmax", whole(3, 11, dtype=np.float64), case=BY_ONNX)
op("Hardmax of NaN", "Hardmax", np.array([[1, np.nan, 2], [-np.inf] * 3], np.float32), case=MAXIMUM)

# ---- Softmax
for kind in ("Softmax", "LogSoftmax"):
    op(f"{kind} of rows, float64", kind, np.linspace(-9, 9, 60).reshape(3, 20), axis=1)
    op(f"{kind} of columns, float64", kind, np.linspace(-9, 9, 60).reshape(3, 20), axis=0)
    for axis in range(-4, 4):
        op(f"{kind} over axis {axis}", kind, (2, 3, 4, 5), axis=axis)
    op(f"{kind}, last axis by default", kind, (3, 40))
    op(f"{kind} of long rows", kind, (2, 103), axis=1)
    op(f"{kind} of many columns", kind, (4, 21), axis=0)
    op(f"{kind} of one element", kind, (3, 1))
    log_of_zero = {"judges": (ORT,), "because": "onnx.reference takes the logarithm of Softmax's zeros"}
    large = np.array([[1e30, -1e30, 0], [88, 89, 300], [-500, -501, -502]], np.float32)
    op(f"{kind} of large numbers", kind, large, case=log_of_zero if kind == "LogSoftmax" else None)
    op(f"{kind} of a mask", kind, np.array([[1, -np.inf, 2, -np.inf], [-np.inf, -np.inf, -np.inf, 0]], np.float32))
    op(f"{kind} of nothing but minus infinity", kind, np.full((2, 3), -np.inf, np.float32))
    op(f"{kind} of NaN", kind, np.array([[1, np.nan, 2], [1, 2, 3]], np.float32))

# ---- determinants
for n in (1, 2, 3, 9, 20):
    op(f"Det of {n}x{n}", "Det", (n, n))
op("Det of a batch", "Det", (2, 3, 4, 4))
op("Det of singular matrices", "Det", np.ones((2, 3, 3), np.float32))
op("Det, zeros on the diagonal", "Det", np.array([[0, 2, 1], [3, 0, 1], [1, 1, 0]], np.float32))
op("Det, float64", "Det", np.array([[0, 2.5], [-3, 1]]), case=BY_ONNX)
