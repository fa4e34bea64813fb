"""Which nodes become one kernel: the partition of a graph into groups whose kernels take the least time together.

A group has one result, that of its sink; every other member is read by members only. So a member is always
post-dominated by the sink, and what a group leaves out below it falls into subtrees of the post-dominator tree that do
not depend on one another. The least time of a subtree whose root is a sink is therefore

    best(s) = least over the groups G that end in s of   time(G) + sum of best(r) over the children r of members of G
                                                                   that are no members themselves

which one walk in execution order computes (dynamic programming over the tree; on a chain it is the usual one over
intervals). All groups of a sink are looked at, up to :data:`MOST_GROUPS`, the largest first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import networkx as nx

from mcpc.ir import Graph, Node

from .boundary import Boundaries, Group, may_end, may_join
from .kernel_time import KernelTimes

#: Groups of one sink that are compared.
MOST_GROUPS = 256

#: The root of the post-dominator tree: behind all outputs.
EXIT = "exit"

#: By how much of its time a smaller group must be better than a larger one to be taken: ties go to fewer kernels.
MARGIN = 1e-9


@dataclass
class Partition:
    """``groups`` by their sinks; a member is in one group, or, where it is recomputed, in several. Nodes that are in
    none are kernels of their own."""

    groups: dict[Node, tuple[Node, ...]] = field(default_factory=dict)

    def time(self, graph: Graph, times: KernelTimes) -> float:
        """Of all kernels of operators that groups can hold."""
        members = {node for group in self.groups.values() for node in group}
        alone = [node for node in graph.nodes if node not in members and may_join(node)]
        return sum(map(times.kernel, self.groups.values())) + sum(times.kernel([node]) for node in alone)


def greedy(boundaries: Boundaries, accept: Callable[[Node, Group], bool]) -> Partition:
    """From the last node up, each group takes in whatever may join it and ``accept`` takes."""
    order = {node: index for index, node in enumerate(boundaries.graph.nodes)}
    result = Partition()
    taken: set[Node] = set()
    for sink in reversed(order):
        if sink in taken or not may_end(sink) or not boundaries.can_fuse(sink):
            continue
        group = Group(sink)
        waiting = _producers(sink, order)
        while waiting:
            node = waiting.pop()
            if not boundaries.obstacle(node, group) and accept(node, group):
                group.add(node)
                waiting = _merged(waiting, _producers(node, order), order)
        taken.update(group.nodes)
        if len(group.nodes) > 1:
            result.groups[sink] = tuple(group.nodes)
    return result


def least_time(boundaries: Boundaries, times: KernelTimes) -> Partition:
    """The partition with the least sum of times."""
    graph = boundaries.graph
    order = {node: index for index, node in enumerate(graph.nodes)}
    children = _post_dominated(graph, order)
    best: dict[Node, float] = {}
    chosen: dict[Node, tuple[Node, ...]] = {}
    below: dict[Node, float] = {}  # the sum of best over a node's children
    for sink in order:
        below[sink] = sum(best[child] for child in children[sink])
        if not may_end(sink) or not boundaries.can_fuse(sink):
            best[sink] = below[sink] + (times.kernel([sink]) if may_join(sink) else 0.0)
            chosen[sink] = (sink,)
            continue
        best[sink] = float("inf")
        for group in _groups(sink, boundaries, order):
            members = group.nodes
            time = times.group(group) + below[sink] + sum(below[n] - best[n] for n in members if n is not sink)
            if time < best[sink] * (1 - MARGIN) or not chosen.get(sink):
                best[sink], chosen[sink] = time, tuple(members)
    result = Partition()
    left = list(children[EXIT])
    while left:
        taken = chosen[left.pop()]
        left.extend(child for member in taken for child in children[member] if child not in taken)
        if len(taken) > 1:
            result.groups[taken[0]] = taken
    return result


def _post_dominated(graph: Graph, order: Mapping[Node, int]) -> dict[Node | str, list[Node]]:
    """The children of every node in the post-dominator tree."""
    reversed_flow = nx.DiGraph()
    reversed_flow.add_node(EXIT)
    for node in order:
        users = {user for output in node.outputs if output is not None for user in output.users if user in order}
        is_read_outside = any(output is not None and graph.is_output(output) for output in node.outputs)
        reversed_flow.add_edges_from((user, node) for user in users)
        if is_read_outside or not users:
            reversed_flow.add_edge(EXIT, node)
    children: dict[Node | str, list[Node]] = {EXIT: [], **{node: [] for node in order}}
    for node, parent in nx.immediate_dominators(reversed_flow, EXIT).items():
        if node != EXIT:
            children[parent].append(node)
    return children


def _producers(node: Node, order: Mapping[Node, int]) -> list[Node]:
    """Those that make what ``node`` reads and are of a kind that groups take in, the last one at the end."""
    found = {value.producer for value in node.inputs if value is not None and value.producer in order}
    return sorted((made for made in found if made is not None and may_join(made)), key=order.__getitem__)


def _merged(waiting: list[Node], more: list[Node], order: Mapping[Node, int]) -> list[Node]:
    return sorted({*waiting, *more}, key=order.__getitem__)


def _groups(sink: Node, boundaries: Boundaries, order: Mapping[Node, int]) -> Iterator[Group]:
    """The groups that end in ``sink``: one that holds as much as it can, then others, and ``sink`` alone."""
    group = Group(sink)
    count = 0

    def grow(waiting: list[Node]) -> Iterator[Group]:
        nonlocal count
        # Latest first: when a producer is looked at, all its readers have been.
        while waiting:
            node = waiting.pop()
            if boundaries.obstacle(node, group):
                continue
            group.add(node)
            yield from grow(_merged(waiting, _producers(node, order), order))
            group.remove_last()
            if count >= MOST_GROUPS:
                return
        count += 1
        yield group

    yield from grow(_producers(sink, order))
    if count >= MOST_GROUPS:
        yield Group(sink)
