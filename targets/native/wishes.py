"""The layouts in which operators want their operands and leave their results: what the layout pass chooses among."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias

from mcpc import ops
from mcpc.ir import Node, Value, is_static
from mcpc.ops.context import same, type_of
from mcpc.ops.reduce import REDUCTIONS, reduction_axes
from mcpc.ops.shape import permutation

from .convolution import reads_planar
from .region import Region
from .strided import (
    IMAGE,
    PLANAR_CHANNELS,
    SPATIAL,
    Layout,
    channels_last,
    reads_strided,
    transposed_layout,
    weight_layout,
    written_layout,
)
from .views import RESHAPES, reshaped_layout, same_memory


class Choice(Enum):
    """``KEEP``: an operand is read as it lies. ``TIED``: all that says so lies in one layout, row-major or
    channels-last, whichever is chosen for the node; a result that alone says so is free."""

    KEEP = "keep"
    TIED = "tied"


KEEP, TIED = Choice.KEEP, Choice.TIED

Port: TypeAlias = Layout | Choice


class Slower(Enum):
    """Why a node takes longer in one of the layouts that it may be tied in, or with an operand in one of them."""

    MOVE = "its operand is moved"
    SCALAR = "it goes element by element"
    PLANAR = "few channels fill no vector"


@dataclass(frozen=True)
class Wish:
    """One port an input, and that of all outputs. ``row_major`` says what makes the node slower where its tied ports
    lie so, ``operands`` the same of inputs that are kept: (index, whether that is channels-last, why)."""

    inputs: tuple[Port, ...]
    outputs: Port
    row_major: Slower | None = None
    operands: tuple[tuple[int, bool, Slower], ...] = ()

    def settled(self, node: Node, is_channels_last: bool) -> Wish:
        """The wish with the layout that was chosen for the node in place of ``TIED``. An operand that lies in a third
        order, as the view that a Transpose gave it, has the others follow."""
        tied = [value for value, port in zip(node.inputs, self.inputs, strict=True) if port is TIED]
        third = next((v.type.layout for v in tied if v is not None and v.type.layout not in (None, of_value(v))), None)

        def layout(value: Value | None) -> Layout:
            if value is None or value.shape is None:
                return None
            if third is not None:
                return third if len(third) == len(value.shape) else None
            return of_value(value) if is_channels_last else None

        inputs = [layout(v) if port is TIED else port for v, port in zip(node.inputs, self.inputs, strict=True)]
        outputs = layout(node.output) if self.outputs is TIED else self.outputs
        return replace(self, inputs=tuple(inputs), outputs=outputs)


def of_value(value: Value) -> Layout:
    """Channels-last for a tensor of this rank, None where that is row-major."""
    return value.type.with_layout(channels_last(len(value.type.dims))).layout if len(value.type.dims) > 2 else None


def wish(node: Node) -> Wish:
    """What ``node`` wants. Where that depends on how an operand lies, its type says so: to begin with, row-major."""
    if any(value is not None and value.shape is None for value in (*node.inputs, *node.outputs)):
        return Wish(tuple(KEEP for _ in node.inputs), None)  # an unknown rank is declined when the code is made
    region = Region.of(node)
    anchor = region.anchor
    if is_product(region):
        return _product_wish(node)
    if anchor is not None and anchor.is_op(*SPATIAL):
        return _spatial_wish(region, node)
    if anchor is None:
        return _tied(node, _full_operands(node))
    if node is not anchor:
        return _row_major(node)
    if anchor.is_op("Concat", "Slice", "Pad", "Split"):
        return _along_axis_wish(node)
    if anchor.domain == "" and anchor.op in REDUCTIONS:
        return _reduce_wish(node)
    if anchor.is_op("Transpose"):
        return _transpose_wish(node)
    if anchor.is_op(*RESHAPES):
        return _reshape_wish(node)
    if anchor.is_op(*IMAGE):
        return _image_wish(node)
    if anchor.is_op("BatchNormalization", "Softmax", "LogSoftmax"):
        return _tied(node, node.inputs[:1])
    if anchor.is_op("Expand", "Tile", "DepthToSpace", "SpaceToDepth"):  # strided copies
        return Wish(tuple(KEEP for _ in node.inputs), TIED)
    if anchor.is_op("Resize"):
        return _resize_wish(node)
    return _row_major(node)


def is_product(region: Region) -> bool:
    """Whether it reads operands, and writes its result, with steps of their own where their rows stay rows."""
    return region.is_attention or (
        region.anchor is not None and region.anchor.is_op("Attention", "MatMul", "RotaryEmbedding")
    )


def _row_major(node: Node) -> Wish:
    return Wish(tuple(None for _ in node.inputs), None)


def _tied(node: Node, values: Sequence[Value | None]) -> Wish:
    return Wish(tuple(TIED if v is not None and any(v is each for each in values) else KEEP for v in node.inputs), TIED)


def _full_operands(node: Node) -> list[Value | None]:
    """Broadcast operands are read through strides, so only those as large as the result must follow."""
    return [value for value in node.inputs if value is not None and value.shape == node.output.shape]


def _product_wish(node: Node) -> Wish:
    reads = [value is not None and reads_strided(node, value, value.type.layout) for value in node.inputs]
    if not node.is_op("RotaryEmbedding"):
        return Wish(tuple(KEEP if strided else None for strided in reads), written_layout(node))
    x = node.inputs[0]
    chosen = x.type.layout if x is not None and reads[0] else None
    return Wish((chosen, *(None for _ in node.inputs[1:])), chosen)


def _spatial_wish(region: Region, node: Node) -> Wish:
    rank = len(node.output.type.dims)
    wanted = channels_last(rank)
    anchor = region.anchor
    assert anchor is not None
    data = region.outer(anchor.inputs[0])
    inputs: list[Port] = []
    stored = [value for expansion in region.expansions for value in expansion.inputs]
    weights = [region.outer(value) for value in (*anchor.inputs[1:], *stored)]
    for value in node.inputs:
        full = value is not None and len(value.type.dims) == rank
        if value is not None and value is region.outer(anchor.input(1)) and region.is_computed(anchor.input(1)):
            inputs.append(weight_layout(anchor, rank))
        else:
            inputs.append(wanted if full and not any(value is weight for weight in weights) else KEEP)
    read_again = any(region.outer(value) is data for inner in region.chain for value in inner.inputs)
    is_packed = anchor.op == "Conv" and not region.is_computed(anchor.input(1))
    if is_packed and data is not None and not read_again and reads_planar(anchor, data.type):
        index = node.inputs.index(data)
        inputs[index] = KEEP
        return Wish(tuple(inputs), wanted, operands=((index, True, Slower.PLANAR),))
    return Wish(tuple(inputs), wanted)


def _along_axis_wish(node: Node) -> Wish:
    """Every operand of the result's rank shares one layout."""
    rank = len(node.output.type.dims)
    data = [v for v in node.inputs if v is not None and len(v.type.dims) == rank and v.dtype == node.output.dtype]
    return _tied(node, data if node.is_op("Concat") else data[:1])


