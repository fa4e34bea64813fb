"""Boundaries between operators: which of them code can do without, whatever it costs.

A boundary is a value between a producer and a group of nodes that would take the producer in. What is worth it is
another question, see :mod:`.partition`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mcpc import ops
from mcpc.ir import DType, Graph, Node, Value
from mcpc.ops.context import same
from mcpc.target import Target

from .fused_node import is_anchor

#: Pointers that a loop keeps in registers, and operators after which a loop's body is long enough.
MAX_OPERANDS, MAX_NODES = 12, 32

#: Bytes of each operand that an epilogue has at hand: a tile of 12 rows and 32 columns of float32.
TILE_BYTES = 12 * 32 * 4


def may_join(node: Node) -> bool:
    """Whether ``node`` is of a kind that groups take in at all."""
    return is_anchor(node) or ops.is_elementwise(node)


def may_end(node: Node) -> bool:
    """Whether a group may end in ``node``: an elementwise operator. Small integer vectors are sizes: computing them is
    not worth a loop."""
    if not ops.is_elementwise(node):
        return False
    type = node.output.type
    is_size = type.dtype is DType.int64 and type.rank is not None and type.rank <= 1
    return type.shape is not None and not is_size


@dataclass(frozen=True)
class Limits:
    """Hard bounds of a group. ``registers`` hold a vector of 8 elements each; the values that are alive at once are no
    more than the operands, those that are read twice within, and the one that is being computed."""

    registers: int = 16
    l1d_bytes: int = 32 << 10

    @classmethod
    def of(cls, target: Target | None) -> Limits:
        return cls() if target is None else cls(target.registers, target.big_core.l1d_kib << 10)

    def exceeded(self, nodes: int, operands: int, shared: int) -> str:
        """Which of the limits a group of so many is beyond; empty for none."""
        if nodes > MAX_NODES or operands > MAX_OPERANDS:
            return "the group is large enough"
        if operands + shared + 1 > self.registers:
            return "registers do not hold its values"
        if (operands + 1) * TILE_BYTES > self.l1d_bytes // 2:
            return "the first cache does not hold its tiles"
        return ""


class Group:
    """Nodes that would be one kernel, the last one in execution order first; grows from there."""

    def __init__(self, sink: Node) -> None:
        self.sink = sink
        self.nodes: dict[Node, None] = {}
        self.anchor: Node | None = None
        self.reads: dict[int, int] = {}  # by the id of a value: how often the group reads it
        self.operands: dict[int, Value] = {}  # those that are made outside
        self.shared = 0
        self.add(sink)

    def add(self, node: Node) -> None:
        """Take ``node`` in, all of whose readers are members."""
        for output in node.outputs:
            if output is not None and id(output) in self.operands:
                del self.operands[id(output)]
                self.shared += self.reads[id(output)] > 1
        self.nodes[node] = None
        if is_anchor(node):
            self.anchor = node
        for value in node.inputs:
            if value is not None:
                self.reads[id(value)] = self.reads.get(id(value), 0) + 1
                self.operands[id(value)] = value

    def remove_last(self) -> None:
        """Take back the last :meth:`add`."""
        node, _ = self.nodes.popitem()
        self.anchor = None if self.anchor is node else self.anchor
        for value in node.inputs:
            if value is not None:
                self.reads[id(value)] -= 1
                if not self.reads[id(value)]:
                    del self.reads[id(value)], self.operands[id(value)]
        for output in node.outputs:
            if output is not None and id(output) in self.reads:
                self.operands[id(output)] = output
                self.shared -= self.reads[id(output)] > 1

    def vectors(self) -> int:
        """Operands that a loop reads element by element."""
        return sum(value.data is None or value.data.size != 1 for value in self.operands.values())


@dataclass(frozen=True)
class Boundaries:
    """Says what stands between a producer and a group; ``can_fuse`` is the target's word on an operator."""

    graph: Graph
    limits: Limits
    can_fuse: Callable[[Node], bool]

    def obstacle(self, producer: Node, group: Group, *, recompute: bool = False) -> str:
        """What makes it impossible that ``producer`` joins, empty for nothing. With ``recompute`` others may read its
        result: they have it from elsewhere."""
        value = producer.output
        if is_anchor(producer) and group.anchor is not None:
            return "another operator anchors the group"
        if sum(output is not None for output in producer.outputs) > 1:
            return "it has several results"
        if not recompute and self.graph.is_output(value):
            return "its result is an output"
        if not recompute and any(user not in group.nodes for user in value.users):
            return "its result is used elsewhere too"
        if group.anchor is not None and group.anchor in value.users:
            return "the group's anchor reads it"
        if not same_shape(value, group.sink.output):
            return "its result has another shape"
        if not self.can_fuse(producer):
            return "the target cannot fuse it"
        group.add(producer)
        exceeded = self.limits.exceeded(len(group.nodes), group.vectors(), group.shared)
        group.remove_last()
        return exceeded


def same_shape(a: Value, b: Value) -> bool:
    return (
        a.shape is not None
        and b.shape is not None
        and len(a.shape) == len(b.shape)
        and all(map(same, a.shape, b.shape))
    )
