"""Conv, Gemm and MatMul: products with packed weights or of two activations."""

from __future__ import annotations

import numpy as np

from mcpc.ir import Dim, DType, TensorType, Value, dim, product
from mcpc.kernel_class import KernelClass
from mcpc.ops.linear import convolution_of
from mcpc.ops.window import Window

from ..iteration import rows_and_columns, steps_of
from ..kernel import Array, KernelBuilder, unsupported
from ..layout import reads_planar
from . import quantize
from .product import plain_matmul
from .quantize import Stored
from .registry import emits

#: As in matmul.h.
MATMUL_COLUMNS = 64

#: Rows of a product up to which reading the weights takes longer than multiplying (TILE_LOW of tile.h).
FEW_ROWS = 4

#: Of one channel, taps in a row of a kernel that are too few for conv.h to read them as one run of memory.
SHORT_RUN = 16


def padded(columns: int, nr: int) -> int:
    """The columns of packed weights, those that fill up the last panel included."""
    return -(-columns // nr) * nr


def pack_panels(matrix: Array, nr: int) -> Array:
    """[K, N] -> [ceil(N / nr)][K][nr], zero-padded (tile.h)."""
    depth, columns = matrix.shape
    panels = -(-columns // nr)
    padded = np.zeros((depth, panels * nr), np.float32)
    padded[:, :columns] = matrix
    return np.ascontiguousarray(padded.reshape(depth, panels, nr).transpose(1, 0, 2))


def weights(b: KernelBuilder, value: Value | None) -> Array:
    return quantize.stored(b, value).floats


def optional_weights(b: KernelBuilder, value: Value | None) -> Array | None:
    return None if value is None else weights(b, value)


def expect_float32(b: KernelBuilder) -> None:
    anchor = b.anchor
    for value in anchor.inputs:
        if value is not None and value.dtype is not DType.float32:
            raise unsupported(b.node, f"an operand of type {value.dtype.name}")


def conv_shape(b: KernelBuilder, x: Value, window: Window, groups: int) -> str:
    """The conv_shape literal of conv.h; 1-D is height 1."""
    x_dims = b.outer(x).type.dims
    y_dims = b.node.output.type.dims
    if len(x_dims) not in (3, 4):
        raise unsupported(b.node, f"a {len(x_dims) - 2}-dimensional window")
    flat: list[Dim] = [1] if len(x_dims) == 3 else []
    in_hw, out_hw = [*flat, *x_dims[2:]], [*flat, *y_dims[2:]]
    kernel, stride, dilation = ([*flat, *sizes] for sizes in (window.kernel, window.strides, window.dilations))
    begins = [window.padding(axis, size)[0] for axis, size in enumerate(x_dims[2:])]
    pads = [*([0] if flat else []), *begins]
    fields: dict[str, Dim] = {
        "batch": x_dims[0], "in_h": in_hw[0], "in_w": in_hw[1], "in_c": x_dims[1], "x_pixel": x_dims[1],
        "out_h": out_hw[0], "out_w": out_hw[1], "out_c": y_dims[1], "y_pixel": y_dims[1],
        "kernel_h": kernel[0], "kernel_w": kernel[1], "stride_h": stride[0], "stride_w": stride[1],
        "dilation_h": dilation[0], "dilation_w": dilation[1], "pad_top": pads[0], "pad_left": pads[1],
        "groups": groups,
    }  # fmt: skip
    text = ", ".join(f".{name} = {b.size(value)}" for name, value in fields.items())
    return f"(conv_shape){{{text}}}"


def conv(b: KernelBuilder) -> None:
    """A Conv over one or two axes with constant weights."""
    expect_float32(b)
    anchor = b.anchor
    x, w = anchor.inputs[0], quantize.stored(b, anchor.input(1))
    assert x is not None
    bias = optional_weights(b, anchor.input(2))
    x_type, y_type = b.outer(x).type, b.node.output.type
    pixels = product((y_type.dims[0], *y_type.dims[2:]))
    convolution = convolution_of(anchor)
    window, groups = convolution.window, convolution.groups
    out_c, group_in = w.data.shape[:2]
    in_c = group_in * groups
    kernel = "x".join(map(str, window.kernel))
    taps = w.map(lambda a: a.reshape(out_c, group_in, -1))
    epilogue = b.epilogue_with(bias)
    is_thin = in_c == 1 and taps.data.shape[2] > 1 and window.kernel[-1] <= SHORT_RUN and reads_planar(anchor, x_type)
    is_planar = is_thin or (x_type.layout is None and not is_channels_last(x_type))
    pointwise = groups == 1 and taps.data.shape[2] == 1 and x_type.dims[2:] == y_type.dims[2:] and is_dense(window)
    if is_planar:
        b.label = f"conv planar {kernel}"
        b.headers.append("conv_few.h")
        b.operations = {KernelClass.CONV_PLANAR: dim(2 * pixels * padded(out_c, b.nr) * group_in * taps.data.shape[2])}
        shape = conv_shape(b, x, window, 1)
        packed = pack_panels(taps.floats.reshape(out_c, -1).T, b.nr)
        b.call("conv_nchw_in_f32", shape, b.input(x), b.constant(packed), b.output(), epilogue, "args", "begin", "end")
        b.units = f"conv_few_f32_units({shape})"
    elif pointwise:
        gemm(b, pixels, out_c, in_c, b.input(x), taps.map(lambda a: a[:, :, 0].T), epilogue, "conv 1x1")
    elif is_row_gemm(x_type, window, groups):
        matrix = taps.map(lambda a: a.transpose(2, 1, 0).reshape(-1, out_c))
        gemm(
            b,
            y_type.dims[2],
            out_c,
            len(matrix.data),
            b.input(x),
            matrix,
            epilogue,
            f"conv row {kernel}",
            in_c * window.strides[0],
        )
    elif groups == in_c == out_c and groups > 1:
        b.label = f"depthwise {kernel}"
        b.headers.append("depthwise.h")
        shape = conv_shape(b, x, window, groups)
        packed = np.zeros((taps.data.shape[2], -(-out_c // 8) * 8), np.float32)
        packed[:, :out_c] = taps.floats[:, 0].T
        b.call("depthwise_f32", shape, b.input(x), b.constant(packed), b.output(), epilogue, "args", "begin", "end")
        b.units = f"depthwise_f32_units({shape})"
    else:
        b.label = f"conv {kernel}"
        b.headers.append("conv.h")
        shape = conv_shape(b, x, window, groups)
        channels = out_c // groups
        depth = group_in * taps.data.shape[2]
        b.operations = {KernelClass.CONV: dim(2 * pixels * groups * padded(channels, b.nr) * depth)}
        matrices = [
            taps.map(lambda a, g=g: a[g * channels : (g + 1) * channels].transpose(2, 1, 0).reshape(-1, channels))  # type: ignore[misc]
            for g in range(groups)
        ]
        if not w.is_float:
            quantize.conv(b, shape, b.input(x), group_in, matrices, epilogue)
            return
        packed = np.stack([pack_panels(matrix.data, b.nr) for matrix in matrices])
        zeros = b.constant(np.zeros(group_in, np.float32))
        arguments = (shape, b.input(x), b.constant(packed), zeros, b.output(), epilogue, "args", "begin", "end")
        b.call("conv_f32", *arguments)
        b.units = f"conv_f32_units({shape})"


def is_channels_last(type: TensorType) -> bool:
    """Whether row-major is channels-last too: one channel, or one pixel."""
    return type.dims[1] == 1 or product(type.dims[2:]) == 1


def is_dense(window: Window) -> bool:
    """Whether a window of one tap reads every pixel where it lies."""
    return all(s == 1 for s in window.strides) and all(
        window.padding(axis, 1) == (0, 0) for axis in range(len(window.pads))
    )


def is_row_gemm(x: TensorType, window: Window, groups: int) -> bool:
    """Whether a 1-D convolution's windows are runs of memory, so that it is a product whose rows overlap."""
    return (
        len(x.dims) == 3
        and groups == 1
        and x.dims[0] == 1
        and window.dilations == (1,)
        and window.padding(0, x.dims[2]) == (0, 0)
    )


def gemm(
    b: KernelBuilder,
    rows: Dim,
    columns: int,
    depth: int,
    a: str,
    matrix: Stored,
    epilogue: str,
    label: str,
    row_step: Dim | None = None,
) -> None:
    """Rows of A are ``row_step`` elements apart (None: ``depth``)."""
    row_step = depth if row_step is None else row_step
    b.label = label
    few = isinstance(rows, int) and rows <= FEW_ROWS
    b.operations = {KernelClass.GEMV if few else KernelClass.GEMM: dim(2 * rows * padded(columns, b.nr) * depth)}
    if not matrix.is_float:
        quantize.gemm(b, rows, matrix, a, row_step, epilogue)
        return
    b.headers.append("gemm.h")
    packed = b.constant(pack_panels(matrix.data, b.nr))
    sizes = (rows, columns, depth)
    b.call(
        "gemm_f32",
        *sizes,
        a,
        row_step,
        packed,
        b.output(),
        columns,
        epilogue,
        "args",
        "begin",
        "end",
    )
    b.units = f"gemm_f32_units({', '.join(map(b.size, sizes))})"


@emits("Gemm")
def gemm_node(b: KernelBuilder) -> None:
    """Y = alpha A' B' + beta C; the lowering has turned A' into A."""
    expect_float32(b)
    anchor = b.anchor
    a, w, c = anchor.inputs[0], anchor.inputs[1], anchor.input(2)
    assert a is not None and w is not None
    alpha, beta = float(anchor.attrs.get("alpha", 1.0)), float(anchor.attrs.get("beta", 1.0))
    matrix = quantize.stored(b, w).times(alpha)
    matrix = matrix.map(np.transpose) if anchor.attrs.get("transB", 0) else matrix
    depth, columns = matrix.data.shape
    outer = b.region.outer(c)
    bias = None
    if outer is not None:
        steps = rows_and_columns(b.node.output.type, outer.type)
        if outer.data is None or steps is None or steps[0] != 0:
            raise unsupported(b.node, "a C that is not one constant per column")
        bias = np.broadcast_to(np.asarray(outer.data, np.float32) * np.float32(beta), (1, columns)).reshape(-1)
    rows = b.node.output.type.dims[0]
    gemm(b, rows, columns, depth, b.input(a), matrix, b.epilogue_with(bias), "gemm")


@emits("MatMul")
def matmul(b: KernelBuilder) -> None:
    if b.outer(b.anchor.inputs[0]).dtype is not DType.float32:
        plain_matmul(b)
        return
    expect_float32(b)
    anchor = b.anchor
    left, right = anchor.inputs
    assert left is not None and right is not None
    a_type, b_type = b.outer(left).type, b.outer(right).type
    *batch, rows, depth = a_type.dims
    columns = b_type.dims[-1]
    if not b.region.is_computed(right) and len(b_type.dims) == 2:
        matrix = quantize.stored(b, right)
        depth, columns = matrix.data.shape
        gemm(b, product((*batch, rows)), columns, depth, b.input(left), matrix, b.epilogue(), "gemm")
        return
    if any(type.layout is not None for type in (a_type, b_type, b.node.output.type)):
        strided_matmul(b, a_type, b_type)
        return
    b.label = "matmul"
    b.headers.append("gemm.h")
    count = product(b.node.output.type.dims[:-2])
    a_step: Dim = 0 if product(batch) == 1 else rows * depth
    b_step: Dim = 0 if product(b_type.dims[:-2]) == 1 else depth * columns
    sizes = (count, rows, columns, depth)
    b.call(
        "matmul_f32",
        *sizes,
        *(b.input(left), depth, a_step),
        *(b.input(right), columns, b_step),
        *(b.output(), columns, rows * columns),
        *(b.epilogue(), "args", "begin", "end"),
    )
    b.units = f"matmul_f32_units({', '.join(map(b.size, sizes))})"


def strided_matmul(b: KernelBuilder, left: TensorType, right: TensorType) -> None:
    """Operands, or the result, are stored in another order of dimensions than that of the shape."""
    out = b.node.output.type
    *_, rows, depth = left.dims
    columns = right.dims[-1]
    outer, inner = product(out.dims[:-3]), product(out.dims[-3:-2])

    def steps(type: TensorType) -> str:
        batch, head, row, column = steps_of(type)
        return f"(matmul_steps){{{', '.join(map(b.size, (batch, head, row, column)))}}}"

    b.label = "matmul strided"
    b.headers.append("matmul.h")
    scratch = "0"
    if right.strides[-1] != 1:
        assert isinstance(depth, int)
        b.scratch, scratch = 4 * MATMUL_COLUMNS * depth, b.worker_scratch
    b.call(
        "matmul_strided_f32",
        *(outer, inner, rows, columns, depth),
        *(b.input(b.anchor.inputs[0]), steps(left)),
        *(b.input(b.anchor.inputs[1]), steps(right)),
        *(b.output(), steps(out)),
        *(b.epilogue(), "args", scratch, "begin", "end"),
    )
    b.units = f"matmul_strided_units({', '.join(map(b.size, (outer, inner, rows, columns)))})"
