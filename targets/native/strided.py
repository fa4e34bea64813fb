"""Which operands kernels read, and results they write, in which orders of dimensions: so that Transposes of heads, of
keys, of matrices and of images are views of memory, not copies."""

from __future__ import annotations

from mcpc.ir import Node, Value
from mcpc.ops.shape import permutation

from .region import Region

Layout = tuple[int, ...] | None

#: Operators whose kernels work on channels-last images.
SPATIAL = (
    "Conv", "ConvInteger", "ConvTranspose", "MaxPool", "AveragePool", "LpPool", "GlobalAveragePool", "GlobalMaxPool",
    "GlobalLpPool",
)  # fmt: skip

#: Operators on channels-last images whose other inputs are row-major.
IMAGE = ("LRN", "InstanceNormalization", "GroupNormalization", "GridSample", "RoiAlign", "MaxRoiPool", "DeformConv")


def channels_last(rank: int) -> tuple[int, ...]:
    """(0, 2, 3, 1) for rank 4: N, spatial dimensions, C."""
    return (0, *range(2, rank), 1)


def weight_layout(anchor: Node, rank: int) -> Layout:
    """The order in which kernels read computed weights: output channels innermost (conv_nd.h)."""
    return (*range(2, rank), 0, 1) if anchor.is_op("ConvTranspose") else (*range(2, rank), 1, 0)


#: Channels below which a convolution reads a row-major (planar) input as it is instead of having it transposed.
PLANAR_CHANNELS = 4

#: Batch, heads, rows and columns.
MAX_RANK = 4

#: The rows of a right operand that are packed in a worker's scratch where the operand is stored transposed.
MAX_DEPTH = 1024


def reads_strided(node: Node, value: Value, layout: Layout) -> bool:
    """Whether ``node`` could read ``value``, were it stored in this order, without a copy."""
    region = Region.of(node)
    rows = layout is None or layout[-1] == len(layout) - 1  # what lies in a row are neighbours in memory
    if sum(value is each for each in node.inputs) != 1:
        return False
    if node.is_op("Attention"):
        return rows and any(value is each for each in (*node.inputs[:3], *node.inputs[4:6]))
    if node.is_op("RotaryEmbedding"):  # its result lies as its operand does
        return rows and value is node.inputs[0] and len(value.type.dims) == MAX_RANK and _all_read(node.output, layout)
    if region.anchor is not None and region.anchor.is_op("MatMul"):
        return _multiplies_strided(region, value, layout)
    if region.anchor is not None and region.anchor.is_op(*SPATIAL):
        reads = value is region.outer(region.anchor.inputs[0]) or value.shape == node.output.shape
        is_image = reads and layout == channels_last(len(value.type.dims))
        channels = value.type.dims[1] if is_image else 0
        return is_image and not (isinstance(channels, int) and channels <= PLANAR_CHANNELS)
    if region.anchor is None and not region.is_attention:
        return _passes_on(node, value, layout)
    if not region.is_attention or node.body is None:
        return False
    first, *_, last = [inner for inner in node.body.nodes if inner.is_op("MatMul")]
    if value is region.outer(_source(first.inputs[1])):
        return True
    return rows and any(value is region.outer(_source(each)) for each in (first.inputs[0], last.inputs[1]))


def _passes_on(node: Node, value: Value, layout: Layout) -> bool:
    """Whether an elementwise loop would make a result that is stored like ``value``, for readers that take it so."""
    out = node.output
    others = [each for each in node.inputs if each is not None and each is not value and each.shape == out.shape]
    is_alike = all(each.type.layout == layout for each in others)
    return is_alike and value.shape == out.shape and _all_read(out, layout)


def _all_read(value: Value, layout: Layout) -> bool:
    return bool(value.users) and all(reads_strided(user, value, layout) for user in value.users)


def _multiplies_strided(region: Region, value: Value, layout: Layout) -> bool:
    """Whether ``value`` is an operand of a product of two activations that matmul.h reads."""
    assert region.anchor is not None
    left, right = (region.outer(each) for each in region.anchor.inputs)
    rank, depth = region.node.output.type.rank, value.type.dims[-2:-1]
    if not region.is_computed(region.anchor.inputs[1]) or rank is None or rank > MAX_RANK:
        return False
    if layout is None or layout[-1] == len(layout) - 1:
        return value is left or value is right
    is_small = isinstance(depth[0], int) and depth[0] <= MAX_DEPTH
    return value is right and layout[-1] == len(layout) - 2 and is_small


def _source(value: Value | None) -> Value | None:
    """What a body's value is made of by factors: the value from outside."""
    while value is not None and value.producer is not None:
        value = next(each for each in value.producer.inputs if each is not None and not each.is_constant)
    return value


def transposed_layout(node: Node) -> Layout:
    """Where a Transpose's result should lie: as a view of the input's memory if all its readers take it so."""
    data, out = node.inputs[0], node.output
    assert data is not None
    perm = permutation(node)
    view = tuple(perm.index(axis) for axis in data.type.order)
    return view if _all_read(out, view) else None


def written_layout(node: Node) -> Layout:
    """Where the result of a node that may write with any steps between rows should lie: so that the Transpose behind it
    is a view."""
    if sum(output is not None for output in node.outputs) > 1 or len(node.output.type.dims) > MAX_RANK:
        return None
    region = Region.of(node)
    anchor = region.anchor
    is_product = anchor is not None and anchor.is_op("MatMul")
    if anchor is not None and is_product and (len(node.inputs) > 2 or not region.is_computed(anchor.inputs[1])):
        return None  # operands that are fused behind a product are read by row, in the order of memory
    perms = {tuple(permutation(user)) if user.is_op("Transpose") else () for user in node.output.users}
    layout = perms.pop() if len(perms) == 1 else ()
    return layout if layout and layout[-1] == len(layout) - 1 else None
