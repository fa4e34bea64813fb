"""Pools: windows (Max, Average, Lp) and global ones."""

from __future__ import annotations

from collections.abc import Callable

from mcpc.ir import OPSET, Dim, DType, Node, TensorType, dim
from mcpc.ops.context import FLOATS, InferContext, attribute, expect, fail, integers, show, type_of, unify, vector
from mcpc.ops.registry import ACCUMULATED, EXACT, Cost, OpDef, moves, register, traffic
from mcpc.ops.window import Window, window_of


def pool_window(node: Node) -> Window:
    """The window of a MaxPool, AveragePool or LpPool."""
    kernel = integers(node, "kernel_shape")
    if not kernel:
        fail(node, "attribute kernel_shape is missing", "E102")
    return window_of(node, kernel)


def _pooled(node: Node, dtypes: frozenset[DType]) -> TensorType:
    x = expect(node, 0, dtypes)
    window = pool_window(node)
    if x.shape is None:
        return TensorType(x.dtype, None)
    if len(x.shape) != len(window.kernel) + 2:
        fail(node, f"kernel_shape {list(window.kernel)} does not fit {show(x)}")
    return TensorType(x.dtype, (*x.dims[:2], *window.output(node, x.dims[2:])))


def infer_pool(node: Node, context: InferContext) -> list[TensorType]:
    return [_pooled(node, FLOATS)]


def infer_max_pool(node: Node, context: InferContext) -> list[TensorType]:
    pooled = _pooled(node, FLOATS | {DType.int8, DType.uint8})
    if attribute(node, "storage_order", 0) not in (0, 1):
        fail(node, f"storage_order is {node.attrs['storage_order']}", "E102")
    return [pooled, TensorType(DType.int64, pooled.shape)]


def cost_pool(node: Node) -> Cost:
    work = 1
    for size in pool_window(node).kernel:
        work *= size
    return Cost(dim(node.output.type.elements * work), traffic(node))


def norm_order(node: Node) -> int:
    """The p of a LpPool or GlobalLpPool."""
    order = attribute(node, "p", 2)
    if order < 1:
        fail(node, f"p is {order}", "E102")
    return order


def infer_lp_pool(node: Node, context: InferContext) -> list[TensorType]:
    norm_order(node)
    return [_pooled(node, FLOATS)]


def unpooled_sizes(node: Node) -> list[Dim]:
    """Spatial sizes of the tensor whose elements a MaxUnpool's indices count."""
    window = pool_window(node)
    x = type_of(node, 0)
    if len(x.dims) != len(window.kernel) + 2:
        fail(node, f"kernel_shape {list(window.kernel)} does not fit {show(x)}")
    sizes = [
        dim((size - 1) * window.strides[axis] + window.extent(axis) - sum(window.pads[axis]))
        for axis, size in enumerate(x.dims[2:])
    ]
    if any(isinstance(size, int) and size < 0 for size in sizes):
        fail(node, f"nothing is left of {sizes} elements between the pads")
    return sizes


def infer_max_unpool(node: Node, context: InferContext) -> list[TensorType]:
    x, indices = expect(node, 0, FLOATS), expect(node, 1, {DType.int64})
    if x.shape is None:
        return [TensorType(x.dtype, None)]
    if indices.shape is not None:
        if len(indices.shape) != len(x.shape):
            fail(node, f"ranks of data and indices differ: {show(x)} and {show(indices)}")
        for a, b in zip(x.shape, indices.shape, strict=True):
            unify(node, a, b, "sizes of data and indices")
    inner = [*x.shape[:2], *unpooled_sizes(node)]
    if node.input(2) is None:
        return [TensorType(x.dtype, tuple(inner))]
    expect(node, 2, {DType.int64})
    given = vector(node, context, 2) or [None] * len(inner)
    if len(given) != len(inner):
        fail(node, f"output_shape has {len(given)} entries, {len(inner)} are needed")
    for size, least in zip(given, inner, strict=True):
        if isinstance(size, int) and isinstance(least, int) and size < least:
            fail(node, f"output_shape {given} is smaller than {inner}")
    sizes = [context.data_size(node, 0, axis) if size is None else size for axis, size in enumerate(given)]
    return [TensorType(x.dtype, tuple(sizes))]


def infer_global(dtypes: frozenset[DType]) -> Callable[[Node, InferContext], list[TensorType]]:
    def infer(node: Node, context: InferContext) -> list[TensorType]:
        x = expect(node, 0, dtypes)
        if x.shape is None:
            return [x]
        if len(x.shape) < 3:
            fail(node, f"{node.op} needs rank 3 or more, the input is {show(x)}")
        return [TensorType(x.dtype, (*x.dims[:2], *(1,) * (len(x.dims) - 2)))]

    return infer


def cost_global(node: Node) -> Cost:
    return Cost(type_of(node, 0).elements, traffic(node))


register(
    OpDef("MaxPool", infer_max_pool, cost_pool, EXACT),
    OpDef("AveragePool", infer_pool, cost_pool, ACCUMULATED),
    OpDef("LpPool", infer_lp_pool, cost_pool, ACCUMULATED),
    OpDef("MaxUnpool", infer_max_unpool, moves, EXACT, (9, OPSET)),
    OpDef("GlobalMaxPool", infer_global(FLOATS), cost_global, EXACT),
    OpDef("GlobalAveragePool", infer_global(FLOATS), cost_global, ACCUMULATED),
    OpDef("GlobalLpPool", infer_global(FLOATS), cost_global, ACCUMULATED),
)
