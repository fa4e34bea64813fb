"""A convolution with constant weights as kernels see it."""

from __future__ import annotations

from dataclasses import dataclass

from mcpc.ir import Dim, DType, Node, TensorType, product
from mcpc.ops.linear import convolution_of
from mcpc.ops.window import Window

from .region import Region
from .strided import PLANAR_CHANNELS

#: What conv_few.h has stack for, in floats, and the output pixels of its widest tile on any ISA.
PLANAR_PATCH, PLANAR_TILE = 2048, 8


@dataclass(frozen=True)
class PackedConvolution:
    """A Conv over one or two axes whose weights are packed when the code is made. ``x`` and ``y`` are types of the
    graph's values, ``weight_dtype`` is that of the weights as they are stored. ``reads_planar``: x may be read
    row-major (:func:`reads_planar`)."""

    x: TensorType
    y: TensorType
    window: Window
    groups: int
    group_in: int
    weight_dtype: DType
    reads_planar: bool

    @classmethod
    def of(cls, region: Region, dtype: DType = DType.float32) -> PackedConvolution | None:
        """That of a region, if it is one of activations of ``dtype``; None where it is another operator or form, which
        :mod:`.emit.windows` takes."""
        anchor = region.anchor
        if anchor is None or not anchor.is_op("Conv", "ConvInteger") or region.is_computed(anchor.input(1)):
            return None
        x, weight = region.outer(anchor.inputs[0]), anchor.inputs[1]
        assert x is not None and weight is not None
        if x.dtype is not dtype or len(x.type.dims) not in (3, 4):
            return None
        convolution = convolution_of(anchor)
        group_in = weight.type.dims[1]
        assert isinstance(group_in, int)
        source = weight.producer.inputs[0] if weight.producer in region.expansions and weight.producer else weight
        assert source is not None
        return cls(x.type, region.node.output.type, convolution.window, convolution.groups, group_in, source.dtype,
                   reads_planar(anchor, x.type))  # fmt: skip

    @property
    def is_half(self) -> bool:
        """Whether activations are float16."""
        return self.x.dtype is DType.float16

    @property
    def in_c(self) -> int:
        return self.group_in * self.groups

    @property
    def out_c(self) -> int:
        channels = self.y.dims[1]
        assert isinstance(channels, int)
        return channels

    @property
    def taps(self) -> int:
        count = product(self.window.kernel)
        assert isinstance(count, int)
        return count

    @property
    def pixels(self) -> Dim:
        """Of the result, the batch's together."""
        return product((self.y.dims[0], *self.y.dims[2:]))

    @property
    def is_row_major(self) -> bool:
        """Whether x lies row-major, and that is not channels-last too: one channel, or one pixel."""
        return self.x.layout is None and self.x.dims[1] != 1 and product(self.x.dims[2:]) != 1

    @property
    def is_unit(self) -> bool:
        """Whether windows start at every pixel and have no holes."""
        return all(step == 1 for step in (*self.window.strides, *self.window.dilations))

    @property
    def line(self) -> tuple[int, Dim, Dim] | None:
        """Taps of a window along one axis, the number of lines along it and the results of one; None where windows
        have several taps along another axis, or that is padded."""
        axes = range(len(self.window.kernel))
        along = [axis for axis in axes if self.window.kernel[axis] != 1]
        others = [axis for axis in axes if axis not in along]
        if len(along) != 1 or any(self.window.padding(axis, 1) != (0, 0) for axis in others):
            return None
        [axis] = along
        lines = product((self.y.dims[0], *(self.y.dims[2 + other] for other in others)))
        return int(self.window.kernel[axis]), lines, self.y.dims[2 + axis]

    @property
    def is_pointwise(self) -> bool:
        """Whether every pixel of the result is the product of one of x, in the same place."""
        unpadded = all(self.window.padding(axis, 1) == (0, 0) for axis in range(len(self.window.pads)))
        same_size = self.x.dims[2:] == self.y.dims[2:]
        return self.groups == 1 and self.taps == 1 and same_size and self.is_unit and unpadded

    @property
    def is_row_product(self) -> bool:
        """Whether 1-D windows are runs of memory, so that it is a product whose rows overlap."""
        return (
            len(self.x.dims) == 3
            and self.groups == 1
            and self.x.dims[0] == 1
            and self.window.dilations == (1,)
            and self.window.padding(0, self.x.dims[2]) == (0, 0)
        )

    @property
    def is_depthwise(self) -> bool:
        return self.groups == self.in_c == self.out_c and self.groups > 1


def reads_planar(conv: Node, x: TensorType) -> bool:
    """Whether a convolution reads ``x`` as it is: row-major with few channels, one group, and so small a window that
    what a tile at the image's edge reads fits on the stack (conv_few.h)."""
    convolution = convolution_of(conv)
    channels, window = x.dims[1], convolution.window
    is_image = len(x.dims) == 4 and x.layout is None and x.dtype is DType.float32
    if not is_image or convolution.groups != 1 or not isinstance(channels, int) or channels > PLANAR_CHANNELS:
        return False
    span = (PLANAR_TILE - 1) * window.strides[1] + window.extent(1)
    return channels * window.kernel[0] * span <= PLANAR_PATCH
