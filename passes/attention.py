"""Attention in one node: queries times keys, what scales and masks the scores, softmax, times values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mcpc import ops
from mcpc.halves import HALVES
from mcpc.ir import DType, Graph, Node, Value, dim
from mcpc.ops.context import same
from mcpc.pipeline import Pass, PassContext
from mcpc.rewrite import constant_of, control_flow_graphs, made_by, only_user, remove_dead

from .fused_node import replace_by_fused
from .rules.shapes import constant_scalar, same_dims, same_type

#: Batch, heads, rows, columns.
MAX_RANK = 4

#: What scores may be on their way from the product to the Softmax.
_SCORES = (DType.float32, *HALVES)


@dataclass(frozen=True)
class FuseAttention(Pass):
    """The fused node has kind "attention"; its body holds the parts as they were, in this order: what repeats heads of
    keys and values; scalar factors of queries and keys; MatMul; elementwise operators of its result and any that
    broadcast to it; Softmax; perhaps Where(IsNaN(p), 0, p); MatMul. In a network of 16-bit floats the scores are
    rounded as it has it, probabilities and results are not."""

    name: ClassVar[str] = "attention"

    def __call__(self, graph: Graph, ctx: PassContext) -> Graph:
        for inner in control_flow_graphs(graph):
            with inner.edit():
                for node in list(inner.nodes):
                    parts = _parts(node, inner) if node.is_op("MatMul") else None
                    if parts is not None:
                        for value in (node.inputs[0], *_copies(node.output)):
                            _leave_unrounded(value, inner)
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
    repeats = _repeats(k if not scales or scales[-1].output is not k else _unscaled(k), v, graph)
    ranks = [value.type.rank for value in (q, k, v)]
    if not all(rank is not None and 2 <= rank <= MAX_RANK for rank in ranks) or k.is_constant:
        return None
    is_float = all(value.dtype is DType.float32 for value in (q, k, v))
    return [*repeats, *scales, *chain, softmax, *guard, root] if is_float else None


def _scales(value: Value, graph: Graph) -> list[Node]:
    """The multiplications by constant scalars that make ``value``, one after the other."""
    node = made_by(value, "Mul", "Div")
    if node is None or not only_user(value, graph):
        return []
    for x, factor in (node.inputs, node.inputs[::-1])[: 1 if node.is_op("Div") else 2]:
        if x is not None and constant_scalar(factor) is not None and same_type(x, value):
            return [*_scales(x, graph), node]
    return []


def _unscaled(value: Value) -> Value:
    """What :func:`_scales` of ``value`` start from."""
    node = made_by(value, "Mul", "Div")
    if node is None:
        return value
    return _unscaled(next(x for x in node.inputs if x is not None and not x.is_constant))


def _repeats(k: Value, v: Value, graph: Graph) -> list[Node]:
    """The nodes that give every head of keys and values to a group of queries' heads (grouped-query attention)."""
    transpose = made_by(k, "Transpose")
    if transpose is None or transpose.attrs.get("perm") != [0, 1, 3, 2] or not only_user(k, graph):
        return []
    keys, values = _repeat(transpose.inputs[0], graph), _repeat(v, graph)
    if not keys or not values or not same(keys[1].output.type.dims[2], values[1].output.type.dims[2]):
        return []
    return [*keys, transpose, *values]


def _repeat(value: Value | None, graph: Graph) -> list[Node]:
    """Reshape [B, H, T, D] → [B, H, 1, T, D], Expand → [B, H, G, T, D] and Reshape → [B, H·G, T, D], which make
    ``value``; empty where it is made otherwise."""
    merge = made_by(value, "Reshape")
    expand = made_by(merge.inputs[0], "Expand") if merge is not None else None
    unsqueeze = made_by(expand.inputs[0], "Reshape", "Unsqueeze") if expand is not None else None
    source = unsqueeze.inputs[0] if unsqueeze is not None else None
    if merge is None or expand is None or unsqueeze is None or source is None or source.type.rank != MAX_RANK:
        return []
    batch, heads, rows, size = source.type.dims
    if expand.output.shape is None or len(expand.output.shape) != MAX_RANK + 1:
        return []
    group = expand.output.shape[2]
    shapes = (
        (unsqueeze, (batch, heads, 1, rows, size)),
        (expand, (batch, heads, group, rows, size)),
        (merge, (batch, dim(heads * group), rows, size)),
    )
    nodes = [node for node, shape in shapes if same_dims(node.output.shape, shape) and only_user(node.output, graph)]
    return nodes if len(nodes) == len(shapes) else []


def _softmax(value: Value | None, graph: Graph) -> tuple[Node, list[Node]] | None:
    """The Softmax over the last axis that makes ``value``, and the nodes that replace its NaN by 0."""
    if value is not None and only_user(value, graph):
        value = _unrounded(value, graph)
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


def _unrounded(value: Value | None, graph: Graph) -> Value | None:
    """What ``value`` is before it is rounded to 16 bits, which nothing else reads; else itself."""
    wide = made_by(value, "Cast")
    narrow = made_by(wide.inputs[0], "Cast") if wide is not None else None
    source = narrow.inputs[0] if narrow is not None else None
    if wide is None or narrow is None or source is None or narrow.output.dtype not in HALVES:
        return value
    return source if only_user(narrow.output, graph) and source.dtype is wide.output.dtype else value


def _leave_unrounded(value: Value | None, graph: Graph) -> None:
    source = _unrounded(value, graph)
    if value is not None and source is not None and source is not value and not graph.is_output(value):
        graph.replace_uses(value, source)
        remove_dead(graph, [] if value.producer is None else [value.producer])


def _copies(value: Value) -> list[Value]:
    """What is made of ``value`` by two operators in a row."""
    return [last.output for first in value.users for last in first.output.users]


def _score(value: Value | None, graph: Graph) -> list[Node] | None:
    """A MatMul and the elementwise nodes of its shape that lead from it to ``value``, none of them read elsewhere."""
    if value is None or value.producer is None or value.dtype not in _SCORES or not only_user(value, graph):
        return None
    node = value.producer
    if node.is_op("MatMul") and value.dtype is DType.float32:
        return [node]
    if not ops.is_elementwise(node):
        return None
    for operand in node.inputs:
        if operand is not None and _is_whole(operand, node) and sum(each is operand for each in node.inputs) == 1:
            before = _score(operand, graph)
            if before is not None:
                return [*before, node]
    return None


def _is_whole(operand: Value, node: Node) -> bool:
    """Whether an elementwise node reads ``operand`` without broadcasting it to its result: sizes that are not known to
    be equal are taken to be so, as inference does (code checks it)."""
    value = node.output
    is_rounded = node.is_op("Cast") and operand.dtype in _SCORES
    if not (operand.dtype is value.dtype or is_rounded) or operand.shape is None or value.shape is None:
        return False
    pairs = zip(operand.shape, value.shape, strict=False)
    return len(operand.shape) == len(value.shape) and all((a == 1) == (b == 1) for a, b in pairs)
