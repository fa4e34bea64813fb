"""Rewrites of operators into the forms that the native kernels take; each is ONNX before and after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mcpc import ops
from mcpc.ir import DType, Graph, Node, TensorType, Value
from mcpc.pipeline import Pass, PassContext

from . import expression
from .iteration import rows_and_columns
from .layout import SPATIAL, channels_last
from .region import Region


@dataclass(frozen=True)
class Lower(Pass):
    """One walk over the graph; a rewrite's new nodes are in final form."""

    name: ClassVar[str] = "lower-native"

    def __call__(self, graph: Graph, ctx: PassContext) -> Graph:
        for node in list(graph.nodes):
            if node.body is not None:
                reason = unsuitable_epilogue(node)
                if reason is not None:
                    ctx.decide(node, "split", reason)
                    for inner in inline(graph, node):
                        _operator(graph, inner)
                continue
            _operator(graph, node)
        return graph


def _operator(graph: Graph, node: Node) -> None:
    if node.is_op("Gemm"):
        _gemm(graph, node)
    elif node.is_op("MatMul"):
        _matmul(graph, node)
    elif node.is_op("Conv"):
        _conv_bias(graph, node)


class _Before:
    """Puts new nodes before ``anchor``, with inferred types."""

    def __init__(self, graph: Graph, anchor: Node) -> None:
        self.graph = graph
        self.anchor = anchor

    def __call__(self, op: str, inputs: Sequence[Value | None], attrs: dict[str, Any] | None = None) -> Value:
        stem = self.anchor.name or self.anchor.op
        out = Value(self.graph.fresh(f"{stem}.{op.lower()}"), TensorType(DType.float32, None))
        node = Node(op, inputs, [out], attrs, name=out.name)
        ops.infer_node(node, ops.InferContext())
        self.graph.insert_before(self.anchor, [node])
        return out

    def ints(self, *items: int) -> Value:
        return self.graph.constant(f"{self.anchor.name or self.anchor.op}.sizes", np.array(items, np.int64))

    def replace(self, value: Value) -> None:
        self.graph.replace_uses(self.anchor.output, value)
        self.graph.remove(self.anchor)


def _gemm(graph: Graph, node: Node) -> None:
    """Leave A as it is, B constant and C one constant per column; all else becomes MatMul, Mul and Add."""
    a, b, c = node.inputs[0], node.inputs[1], node.input(2)
    assert a is not None and b is not None
    before = _Before(graph, node)
    attrs = dict(node.attrs)
    if attrs.pop("transA", 0):
        a = before("Transpose", [a], {"perm": [1, 0]})
    per_column = c is None or (c.is_constant and (c.type.rank in (0, 1) or c.type.dims[0] == 1))
    if b.is_constant and per_column:
        if a is not node.inputs[0]:
            before.replace(before("Gemm", [a, b, c], attrs))
        return
    alpha, beta = float(attrs.get("alpha", 1.0)), float(attrs.get("beta", 1.0))
    if attrs.get("transB", 0):
        b = before("Transpose", [b], {"perm": [1, 0]})
    result = before("MatMul", [a, b])
    if alpha != 1.0:
        result = before("Mul", [result, graph.constant("alpha", np.float32(alpha))])
    if c is not None and beta != 1.0:
        c = before("Mul", [c, graph.constant("beta", np.float32(beta))])
    before.replace(result if c is None else before("Add", [result, c]))


def _matmul(graph: Graph, node: Node) -> None:
    """Give both operands rank 2 or more, and batches that are equal or one."""
    a, b = node.inputs
    assert a is not None and b is not None
    before = _Before(graph, node)
    old = (a, b)
    squeezed: list[int] = []
    if a.type.rank == 1:
        a = before("Unsqueeze", [a, before.ints(0)])
        squeezed.append(-2)
    if b.type.rank == 1:
        b = before("Unsqueeze", [b, before.ints(1)])
        squeezed.append(-1)
    batches = (a.type.dims[:-2], b.type.dims[:-2])
    if b.type.rank != 2 or not b.is_constant:
        full = node.output.type.dims[: len(node.output.type.dims) + len(squeezed) - 2]
        for index, batch in enumerate(batches):
            if tuple(batch) != tuple(full) and any(size != 1 for size in batch):
                value = (a, b)[index]
                sizes = before.ints(*map(int, (*full, *value.type.dims[-2:])))
                expanded = before("Expand", [value, sizes])
                a, b = (expanded, b) if index == 0 else (a, expanded)
    if (a, b) == old:
        return
    result = before("MatMul", [a, b])
    before.replace(before("Squeeze", [result, before.ints(*squeezed)]) if squeezed else result)


def _conv_bias(graph: Graph, node: Node) -> None:
    """A bias that is no constant is added behind."""
    bias = node.input(2)
    if bias is None or bias.is_constant:
        return
    before = _Before(graph, node)
    result = before("Conv", node.inputs[:2], dict(node.attrs))
    rank = len(result.type.dims)
    column = before("Unsqueeze", [bias, before.ints(*range(1, rank - 1))])
    before.replace(before("Add", [result, column]))


# ---- fused nodes


def unsuitable_epilogue(node: Node) -> str | None:
    """Why a fused node cannot be one kernel, None where it can."""
    region = Region.of(node)
    for inner in region.chain:
        reason = expression.supported(inner)
        if reason is not None:
            return reason
    if region.anchor is None:
        return None
    result = node.output.type
    if region.anchor.is_op(*SPATIAL):
        result = result.with_layout(channels_last(len(result.dims)))
    if region.anchor.output.type.dims != result.dims:
        return "the chain changes the shape"
    own = {id(value) for value in region.anchor.inputs if value is not None}
    for inner in region.chain:
        for value in (*inner.inputs, inner.output):
            if value is not None and value.dtype is not DType.float32:
                return f"an epilogue computes float32, not {value.dtype.name}"
            if value is None or value.producer is not None or id(value) in own:
                continue
            outer = region.outer(value)
            assert outer is not None
            full = outer.shape == result.shape
            type = outer.type.with_layout(result.layout) if full else outer.type
            if rows_and_columns(result, type) is None:
                return f"%{outer.name} is not broadcast over rows or columns"
    return None


def inline(graph: Graph, node: Node) -> list[Node]:
    """Put a fused node's body in its place; its nodes."""
    body = node.body
    assert body is not None
    outer: dict[int, Value | None] = {
        id(inner): value for inner, value in zip(body.inputs, node.inputs, strict=True)
    }
    result: list[Node] = []
    for inner in body.nodes:
        outputs: list[Value | None] = []
        for value in inner.outputs:
            copy = None if value is None else Value(graph.fresh(value.name), value.type)
            if value is not None:
                outer[id(value)] = copy
            outputs.append(copy)
        inputs = [None if value is None else outer.get(id(value), value) for value in inner.inputs]
        result.append(Node(inner.op, inputs, outputs, dict(inner.attrs), inner.name, inner.domain))
    graph.insert_before(node, result)
    for value, inner in zip(node.outputs, body.outputs, strict=True):
        replacement = outer[id(inner)]
        if value is not None and replacement is not None:
            graph.replace_uses(value, replacement)
    graph.remove(node)
    return result
