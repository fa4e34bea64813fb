"""Reductions and Softmax over dimensions that are neighbours in memory; the layout pass sees to that."""

from __future__ import annotations

from mcpc.ir import Dim, DType, TensorType, product
from mcpc.ops import InferContext
from mcpc.ops.reduce import reduction_axes

from ..ctext import c_type
from ..expression import SUFFIXES
from ..kernel import KernelBuilder, unsupported
from .move import MAX_RANK
from .registry import emits, finds_sizes

KINDS = {
    "ReduceSum": "REDUCE_SUM",
    "ReduceMean": "REDUCE_MEAN",
    "ReduceMax": "REDUCE_MAX",
    "ReduceMin": "REDUCE_MIN",
    "ReduceProd": "REDUCE_PROD",
    "ReduceSumSquare": "REDUCE_SUM_SQUARE",
    "ReduceL1": "REDUCE_L1",
    "ReduceL2": "REDUCE_L2",
    "ReduceLogSum": "REDUCE_LOG_SUM",
    "ReduceLogSumExp": "",
}
FLOATS = (DType.float32, DType.float64)


def collapsed(type: TensorType, axes: list[int]) -> tuple[Dim, Dim, Dim]:
    """(outer, reduced, inner) sizes in memory order; the reduced dimensions are neighbours there."""
    where = [position for position, axis in enumerate(type.order) if axis in axes]
    if not where:
        return type.elements, 1, 1
    assert where == list(range(where[0], where[-1] + 1)), (type, axes)
    sizes = [type.dims[axis] for axis in type.order]
    return product(sizes[: where[0]]), product(sizes[where[0] : where[-1] + 1]), product(sizes[where[-1] + 1 :])


def reduction(b: KernelBuilder) -> tuple[str, str]:
    """The kernel of a Reduce node with the argument that says which it is, and the suffix of its type."""
    op, dtype = b.anchor.op, b.outer(b.anchor.inputs[0]).dtype
    if dtype is DType.bool:  # 0 and 1: the conjunction is a product, also of nothing
        return ("reduce_u8(REDUCE_PROD, " if op == "ReduceMin" else "reduce_u8(REDUCE_MAX, "), "u8"
    if dtype not in SUFFIXES or (op == "ReduceLogSumExp" and dtype not in FLOATS):
        raise unsupported(b.node, f"an operand of type {dtype.name}")
    suffix = SUFFIXES[dtype]
    if op == "ReduceLogSumExp":
        b.headers.append("softmax.h")
        return f"log_sum_exp_{suffix}(", suffix
    return f"reduce_{suffix}({KINDS[op]}, ", suffix


@emits(*KINDS)
def reduce(b: KernelBuilder) -> None:
    b.label = b.anchor.op
    b.headers.append("reduce.h")
    axes = reduction_axes(b.anchor, InferContext())  # the layout is that of constant ones
    if axes is None:
        _reduce_over_data(b)
        return
    x = b.outer(b.anchor.inputs[0])
    outer, count, inner = collapsed(x.type, axes)
    kernel, _ = reduction(b)
    sizes = ", ".join(map(b.size, (outer, count, inner)))
    b.line(f"{kernel}{sizes}, {b.input(x)}, {b.output()}, begin, end);")
    b.units = f"reduce_units({b.size(outer)}, {b.size(inner)})"


def _marked_axes(b: KernelBuilder) -> None:
    """Declare `sizes` and `is_reduced`, what the axes that are data say of every axis."""
    x, axes = b.outer(b.anchor.inputs[0]), b.outer(b.anchor.inputs[1])
    rank = len(x.type.dims)
    if rank > MAX_RANK:
        raise unsupported(b.node, f"axes that are not constant at rank {rank}")
    b.headers.append("reduce_axes.h")
    b.line(
        f"const int64_t sizes[] = {{{', '.join(map(b.size, x.type.dims)) or '1'}}};",
        "int64_t is_reduced[REDUCE_MAX_RANK];",
        f"if (reduce_mark(env, {rank}, {b.size(axes.type.elements)}, {b.input(axes)}, "
        f"{int(not b.anchor.attrs.get('noop_with_empty_axes', 0))}, is_reduced) < 0) return MCP26_STEP_DATA;",
    )


def _reduce_over_data(b: KernelBuilder) -> None:
    """Moves the reduced axes innermost first. One unit."""
    x = b.outer(b.anchor.inputs[0])
    rank = len(x.type.dims)
    _marked_axes(b)
    bits = 8 * x.dtype.itemsize
    moved = b.workspace(x.type.nbytes)
    kernel, _ = reduction(b)
    b.line(
        f"{c_type(x.dtype)} *moved = ({c_type(x.dtype)} *)(void *){moved};",
        "const reduce_order order = reduce_sort(" + f"{rank}, sizes, is_reduced);",
        f"copy_nd_{bits}({max(rank, 1)}, order.sizes, (uint{bits}_t *)moved, order.to, {b.input(x, f'uint{bits}_t')}, "
        "order.from, 0, order.sizes[0]);",
        f"{kernel}order.outer, order.count, 1, moved, {b.output()}, 0, order.outer);",
    )


@finds_sizes(*KINDS)
def reduced_sizes(b: KernelBuilder) -> None:
    x, out = b.outer(b.anchor.inputs[0]), b.node.output.type
    _marked_axes(b)
    if b.anchor.attrs.get("keepdims", 1):
        for axis, size in enumerate(out.dims):
            b.set_size(size, f"is_reduced[{axis}] ? 1 : sizes[{axis}]")
        return
    for position, size in enumerate(out.dims):
        b.set_size(size, f"reduce_kept({len(x.type.dims)}, sizes, is_reduced, {position})")


@emits("Softmax", "LogSoftmax", "Hardmax")
def softmax(b: KernelBuilder) -> None:
    x = b.outer(b.anchor.inputs[0])
    if x.dtype not in FLOATS:
        raise unsupported(b.node, f"an operand of type {x.dtype.name}")
    rank = len(x.type.dims)
    axis = int(b.anchor.attrs.get("axis", -1)) % rank if rank else 0
    outer, count, inner = collapsed(x.type, [axis])
    b.label = b.anchor.op.lower()
    b.headers.append("softmax.h")
    suffix = SUFFIXES[x.dtype]
    if b.anchor.op == "Hardmax":
        b.call(f"hardmax_{suffix}", outer, count, inner, b.input(x), b.output(), "begin", "end")
    else:
        kind = "SOFTMAX" if b.anchor.op == "Softmax" else "SOFTMAX_LOG"
        b.call(f"softmax_{suffix}", kind, outer, count, inner, b.input(x), b.output(), "begin", "end")
    b.units = f"softmax_units({b.size(outer)}, {b.size(inner)})"


@emits("Det")
def determinant(b: KernelBuilder) -> None:
    x = b.outer(b.anchor.inputs[0])
    if x.dtype not in FLOATS:
        raise unsupported(b.node, f"an operand of type {x.dtype.name}")
    b.label = "determinant"
    b.headers.append("determinant.h")
    work = f"({c_type(x.dtype)} *)(void *){b.workspace(x.type.nbytes)}"
    sizes = (x.type.dims[-1], b.input(x), b.output(), work)
    b.call(f"determinant_{SUFFIXES[x.dtype]}", *sizes, "begin", "end")
    b.units = b.size(product(x.type.dims[:-2]))
