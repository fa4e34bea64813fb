"""Attention in one node: queries times keys, what scales and masks the scores, softmax, times values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mcpc import ops
from mcpc.ir import DType, Graph, Node, Value
from mcpc.pipeline import Pass, PassContext
from mcpc.rewrite import constant_of, control_flow_graphs, made_by, only_user

from .fuse import replace_by_fused
from .rules.shapes import constant_scalar, same_type

#: Batch, heads, rows, columns.
MAX_RANK = 4


@dataclass(frozen=True)
class FuseAttention(Pass):
    """The fused node has kind "attention"; its body holds the parts as they were, in this order: scalar factors of
    queries and keys, MatMul, elementwise operators of its result and any that broadcast to it, Softmax, perhaps
    Where(IsNaN(p), 0, p), MatMul."""

    name: ClassVar[str] = "attention"

    def __call__(self, graph: Graph, ctx: PassContext) -> Graph:
        for inner in control_flow_graphs(graph):
            with inner.edit():
                for node in list(inner.nodes):
                    parts = _parts(node, inner) if node.is_op("MatMul") else None
                    if parts is not None:
                        ctx.decide(node, "fuse", "the scores need not go through memory", operators=len(parts))
                        replace_by_fused(inner, parts, "attention")
        return graph


def _parts(root: Node, graph: Graph) -> list[Node] | None:
    """The nodes of the attention that ends in ``root``, in the order of execution."""
    p, v = root.inputs
    found = _softmax(p, graph)
    if p is None or v is None or found is None or v.is_constant:
        return None
    softmax, guard = found
    chain = _score(softmax.inputs[0], graph)
    if chain is None:
        return None
    q, k = chain[0].inputs
    assert q is not None and k is not None
    scales = [*_scales(q, graph), *_scales(k, graph)]
    ranks = [value.type.rank for value in (q, k, v)]
    if not all(rank is not None and 2 <= rank <= MAX_RANK for rank in ranks) or k.is_constant:
        return None
    is_float = all(value.dtype is DType.float32 for value in (q, k, v))
    return [*scales, *chain, softmax, *guard, root] if is_float else None


def _scales(value: Value, graph: Graph) -> list[Node]:
    """The multiplications by constant scalars that make ``value``, one after the other."""
    node = made_by(value, "Mul", "Div")
    if node is None or not only_user(value, graph):
        return []
    for x, factor in (node.inputs, node.inputs[::-1])[: 1 if node.is_op("Div") else 2]:
        if x is not None and constant_scalar(factor) is not None and same_type(x, value):
            return [*_scales(x, graph), node]
    return []


def _softmax(value: Value | None, graph: Graph) -> tuple[Node, list[Node]] | None:
    """The Softmax over the last axis that makes ``value``, and the nodes that replace its NaN by 0."""
    if value is None or not only_user(value, graph):
        return None
    guard: list[Node] = []
    where = made_by(value, "Where")
    if where is not None:
        test, value = made_by(where.inputs[0], "IsNaN"), where.inputs[2]
        zero = constant_of(where.inputs[1])
        if test is None or zero is None or zero.any() or test.inputs[0] is not value or value is None:
            return None
        if len(value.users) != 2 or graph.is_output(value) or not only_user(test.output, graph):
            return None
        guard = [test, where]
    softmax = made_by(value, "Softmax")
    if softmax is None or softmax.output.type.rank is None:
        return None
    axis = softmax.attrs.get("axis", -1)
    return (softmax, guard) if axis in (-1, softmax.output.type.rank - 1) else None


def _score(value: Value | None, graph: Graph) -> list[Node] | None:
    """A MatMul and the elementwise nodes of its shape that lead from it to ``value``, none of them read elsewhere."""
    if value is None or value.producer is None or value.dtype is not DType.float32 or not only_user(value, graph):
        return None
    node = value.producer
    if node.is_op("MatMul"):
        return [node]
    if not ops.is_elementwise(node):
        return None
    for operand in node.inputs:
        if operand is not None and same_type(operand, value) and sum(each is operand for each in node.inputs) == 1:
            before = _score(operand, graph)
            if before is not None:
                return [*before, node]
    return None
