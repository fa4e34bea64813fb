"""Sliding windows: what convolutions and pools share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mcpc.ir import Dim, Node, dim
from mcpc.ops.context import ceil_div, choice, fail, floor_div, larger, smaller


@dataclass(frozen=True)
class Window:
    """Sizes per spatial axis, outermost first, ONNX's defaults applied. ``pads`` holds (begin, end) pairs as the
    attribute gives them, zeros where ``auto_pad`` decides: :meth:`padding` gives what holds for an input."""

    kernel: tuple[Dim, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    auto_pad: str = "NOTSET"
    ceil_mode: bool = False

    def extent(self, axis: int) -> Dim:
        """The span of the dilated kernel."""
        return dim(self.dilations[axis] * (self.kernel[axis] - 1) + 1)

    def padding(self, axis: int, size: Dim) -> tuple[Dim, Dim]:
        """Padding before and behind ``axis`` of an input of this ``size``."""
        if self.auto_pad not in ("SAME_UPPER", "SAME_LOWER"):
            return self.pads[axis]
        covered = (ceil_div(size, self.strides[axis]) - 1) * self.strides[axis] + self.extent(axis)
        total = larger(0, dim(covered - size))
        small = floor_div(total, 2)
        large = dim(total - small)
        return (small, large) if self.auto_pad == "SAME_UPPER" else (large, small)

    def length(self, axis: int, size: Dim) -> Dim:
        """The number of windows along ``axis``. Under ``ceil_mode`` the last may hang over the end, but does not
        start in the end's padding."""
        stride = self.strides[axis]
        if self.auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            return ceil_div(size, stride)
        begin, end = self.pads[axis]
        room = dim(size + begin + end - self.extent(axis))
        if not self.ceil_mode:
            return dim(floor_div(room, stride) + 1)
        return smaller(dim(ceil_div(room, stride) + 1), ceil_div(dim(size + begin), stride))

    def output(self, node: Node, sizes: Sequence[Dim]) -> list[Dim]:
        """Sizes of the output's spatial axes; E104 where the input is smaller than the window."""
        if len(sizes) != len(self.kernel):
            fail(node, f"the kernel has {len(self.kernel)} axes, the input has {len(sizes)}")
        result = [self.length(axis, size) for axis, size in enumerate(sizes)]
        if any(isinstance(length, int) and length < 0 for length in result):
            fail(node, f"a window of {self.kernel} does not fit into {tuple(sizes)}")
        return [larger(0, length) if isinstance(length, int) else length for length in result]


def window_of(node: Node, kernel: Sequence[Dim]) -> Window:
    """The window that the attributes strides, dilations, pads, auto_pad and ceil_mode describe."""
    rank = len(kernel)

    def per_axis(name: str, default: int, count: int, least: int | None) -> list[int]:
        values = list(node.attrs.get(name) or [default] * count)
        if len(values) != count or any(
            not isinstance(v, int) or (least is not None and v < least) or abs(v) > 2**31 for v in values
        ):
            kind = "numbers" if least is None else "positive numbers"
            fail(node, f"{name} is {values}, {count} {kind} are needed", "E102")
        return values

    if any(isinstance(size, int) and not 0 < size < 2**31 for size in kernel):
        fail(node, f"kernel_shape is {list(kernel)}", "E102")
    auto_pad = choice(node, "auto_pad", "NOTSET", ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"))
    pads = per_axis("pads", 0, 2 * rank, None)
    if auto_pad != "NOTSET":
        pads = [0] * (2 * rank)
    return Window(
        tuple(kernel),
        tuple(per_axis("strides", 1, rank, 1)),
        tuple(per_axis("dilations", 1, rank, 1)),
        tuple(zip(pads[:rank], pads[rank:], strict=True)),
        auto_pad,
        bool(node.attrs.get("ceil_mode", 0)),
    )
