"""Depthwise convolutions between pointwise ones, large enough for one kernel to take them together
(targets/native/separable.py); tests/test_separable.py tells that it does."""

from __future__ import annotations

from typing import Any

from ..case import Family
from ..graphs import Graph
from ..graphs import Weight as W

FAMILY = Family("separable")


def relu6(g: Graph, x: str) -> str:
    return str(g("Min", g("Relu", x), W(g.draw(1) * 0 + 6)))


def silu(g: Graph, x: str) -> str:
    return str(g("Mul", x, g("Sigmoid", x)))


def hard_swish(g: Graph, x: str) -> str:
    return str(g("HardSwish", x))


def case(
    name: str, x: tuple[int, int, int, int], expand_c: int, project_c: int, activation: Any = relu6, *,
    is_residual: bool = False, is_scaled: bool = False, kernel: tuple[int, int] = (3, 3), **attrs: Any,
) -> None:  # fmt: skip
    """``expand_c`` or ``project_c`` 0: no product there. ``is_scaled``: the filtered image is pooled, and multiplied by
    what comes of that (squeeze and excitation)."""

    def build(g: Graph) -> str:
        source = value = g("Relu", x)  # to be read as channels-last
        channels = expand_c or x[1]
        if expand_c:
            value = activation(g, g("Conv", value, W((channels, x[1], 1, 1)), W((channels,))))
        filters = W((channels, 1, *kernel))
        value = activation(g, g("Conv", value, filters, W((channels,)), group=channels, **attrs))
        if is_scaled:
            factor = g("Sigmoid", g("Conv", g("GlobalAveragePool", value), W((channels, channels, 1, 1))))
            value = g("Mul", value, factor)
        if project_c:
            value = g("Conv", value, W((project_c, channels, 1, 1)), W((project_c,)))
        return str(g("Add", value, source)) if is_residual else str(value)

    FAMILY.graph(name, build)


SAME, WIDE = [1, 1, 1, 1], [2, 2, 2, 2]

case("expanded and projected, residual", (1, 9, 61, 57), 70, 9, is_residual=True, pads=SAME)
case("expanded and projected, strides 2", (1, 16, 62, 75), 96, 24, silu, strides=[2, 2], pads=SAME)
case("batch of 2, padding at one side", (2, 8, 40, 51), 67, 20, strides=[2, 2], pads=[0, 0, 1, 1])
case("5x5, strides 2", (1, 12, 66, 65), 72, 40, silu, kernel=(5, 5), strides=[2, 2], pads=WIDE)
case("5x5", (1, 8, 64, 64), 64, 13, hard_swish, kernel=(5, 5), pads=WIDE)
case("3x1, dilated", (1, 8, 70, 49), 80, 24, kernel=(3, 1), dilations=[2, 1], pads=[2, 0, 2, 0])
case("projected only", (1, 33, 57, 112), 0, 16, pads=SAME)
case("expanded only", (1, 10, 70, 60), 90, 0, strides=[2, 2], pads=SAME)
case("expanded, filtered and scaled", (1, 8, 66, 64), 96, 24, is_scaled=True, strides=[2, 2], pads=SAME)
