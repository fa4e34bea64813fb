"""The simple rule for fusing two operators: enough traffic is saved, and enough is computed on what remains."""

from __future__ import annotations

from dataclasses import dataclass

from mcpc.ir import Node

from .boundary import Group
from .kernel_time import KernelTimes

#: Bytes that fusing saves at least, and operations a byte of what moves then, on a machine of so many GB/s. Where
#: memory is slower, fewer operations make up for it.
SAVED_BYTES, INTENSITY, AT_GBPS = 64 << 10, 15.0, 128.0


@dataclass(frozen=True)
class Threshold:
    """Whether a node joins a group."""

    times: KernelTimes

    def __call__(self, node: Node, group: Group) -> bool:
        nodes = (*group.nodes, node)
        target = self.times.target
        gbps = AT_GBPS if target is None else target.big_core.gbps
        work, moved = sum(map(self.times.flops, nodes)), sum(self.times.traffic(nodes))
        saved = 2 * self.times.nbytes(node.output)
        return saved >= SAVED_BYTES and work >= INTENSITY * gbps / AT_GBPS * moved