def _reduce_wish(node: Node) -> Wish:
    """The reduced axes must be neighbours in memory, and what remains in order; else they are moved innermost. Those
    that are not constant need all axes in order."""
    data = node.inputs[0]
    assert data is not None
    axes = reduction_axes(node, ops.InferContext())
    if axes is None:
        return _row_major(node)
    keepdims, behind = bool(node.attrs.get("keepdims", 1)), tuple(KEEP for _ in node.inputs[1:])

    def is_ready(order: tuple[int, ...]) -> bool:
        where = [position for position, axis in enumerate(order) if axis in axes]
        remaining = [axis for axis in order if axis not in axes]
        adjacent = not where or where == list(range(where[0], where[-1] + 1))
        return adjacent and (keepdims or remaining == sorted(remaining))

    rank = len(data.type.dims)
    rows, channels = tuple(range(rank)), channels_last(rank) if rank > 2 else tuple(range(rank))
    if data.type.order in (rows, channels) and is_ready(rows) and is_ready(channels):
        return Wish((TIED, *behind), TIED if keepdims else None)
    innermost = (*(axis for axis in range(rank) if axis not in axes), *axes)
    chosen = next(order for order in (data.type.order, rows, channels, innermost) if is_ready(order))
    return Wish((chosen, *behind), chosen if keepdims else None)


