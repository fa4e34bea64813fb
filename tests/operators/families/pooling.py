"""Pools, windowed and global."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..case import ONNX, ORT, Family
from ..graphs import Graph
from ..graphs import Weight as W

FAMILY = Family("pooling")
op = FAMILY.op
X = (1, 9, 9, 10)
NAN_BY_ONNX = {"judges": (ONNX,), "because": "ONNX Runtime's maximum keeps a NaN or not by its place"}
IMAGES = {"judges": (ORT,), "because": "onnx.reference takes images only"}
OVERHANG = {"judges": (ORT,), "because": "onnx.reference adds up what is not there"}
FIRST = {
    "judges": (ORT,),
    "because": "onnx.reference counts indices wrongly with padding, and gives the last of equal maxima",
}
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

# ---- other norms, axes and element types
for p in (1, 2, 3):
    op(f"LpPool, p {p}", "LpPool", X, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 0, 1], p=p)
op(
    "LpPool, ceil_mode, dilations",
    "LpPool",
    X,
    kernel_shape=[2, 3],
    strides=[2, 2],
    dilations=[2, 1],
    ceil_mode=1,
    case=OVERHANG,
)
op("LpPool 1-D, SAME_UPPER", "LpPool", (1, 5, 9), kernel_shape=[4], strides=[2], auto_pad="SAME_UPPER")
for kind in ("MaxPool", "AveragePool"):
    op(f"{kind} 3-D", kind, (2, 5, 4, 5, 6), kernel_shape=[2, 3, 2], strides=[1, 2, 3], pads=[1, 1, 0, 0, 1, 1])
    op(f"{kind} 3-D, ceil_mode", kind, (1, 34, 5, 4, 6), kernel_shape=[2, 2, 3], strides=[2, 3, 2], ceil_mode=1)
for kind in ("GlobalMaxPool", "GlobalAveragePool"):
    op(f"{kind} 3-D", kind, (2, 9, 3, 2, 4), case=IMAGES if kind == "GlobalMaxPool" else None)
for type in (np.int8, np.uint8):
    numbers = (np.arange(2 * 41 * 5 * 6) * 71 % 256).astype(np.uint8).view(type).reshape(2, 41, 5, 6)
    attrs: dict[str, Any] = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 1, 1, 0]}
    op(f"MaxPool, {np.dtype(type).name}", "MaxPool", numbers, **attrs)
    op(f"MaxPool with indices, {np.dtype(type).name}", "MaxPool", numbers[:, :3], outputs=2, **attrs)

# ---- where maxima lie
TIES = np.array([[1, 1, 0, 2], [1, 0, 2, 2], [-1, -3, -1, -1]], np.float32).reshape(1, 1, 3, 4)
for order in (0, 1):
    attrs = {"outputs": 2, "storage_order": order}
    op(
        f"indices, storage_order {order}",
        "MaxPool",
        (2, 3, 5, 6),
        kernel_shape=[2, 3],
        strides=[2, 1],
        **attrs,
        case=FIRST,
    )
    op(
        f"indices, padded, storage_order {order}",
        "MaxPool",
        X,
        kernel_shape=[3, 3],
        pads=[1, 1, 1, 1],
        **attrs,
        case=FIRST,
    )
    op(f"indices of ties, storage_order {order}", "MaxPool", TIES, kernel_shape=[2, 2], **attrs, case=FIRST)
op(
    "indices, ceil_mode, dilations",
    "MaxPool",
    X,
    outputs=2,
    kernel_shape=[2, 2],
    strides=[3, 2],
    dilations=[2, 3],
    ceil_mode=1,
)
ALONE = {"judges": (ONNX,), "because": "ONNX Runtime wants the maxima too"}
op("indices alone", "MaxPool", (2, 3, 6, 4), outputs=[False, True], kernel_shape=[2, 2], strides=[2, 2], case=ALONE)
op("indices 1-D", "MaxPool", (2, 3, 9), outputs=2, kernel_shape=[3], strides=[2])
op("indices 3-D", "MaxPool", (1, 2, 4, 4, 5), outputs=2, kernel_shape=[2, 2, 2], strides=[2, 1, 2])


def there_and_back(g: Graph) -> Any:
    y, where = g("MaxPool", (2, 9, 6, 8), outputs=2, kernel_shape=[2, 2], strides=[2, 2])
    return g("MaxUnpool", y, where, kernel_shape=[2, 2], strides=[2, 2])


FAMILY.graph("MaxPool, MaxUnpool", there_and_back)
op("MaxUnpool", "MaxUnpool", (1, 1, 2, 2), np.array([[[[5, 7], [13, 15]]]]), kernel_shape=[2, 2], strides=[2, 2])
op(
    "MaxUnpool, output_shape",
    "MaxUnpool",
    (1, 1, 2, 2),
    np.array([[[[5, 7], [13, 15]]]]),
    W(np.array([1, 1, 5, 5])),
    kernel_shape=[2, 2],
    strides=[2, 2],
    case={"judges": (ONNX,), "because": "ONNX Runtime counts indices in the larger output"},
)
op(
    "MaxUnpool, output_shape is data",
    "MaxUnpool",
    (1, 1, 2, 2),
    np.array([[[[5, 7], [13, 15]]]]),
    np.array([1, 1, 5, 6]),
    kernel_shape=[2, 2],
    strides=[2, 2],
    case={"judges": (ONNX,), "because": "ONNX Runtime counts indices in the larger output"},
)
