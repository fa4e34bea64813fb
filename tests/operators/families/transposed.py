"""ConvTranspose over one to three axes, Conv over three axes, and both with weights that are computed."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..case import ORT, Family
from ..graphs import Graph
from ..graphs import Weight as W

FAMILY = Family("transposed")
op = FAMILY.op
GROUPS = {"judges": (ORT,), "because": "onnx.reference cannot join groups"}
GIVEN = {"judges": (ORT,), "because": "onnx.reference takes output_shape without padding only"}
case = FAMILY.graph

# ---- ConvTranspose
op("2x2, strides 2", "ConvTranspose", (1, 24, 5, 6), W((24, 9, 2, 2)), W((9,)), strides=[2, 2])
op("2x2, strides 2, one channel", "ConvTranspose", (2, 24, 4, 3), W((24, 1, 2, 2)), W((1,)), strides=[2, 2])
op("4x4, strides 2, padded", "ConvTranspose", (1, 12, 5, 4), W((12, 20, 4, 4)), strides=[2, 2], pads=[1, 1, 1, 1])
op("3x3, strides 1", "ConvTranspose", (2, 8, 5, 4), W((8, 17, 3, 3)), W((17,)), pads=[1, 1, 1, 1])
op(
    "3x3, strides 2x3, output_padding",
    "ConvTranspose",
    (1, 5, 4, 3),
    W((5, 7, 3, 3)),
    strides=[2, 3],
    output_padding=[1, 2],
)
op(
    "3x2, dilations",
    "ConvTranspose",
    (1, 5, 4, 5),
    W((5, 6, 3, 2)),
    strides=[2, 3],
    dilations=[3, 2],
    pads=[1, 0, 2, 1],
)
op(
    "dilations that leave phases empty",
    "ConvTranspose",
    (1, 5, 4, 5),
    W((5, 6, 3, 3)),
    W((6,)),
    strides=[2, 2],
    dilations=[2, 4],
)
op("kernel smaller than the strides", "ConvTranspose", (1, 4, 3, 3), W((4, 3, 1, 2)), W((3,)), strides=[3, 4])
op("pads beyond the window", "ConvTranspose", (1, 4, 6, 6), W((4, 3, 3, 3)), strides=[2, 2], pads=[4, 3, 3, 4])
op("large strides", "ConvTranspose", (1, 4, 2, 2), W((4, 5, 16, 16)), strides=[8, 8], pads=[4, 4, 4, 4])
op("several blocks", "ConvTranspose", (2, 16, 13, 14), W((16, 40, 3, 3)), strides=[2, 2], pads=[1, 1, 1, 1])
op("output_shape", "ConvTranspose", (1, 3, 4, 5), W((3, 4, 3, 3)), strides=[2, 2], output_shape=[8, 11], case=GIVEN)
op(
    "output_shape, SAME_UPPER",
    "ConvTranspose",
    (1, 3, 4, 5),
    W((3, 4, 3, 3)),
    strides=[2, 2],
    output_shape=[8, 9],
    auto_pad="SAME_UPPER",
)
for pad in ("SAME_UPPER", "SAME_LOWER", "VALID"):
    op(f"{pad}", "ConvTranspose", (1, 3, 4, 5), W((3, 4, 4, 3)), strides=[2, 3], auto_pad=pad)
op(
    "2 groups",
    "ConvTranspose",
    (2, 8, 4, 5),
    W((8, 3, 3, 3)),
    W((6,)),
    group=2,
    strides=[2, 2],
    pads=[1, 0, 0, 1],
    case=GROUPS,
)
op(
    "depthwise",
    "ConvTranspose",
    (2, 9, 4, 5),
    W((9, 1, 4, 4)),
    W((9,)),
    group=9,
    strides=[2, 2],
    pads=[1, 1, 1, 1],
    case=GROUPS,
)
op(
    "groups of one channel, two outputs each",
    "ConvTranspose",
    (1, 3, 4, 4),
    W((3, 2, 2, 2)),
    group=3,
    strides=[2, 2],
    case=GROUPS,
)
op("1-D", "ConvTranspose", (2, 6, 7), W((6, 5, 4)), W((5,)), strides=[3], pads=[1, 0], output_padding=[2])
op("1-D, kernel smaller than the stride", "ConvTranspose", (1, 2, 4), W((2, 3, 2)), W((3,)), strides=[3])
op("1-D, depthwise", "ConvTranspose", (1, 6, 7), W((6, 1, 3)), group=6, strides=[2])
op("3-D", "ConvTranspose", (1, 4, 3, 2, 3), W((4, 5, 2, 3, 2)), W((5,)), strides=[2, 2, 1], pads=[0, 1, 0, 1, 0, 1])
case(
    "with an epilogue",
    lambda g: g(
        "HardSigmoid",
        g("Add", g("ConvTranspose", (1, 8, 3, 4), W((8, 8, 2, 2)), W((8,)), strides=[2, 2]), (1, 8, 6, 8)),
    ),
)
case(
    "between convolutions",
    lambda g: g(
        "Conv",
        g("ConvTranspose", g("Conv", (1, 5, 6, 6), W((8, 5, 3, 3))), W((8, 6, 2, 2)), strides=[2, 2]),
        W((4, 6, 3, 3)),
    ),
)
case("computed bias", lambda g: g("ConvTranspose", (1, 4, 3, 3), W((4, 5, 2, 2)), (5,)))

# ---- Conv over three axes
op("Conv 3-D", "Conv", (1, 6, 4, 5, 6), W((20, 6, 3, 3, 3)), W((20,)), pads=[1, 1, 1, 1, 1, 1])
op(
    "Conv 3-D, uneven",
    "Conv",
    (2, 2, 5, 6, 7),
    W((4, 2, 2, 3, 2)),
    W((4,)),
    pads=[1, 0, 2, 0, 1, 1],
    strides=[1, 2, 3],
    dilations=[2, 1, 2],
)
op("Conv 3-D, 1x1x1", "Conv", (1, 3, 2, 3, 4), W((7, 3, 1, 1, 1)))
op("Conv 3-D, groups", "Conv", (1, 6, 3, 4, 4), W((9, 2, 2, 2, 2)), group=3)
op("Conv 3-D, depthwise", "Conv", (1, 10, 3, 4, 4), W((10, 1, 3, 3, 3)), W((10,)), group=10, auto_pad="SAME_UPPER")
case(
    "Conv 3-D, Relu, Conv 3-D",
    lambda g: g("Conv", g("Relu", g("Conv", (1, 3, 4, 5, 4), W((8, 3, 2, 2, 2)))), W((4, 8, 1, 2, 1))),
)

# ---- computed weights
op("Conv, computed weights", "Conv", (2, 5, 6, 7), (11, 5, 3, 2), W((11,)), strides=[2, 1], pads=[1, 0, 1, 1])
op("Conv, computed weights and bias", "Conv", (1, 3, 5, 5), (4, 3, 2, 2), (4,))
op("Conv, computed weights, groups", "Conv", (1, 6, 5, 5), (4, 3, 3, 3), group=2, dilations=[2, 1])
op("Conv, computed weights, depthwise", "Conv", (1, 6, 9, 9), (6, 1, 4, 4), group=6)
op("Conv 1-D, computed weights", "Conv", (1, 4, 9), (8, 4, 3), pads=[1, 1])
op(
    "ConvTranspose, computed weights",
    "ConvTranspose",
    (2, 5, 4, 3),
    (5, 9, 3, 3),
    W((9,)),
    strides=[2, 2],
    pads=[1, 0, 0, 1],
)
op(
    "ConvTranspose, computed weights, groups",
    "ConvTranspose",
    (1, 6, 4, 4),
    (6, 2, 2, 2),
    group=3,
    strides=[2, 1],
    case=GROUPS,
)


def correlation(g: Graph) -> Any:
    """What trackers do: features of a template are the weights."""
    template = g("Reshape", g("Relu", g("Conv", (1, 3, 6, 6), W((8, 3, 3, 3)))), W(np.array([8, 1, 4, 4])))
    return g("Sigmoid", g("Conv", g("Conv", (1, 3, 9, 9), W((8, 3, 2, 2))), template, group=8))


case("Conv of features by features", correlation)

# ---- taps that data move
op("DeformConv", "DeformConv", (2, 6, 7, 6), W((5, 6, 3, 3)), (2, 18, 5, 4), W((5,)))
op(
    "DeformConv, groups, mask",
    "DeformConv",
    (1, 8, 6, 7),
    W((20, 4, 2, 3)),
    (1, 24, 4, 5),
    None,
    (1, 12, 4, 5),
    group=2,
    offset_group=2,
    strides=[2, 1],
    pads=[1, 0, 1, 0],
)
op("DeformConv, dilations", "DeformConv", (1, 4, 9, 9), W((17, 4, 2, 2)), (1, 8, 7, 6), dilations=[2, 3])
op(
    "DeformConv, computed weights",
    "DeformConv",
    (2, 6, 5, 6),
    (4, 3, 2, 2),
    (2, 16, 4, 5),
    (4,),
    (2, 8, 4, 5),
    group=2,
    offset_group=2,
)
