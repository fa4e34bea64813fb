"""Tensors without elements: an axis of size 0 wherever one may stand."""

from __future__ import annotations

import numpy as np

from ..case import ONNX, ORT, Family
from ..graphs import Array
from ..graphs import Weight as W

FAMILY = Family("empty")
op = FAMILY.op
BY_ONNX = {"judges": (ONNX,), "because": "ONNX Runtime refuses"}


def nothing(*shape: int, dtype: type = np.float32) -> Array:
    return np.zeros(shape, dtype)


def ints(*numbers: int) -> W:
    return W(np.array(numbers, np.int64))


op("Add", "Add", nothing(0, 3), (1, 3))
op("Add of an empty axis in between", "Add", nothing(2, 0, 3), (2, 1, 1))
op("Add of an empty innermost axis", "Add", nothing(2, 3, 0), (3, 1))
op("Exp", "Exp", nothing(0))
op("Where", "Where", nothing(2, 0, dtype=np.bool_), (2, 1), nothing(0))
op("Cast", "Cast", nothing(3, 0), to=7)
op("Conv, no item", "Conv", nothing(0, 8, 5, 5), W((4, 8, 3, 3)))
op("Conv 1x1, no item", "Conv", nothing(0, 8, 5, 5), W((4, 8, 1, 1)))
op("Conv, depthwise, no item", "Conv", nothing(0, 8, 5, 5), W((8, 1, 3, 3)), group=8)
op("Conv, planar, no item", "Conv", nothing(0, 3, 5, 5), W((4, 3, 3, 3)))
op("Gemm, no row", "Gemm", nothing(0, 4), W((4, 3)), W((3,)))
op("MatMul, no row", "MatMul", nothing(2, 0, 4), (2, 4, 3))
op("MatMul, no column", "MatMul", (3, 4), nothing(4, 0))
op("MatMul, no depth", "MatMul", nothing(3, 0), nothing(0, 5))
op("MatMul, no depth, constant", "MatMul", nothing(3, 0), W(nothing(0, 5)))
op("MatMul, no batch", "MatMul", nothing(0, 3, 4), nothing(0, 4, 5))
op("MaxPool, no item", "MaxPool", nothing(0, 4, 5, 5), kernel_shape=[2, 2])
op(
    "GlobalAveragePool, no item",
    "GlobalAveragePool",
    nothing(0, 4, 5, 5),
    case={"judges": (ORT,), "because": "onnx.reference fails"},
)
op("ReduceSum of nothing", "ReduceSum", nothing(3, 0), ints(1))
op("ReduceSum of no row", "ReduceSum", nothing(0, 3), ints(1))
op("ReduceSum of nothing, columns", "ReduceSum", nothing(0, 3), ints(0))
op("ReduceProd of nothing, int64", "ReduceProd", nothing(2, 0, dtype=np.int64), ints(1))
for kind in ("Max", "Min", "LogSum", "LogSumExp", "L2"):
    op(f"Reduce{kind} of nothing", f"Reduce{kind}", nothing(3, 0), ints(1), case=BY_ONNX)
    op(f"Reduce{kind} of nothing, columns", f"Reduce{kind}", nothing(0, 3), ints(0), keepdims=0, case=BY_ONNX)
op("ReduceMin of nothing, int32", "ReduceMin", nothing(2, 0, dtype=np.int32), ints(1), case=BY_ONNX)
op("ReduceMin of nothing, bool", "ReduceMin", nothing(2, 0, dtype=np.bool_), ints(1), case=BY_ONNX)
op("ReduceMax of nothing, bool", "ReduceMax", nothing(2, 0, dtype=np.bool_), ints(1), case=BY_ONNX)
op("ArgMax of no row", "ArgMax", nothing(0, 3), axis=1)
op("TopK of no row", "TopK", nothing(0, 3), ints(2), outputs=2)
op("TopK, none of nothing", "TopK", nothing(2, 0), ints(0), outputs=2)
op("CumSum", "CumSum", nothing(3, 0), W(np.array(1)))
op("Trilu", "Trilu", nothing(2, 0, 3))
op("GatherElements by nothing", "GatherElements", (3, 4), nothing(0, 4, dtype=np.int64))
op("GatherND by nothing", "GatherND", (3, 4), nothing(0, 2, dtype=np.int64))
op("ScatterND of nothing", "ScatterND", (3, 4), nothing(0, 1, dtype=np.int64), nothing(0, 4))
op("OneHot of nothing", "OneHot", nothing(0, 3, dtype=np.int64), W(np.array(4)), W(np.array([0, 1], np.float32)))
op("Hardmax, no row", "Hardmax", nothing(0, 3))
op("Softmax, no row", "Softmax", nothing(0, 3))
op("Softmax, no column", "Softmax", nothing(3, 0))
op("LogSoftmax, empty innermost axis", "LogSoftmax", nothing(2, 3, 0), axis=1)
op("Transpose", "Transpose", nothing(2, 0, 3), perm=[2, 0, 1])
op("Concat", "Concat", nothing(2, 0), (2, 3), nothing(2, 0), axis=1)
op("Concat of nothing", "Concat", nothing(0, 3), nothing(0, 3), axis=0)
op("Split", "Split", nothing(4, 0), outputs=2, num_outputs=2)
op("Slice", "Slice", nothing(4, 0), ints(1), ints(3))
op("Pad to something", "Pad", nothing(0, 3), ints(1, 0, 1, 0), W(np.array(2, np.float32)))
op("Pad an empty image", "Pad", nothing(2, 0, 3), ints(0, 0, 1, 0, 0, 1))
op("Gather from something", "Gather", (3, 0), np.array([1, 2]))
op("Gather by nothing", "Gather", (3, 4), nothing(0, dtype=np.int64), axis=1)
op("Expand", "Expand", nothing(0, 1), ints(0, 4))
op("Expand to nothing", "Expand", (1, 3), ints(0, 3))
op("Tile by 0", "Tile", (2, 3), ints(0, 2))
op("Reshape", "Reshape", nothing(0, 3), ints(3, 0), allowzero=1)
op("Flatten", "Flatten", nothing(2, 0, 3))
op("DepthToSpace", "DepthToSpace", nothing(0, 4, 2, 2), blocksize=2)
