"""The one place that decides whether two operators become one: where the cost model of fusion belongs.

A boundary is a value between a producer and the group that would take the producer in. What is legal is settled before
(see :mod:`.fuse`); this is about what is worth it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mcpc.ir import Node, is_static
from mcpc.pipeline import PassContext

#: A loop over more operators or operands than this spills registers and helps nobody.
MAX_NODES, MAX_OPERANDS = 32, 12


@dataclass(frozen=True)
class Candidate:
    """``producer`` would join ``group``, whose last node in execution order is the first of the sequence."""

    producer: Node
    group: Sequence[Node]

    def operands(self) -> int:
        """How many tensors the joined group would read."""
        nodes = {*self.group, self.producer}
        read = {id(v) for node in nodes for v in node.inputs if v is not None and v.producer not in nodes}
        return len(read)


@dataclass(frozen=True)
class Verdict:
    """``numbers`` are what the decision rests on, in bytes or as counts."""

    fuse: bool
    reason: str
    numbers: dict[str, float] = field(default_factory=dict)


def profitable(candidate: Candidate, ctx: PassContext) -> Verdict:
    """Whether to fuse across the boundary. Without a cost model: always, as it saves a tensor's way to memory and back,
    unless the target cannot (its ``can_fuse(node)``) or the group gets too large."""
    can_fuse = getattr(ctx.target, "can_fuse", None)
    if can_fuse is not None and not can_fuse(candidate.producer):
        return Verdict(False, "the target cannot fuse it")
    operands = candidate.operands()
    if len(candidate.group) >= MAX_NODES or operands > MAX_OPERANDS:
        return Verdict(False, "the group is large enough", {"nodes": len(candidate.group), "operands": operands})
    type = candidate.producer.output.type
    saved = {"bytes_saved": 2.0 * float(type.nbytes)} if is_static(type.shape) else {}
    return Verdict(True, "its result need not go through memory", saved)
