"""Local rewrites: rules that look at one node and its neighbours, and the driver that applies them to a fixpoint.

A rule is a function of a node and its graph that returns a :class:`Patch`, or None where it does not apply::

    @rule("Relu")
    def merge_relu_of_relu(node: Node, graph: Graph) -> Patch | None:
        before = made_by(node.inputs[0], "Relu")
        return Patch(graph, node).replace(before.output) if before else None

Rules look upwards only, from the last node of what they match; what a patch leaves without users is removed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from mcpc import ops
from mcpc.errors import PassError
from mcpc.ir import MCPC, Graph, Node, TensorType, Value

Rule = Callable[[Node, Graph], "Patch | None"]


class Patch:
    """What replaces a node: new nodes before it, and a value for each of its outputs."""

    def __init__(self, graph: Graph, root: Node) -> None:
        self.graph = graph
        self.root = root
        self.nodes: list[Node] = []
        self.outputs: list[Value] = []

    def add(
        self,
        op: str,
        inputs: Sequence[Value | None],
        attrs: dict[str, Any] | None = None,
        type: TensorType | None = None,
    ) -> Value:
        """The output of a new node; it has ``type``, or what is inferred where that is None."""
        name = self.graph.fresh(f"{self.root.output.name}.{op}")
        output = Value(name, type or TensorType(self.root.output.dtype, None))
        node = Node(op, inputs, [output], attrs, name)
        if type is None:
            ops.infer_node(node, ops.InferContext())
        self.nodes.append(node)
        return output

    def constant(self, stem: str, data: np.ndarray[Any, Any]) -> Value:
        return self.graph.constant(stem, data)

    def replace(self, *outputs: Value) -> Patch:
        """The finished patch: ``outputs`` stand in for the root's first outputs, in order; nobody uses the others.

        The node that makes the first one inherits the root's name.
        """
        self.outputs = list(outputs)
        for node in self.nodes:
            if node.output is outputs[0]:
                node.name = self.root.name
        return self


def rule(*operators: str) -> Callable[[Rule], Rule]:
    """Declare the ai.onnx operators of the nodes that a rule looks at."""

    def mark(function: Rule) -> Rule:
        function.operators = operators  # type: ignore[attr-defined]
        return function

    return mark


# ---- matching


def made_by(value: Value | None, *operators: str) -> Node | None:
    """The node that makes ``value`` as its first output, if it is one of these ai.onnx operators."""
    node = value.producer if value is not None else None
    return node if node is not None and node.is_op(*operators) and node.outputs[0] is value else None


def only_user(value: Value, graph: Graph) -> bool:
    """Whether ``value`` has a single use and is no output, so that a rewrite of its user may take it over."""
    return len(value.users) == 1 and not graph.is_output(value)


def uses_first_output_only(node: Node, graph: Graph) -> bool:
    return not any(value is not None and (value.users or graph.is_output(value)) for value in node.outputs[1:])


def bypass(node: Node, graph: Graph, value: Value) -> Patch | None:
    """A patch that lets ``value`` stand in for the node's output.

    An output of the graph must be made in the graph and be no other output: where ``value`` is not, an Identity is.
    """
    patch = Patch(graph, node)
    if graph.is_output(node.output):
        producer = value.producer
        if producer is None or not graph.owns(producer) or graph.is_output(value):
            return (
                None if node.is_op("Identity") else patch.replace(patch.add("Identity", [value], {}, node.output.type))
            )
    return patch.replace(value)


def constant_of(value: Value | None) -> np.ndarray[Any, Any] | None:
    return value.data if value is not None else None


# ---- the driver


def apply_rules(graph: Graph, rules: Iterable[Rule]) -> dict[str, int]:
    """Apply ``rules`` to ``graph`` and its control-flow bodies until none applies; how often each did, by name.

    Every node is looked at once, and again when its neighbourhood changed. Raises :class:`PassError` E700 where the
    rules undo each other for ever.
    """
    by_operator: dict[str, list[Rule]] = {}
    for each in rules:
        for operator in each.operators:  # type: ignore[attr-defined]
            by_operator.setdefault(operator, []).append(each)
    counts: dict[str, int] = {}
    for inner in control_flow_graphs(graph):
        with inner.edit():
            _Driver(inner, by_operator, counts).run()
    return counts


def control_flow_graphs(graph: Graph) -> list[Graph]:
    """``graph`` and the bodies of its control flow, inner ones first."""
    return [*(g for node in graph.nodes for body in node.bodies.values() for g in control_flow_graphs(body)), graph]


class _Driver:
    def __init__(self, graph: Graph, rules: dict[str, list[Rule]], counts: dict[str, int]) -> None:
        self.graph = graph
        self.rules = rules
        self.counts = counts
        self.work = deque(graph.nodes)
        self.waiting = set(graph.nodes)
        self.budget = 100 * (len(graph.nodes) + 10)

    def run(self) -> None:
        while self.work:
            node = self.work.popleft()
            self.waiting.discard(node)
            if node.domain or not self.graph.owns(node):
                continue
            for each in self.rules.get(node.op, ()):
                patch = each(node, self.graph)
                if patch is None:
                    continue
                name = each.__name__
                self.counts[name] = self.counts.get(name, 0) + 1
                self.budget -= 1
                if self.budget < 0:
                    raise PassError("E700", f"rule {name} does not come to an end", op=node.op, node=node.name)
                self.apply(patch)
                break

    def apply(self, patch: Patch) -> None:
        root = patch.root
        self.graph.insert_before(root, patch.nodes)
        made = {id(output) for node in patch.nodes for output in node.outputs}
        for old, new in zip(root.outputs, patch.outputs, strict=False):
            if old is not None:
                substitute(self.graph, old, new, rename=id(new) in made)
                self.enqueue(new.users)
        # Dead nodes go, so that what had several uses may have one: a new chance for the rules of the users that stay.
        inputs = [value for value in root.inputs if value is not None and not value.is_constant]
        remove_dead(self.graph, [root])
        self.enqueue(patch.nodes)
        for value in inputs:
            self.enqueue(value.users)

    def enqueue(self, nodes: Iterable[Node]) -> None:
        for node in dict.fromkeys(nodes):
            if node not in self.waiting and self.graph.owns(node):
                self.waiting.add(node)
                self.work.append(node)


def substitute(graph: Graph, old: Value, new: Value, *, rename: bool) -> None:
    """Let ``new`` stand in for ``old`` everywhere.

    With ``rename`` it takes the name over too, so that a value keeps its name from pass to pass and a difference can be
    traced to it.
    """
    name = old.name
    graph.replace_uses(old, new)
    if rename and new.name != name:
        old.name = graph.fresh(name + ".replaced")
        new.name = name


def replace_by_fused(graph: Graph, group: Sequence[Node], kind: str, operands: Sequence[Value], body: Graph) -> None:
    """Put one Fused node, which computes ``body`` of ``operands``, in the place of ``group``, which is in execution
    order. Nodes whose results others read too stay."""
    sink = group[-1]
    output = Value(graph.fresh(sink.output.name), sink.output.type)
    fused = Node("Fused", operands, [output], {"kind": kind, "body": body}, sink.name, MCPC)
    graph.insert_before(sink, [fused])
    substitute(graph, sink.output, output, rename=True)
    for node in reversed(group):
        if not any(value is not None and value.users for value in node.outputs):
            graph.remove(node)


def remove_dead(graph: Graph, nodes: Iterable[Node]) -> None:
    """Remove those of ``nodes`` whose outputs nobody uses, then what only they used. For many nodes, within
    :meth:`Graph.edit`."""
    pending = list(nodes)
    while pending:
        node = pending.pop()
        if graph.owns(node) and is_dead(node, graph):
            pending.extend(value.producer for value in node.inputs if value is not None and value.producer is not None)
            graph.remove(node)


def is_dead(node: Node, graph: Graph) -> bool:
    return not any(value is not None and (value.users or graph.is_output(value)) for value in node.outputs)
