"""Constant folding: what depends on no input is computed now, by ONNX Runtime, unless that grows the file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mcpc import ops
from mcpc.control_flow import give_constants, inline_decided
from mcpc.ir import Graph, Node, Value, is_static
from mcpc.pipeline import Pass, PassContext, describe
from mcpc.rewrite import control_flow_graphs, remove_dead, substitute

from .fold_plan import Plan, components
from .purity import is_pure

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Fold(Pass):
    """Replaces constant subgraphs by their results.

    Results may be larger than the constants they are made of by ``limit`` bytes where these are mere sizes and scalars
    (a mask, a grid of anchors), and not at all where they are weights. What takes tensors of over ``memory`` bytes
    is not computed.
    """

    name: ClassVar[str] = "fold"
    limit: int = 1 << 18
    memory: int = 1 << 30

    def __call__(self, graph: Graph, ctx: PassContext) -> Graph:
        context = ops.infer_graph(graph)
        while True:
            for inner in reversed(control_flow_graphs(graph)):
                known = _replace_known_sizes(inner, context, set(self._foldable(inner)))
                folded = self._fold(inner, ctx)
                if known or folded:
                    ctx.decide(inner.name, "fold", "it depends on no input", sizes=known, nodes=folded)
                give_constants(inner)
            taken = inline_decided(graph, context)
            for node in taken:
                ctx.decide(node, "inline", "its condition is known: the branch that is taken takes its place")
            if not taken:
                return graph
            context = ops.infer_graph(graph)

    def _fold(self, graph: Graph, ctx: PassContext) -> int:
        """Fold what is worth it; the number of nodes that went."""
        plans = [Plan(graph, nodes) for nodes in components(self._foldable(graph))]
        for plan in plans:
            for node, growth in plan.shrink(self.limit):
                ctx.decide(node, "keep", "its folded result would grow the file", bytes=growth)
        plans = [plan for plan in plans if plan.nodes]
        results = _compute_all(plans, ctx)
        with graph.edit():
            for value, data in results:
                constant = Value.constant(graph.fresh(value.name), data)
                substitute(graph, value, constant, rename=not graph.is_output(value))
            before = sum(1 for plan in plans for node in plan.nodes if graph.owns(node))
            remove_dead(graph, [node for plan in plans for node in plan.nodes])
            return before - sum(1 for plan in plans for node in plan.nodes if graph.owns(node))

    def _foldable(self, graph: Graph) -> list[Node]:
        """Nodes whose operands are constants or come from such nodes, in order."""
        known: set[int] = set()
        found: list[Node] = []
        for node in graph.nodes:
            operands = [value for value in node.inputs if value is not None]
            if all(value.is_constant or id(value) in known for value in operands) and self._may_fold(node, graph):
                found.append(node)
                known.update(id(value) for value in node.outputs if value is not None)
        return found

    def _may_fold(self, node: Node, graph: Graph) -> bool:
        if node.domain or _is_expansion(node) or node.bodies or not is_pure(node):
            return False
        if node.is_op("Identity") and graph.is_output(node.output):
            return False  # an output is made by a node, be it this one
        outputs = [value.type for value in node.outputs if value is not None]
        return all(is_static(type.shape) and int(type.nbytes) <= self.memory for type in outputs)


def _is_expansion(node: Node) -> bool:
    """Whether ``node`` expands a weight's quantised form, which is the smaller one, and what later passes look for."""
    stored = node.inputs[0] if node.is_op("DequantizeLinear") else None
    return stored is not None and stored.dtype.itemsize < node.output.dtype.itemsize


def _replace_known_sizes(graph: Graph, context: ops.InferContext, computed: set[Node]) -> int:
    """Replace integer tensors all of whose elements inference knows; the number of them. Those of the nodes that are
    ``computed`` anyway are left: as constants they would count as weights of what depends on them."""
    count = 0
    with graph.edit():
        for node in graph.nodes:
            for value in () if node in computed else node.outputs:
                contents = context.contents(value)
                if value is None or contents is None or not (value.users or graph.is_output(value)):
                    continue
                if any(not isinstance(item, int) for item in contents.reshape(-1)) or not _can_name(node, graph):
                    continue
                data = np.array(contents.tolist(), dtype=value.dtype.numpy).reshape(contents.shape)
                constant = Value.constant(graph.fresh(value.name), data)
                substitute(graph, value, constant, rename=not graph.is_output(value))
                count += 1
        remove_dead(graph, list(graph.nodes))
    return count


def _can_name(node: Node, graph: Graph) -> bool:
    """Whether replacing the node's output is worth it: an Identity that names an output would only be made again."""
    source = node.inputs[0] if node.inputs else None
    return not (node.is_op("Identity") and graph.is_output(node.output) and source is not None and source.is_constant)


# ---- ONNX Runtime


def _compute_all(plans: Sequence[Plan], ctx: PassContext) -> list[tuple[Value, Array]]:
    """The results of all plans from one session; where it fails, of each plan that runs by itself."""
    if not plans:
        return []
    try:
        return _compute(plans)
    except Exception as error:  # ONNX Runtime's exceptions share no base class
        if len(plans) == 1:
            node = next(iter(plans[0].nodes))
            ctx.decide(node, "keep", f"ONNX Runtime cannot compute {describe(node)}: {str(error).splitlines()[0]}")
            return []
    return [result for plan in plans for result in _compute_all([plan], ctx)]


def _compute(plans: Sequence[Plan]) -> list[tuple[Value, Array]]:
    from mcpc.reference import run_graph

    results = [value for plan in plans for value in plan.results()]
    arrays = run_graph(_extract([node for plan in plans for node in plan.nodes], results), {})
    for value, array in zip(results, arrays, strict=True):
        if array.dtype != value.dtype.numpy:
            raise TypeError(f"%{value.name} came back as {array.dtype}")
    return list(zip(results, arrays, strict=True))


def _extract(nodes: Sequence[Node], results: Sequence[Value]) -> Graph:
    """A graph of copies of ``nodes`` whose outputs are copies of ``results``."""
    graph = Graph("fold")
    copies: dict[int, Value] = {}

    def copy(value: Value | None) -> Value | None:
        if value is None:
            return None
        if id(value) not in copies:
            copies[id(value)] = Value(graph.fresh(value.name), value.type, value.data)
        return copies[id(value)]

    for node in nodes:
        inputs, outputs = [copy(value) for value in node.inputs], [copy(value) for value in node.outputs]
        graph.append(Node(node.op, inputs, outputs, node.attrs, node.name, node.domain))
    graph.outputs = [copies[id(value)] for value in results]
    return graph
