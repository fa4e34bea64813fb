"""Matrix products of types that have no tuned kernels."""

from __future__ import annotations

from mcpc.ir import Dim, DType, TensorType, dim, product

from ..expression import SUFFIXES
from ..iteration import steps_of
from ..kernel import KernelBuilder, unsupported

TYPES = (DType.float64, DType.int32, DType.int64, DType.uint32, DType.uint64)


def plain_matmul(b: KernelBuilder) -> None:
    """MatMul of operands of rank 2 or more, whose batches are the result's or one."""
    left, right = (b.outer(value) for value in b.anchor.inputs[:2])
    out = b.node.output
    if left.dtype not in TYPES or b.region.chain:
        raise unsupported(b.node, f"an operand of type {left.dtype.name}")
    *_, rows, depth = left.type.dims
    columns = right.type.dims[-1]
    is_plain = all(value.type.layout is None for value in (left, right, out))
    leading = out.type.dims[:-2]
    batches, heads = (product(leading), 1) if is_plain else (product(leading[:-1]), product(leading[-1:]))

    def steps(type: TensorType) -> str:
        sizes: tuple[Dim, ...]
        if is_plain:
            shared = product(type.dims[:-2]) == 1
            sizes = (0 if shared else dim(type.dims[-2] * type.dims[-1]), 0, type.dims[-1], 1)
        else:
            sizes = steps_of(type)
        return f"(product_steps){{{', '.join(map(b.size, sizes))}}}"

    b.label = "matmul"
    b.headers.append("product.h")
    b.call(
        f"product_{SUFFIXES[left.dtype]}",
        *(heads, rows, columns, depth),
        *(b.input(left), steps(left.type), b.input(right), steps(right.type), b.output(), steps(out.type)),
        *("begin", "end"),
    )
    b.units = f"product_units({b.size(batches)}, {b.size(heads)}, {b.size(rows)})"
