"""Which of two layouts everything takes, so that moving data between them costs least: a minimum cut.

A graph of operators and tensors becomes a flow network whose source stands for channels-last, its sink for row-major.
What is free to choose is a vertex; on whose side of the cut it falls is its layout. A tensor costs its move once if any
reader wants the other layout than it is made in; an operator costs what it loses in the slower layout. With two labels
such a sum has an exact minimum (Greig, Porteous and Seheult, "Exact Maximum A Posteriori Estimation for Binary
Images", 1989); that one move serves several readers is an auxiliary vertex for each direction (Kolmogorov and Zabih,
"What Energy Functions Can Be Minimized via Graph Cuts?", 2004).
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

import networkx as nx


class Fixed(Enum):
    """The two layouts: the ends of the network."""

    CHANNELS_LAST = "channels-last"
    ROW_MAJOR = "row-major"


#: A layout, or what is free to take either.
Vertex: TypeAlias = Hashable

SOURCE, SINK = Fixed.CHANNELS_LAST, Fixed.ROW_MAJOR


@dataclass
class TwoLayouts:
    """The problem. Costs are whole numbers, so that the same problem has the same answer everywhere."""

    tensors: list[tuple[Vertex, tuple[Vertex, ...], int]] = field(default_factory=list)
    preferences: list[tuple[Vertex, int, int]] = field(default_factory=list)

    def tensor(self, producer: Vertex, readers: Collection[Vertex], move: int) -> None:
        """A tensor in its producer's layout, which ``move`` brings into the other one for all readers there."""
        others = tuple(dict.fromkeys(reader for reader in readers if reader != producer))
        if others and move > 0:
            self.tensors.append((producer, others, move))

    def prefer(self, vertex: Vertex, row_major: int, channels_last: int) -> None:
        """What ``vertex`` costs in either layout, beside moves."""
        if row_major != channels_last:
            self.preferences.append((vertex, row_major, channels_last))

    def cost(self, channels_last: Collection[Vertex]) -> int:
        """Of all moves and preferences, where these vertices lie channels-last and all others row-major."""

        def side(vertex: Vertex) -> bool:
            return vertex is SOURCE or (vertex is not SINK and vertex in channels_last)

        moves = sum(move for maker, readers, move in self.tensors if any(side(r) != side(maker) for r in readers))
        return moves + sum(last if side(vertex) else first for vertex, first, last in self.preferences)

    def solve(self) -> set[Vertex]:
        """The vertices that lie channels-last where :meth:`cost` is least; where nothing decides, they do."""
        network = nx.DiGraph()
        network.add_nodes_from((SOURCE, SINK))

        def add(tail: Vertex, head: Vertex, capacity: int) -> None:
            if network.has_edge(tail, head):
                network[tail][head]["capacity"] += capacity
            elif capacity:
                network.add_edge(tail, head, capacity=capacity)

        for vertex, row_major, channels_last in self.preferences:
            least = min(row_major, channels_last)
            add(SOURCE, vertex, row_major - least)
            add(vertex, SINK, channels_last - least)
        for index, (producer, readers, move) in enumerate(self.tensors):
            if len(readers) == 1:
                add(producer, readers[0], move)
                add(readers[0], producer, move)
                continue
            to_rows, to_channels = ("to row-major", index), ("to channels-last", index)
            add(producer, to_rows, move)
            add(to_channels, producer, move)
            for reader in readers:  # edges without a capacity are never cut
                network.add_edge(to_rows, reader)
                network.add_edge(reader, to_channels)
        _, (source_side, _) = nx.minimum_cut(network, SOURCE, SINK)
        vertices = [vertex for producer, readers, _ in self.tensors for vertex in (producer, *readers)]
        vertices += [vertex for vertex, _, _ in self.preferences]
        return {vertex for vertex in vertices if vertex in source_side and vertex is not SOURCE}
