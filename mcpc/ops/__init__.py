"""Operators: their types, costs, tolerances and, for elementwise ones, their expressions.

>>> get(node).infer(node, context)            # one operator's types
>>> infer_graph(graph, problems)              # the whole graph's, also after a pass
>>> expression(node)                          # what an elementwise node computes for one element, else None
"""

from mcpc.ir import Node
from mcpc.ops import (  # noqa: F401
    attention,
    channels,
    composed,
    contrib,
    contrib_attention,
    contrib_earlier,
    contrib_quantized,
    contrib_weights,
    control,
    deform,
    detect,
    einsum,
    elementwise,
    generate,
    index,
    inference,
    linear,
    ml,
    move,
    ngrams,
    normalize,
    pool,
    quantize,
    random,
    recurrent,
    reduce,
    resize,
    scan,
    search,
    select,
    shape,
    signal,
    state,
    training,
    trees,
    vision,
)
from mcpc.ops.context import InferContext
from mcpc.ops.elementwise import Elementwise
from mcpc.ops.expr import PRIMITIVES, Expr
from mcpc.ops.inference import infer_graph, infer_node
from mcpc.ops.registry import ACCUMULATED, EXACT, ROUNDED, Cost, OpDef, definitions, find, get


def expression(node: Node) -> Expr | None:
    """The expression of an elementwise ``node`` over its inputs, None for any other operator."""
    definition = find(node.domain, node.op)
    return definition.expression(node) if isinstance(definition, Elementwise) and definition.applies(node) else None


def is_elementwise(node: Node) -> bool:
    """Whether :func:`expression` has one for ``node``."""
    definition = find(node.domain, node.op)
    return isinstance(definition, Elementwise) and definition.applies(node)


__all__ = [
    "ACCUMULATED",
    "EXACT",
    "PRIMITIVES",
    "ROUNDED",
    "Cost",
    "Elementwise",
    "Expr",
    "InferContext",
    "OpDef",
    "definitions",
    "expression",
    "find",
    "get",
    "infer_graph",
    "infer_node",
    "is_elementwise",
]
