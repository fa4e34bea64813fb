"""Products of 8-bit integers, and the quantised forms that no rewrite takes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mcpc.ir import Dim, DType, Node, Value, product
from mcpc.ops.linear import convolution_of
from mcpc.ops.quantize import signed_weights

from ..convolution import PackedConvolution
from ..integer_winograd import FORM
from ..iteration import rows_and_columns
from ..kernel import Array, KernelBuilder, unsupported
from ..pairs import COLUMNS, in_steps
from .conv import conv_shape, pixel
from .registry import emits
from .windows import window_shape


@emits("QuantizeLinear", "DequantizeLinear")
def along_axis(b: KernelBuilder) -> None:
    """What :mod:`targets.native.quantized` has left."""
    raise unsupported(b.node, "a computed scale of blocks that do not divide a fixed axis")


def factor(b: KernelBuilder, pointer: str, dtype: DType, zero: Value | None, count: Dim) -> str:
    """The byte_factor at ``pointer``, with a zero point for all or each of ``count`` rows or columns."""
    points, step = "0", 0
    if zero is not None:
        type = b.outer(zero).type
        step = int(type.elements != 1)
        if step and (len(type.dims) != 1 or type.dims[0] != count):
            raise unsupported(b.node, f"a zero point of shape {list(type.dims)}")
        points = b.input(zero, "void")
    return f"(byte_factor){{{pointer}, {int(dtype is DType.int8)}, {points}, {step}}}"


@emits("MatMulInteger")
def matmul(b: KernelBuilder) -> None:
    left, right = (b.outer(value) for value in b.anchor.inputs[:2])
    a, w = left.type.dims, right.type.dims
    if b.region.is_packed:
        packed_matmul(b)
        return
    *batch, rows, depth = (1, *a) if len(a) == 1 else a
    columns = 1 if len(w) == 1 else w[-1]
    batch_a, batch_b = product(batch), product(w[:-2])
    count = product(b.node.output.type.dims) if len(a) == len(w) == 1 else _batch(b, len(a), len(w))
    if batch_a not in (1, count) or batch_b not in (1, count):
        raise unsupported(b.node, "batches that are broadcast")
    b.label = "matmul of integers"
    b.headers.append("quantize.h")
    b.call(
        "matmul_i8",
        *(rows, columns, depth),
        factor(b, b.input(left, "void"), left.dtype, b.anchor.input(2), rows),
        0 if batch_a == 1 else product((rows, depth)),
        factor(b, b.input(right, "void"), right.dtype, b.anchor.input(3), columns),
        0 if batch_b == 1 else product((depth, columns)),
        *(b.output(), "begin", "end"),
    )
    b.units = f"matmul_i8_units({b.size(count)}, {b.size(rows)})"


def packed_matmul(b: KernelBuilder) -> None:
    """The product with weights [K, N]."""
    b.label = "gemm of integers"
    _product(b, product(b.outer(b.anchor.inputs[0]).type.dims[:-1]), _weights(b))


def _product(b: KernelBuilder, rows: Dim, weights: Array) -> None:
    """Of rows that follow one another and weights [K, N], by gemm_i8.h or, where so many pairs of bytes could saturate
    that words are faster, gemm_words.h."""
    depth, columns = weights.shape
    panels = _panels([weights], b.nr)
    lists = _lists(b, panels)
    if lists is None or len(lists[0]) * COLUMNS <= MOST_STEPS * panels[0].size / 4:
        b.call("gemm_i8", rows, columns, depth, *_packed_operands(b, columns, panels, lists))
        b.units = f"gemm_i8_units({b.size(rows)}, {columns}, {depth})"
        return
    b.headers.append("gemm_words.h")
    b.scratch = words_scratch(depth)
    words = word_panels(weights)
    added, addends = _addends(b, 1, columns, len(words) * WORDS_COLUMNS)
    bias = "0" if addends is None else b.constant(addends, "int32_t")
    operands = (_bytes(b), b.constant(words, "int16_t"), bias, b.finish(added), "args")
    b.call("gemm_words", rows, columns, depth, *operands, f"(void *){b.worker_scratch}", "begin", "end")
    b.units = f"gemm_words_units({b.size(rows)})"


#: As in gemm_words.h: rows of a block, and columns of a panel.
WORDS_BLOCK, WORDS_COLUMNS = 48, 16

#: How many more steps of bytes than there are groups of rows take as much time as pairs of 16 bits: on an AVX2 core
#: these multiply 79e9 numbers a second, those 103e9.
MOST_STEPS = 1.3


def words_scratch(depth: int) -> int:
    """Bytes of a worker's scratch for gemm_words.h."""
    return 2 * WORDS_BLOCK * (depth + depth % 2)


