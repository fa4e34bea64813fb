"""Pools, windowed and global."""

from __future__ import annotations

import numpy as np

from ..case import ONNX, ORT, Family

FAMILY = Family("pooling")
op = FAMILY.op
X = (1, 9, 9, 10)
NAN_BY_ONNX = {"judges": (ONNX,), "because": "ONNX Runtime's maximum keeps a NaN or not by its place"}
SPECIAL = np.array([[-np.inf, -np.inf, 1, 2], [-np.inf, -np.inf, np.nan, 3], [4, 5, np.inf, -6]], np.float32).reshape(
    1, 1, 3, 4
)

for kind in ("MaxPool", "AveragePool"):
    op(f"{kind} 2x2", kind, X, kernel_shape=[2, 2], strides=[2, 2])
    op(f"{kind} 3x3, padded", kind, X, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    op(f"{kind}, strides, asymmetric pads", kind, (2, 5, 8, 9), kernel_shape=[3, 4], strides=[2, 3], pads=[0, 2, 1, 3])
    op(f"{kind}, ceil_mode", kind, X, kernel_shape=[3, 3], strides=[2, 4], ceil_mode=1)
    op(f"{kind}, ceil_mode, padded", kind, X, kernel_shape=[3, 2], strides=[3, 3], pads=[1, 0, 1, 1], ceil_mode=1)
    op(
        f"{kind}, ceil_mode, a last window in the padding",
        kind,
        (1, 3, 4, 5),
        kernel_shape=[2, 2],
        strides=[2, 3],
        pads=[0, 0, 1, 1],
        ceil_mode=1,
    )
    op(f"{kind}, dilations", kind, X, kernel_shape=[3, 2], dilations=[2, 3], pads=[1, 0, 2, 1])
    op(f"{kind}, SAME_UPPER", kind, X, kernel_shape=[3, 4], strides=[2, 2], auto_pad="SAME_UPPER")
    op(
        f"{kind}, SAME_LOWER",
        kind,
        X,
        kernel_shape=[3, 4],
        strides=[2, 3],
        auto_pad="SAME_LOWER",
        case={"judges": (ORT,), "because": "onnx.reference rounds the output's size down"},
    )
    op(f"{kind}, VALID", kind, X, kernel_shape=[3, 4], strides=[2, 3], auto_pad="VALID")
    op(f"{kind} of the whole image", kind, (2, 5, 3, 4), kernel_shape=[3, 4])
    op(f"{kind} 1-D", kind, (2, 11, 13), kernel_shape=[3], strides=[2], pads=[1, 0])
    op(f"{kind} 1-D, ceil_mode, dilated", kind, (1, 8, 14), kernel_shape=[3], strides=[3], dilations=[2], ceil_mode=1)
    op(f"{kind}, infinities", kind, np.nan_to_num(SPECIAL, nan=2, posinf=np.inf, neginf=-np.inf), kernel_shape=[2, 2])
    for channels in (1, 8, 17, 33):
        op(f"{kind}, {channels} channels", kind, (1, channels, 4, 4), kernel_shape=[2, 2])

op(
    "AveragePool, NaN",
    "AveragePool",
    SPECIAL,
    kernel_shape=[2, 2],
    case={"judges": (ORT,), "because": "onnx.reference leaves NaN out"},
)
op("AveragePool, count_include_pad", "AveragePool", X, kernel_shape=[3, 3], pads=[1, 0, 2, 1], count_include_pad=1)
op(
    "AveragePool, count_include_pad, ceil_mode",
    "AveragePool",
    X,
    kernel_shape=[3, 3],
    strides=[2, 3],
    pads=[1, 1, 1, 1],
    count_include_pad=1,
    ceil_mode=1,
)
op(
    "AveragePool, count_include_pad, SAME_UPPER",
    "AveragePool",
    X,
    kernel_shape=[2, 4],
    strides=[2, 2],
    auto_pad="SAME_UPPER",
    count_include_pad=1,
)

for kind in ("GlobalAveragePool", "GlobalMaxPool"):
    for shape in ((1, 8, 5, 6), (3, 33, 4, 4), (2, 5, 9), (1, 3, 1, 1), (1, 70, 7, 7)):
        one_axis = {"judges": (ORT,), "because": "onnx.reference takes images only"} if len(shape) == 3 else None
        op(f"{kind} {'x'.join(map(str, shape))}", kind, shape, case=one_axis)
    op(f"{kind}, special numbers", kind, SPECIAL, case=NAN_BY_ONNX)
