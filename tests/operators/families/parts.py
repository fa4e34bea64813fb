"""Parts of images along channels: joined where their makers write them, cut where their readers step over the rest."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..case import Family
from ..graphs import Graph
from ..graphs import Weight as W

FAMILY = Family("parts")
case = FAMILY.graph

X = (1, 8, 9, 7)


def conv(g: Graph, x: Any = X, outputs: int = 8, inputs: int = 8, kernel: int = 3, **attrs: Any) -> str:
    """A convolution that keeps the image's size, and a Relu."""
    weight = W((outputs, inputs // int(attrs.get("group", 1)), kernel, kernel))
    return str(g("Relu", g("Conv", x, weight, W((outputs,)), pads=[kernel // 2] * 4, **attrs)))


def ints(*numbers: int) -> W:
    return W(np.array(numbers, np.int64))


def scales(*numbers: float) -> W:
    return W(np.array(numbers, np.float32))


def join(g: Graph, *parts: str) -> str:
    return str(g("Concat", *parts, axis=1))


def halves(g: Graph, x: str, first: int = 4) -> Any:
    return g("Split", x, ints(first, 8 - first), outputs=2, axis=1)


def bottleneck(g: Graph, first: int, shortcut: bool, kernel: int = 3) -> str:
    """A block of YOLOv8: halves of a convolution, one of them convolved twice more, side by side."""
    a, b = halves(g, conv(g), first)
    rest = 8 - first
    c = conv(g, conv(g, b, rest, rest, kernel), rest, rest, kernel)
    c = str(g("Add", b, c)) if shortcut else c
    d = conv(g, c, rest, rest, kernel)
    return conv(g, join(g, a, b, c, d), 5, 8 + 2 * rest, 1)


for first in (4, 3):
    for shortcut in (False, True):
        case(
            f"halves of {first}, shortcut {shortcut}",
            lambda g, first=first, shortcut=shortcut: bottleneck(g, first, shortcut),
        )
case("halves, pointwise", lambda g: bottleneck(g, 4, True, 1))
case("halves, 5x5", lambda g: bottleneck(g, 2, False, 5))


def pyramid(g: Graph, op: str) -> str:
    maps = [conv(g)]
    for _ in range(3):
        maps.append(g(op, maps[-1], kernel_shape=[5, 5], pads=[2, 2, 2, 2]))
    return conv(g, join(g, *maps), 6, 32, 1)


for op in ("MaxPool", "AveragePool"):
    case(f"{op} on top of each other", lambda g, op=op: pyramid(g, op))
case(
    "enlarged and skipped",
    lambda g: conv(
        g,
        join(
            g,
            g("Resize", conv(g), None, scales(1, 1, 2, 2), mode="nearest", nearest_mode="floor",
              coordinate_transformation_mode="asymmetric"),
            conv(g, (1, 3, 18, 14), 5, 3),
        ),
        4,
        13,
    ),
)  # fmt: skip
case("a part is an input", lambda g: conv(g, join(g, conv(g), g.input(X)), 4, 16))
case("a part is an output", lambda g: [a := conv(g), conv(g, join(g, a, conv(g)), 4, 16)])
case("a part twice", lambda g: conv(g, join(g, a := conv(g), a, conv(g)), 4, 24))
case("a constant part", lambda g: conv(g, join(g, conv(g), W((1, 3, 9, 7))), 4, 11))
case("a part of two Concats", lambda g: [
    conv(g, join(g, a := conv(g), b := conv(g)), 4, 16), conv(g, join(g, b, a, conv(g)), 4, 24),
])  # fmt: skip
case("parts that others read too", lambda g: [
    conv(g, join(g, a := conv(g), b := conv(g, outputs=5)), 4, 13), conv(g, a), g("GlobalAveragePool", b),
])  # fmt: skip
case("depthwise parts", lambda g: conv(g, join(g, conv(g, conv(g), group=8), conv(g, outputs=3)), 4, 11))
case("depthwise of a part", lambda g: conv(g, conv(g, halves(g, conv(g))[1], 4, 4, group=4), 5, 4, 1))
case("groups of a part", lambda g: conv(g, halves(g, conv(g))[0], 6, 4, group=2))
case("a strided convolution of a part", lambda g: g("Conv", halves(g, conv(g))[1], W((3, 4, 3, 3)), strides=[2, 2]))
case("elementwise parts", lambda g: conv(g, join(g, g("Sigmoid", a := conv(g)), g("Mul", a, conv(g))), 4, 16))
case("one channel each", lambda g: join(g, a := conv(g, outputs=1), g("Neg", a), g("Exp", a)))
case("a gate over a part", lambda g: g("Mul", halves(g, a := conv(g))[1], g("Sigmoid", halves(g, a)[0])))
case("a part of a batch of two", lambda g: conv(g, join(g, x := conv(g, (2, 8, 5, 4)), conv(g, x)), 4, 16))
case("a residual of a part", lambda g: g("Add", b := halves(g, conv(g))[1], conv(g, b, 4, 4)))
case("parts of parts", lambda g: conv(g, join(g, join(g, a := conv(g), conv(g, a)), conv(g)), 4, 24))
case("a part under another shape", lambda g: [
    join(g, a := conv(g), conv(g)), g("Reshape", a, ints(1, 8, 63)), g("Transpose", a, perm=[0, 2, 3, 1]),
])  # fmt: skip
case("flat maps side by side", lambda g: g(
    "Sigmoid",
    g("Concat", *(
        g("Reshape", conv(g, (1, 8, size, size)), ints(1, 8, -1)) for size in (5, 3, 2)), axis=2),
))  # fmt: skip
case("softmax of a part", lambda g: g("Softmax", halves(g, conv(g))[1], axis=1))
case("rows of one pixel", lambda g: join(g, g("GlobalAveragePool", conv(g)), g("GlobalMaxPool", conv(g))))
