"""Fusion: elementwise operators join the operator whose result they change, or each other, in one mcpc::Fused node."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from mcpc import ops
from mcpc.ir import MCPC, DType, Graph, Node, Value
from mcpc.ops.context import same
from mcpc.pipeline import Pass, PassContext
from mcpc.rewrite import control_flow_graphs, substitute

from .boundary import Candidate, profitable

#: Operators that take what follows them into their own loop nest.
ANCHORS = ("Conv", "ConvTranspose", "Gemm", "MatMul", "LayerNormalization", "RMSNormalization")


@dataclass(frozen=True)
class Fuse(Pass):
    """Groups end in an elementwise operator and grow upwards, over values that only the group reads and that have the
    shape of its result: so a group has one output and fusing it makes no cycle. Kind "epilogue" has one anchor (see
    :data:`ANCHORS`), kind "elementwise" has none.
    """

    name: ClassVar[str] = "fuse"

    def __call__(self, graph: Graph, ctx: PassContext) -> Graph:
        for inner in control_flow_graphs(graph):
            with inner.edit():
                _fuse(inner, ctx)
        return graph


def _fuse(graph: Graph, ctx: PassContext) -> None:
    order = {node: index for index, node in enumerate(graph.nodes)}
    taken: set[Node] = set()
    for sink in reversed(list(graph.nodes)):
        if sink in taken or not ops.is_elementwise(sink) or not _may_end(sink):
            continue
        group = _Grower(graph, order, ctx).grow(sink)
        taken.update(group)
        if len(group) > 1:
            is_epilogue = any(node.is_op(*ANCHORS) for node in group)
            replace_by_fused(graph, sorted(group, key=order.__getitem__), "epilogue" if is_epilogue else "elementwise")


def _may_end(node: Node) -> bool:
    """Small integer vectors are sizes: computing them is not worth a loop."""
    type = node.output.type
    is_size = type.dtype is DType.int64 and type.rank is not None and type.rank <= 1
    return type.shape is not None and not is_size


class _Grower:
    def __init__(self, graph: Graph, order: dict[Node, int], ctx: PassContext) -> None:
        self.graph = graph
        self.order = order
        self.ctx = ctx
        self.group: dict[Node, None] = {}
        self.anchor: Node | None = None

    def grow(self, sink: Node) -> list[Node]:
        """The nodes of the group that ends in ``sink``, which comes first."""
        can_fuse = getattr(self.ctx.target, "can_fuse", None)
        self.group[sink] = None
        if can_fuse is not None and not can_fuse(sink):
            return [sink]
        # Latest first: when a producer is looked at, all its readers have been.
        waiting: list[tuple[int, Node]] = []
        seen: set[Node] = set()

        def look_at_producers(node: Node) -> None:
            for value in node.inputs:
                producer = value.producer if value is not None else None
                if producer is not None and producer in self.order and producer not in seen:
                    seen.add(producer)
                    heapq.heappush(waiting, (-self.order[producer], producer))

        look_at_producers(sink)
        while waiting:
            _, producer = heapq.heappop(waiting)
            if not self._joins(producer, sink):
                continue
            self.group[producer] = None
            if producer.is_op(*ANCHORS):
                self.anchor = producer
            else:
                look_at_producers(producer)
        return list(self.group)

    def _joins(self, producer: Node, sink: Node) -> bool:
        """Whether ``producer`` becomes part of the group; decisions about operators that fuse at all are recorded."""
        is_anchor = producer.is_op(*ANCHORS)
        if not is_anchor and not ops.is_elementwise(producer):
            return False
        obstacle = self._obstacle(producer, sink, is_anchor)
        if obstacle:
            self.ctx.decide(producer, "keep", obstacle)
            return False
        verdict = profitable(Candidate(producer, list(self.group)), self.ctx)
        self.ctx.decide(producer, "fuse" if verdict.fuse else "keep", verdict.reason, **verdict.numbers)
        return verdict.fuse

    def _obstacle(self, producer: Node, sink: Node, is_anchor: bool) -> str:
        """What makes fusing impossible, empty for nothing."""
        value = producer.output
        if is_anchor and self.anchor is not None:
            return "another operator anchors the group"
        if sum(output is not None for output in producer.outputs) > 1:
            return "it has several results"
        if self.graph.is_output(value):
            return "its result is an output"
        if any(user not in self.group for user in value.users):
            return "its result is used elsewhere too"
        if self.anchor is not None and self.anchor in value.users:
            return "the group's anchor reads it"
        if not _same_shape(value, sink.output):
            return "its result has another shape"
        return ""


def _same_shape(a: Value, b: Value) -> bool:
    return (
        a.shape is not None
        and b.shape is not None
        and len(a.shape) == len(b.shape)
        and all(map(same, a.shape, b.shape))
    )


def replace_by_fused(graph: Graph, group: Sequence[Node], kind: str) -> None:
    """Put one Fused node in the place of ``group``, which is in execution order."""
    sink = group[-1]
    body, operands = _body(f"{kind}:{sink.output.name}", group)
    output = Value(graph.fresh(sink.output.name), sink.output.type)
    fused = Node("Fused", operands, [output], {"kind": kind, "body": body}, sink.name, MCPC)
    graph.insert_before(sink, [fused])
    substitute(graph, sink.output, output, rename=True)
    for node in reversed(group):
        graph.remove(node)


def _body(name: str, group: Sequence[Node]) -> tuple[Graph, list[Value]]:
    """The graph of ``group`` and the values it reads. Scalar constants go inside, where code can show them as literals;
    what anchors read stays outside, where weights are packed."""
    body = Graph(name)
    inner: dict[int, Value] = {}
    operands: list[Value] = []
    first = [node for node in group if node.is_op(*ANCHORS)]
    outside = {id(value) for node in first for value in node.inputs if value is not None}
    made = {id(value) for node in group for value in node.outputs}
    for node in [*first, *group]:
        for value in node.inputs:
            if value is None or id(value) in inner or id(value) in made:
                continue
            if value.data is not None and value.data.size == 1 and id(value) not in outside:
                inner[id(value)] = body.constant(value.name, value.data)
            else:
                inner[id(value)] = body.add_input(value.name, value.type)
                operands.append(value)
    for node in group:
        inputs = [None if value is None else inner[id(value)] for value in node.inputs]
        inner[id(node.output)] = Value(body.fresh(node.output.name), node.output.type)
        body.append(Node(node.op, inputs, [inner[id(node.output)]], node.attrs, node.name))
    body.outputs = [inner[id(group[-1].output)]]
    return body, operands