def _transpose_wish(node: Node) -> Wish:
    """Between rows of channels and images it may be a view; any other one is a copy, which writes either layout."""
    data, out = node.inputs[0], node.output
    assert data is not None
    view = transposed_layout(node)
    if view is not None and view != of_value(out):
        return Wish((KEEP,), view)
    perm, last = tuple(permutation(node)), of_value(out)
    is_image = last is not None and tuple(perm.index(axis) for axis in range(len(perm))) == last
    is_rows = last is not None and perm == last
    if is_rows and not (is_image and not _is_of_image(data)):
        return Wish((KEEP,), None, operands=((0, False, Slower.MOVE),))
    if is_image:
        return Wish((KEEP,), TIED, row_major=Slower.MOVE)
    return Wish((KEEP,), TIED)


def _is_of_image(value: Value) -> bool:
    """Whether ``value`` is what an operator on images has made, under another shape or with other numbers. Of a
    Transpose of rank 3, which is its own inverse, this tells which side is the image: that one of both should be
    channels-last is no sum of costs of pairs that a cut can state."""
    while value.producer is not None:
        region = Region.of(value.producer)
        if region.anchor is not None and not region.anchor.is_op(*RESHAPES, "Concat", "Slice", "Pad", "Split"):
            return region.anchor.is_op(*SPATIAL, *IMAGE)
        data = next((each for each in value.producer.inputs if each is not None and not each.is_constant), None)
        if data is None:
            return False
        value = data
    return False


def _reshape_wish(node: Node) -> Wish:
    """Where it leaves channels innermost, or adds and drops axes of size 1 only, the result lies like the operand."""
    x, out = node.inputs[0], node.output
    assert x is not None
    if flattened_weight(node) is not None:
        return Wish(tuple(KEEP for _ in node.inputs), None)
    last, of_out = of_value(x), of_value(out)
    if last is not None and of_out is not None and x.type.layout in (None, last):
        carried = reshaped_layout(x.type.with_layout(last), out.type.dims)
        if carried is not None and same_memory(out.type.with_layout(carried), out.type.with_layout(of_out)):
            return _tied(node, [x])
    return _row_major(node)


def flattened_weight(node: Node) -> Value | None:
    """The weights of the one product that reads an image flattened by ``node``: they can take the order in which the
    image lies, so that flattening it moves nothing."""
    x, out = node.input(0), node.output
    if not node.is_op(*RESHAPES) or x is None or x.shape is None or of_value(x) is None:
        return None
    if out.type.rank != 2 or len(out.users) != 1 or not is_static(x.type.dims[1:]):
        return None
    user = out.users[0]
    anchor = Region.of(user).anchor
    if anchor is None or not anchor.is_op("Gemm", "MatMul") or not same(x.type.dims[0], out.type.dims[0]):
        return None
    left, weight = (Region.of(user).outer(value) for value in anchor.inputs[:2])
    is_left_only = left is out and sum(value is out for value in user.inputs) == 1
    is_matrix = weight is not None and weight.is_constant and weight.type.rank == 2 and len(weight.users) == 1
    return weight if is_left_only and is_matrix and not anchor.attrs.get("transA", 0) else None


def _image_wish(node: Node) -> Wish:
    """The first input and the results channels-last, what describes them row-major."""
    wanted = channels_last(len(node.output.type.dims))
    return Wish((wanted, *(None for _ in node.inputs[1:])), wanted)


def _resize_wish(node: Node) -> Wish:
    """Channels-last where an image's rows and columns change, so that neighbours in memory share their weights; few
    channels are no run worth it."""
    x, y = type_of(node, 0), node.output.type
    if len(y.dims) < 3 or not all(map(same, x.dims[:2], y.dims[:2])):
        return Wish((None, *(KEEP for _ in node.inputs[1:])), None)
    few = isinstance(x.dims[1], int) and x.dims[1] <= PLANAR_CHANNELS
    return Wish((TIED, *(KEEP for _ in node.inputs[1:])), TIED, row_major=None if few else Slower.SCALAR)
