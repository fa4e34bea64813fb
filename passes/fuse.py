"""Fusion: elementwise operators join the operator whose result they change, or each other, in one mcpc::Fused node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from mcpc.ir import Graph, Node
from mcpc.pipeline import Pass, PassContext
from mcpc.rewrite import control_flow_graphs
from mcpc.target import Target

from .boundary import Boundaries, Group, Limits, may_end, may_join
from .fused_node import is_anchor, replace_by_fused
from .kernel_time import KernelTimes
from .partition import Partition, greedy, least_time
from .recompute import recompute
from .threshold import Threshold

Policy = Literal["roofline", "threshold", "none"]


@dataclass(frozen=True)
class Fuse(Pass):
    """Groups end in an elementwise operator and grow upwards, over values that only the group reads and that have the
    shape of its result: so a group has one output and fusing it makes no cycle. Kind "epilogue" has one anchor (see
    :data:`.fused_node.ANCHORS`), kind "elementwise" has none.

    ``policy``: "roofline" takes the partition whose kernels need the least time by the target's cost model,
    "threshold" joins whatever saves enough traffic (see :mod:`.threshold`), "none" nothing.
    """

    name: ClassVar[str] = "fuse"

    policy: Policy = "roofline"

    def __call__(self, graph: Graph, ctx: PassContext) -> Graph:
        for inner in control_flow_graphs(graph):
            with inner.edit():
                _fuse(inner, ctx, self.policy)
        return graph


def _fuse(graph: Graph, ctx: PassContext, policy: Policy) -> None:
    target = ctx.target if isinstance(ctx.target, Target) else None
    can_fuse = getattr(ctx.target, "can_fuse", None) or (lambda node: True)
    boundaries = Boundaries(graph, Limits.of(target), can_fuse)
    times = KernelTimes(graph, target)
    partition = choose(boundaries, times, policy)
    _record(partition, boundaries, times, ctx)
    if policy == "roofline":
        recompute(partition, boundaries, times, ctx)
    order = {node: index for index, node in enumerate(graph.nodes)}
    for sink in sorted(partition.groups, key=order.__getitem__, reverse=True):
        group = sorted(partition.groups[sink], key=order.__getitem__)
        replace_by_fused(graph, group, "epilogue" if any(map(is_anchor, group)) else "elementwise")


def choose(boundaries: Boundaries, times: KernelTimes, policy: Policy) -> Partition:
    if policy == "none":
        return Partition()
    if policy == "threshold":
        return greedy(boundaries, Threshold(times))
    return least_time(boundaries, times)


def _record(partition: Partition, boundaries: Boundaries, times: KernelTimes, ctx: PassContext) -> None:
    """What became of every boundary in front of an elementwise operator, with the times of the kernels on both sides
    and of one kernel for all."""
    inside = {member: group for group in partition.groups.values() for member in group}
    seen: set[tuple[Node, Node]] = set()
    for node in reversed(boundaries.graph.nodes):
        group = inside.get(node, (node,))
        for value in node.inputs:
            producer = value.producer if value is not None else None
            if producer is None or not may_join(producer) or not may_end(group[0]) or is_anchor(node):
                continue
            key = (producer, group[0])
            if key in seen or not boundaries.graph.owns(producer):
                continue
            seen.add(key)
            if producer in group:
                above = _above(producer, group)
                rest = tuple(member for member in group if member not in above)
                ctx.decide(producer, "fuse", "its result need not go through memory", **_numbers(above, rest, times))
            else:
                above = inside.get(producer, (producer,))
                reason = _obstacle(above, group, boundaries) or "two kernels are faster"
                ctx.decide(producer, "keep", reason, **_numbers(above, group, times))


def _above(producer: Node, group: tuple[Node, ...]) -> tuple[Node, ...]:
    """The members that would be left without a reader if ``producer`` were a kernel of its own, and itself."""
    above = {producer: None}
    for member in group[group.index(producer) + 1 :]:
        if all(user in above for user in member.output.users):
            above[member] = None
    return tuple(above)


def _obstacle(above: tuple[Node, ...], group: tuple[Node, ...], boundaries: Boundaries) -> str:
    """What makes it impossible that ``group`` takes in all of ``above``."""
    if not boundaries.can_fuse(group[0]):
        return "the target cannot fuse its reader"
    whole = Group(group[0])
    for node in group[1:]:
        whole.add(node)
    for node in above:
        obstacle = boundaries.obstacle(node, whole)
        if obstacle:
            return obstacle
        whole.add(node)
    return ""


def _numbers(above: tuple[Node, ...], rest: tuple[Node, ...], times: KernelTimes) -> dict[str, float]:
    """``bytes_saved`` are written by one side and read by the other."""
    numbers = {"bytes_saved": 2.0 * times.nbytes(above[0].output)}
    if times.target is not None:
        numbers["split_us"] = round(times.kernel(above) + times.kernel(rest), 3)
        numbers["fused_us"] = round(times.kernel((*rest, *above)), 3)
    return numbers
