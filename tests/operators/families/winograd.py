"""Convolutions by each Winograd kernel, whether or not it would be chosen: a family a kernel."""

from __future__ import annotations

from mcpc.targets.native.winograd import FORMS
from mcpc.targets.native.winograd_line import LINE_FORMS

from ..case import Family
from ..graphs import Graph
from ..graphs import Weight as W


def family(kernel: str) -> Family:
    result = Family(kernel, kernel=kernel)
    op = result.op
    op("no padding", "Conv", (1, 16, 9, 10), W((32, 16, 3, 3)))
    op("padded, bias, batch of 2", "Conv", (2, 8, 7, 6), W((10, 8, 3, 3)), W((10,)), pads=[1, 1, 1, 1])
    op("one output pixel", "Conv", (2, 8, 3, 3), W((5, 8, 3, 3)))
    op("one column", "Conv", (1, 12, 14, 1), W((40, 12, 3, 3)), pads=[0, 1, 0, 1])
    op("padding beyond the window", "Conv", (1, 5, 3, 4), W((4, 5, 3, 3)), pads=[4, 5, 6, 7])
    op("no padding but at one edge", "Conv", (1, 9, 6, 8), W((17, 9, 3, 3)), pads=[0, 0, 0, 2])
    op("SAME_LOWER", "Conv", (1, 8, 7, 8), W((8, 8, 3, 3)), auto_pad="SAME_LOWER")
    op("several blocks, groups of odd width", "Conv", (2, 33, 26, 31), W((75, 33, 3, 3)), pads=[1, 1, 1, 1])

    def residual(graph: Graph) -> str:
        x = graph.input((1, 24, 10, 11))
        first = graph("Conv", x, W((24, 24, 3, 3)), W((24,)), pads=[1, 1, 1, 1])
        active = graph("Mul", first, graph("Sigmoid", first))
        second = graph("Conv", active, W((24, 24, 3, 3)), pads=[1, 1, 1, 1])
        sum: str = graph("Relu", graph("Add", second, x))
        return sum

    result.graph("a residual block", residual)
    return result


def line_family(kernel: str, taps: int) -> Family:
    result = Family(kernel, kernel=kernel)
    op = result.op
    op("one axis, padded, bias, batch of 2", "Conv", (2, 8, 26), W((10, 8, taps)), W((10,)), pads=[1, 2])
    op("one axis, channels of no whole vector", "Conv", (1, 33, 19), W((75, 33, taps)))
    op("down one column", "Conv", (1, 16, 21, 1), W((32, 16, taps, 1)))
    op("down several columns, batch of 2", "Conv", (2, 12, 13, 5), W((20, 12, taps, 1)), pads=[taps - 1, 0, 1, 0])
    op("across, several rows", "Conv", (2, 9, 3, 17), W((17, 9, 1, taps)), pads=[0, taps // 2, 0, taps // 2])
    op("one output pixel", "Conv", (2, 8, taps), W((5, 8, taps)))
    op("padding beyond the window", "Conv", (1, 5, 1, 2), W((4, 5, 1, taps)), pads=[0, taps + 1, 0, taps + 2])
    op("the other axis padded: no line", "Conv", (1, 8, 4, 9), W((8, 8, 1, taps)), pads=[1, 1, 0, 1])

    def residual(graph: Graph) -> str:
        x = graph.input((1, 24, 40))
        same = [taps // 2] * 2
        first = graph("Conv", x, W((24, 24, taps)), W((24,)), pads=same)
        active = graph("Mul", first, graph("Sigmoid", first))
        second = graph("Conv", active, W((24, 24, taps)), pads=same)
        sum: str = graph("Relu", graph("Add", second, x))
        return sum

    result.graph("a residual block", residual)
    return result


WINOGRAD = (
    *(family(form.name) for form in FORMS),
    *(line_family(form.name, form.taps) for form in LINE_FORMS),
)