def word_panels(weights: Array) -> Array:
    """Weights [K, N] as words.h wants them: int16 [ceil(N / 16), ceil(K / 2), 16, 2]."""
    depth, columns = weights.shape
    wide = np.zeros((depth + depth % 2, -(-columns // WORDS_COLUMNS) * WORDS_COLUMNS), np.int16)
    wide[:depth, :columns] = weights
    panels = wide.reshape(len(wide) // 2, 2, wide.shape[1] // WORDS_COLUMNS, WORDS_COLUMNS)
    return np.ascontiguousarray(panels.transpose(2, 0, 3, 1))


def packed_conv(b: KernelBuilder) -> None:
    """A convolution over one or two axes."""
    weights, convolution = _weights(b), convolution_of(b.anchor)
    window, groups = convolution.window, convolution.groups
    inner = b.anchor.inputs[0]
    assert inner is not None
    size = "x".join(map(str, window.kernel))
    if weights.shape[1] == 1 < groups == len(weights):
        packed, sums = pack_depthwise(weights)
        shape = conv_shape(b, inner, window, groups)
        b.label = f"depthwise {size} of integers"
        b.headers.append("depthwise_i8.h")
        b.scratch = depthwise_scratch(len(weights), window.kernel, window.strides, window.dilations)
        operands = (
            _bytes(b),
            b.byte_weights(packed, "[taps/2][across][C][2]"),
            b.constant(sums, "int32_t"),
            b.finish(),
            "args",
        )
        b.call("depthwise_i8", shape, *operands, f"(void *){b.worker_scratch}", "begin", "end")
        b.units = f"depthwise_i8_units({shape})"
        return
    if b.choice is not None and b.choice.form is FORM:
        filtered_conv(b, conv_shape(b, inner, window, 1), weights)
        return
    b.label = f"conv {size} of integers"
    x = b.outer(inner).type
    form = PackedConvolution.of(b.region, x.dtype)
    if form is not None and form.is_pointwise and pixel(x) == form.in_c:
        _product(b, form.pixels, kernel_matrix(weights)[: form.in_c])
        return
    by_group = join_groups(weights, groups)
    shape = conv_shape(b, inner, window, len(by_group))
    panels = _panels([kernel_matrix(group) for group in by_group], b.nr)
    b.call("conv_bytes", shape, *_packed_operands(b, by_group.shape[1], panels, _lists(b, panels)))
    b.units = f"conv_bytes_units({shape})"


def filtered_conv(b: KernelBuilder, shape: str, weights: Array) -> None:
    """A 3x3 convolution by winograd_i8.h."""
    choice = b.choice
    assert choice is not None
    b.label, b.operations = f"conv {choice.name} of integers", dict(choice.operations)
    b.headers.append("winograd_i8.h")
    b.scratch = FORM.scratch(weights.shape[1], choice.block)
    operands = (_bytes(b), b.constant(FORM.weights(weights), "int16_t"), b.finish(), "args")
    b.call("winograd_i8", shape, choice.block, *operands, f"(void *){b.worker_scratch}", "begin", "end")
    b.units = f"winograd_i8_units({shape}, {choice.block})"


#: Columns that groups are joined for: kernels compute as many at once anyway.
JOINED = 8


def join_groups(weights: Array, groups: int) -> Array:
    """int8 [groups / joined, columns, depth, ...] of a convolution's weights: neighbouring groups of few columns become
    one, with zeros where the columns of one meet the channels of another."""
    columns, (depth, *kernel) = len(weights) // groups, weights.shape[1:]
    joined = max(n for n in range(1, groups + 1) if groups % n == 0 and (n == 1 or n * columns <= JOINED))
    result = np.zeros((groups // joined, joined, columns, joined, depth, *kernel), np.int8)
    split = weights.reshape(groups // joined, joined, columns, depth, *kernel)
    for index in range(joined):
        result[:, index, :, index] = split[:, index]
    return result.reshape(groups // joined, joined * columns, joined * depth, *kernel)


def kernel_matrix(weights: Array) -> Array:
    """[columns, depth, (height,) width] as the matrix of conv_bytes (gemm_i8.h)."""
    (columns, depth), width = weights.shape[:2], weights.shape[-1]
    rows = weights.reshape(columns, depth, -1, width).transpose(2, 3, 1, 0).reshape(-1, width * depth, columns)
    return np.pad(rows, ((0, 0), (0, -width * depth % 4), (0, 0))).reshape(-1, columns)


def _weights(b: KernelBuilder) -> Array:
    weights = signed_weights(b.anchor, [b.region.outer(value) for value in b.anchor.inputs])
    assert weights is not None
    return weights


#: Output pixels of a tile of depthwise_i8.h.
DEPTHWISE_TILE = 8


def depthwise_scratch(channels: int, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> int:
    """Bytes of a worker's scratch for depthwise_i8.h."""
    down, columns = kernel[-1], DEPTHWISE_TILE
    if len(kernel) > 1 and kernel[0] > 1:
        down, columns = kernel[0], (DEPTHWISE_TILE - 1) * strides[1] + (kernel[1] - 1) * dilations[1] + 1
    return -(-channels // 8) * 8 + 8 * (-(-down // 4) * 4) * columns


def pack_depthwise(weights: Array) -> tuple[Array, Array]:
    """int8 [C, 1, (height,) width] as depthwise_i8.h wants it, int8 [pairs, across, ceil8(C), 2], and the sums of the
    channels' weights, int32 [ceil8(C)]."""
    taps = weights.reshape(len(weights), -1, weights.shape[-1])
    if taps.shape[1] == 1:
        taps = taps.transpose(0, 2, 1)
    channels, down, across = taps.shape
    wide = np.zeros((-(-channels // 8) * 8, -(-down // 4) * 4, across), np.int8)
    wide[:channels, :down] = taps
    packed = wide.reshape(len(wide), -1, 2, across).transpose(1, 3, 0, 2)
    return np.ascontiguousarray(packed), wide.sum((1, 2), dtype=np.int32)


def _bytes(b: KernelBuilder) -> str:
    """The left factor as byte_rows of gemm_i8.h."""
    left, zero = b.outer(b.anchor.inputs[0]), b.anchor.input(2)
    point = "0" if zero is None else f"{b.input(zero)}[0]"
    return f"(byte_rows){{{b.input(left, 'void')}, {int(left.dtype is DType.int8)}, {point}}}"


def _panels(matrices: Sequence[Array], nr: int) -> Array:
    """Weights [K, N], one matrix a group, as gemm_i8.h wants them: int8 [groups, ceil(N / nr), ceil(K / 4), nr, 4]."""
    depth, columns = matrices[0].shape
    padded = np.zeros((len(matrices), -(-depth // 4) * 4, -(-columns // nr) * nr), np.int8)
    padded[:, :depth, :columns] = matrices
    return padded.reshape(len(matrices), -1, 4, padded.shape[2] // nr, nr).transpose(0, 3, 1, 4, 2)


def _lists(b: KernelBuilder, panels: Array) -> tuple[Array, Array, Array] | None:
    """The weights of _panels in steps without saturation, where the processor takes such; who shares weights takes them
    as they lie."""
    target = b.built_for
    if not target.saturating_pairs or target.npu.zero_point_bias:
        return None
    return in_steps(panels.reshape(-1, *panels.shape[2:]))


def _packed_operands(
    b: KernelBuilder, columns: int, panels: Array, lists: tuple[Array, Array, Array] | None
) -> tuple[str, ...]:
    """What follows the sizes in a call of gemm_i8.h, for weights of so many columns a group."""
    b.headers.append("gemm_i8.h")
    b.scratch = gemm_scratch(4 * panels.shape[2])
    sums = panels.sum((2, 4), dtype=np.int32).reshape(len(panels), -1)
    packed, *indices = (panels,) if lists is None else lists
    added, addends = _addends(b, len(panels), columns, sums.shape[1])
    weights = (
        b.byte_weights(np.ascontiguousarray(packed), f"[G][N/{b.nr}][K/4][{b.nr}][4]"),
        b.constant(sums, "int32_t"),
        "0" if addends is None else b.constant(addends, "int32_t"),
        *(b.constant(each, "int32_t") for each in indices),
    )
    return (
        _bytes(b),
        f"(byte_weights){{{', '.join(weights)}}}",
        *(b.finish(added), "args", f"(void *){b.worker_scratch}", "begin", "end"),
    )


def _addends(b: KernelBuilder, groups: int, columns: int, width: int) -> tuple[Node | None, Array | None]:
    """The node that adds constant integers to the sums, and these, int32 [groups, width], zero beyond ``columns``."""
    added, bias = _integer_bias(b)
    if bias is None:
        return None, None
    wide = np.zeros((groups, width), np.int32)
    wide[:, :columns] = bias.reshape(groups, columns)
    return added, wide


def _integer_bias(b: KernelBuilder) -> tuple[Node | None, Array | None]:
    """The node that adds constant integers [columns] to the sums, and these."""
    first = b.region.chain[0] if b.region.chain else None
    if first is None or not first.is_op("Add") or first.output.dtype is not DType.int32:
        return None, None
    addend = first.inputs[1 if first.inputs[0] is b.anchor.output else 0]
    data, columns = b.outer(addend).data, _weights(b).shape[0 if b.anchor.is_op("ConvInteger") else 1]
    steps = rows_and_columns(b.node.output.type, b.outer(addend).type)
    is_column = data is not None and data.size == columns and steps is not None and steps[0] == 0
    return (first, data) if is_column else (None, None)


#: As in gemm_i8.h: the most tiles of a block and what they may take, and the bytes of a tile of four columns where
#: they are largest, on AVX2.
BLOCK, BLOCK_BYTES, TILE_BYTES = 8, 512 << 10, 144


def gemm_scratch(depth: int) -> int:
    """Bytes of a worker's scratch for gemm_i8.h, whatever the processor: a block of tiles and a row of zeros."""
    tile = TILE_BYTES * -(-depth // 4)
    return min(BLOCK * tile, max(BLOCK_BYTES, tile)) + depth + 16


def _batch(b: KernelBuilder, left_rank: int, right_rank: int) -> Dim:
    """How many products the output holds."""
    dims = b.node.output.type.dims
    return product(dims[: len(dims) - (left_rank > 1) - (right_rank > 1)])


@emits("ConvInteger")
def conv(b: KernelBuilder) -> None:
    x, w = b.outer(b.anchor.inputs[0]), b.outer(b.anchor.inputs[1])
    if b.region.is_packed:
        packed_conv(b)
        return
    window = convolution_of(b.anchor).window
    shape = window_shape(b, x, [window.padding(axis, size)[0] for axis, size in enumerate(x.type.dims[2:])], False)
    if w.data is None:  # the layout pass puts output channels innermost
        weights = b.input(w, "void")
    else:
        order = (*range(2, w.data.ndim), 1, 0)
        weights = b.constant(np.ascontiguousarray(w.data.transpose(order)), "void")
    b.label = f"conv {'x'.join(map(str, window.kernel))} of integers"
    b.headers.append("quantize.h")
    b.call(
        "conv_i8",
        shape,
        factor(b, b.input(x, "void"), x.dtype, b.anchor.input(2), 1),
        factor(b, weights, w.dtype, b.anchor.input(3), w.type.dims[0]),
        *(b.output(), "begin", "end"),
    )
    b.units = f"window_pixels({shape})"
