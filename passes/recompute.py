"""Results that several kernels read: computed by each of them where that is faster than once and through memory."""

from __future__ import annotations

from mcpc.ir import Graph, Node
from mcpc.pipeline import PassContext

from .boundary import Boundaries, Group, may_end
from .fused_node import is_anchor
from .kernel_time import KernelTimes
from .partition import Partition


def recompute(partition: Partition, boundaries: Boundaries, times: KernelTimes, ctx: PassContext) -> None:
    """Let every kernel of elementwise operators whose result several others read become part of all of these, where the
    sum of times is less: first those in front. Each one looked at is recorded, with both sums."""
    graph = boundaries.graph
    for node in list(graph.nodes):
        readers = _readers(node, partition, graph)
        if len(readers) < 2:
            continue
        made = partition.groups.get(node, (node,))
        joined = [_joined(made, partition.groups.get(reader, (reader,)), boundaries) for reader in readers]
        if any(group is None for group in joined):
            continue
        wholes = [group for group in joined if group is not None]
        before = times.kernel(made) + sum(times.kernel(partition.groups.get(each, (each,))) for each in readers)
        after = sum(map(times.group, wholes))
        is_faster = after < before
        reason = f"{len(readers)} kernels read it: " + ("each computes it" if is_faster else "one computes it for all")
        numbers = {} if times.target is None else {"split_us": before, "fused_us": after}
        ctx.decide(node, "recompute" if is_faster else "keep", reason, **numbers)
        if is_faster:
            partition.groups.pop(node, None)
            for reader, group in zip(readers, wholes, strict=True):
                partition.groups[reader] = tuple(group.nodes)


def _readers(node: Node, partition: Partition, graph: Graph) -> list[Node]:
    """The sinks of the groups that read the result of ``node``, which is a sink and no output; none where a reader
    cannot take an operator in."""
    if not may_end(node) or graph.is_output(node.output):
        return []
    found: dict[Node, None] = {}
    for user in node.output.users:
        sinks = [sink for sink, group in partition.groups.items() if user in group] or [user]
        if node in sinks or any(node in partition.groups.get(sink, ()) for sink in sinks):
            return []
        found.update(dict.fromkeys(sinks))
    return list(found) if all(may_end(sink) for sink in found) else []


def _joined(made: tuple[Node, ...], readers: tuple[Node, ...], boundaries: Boundaries) -> Group | None:
    """``readers`` with ``made`` taken in; None where that cannot be."""
    if any(map(is_anchor, made)):
        return None
    group = Group(readers[0])
    for node in readers[1:]:
        group.add(node)
    for node in made:
        if boundaries.obstacle(node, group, recompute=True):
            return None
        group.add(node)
    return group
