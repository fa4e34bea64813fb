"""Gemm and MatMul: products with packed weights or of two activations."""

from __future__ import annotations

import numpy as np

from mcpc.ir import Dim, DType, TensorType, Value, dim, product
from mcpc.kernel_class import KernelClass

from ..iteration import rows_and_columns, steps_of
from ..kernel import Array, KernelBuilder, unsupported
from . import half, quantize
from .product import plain_matmul
from .quantize import Stored
from .registry import emits

#: As in matmul.h.
MATMUL_COLUMNS = 64

#: Rows of a product up to which reading the weights takes longer than multiplying (TILE_LOW of tile.h).
FEW_ROWS = 4


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
    """Rows of A are ``row_step`` elements apart (None: ``depth``), those of the result as its type says."""
    row_step = depth if row_step is None else row_step
    to_step = columns if b.node.output.type.pitch is None else b.node.output.type.pitch
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
        to_step,
        epilogue,
        "args",
        "begin",
        "end",
    )
    b.units = f"gemm_f32_units({', '.join(map(b.size, sizes))})"


@emits("Gemm")
def gemm_node(b: KernelBuilder) -> None:
    """Y = alpha A' B' + beta C; the lowering has turned A' into A."""
    if b.anchor.output.dtype is DType.float16:
        half.gemm_node(b)
        return
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
    if b.anchor.output.dtype is DType.float16:
        half.gemm_node(b)
        return
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
