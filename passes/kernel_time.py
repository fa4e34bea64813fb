"""What a set of nodes costs as one kernel: the cost model's answer, kept per node since many sets are asked for."""

from __future__ import annotations

from collections.abc import Collection

from mcpc.cost_model import compute_us, memory_us, typical_sizes, value_at, weight_bytes, work_of
from mcpc.ir import Graph, Node, Value
from mcpc.target import Target

from .boundary import Group
from .fused_node import is_anchor

#: Elements that an epilogue computes at once, along the columns of a product or the channels of a convolution.
LANES = 8


#: What moving memory behind arithmetic is worth: of partitions that take as long, the one that moves least is best.
HIDDEN = 1e-6


class KernelTimes:
    """Times in microseconds, sizes in bytes, both at typical sizes of symbolic dimensions. Without a target only the
    traffic counts, and a kernel for as much as a small tensor: a byte is a nanosecond then."""

    LAUNCH_WITHOUT_TARGET = 0.1

    def __init__(self, graph: Graph, target: Target | None) -> None:
        self.graph = graph
        self.target = target
        self._sizes = typical_sizes(graph)
        self._weight_set = weight_bytes(graph)
        self._compute: dict[Node, float] = {}
        self._flops: dict[Node, int] = {}
        self._nbytes: dict[int, int] = {}
        self._outputs = {id(value) for value in graph.outputs}

    def nbytes(self, value: Value) -> int:
        known = self._nbytes.get(id(value))
        if known is None:
            known = 0 if value.shape is None else value_at(value.type.nbytes, self._sizes)
            self._nbytes[id(value)] = known
        return known

    def compute(self, node: Node) -> float:
        """Of ``node`` alone, its data at hand."""
        if node not in self._compute:
            work = work_of(node).at(self._sizes)
            self._flops[node] = sum(int(count) for count in work.operations.values())
            self._compute[node] = 0.0 if self.target is None else compute_us(work.operations, self.target.big_core)
        return self._compute[node]

    def flops(self, node: Node) -> int:
        """Operations of ``node``."""
        self.compute(node)
        return self._flops[node]

    def time(self, compute: float, activations: int, weights: int) -> float:
        """Of a kernel that computes for so long and moves so many bytes."""
        if self.target is None:
            return (activations + weights) / 1e3 + self.LAUNCH_WITHOUT_TARGET
        core = self.target.big_core
        memory = memory_us(activations, activations, core) + memory_us(weights, self._weight_set, core)
        return max(compute, memory) + self.target.launch_us + HIDDEN * memory

    def group(self, group: Group) -> float:
        """Of a group whose result others read."""
        activations = constants = 0
        for value in group.operands.values():
            if value.is_constant:
                constants += self.nbytes(value)
            else:
                activations += self.nbytes(value)
        written = sum(self.nbytes(output) for output in group.sink.outputs if output is not None)
        return self.time(self.together(group.nodes), activations + written, constants)

    def together(self, nodes: Collection[Node]) -> float:
        """Of computing ``nodes`` in one kernel: behind an anchor of few columns, epilogues fill no vector."""
        anchor = next(filter(is_anchor, nodes), None)
        columns = 0 if anchor is None else _columns(anchor)
        padding = -(-columns // LANES) * LANES / columns if columns else 1.0
        return sum(self.compute(node) * (1.0 if node is anchor else padding) for node in nodes)

    def traffic(self, nodes: Collection[Node]) -> tuple[int, int]:
        """Bytes of activations and of constants that ``nodes`` read and write as one kernel."""
        members = set(nodes)
        read = {id(v): v for node in nodes for v in node.inputs if v is not None and v.producer not in members}
        written = [
            value
            for node in nodes
            for value in node.outputs
            if value is not None and (id(value) in self._outputs or any(user not in members for user in value.users))
        ]
        constants = sum(self.nbytes(value) for value in read.values() if value.is_constant)
        others = sum(self.nbytes(value) for value in (*read.values(), *written) if not value.is_constant)
        return others, constants

    def kernel(self, nodes: Collection[Node]) -> float:
        """Of ``nodes`` as one kernel."""
        return self.time(self.together(nodes), *self.traffic(nodes))


def _columns(anchor: Node) -> int:
    """Columns of the tiles in which ``anchor`` leaves its result; 0 where it has none, or they are not known."""
    dims = anchor.output.type.shape or ()
    axis = {
        **dict.fromkeys(("Conv", "ConvTranspose", "ConvInteger"), 1),
        **dict.fromkeys(("Gemm", "MatMul", "MatMulInteger"), -1),
    }.get(anchor.op)
    size = dims[axis] if axis is not None and len(dims) > 1 else 0
    return size if isinstance(size, int) else 0
