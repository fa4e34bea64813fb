"""Shape inference over a whole graph."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from mcpc.errors import McpcError, ModelError, Problems
from mcpc.ir import MCPC, Dim, Graph, Node, TensorType, Value
from mcpc.ops.context import InferContext
from mcpc.ops.registry import ACCUMULATED, Cost, OpDef, find, get, opset_of, register, traffic, unsupported


def infer_graph(
    graph: Graph,
    problems: Problems | None = None,
    context: InferContext | None = None,
    unknown: Iterable[Value] = (),
) -> InferContext:
    """Set the type of every node output from the types of graph inputs and constants.

    Layout, quantisation and sparsity of the outputs stay; bounds and assumptions are added to the graph's. Every fault
    goes to ``problems``, or is raised together at the end where that is None; what depends on a faulty node, or on the
    ``unknown`` values, is left alone. Returns what is known of the contents of integer tensors.
    """
    own = Problems() if problems is None else problems
    context = InferContext() if context is None else context
    infer_nodes(graph, own, context, unknown)
    if problems is None:
        own.raise_if_any()
    given = {name: bound for name, bound in graph.bounds.items() if isinstance(bound[1], int)}
    graph.bounds |= context.bounds | given  # a bound in terms of sizes holds as long as these are there
    graph.assumptions = context.assumptions | graph.assumptions
    return context


def infer_nodes(graph: Graph, problems: Problems, context: InferContext, unknown: Iterable[Value] = ()) -> None:
    """:func:`infer_graph` with what it finds left in ``context``."""
    faulty = {id(value) for value in unknown}
    for node in graph.nodes:
        if find(node.domain, node.op) is None:
            problems.add(unsupported(node.domain, node.op, node.name, opset_of(graph, node.domain)))
        elif not any(id(value) in faulty for value in node.inputs):
            try:
                infer_node(node, context)
                continue
            except McpcError as error:
                problems.add(error)
        faulty.update(id(output) for output in node.outputs if output is not None)


def infer_node(node: Node, context: InferContext) -> None:
    """Set the types of one node's outputs, and remember their contents where they are small integers."""
    definition = get(node)
    with context.assuming(node):
        types = definition.infer(node, context)
    if len(types) < len(node.outputs):
        message = f"{node.op} has at most {len(types)} outputs, this one has {len(node.outputs)}"
        raise ModelError("E104", message, op=node.op, node=node.name)
    for output, type in zip(node.outputs, types, strict=False):
        if output is not None:
            output.type = _annotated(output, type)
    if definition.contents is not None and not all(v is None or v.dtype.is_float for v in node.outputs):
        for output, contents in zip(node.outputs, definition.contents(node, context), strict=False):
            if output is not None:
                context.remember(output, contents)


def _annotated(output: Value, type: TensorType) -> TensorType:
    old = output.type
    stays = type.shape is not None and old.shape is not None and len(type.shape) == len(old.shape)
    layout, pitch = (old.layout, old.pitch) if stays else (None, None)
    return replace(type, layout=layout, pitch=pitch, quant=old.quant, sparsity=old.sparsity)


# ---- mcpc::Fused


def infer_fused(node: Node, context: InferContext) -> list[TensorType]:
    """The types of the body's outputs, once the node's operands are put in for its inputs."""
    body = node.body
    if body is None or len(body.inputs) != len(node.inputs):
        raise ModelError("E102", "a Fused node needs a body that matches its inputs", op=node.op, node=node.name)
    for inner, outer in zip(body.inputs, node.inputs, strict=True):
        if outer is not None:
            inner.type = outer.type
            context.remember(inner, context.contents(outer))
    problems = Problems()
    infer_nodes(body, problems, context)
    problems.raise_if_any()
    return [replace(value.type, layout=None, pitch=None, quant=None, sparsity=None) for value in body.outputs]


def cost_fused(node: Node) -> Cost:
    """The work of the body; only what crosses the boundary is traffic."""
    body = node.body
    assert body is not None
    work: Dim = 0
    for inner in body.nodes:
        work = work + get(inner).cost(inner).flops
    return Cost(work, traffic(node))


register(OpDef("Fused", infer_fused, cost_fused, ACCUMULATED, (1, 1), MCPC))
