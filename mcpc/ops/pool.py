"""Pools: windows (Max, Average, Lp) and global ones."""

from __future__ import annotations

from collections.abc import Callable

from mcpc.ir import DType, Node, TensorType, dim
from mcpc.ops.context import FLOATS, InferContext, attribute, expect, fail, show, type_of
from mcpc.ops.registry import ACCUMULATED, EXACT, Cost, OpDef, register, traffic
from mcpc.ops.window import Window, window_of


def pool_window(node: Node) -> Window:
    """The window of a MaxPool, AveragePool or LpPool."""
    kernel = node.attrs.get("kernel_shape")
    if not isinstance(kernel, list) or not kernel:
        fail(node, "attribute kernel_shape is missing", "E102")
    return window_of(node, [int(size) for size in kernel])


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
    attribute(node, "storage_order", 0)
    return [pooled, TensorType(DType.int64, pooled.shape)]


def cost_pool(node: Node) -> Cost:
    work = 1
    for size in pool_window(node).kernel:
        work *= size
    return Cost(dim(node.output.type.elements * work), traffic(node))


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
    OpDef("LpPool", infer_pool, cost_pool, ACCUMULATED),
    OpDef("GlobalMaxPool", infer_global(FLOATS), cost_global, EXACT),
    OpDef("GlobalAveragePool", infer_global(FLOATS), cost_global, ACCUMULATED),
    OpDef("GlobalLpPool", infer_global(FLOATS), cost_global, ACCUMULATED),
)
