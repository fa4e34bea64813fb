"""Conv over one and two axes: every way a window can lie, and every width of channels."""

from __future__ import annotations

from ..case import ONNX, Family
from ..graphs import Weight as W

FAMILY = Family("convolution")
op = FAMILY.op

# ---- windows over channels-last activations
op("3x3", "Conv", (1, 8, 9, 10), W((8, 8, 3, 3)))
op("3x3, bias, padded, batch of 2", "Conv", (2, 8, 7, 6), W((10, 8, 3, 3)), W((10,)), pads=[1, 1, 1, 1])
op("strides 2x1", "Conv", (1, 8, 9, 9), W((9, 8, 3, 3)), strides=[2, 1])
op("strides 1x3, asymmetric pads", "Conv", (1, 8, 8, 9), W((8, 8, 3, 3)), strides=[1, 3], pads=[0, 2, 1, 0])
op("dilations 2x3", "Conv", (1, 8, 9, 12), W((8, 8, 3, 3)), dilations=[2, 3], pads=[2, 3, 1, 0])
op(
    "strides and dilations",
    "Conv",
    (1, 6, 13, 12),
    W((7, 6, 2, 3)),
    strides=[3, 2],
    dilations=[3, 2],
    pads=[1, 2, 3, 4],
)
op("window 1x5", "Conv", (1, 8, 6, 9), W((8, 8, 1, 5)), pads=[0, 2, 0, 2])
op("window 4x1", "Conv", (1, 8, 7, 5), W((8, 8, 4, 1)))
op("window larger than the image", "Conv", (1, 5, 2, 3), W((6, 5, 5, 5)), pads=[2, 2, 2, 2])
op("padding beyond the window", "Conv", (1, 5, 3, 3), W((4, 5, 2, 2)), pads=[3, 2, 4, 3])
op("one output pixel", "Conv", (2, 8, 3, 3), W((5, 8, 3, 3)))
op("kernel_shape given", "Conv", (1, 5, 5, 5), W((3, 5, 2, 2)), kernel_shape=[2, 2])
op("SAME_UPPER", "Conv", (1, 8, 7, 8), W((8, 8, 4, 3)), auto_pad="SAME_UPPER", strides=[2, 2])
op("SAME_LOWER", "Conv", (1, 8, 7, 8), W((8, 8, 4, 2)), auto_pad="SAME_LOWER", strides=[2, 3])
op(
    "SAME_UPPER, dilated",
    "Conv",
    (1, 8, 9, 9),
    W((8, 8, 3, 3)),
    auto_pad="SAME_UPPER",
    dilations=[2, 2],
    case={"judges": (ONNX,), "because": "ONNX Runtime refuses it"},
)
op("VALID", "Conv", (1, 8, 7, 8), W((8, 8, 3, 3)), auto_pad="VALID")

op("several blocks of pixels and channels", "Conv", (2, 40, 13, 14), W((50, 40, 3, 3)), pads=[1, 1, 1, 1])

# ---- one tap
op("1x1", "Conv", (1, 12, 5, 7), W((20, 12, 1, 1)), W((20,)))
op("1x1, strides 2", "Conv", (1, 12, 5, 7), W((6, 12, 1, 1)), strides=[2, 2])
op("1x1, padded", "Conv", (1, 6, 4, 4), W((6, 6, 1, 1)), W((6,)), pads=[1, 0, 2, 1])
op("1x1, batch of 3", "Conv", (3, 5, 3, 3), W((9, 5, 1, 1)))
op("1x1 of 1x1", "Conv", (2, 17, 1, 1), W((9, 17, 1, 1)))

