"""Which constant subgraphs to fold so that the file does not grow."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence

from mcpc.ir import Graph, Node, Value

# A constant of at most so many elements is a size, an axis or a scalar: it costs nothing to keep or to drop, and being
# shared makes no two subgraphs depend on each other.
_SCALARS = 16


def is_weight(value: Value) -> bool:
    return value.data is not None and value.data.size > _SCALARS


def components(nodes: Sequence[Node]) -> list[list[Node]]:
    """``nodes`` in groups that share neither values nor weights, each in the order given."""
    leader = {node: node for node in nodes}

    def find(node: Node) -> Node:
        while leader[node] is not node:
            leader[node] = leader[leader[node]]
            node = leader[node]
        return node

    reader: dict[int, Node] = {}
    for node in nodes:
        for value in node.inputs:
            if value is None or (value.is_constant and not is_weight(value)):
                continue
            other = reader.setdefault(id(value), node) if value.is_constant else value.producer
            if other is not None and other in leader:
                leader[find(node)] = find(other)
    groups: dict[Node, list[Node]] = {}
    for node in nodes:
        groups.setdefault(find(node), []).append(node)
    return list(groups.values())


class Plan:
    """A set of foldable nodes and what folding them does to the file.

    The file gains each result (a value of the set that something outside reads) and loses each weight that only the set
    reads. ``growth`` is the difference in bytes.
    """

    def __init__(self, graph: Graph, nodes: Iterable[Node]) -> None:
        self.graph = graph
        self.nodes = dict.fromkeys(nodes)
        constants = {id(v): v for node in self.nodes for v in node.inputs if v is not None and is_weight(v)}
        self.has_weights = bool(constants)
        self.growth = sum(_bytes(v) for v in self.results()) - sum(
            _bytes(v) for v in constants.values() if self._dies(v)
        )

    def results(self) -> Iterator[Value]:
        """The values to compute: those that something outside the set reads."""
        return (v for node in self.nodes for v in node.outputs if v is not None and self._is_result(v))

    def shrink(self, limit: int) -> list[tuple[Node, int]]:
        """Take nodes out, the largest results first, until the file grows by ``limit`` bytes at most, or by none where
        weights go in. Returns the nodes whose results were refused, with the growth that each was refused for."""
        allowed = 0 if self.has_weights else limit
        order = {node: index for index, node in enumerate(self.nodes)}
        heap = [(-_bytes(v), -order[v.producer], v.producer) for v in self.results() if v.producer is not None]
        heapq.heapify(heap)
        refused: list[tuple[Node, int]] = []
        while self.growth > allowed and heap:
            _, _, node = heapq.heappop(heap)
            if node not in self.nodes:
                continue
            refused.append((node, self.growth - allowed))
            for value in self._take_out(node):
                if value.producer is not None:
                    heapq.heappush(heap, (-_bytes(value), -order[value.producer], value.producer))
        return refused

    def _take_out(self, root: Node) -> list[Value]:
        """Remove ``root`` and all that depends on it from the set; the values that became results."""
        pending, dependants = [root], {root: None}
        while pending:
            for value in pending.pop().outputs:
                for user in value.users if value is not None else ():
                    if user in self.nodes and user not in dependants:
                        dependants[user] = None
                        pending.append(user)
        became: dict[int, Value] = {}
        for node in dependants:
            self.growth -= sum(_bytes(v) for v in node.outputs if v is not None and self._is_result(v))
        operands = {id(v): v for node in dependants for v in node.inputs if v is not None}
        dying = [v for v in operands.values() if is_weight(v) and self._dies(v)]
        quiet = [v for v in operands.values() if v.producer in self.nodes and not self._is_result(v)]
        for node in dependants:
            del self.nodes[node]
        self.growth += sum(_bytes(v) for v in dying)
        for value in quiet:
            if value.producer in self.nodes:
                became[id(value)] = value
                self.growth += _bytes(value)
        return list(became.values())

    def _is_result(self, value: Value) -> bool:
        return self.graph.is_output(value) or any(user not in self.nodes for user in value.users)

    def _dies(self, constant: Value) -> bool:
        return not self._is_result(constant)


def _bytes(value: Value) -> int:
    return int(value.type.nbytes)