# ---- groups
op("2 groups", "Conv", (1, 8, 7, 7), W((12, 4, 3, 3)), W((12,)), group=2, pads=[1, 1, 1, 1])
op("3 groups of odd width, strides", "Conv", (2, 9, 7, 8), W((15, 3, 3, 2)), group=3, strides=[2, 2])
op("4 groups of 1x1", "Conv", (1, 16, 3, 5), W((8, 4, 1, 1)), group=4)
op("groups of one channel, two outputs each", "Conv", (1, 5, 6, 6), W((10, 1, 3, 3)), group=5)
op("depthwise 3x3", "Conv", (1, 16, 9, 19), W((16, 1, 3, 3)), W((16,)), group=16, pads=[1, 1, 1, 1])
op("depthwise, strides 2", "Conv", (2, 12, 9, 30), W((12, 1, 3, 3)), group=12, strides=[2, 2], pads=[1, 0, 0, 1])
op("depthwise 5x5, dilated", "Conv", (1, 9, 17, 24), W((9, 1, 5, 5)), group=9, dilations=[3, 2], pads=[6, 4, 6, 4])
op("depthwise, window wider than the image", "Conv", (1, 8, 3, 2), W((8, 1, 3, 7)), group=8, pads=[1, 3, 1, 3])
op("depthwise 1x1", "Conv", (1, 10, 4, 4), W((10, 1, 1, 1)), group=10)
op("depthwise, SAME_LOWER", "Conv", (1, 8, 8, 9), W((8, 1, 2, 4)), group=8, auto_pad="SAME_LOWER", strides=[2, 2])
op("depthwise, padding beyond the window", "Conv", (1, 8, 2, 2), W((8, 1, 2, 2)), group=8, pads=[3, 3, 2, 4])
for channels in (1, 2, 3, 7, 15, 33):
    op(f"depthwise, {channels} channels", "Conv", (1, channels, 5, 6), W((channels, 1, 3, 3)), group=channels)

# ---- few channels, read as the graph's input lies
op(
    "planar, 3 channels, strides 2",
    "Conv",
    (1, 3, 12, 21),
    W((16, 3, 3, 3)),
    W((16,)),
    strides=[2, 2],
    pads=[1, 1, 1, 1],
)
op("planar, 2 channels, batch of 2", "Conv", (2, 2, 6, 9), W((9, 2, 3, 2)), pads=[0, 1, 2, 0])
op("planar, 4 channels, dilated", "Conv", (1, 4, 11, 12), W((7, 4, 3, 3)), dilations=[3, 4], pads=[3, 4, 3, 4])
op("planar, 1 channel", "Conv", (1, 1, 7, 19), W((5, 1, 3, 3)), pads=[1, 1, 1, 1])
op("planar, 1x1", "Conv", (1, 3, 4, 9), W((24, 3, 1, 1)))
op("planar, large window", "Conv", (1, 4, 33, 40), W((8, 4, 31, 31)), pads=[15, 15, 15, 15], strides=[4, 4])
op("planar, wide strides", "Conv", (1, 4, 40, 200), W((8, 4, 16, 16)), strides=[16, 16])

# ---- every width of a panel's tail
for channels in (*range(1, 18), 23, 24, 25, 31, 32, 33):
    op(
        f"1x1, {34 - channels} to {channels} channels",
        "Conv",
        (1, 34 - channels, 2, 5),
        W((channels, 34 - channels, 1, 1)),
    )
for channels in (1, 9, 17, 31):
    op(f"2x2, 5 to {channels} channels", "Conv", (1, 5, 4, 5), W((channels, 5, 2, 2)), W((channels,)))


ONE_AXIS = Family("convolution 1-D")
op = ONE_AXIS.op

op("3", "Conv", (1, 6, 12), W((8, 6, 3)), W((8,)))
op("3, padded, batch of 2", "Conv", (2, 6, 11), W((8, 6, 3)), pads=[1, 2])
op("row of windows, strides 2", "Conv", (1, 6, 17), W((9, 6, 4)), strides=[2])
op("row of windows, strides beyond the window", "Conv", (1, 4, 17), W((5, 4, 2)), strides=[5])
op("row of windows, 1 channel", "Conv", (1, 1, 40), W((18, 1, 16)), strides=[8])
op("row of windows, several blocks", "Conv", (1, 3, 1100), W((40, 3, 64)), strides=[8])
op("dilations 3", "Conv", (1, 6, 17), W((8, 6, 3)), dilations=[3])
op("1", "Conv", (2, 7, 9), W((17, 7, 1)), W((17,)))
op("SAME_LOWER", "Conv", (1, 5, 10), W((6, 5, 4)), auto_pad="SAME_LOWER", strides=[3])
op("2 groups", "Conv", (1, 6, 10), W((4, 3, 3)), group=2, pads=[2, 0])
op("depthwise", "Conv", (2, 9, 21), W((9, 1, 5)), W((9,)), group=9, pads=[4, 0])
op("depthwise, strides and dilations", "Conv", (1, 8, 40), W((8, 1, 3)), group=8, strides=[2], dilations=[4])
op("1 channel, padded", "Conv", (1, 1, 19), W((4, 1, 5)), pads=[2, 2])
