"""How long a kernel takes on a core: the roofline model.

A kernel computes at the rate of its class and moves its data at the bandwidth of the level of memory that they lie in;
whichever takes longer is its time (Williams, Waterman and Patterson, "Roofline", CACM 52(4), 2009). Rates and
bandwidths are the target's (:class:`mcpc.target.Core`), what there is to do is a :class:`Work`. Passes, code generators
and reports all ask here, so that they agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import sympy

from mcpc import ops
from mcpc.ir import Dim, DType, Graph, Node, Value, dim, is_static, symbol, total
from mcpc.kernel_class import KernelClass
from mcpc.ops.linear import convolution_of
from mcpc.ops.registry import moves
from mcpc.sample_inputs import usual_sizes
from mcpc.target import Core, Target

#: Operators that have a class of their own; the others follow from what their declarations say of them.
_CLASSES = {
    "MatMul": KernelClass.MATMUL, "Gemm": KernelClass.GEMM, "ConvTranspose": KernelClass.CONV,
    "MatMulInteger": KernelClass.INTEGER, "ConvInteger": KernelClass.INTEGER, "QLinearMatMul": KernelClass.INTEGER,
    "QLinearConv": KernelClass.INTEGER, "Attention": KernelClass.ATTENTION, "LinearAttention": KernelClass.ATTENTION,
    "LSTM": KernelClass.RECURRENT, "GRU": KernelClass.RECURRENT, "RNN": KernelClass.RECURRENT,
    "MaxPool": KernelClass.POOL, "AveragePool": KernelClass.POOL, "LpPool": KernelClass.POOL,
    "Resize": KernelClass.MOVE, "Upsample": KernelClass.MOVE,
}  # fmt: skip

#: Operators that read of their first operand no more than they write.
_SELECTIONS = ("Gather", "GatherElements", "GatherND", "Slice")

#: What a size that only data show is taken for where costs are stated.
TYPICAL_SIZE = 16

#: Bytes of an element that is moved.
_MOVED_BYTES = 4

#: Femtoseconds in a microsecond: times of symbolic size are whole numbers of them.
_FS_PER_US = 1e9


@dataclass(frozen=True)
class Work:
    """What one run of a kernel takes. ``operations`` by class, as executed (padding to whole tiles included); ``read``
    and ``written`` bytes of activations, ``weights`` bytes of constants. ``working_set``: bytes that pass through the
    caches between two accesses to the same activation (None: all that the kernel reads and writes). ``weight_set``: the
    same of the weights, which a network reads once a run (None: they are all there are). Symbolic where sizes are."""

    operations: Mapping[KernelClass, Dim]
    read: Dim = 0
    written: Dim = 0
    weights: Dim = 0
    working_set: Dim | None = None
    weight_set: Dim | None = None
    launches: int = 1

    @property
    def traffic(self) -> Dim:
        """Bytes of activations that are moved."""
        return dim(self.read + self.written)

    def at(self, sizes: Mapping[sympy.Symbol, int]) -> Work:
        """The work where symbols have these values."""

        def number(size: Dim) -> int:
            return value_at(size, sizes)

        return replace(
            self,
            operations={kind: number(count) for kind, count in self.operations.items()},
            read=number(self.read),
            written=number(self.written),
            weights=number(self.weights),
            working_set=None if self.working_set is None else number(self.working_set),
            weight_set=None if self.weight_set is None else number(self.weight_set),
        )


@dataclass(frozen=True)
class Time:
    """Microseconds on one core."""

    compute: float
    memory: float
    launch: float

    @property
    def us(self) -> float:
        return max(self.compute, self.memory) + self.launch


def roofline(work: Work, target: Target, core: Core | None = None) -> Time:
    """The time of ``work``, whose sizes are numbers, on one ``core`` (None: a big one) of ``target``."""
    core = core if core is not None else target.big_core
    working_set = work.traffic if work.working_set is None else work.working_set
    weight_set = work.weights if work.weight_set is None else work.weight_set
    memory = memory_us(work.traffic, working_set, core) + memory_us(work.weights, weight_set, core)
    return Time(compute_us(work.operations, core), memory, work.launches * target.launch_us)


def compute_us(operations: Mapping[KernelClass, Dim], core: Core) -> float:
    """Microseconds to compute these numbers of operations."""
    return sum(float(count) / core.rates[_at_size(kind, count, core)] for kind, count in operations.items()) / 1e3


def _at_size(kind: KernelClass, count: Dim, core: Core) -> KernelClass:
    """The class of kernel whose rate holds for so many operations: of moved elements, which count as four bytes."""
    is_far = kind is KernelClass.MOVE and float(count) * _MOVED_BYTES > (core.l2_kib << 10)
    return KernelClass.FAR_MOVE if is_far else kind


def memory_us(nbytes: Dim, among: Dim, core: Core) -> float:
    """Microseconds to move ``nbytes``, where data of ``among`` bytes pass by between two accesses to the same."""
    return float(nbytes) / bandwidth(core, among) / 1e3


def bandwidth(core: Core, nbytes: Dim) -> float:
    """GB/s of the nearest level of memory that holds ``nbytes``."""
    return next((rate for capacity, rate in core.caches if nbytes <= capacity), core.gbps)


def takes_longer(work: Work, target: Target, us: float) -> tuple[tuple[Dim, int], ...]:
    """Whether ``work`` takes ``us`` microseconds or more on one big core, launch included: where one of the pairs
    (amount, limit) has amount >= limit. Amounts are symbolic where sizes are."""
    core, us = target.big_core, us - work.launches * target.launch_us
    compute: Dim = 0
    for kind, count in work.operations.items():
        compute = compute + count * max(1, round(_FS_PER_US / 1e3 / core.rates[kind]))
    # The level that holds what it can move in this time.
    moved = next((rate for capacity, rate in core.caches if us * rate * 1e3 <= capacity), core.gbps) * us * 1e3
    return (dim(compute), round(us * _FS_PER_US)), (dim(work.traffic + work.weights), round(moved))


# ---- the work of a node


def work_of(node: Node, operations: Mapping[KernelClass, Dim] | None = None) -> Work:
    """The work of a node with inferred types: all that a Fused body computes, and what crosses the boundary.

    ``operations`` is what a code generator executes for all but the elementwise operators, where it knows that better
    than the operators' declarations do: which class of kernel, and how much padding.
    """
    counts: dict[KernelClass, Dim] = dict(operations) if operations is not None else {}
    outer: dict[int, Value | None] = {}
    if node.body is not None:
        outer = {id(inner): operand for inner, operand in zip(node.body.inputs, node.inputs, strict=True)}
    for inner in leaves(node):
        if operations is not None and not ops.is_elementwise(inner):
            continue
        kind = kernel_class(inner, outer)
        counts[kind] = dim(counts.get(kind, 0) + _operations(inner, kind))
    read: list[Dim] = []
    weights: list[Dim] = []
    for value in {id(value): value for value in node.inputs if value is not None}.values():
        if node.is_op(*_SELECTIONS) and value is node.inputs[0]:
            read.append(node.output.type.nbytes)
        elif value.is_constant:
            weights.append(value.type.nbytes)
        else:
            read.append(value.type.nbytes)
    written = [output.type.nbytes for output in node.outputs if output is not None]
    return Work(counts, total(read), total(written), total(weights))


def leaves(node: Node) -> list[Node]:
    """``node``, or the operators in its body and in the bodies there."""
    return [node] if node.body is None else [leaf for inner in node.body.nodes for leaf in leaves(inner)]


def _operations(node: Node, kind: KernelClass) -> Dim:
    flops = ops.get(node).cost(node).flops
    return node.output.type.elements if kind is KernelClass.MOVE and flops == 0 else flops


def kernel_class(node: Node, outer: Mapping[int, Value | None] | None = None) -> KernelClass:
    """The class that ``node`` is of as far as its declaration shows; code generators may choose another. ``outer`` has,
    by the id of a body's input, the value that it stands for."""
    if node.is_op("Conv"):
        weight = node.inputs[1]
        is_single = weight is not None and weight.type.rank is not None and weight.type.dims[1] == 1
        return KernelClass.DEPTHWISE if is_single and convolution_of(node).groups > 1 else KernelClass.CONV
    if node.is_op("MatMul") and _is_stored(node.inputs[1], outer or {}):
        return KernelClass.GEMM
    if node.op in _CLASSES:
        return _CLASSES[node.op]
    if ops.is_elementwise(node):
        return KernelClass.ELEMENTWISE
    definition = ops.get(node)
    if definition.cost is moves:
        return KernelClass.MOVE
    return KernelClass.REDUCE if definition.tolerance == ops.ACCUMULATED else KernelClass.SCALAR


def _is_stored(value: Value | None, outer: Mapping[int, Value | None]) -> bool:
    """Whether ``value`` is a constant, or made from constants by one operator."""
    value = None if value is None else outer.get(id(value), value)
    if value is None or value.is_constant:
        return value is not None
    return value.producer is not None and all(
        operand is None or operand.is_constant
        for operand in (outer.get(id(each), each) for each in value.producer.inputs if each is not None)
    )


# ---- sizes


def weight_bytes(graph: Graph, dtype: DType | None = None) -> int:
    """Bytes of the constants that the nodes of ``graph`` read, bodies of control flow included, each once; only of
    those of ``dtype`` where one is given."""
    constants = {id(v): v for node in graph.all_nodes() for v in node.inputs if v is not None and v.is_constant}
    counted = (value for value in constants.values() if dtype is None or value.dtype is dtype)
    return sum(int(value.type.nbytes) for value in counted if is_static(value.shape))


def typical_sizes(graph: Graph) -> dict[sympy.Symbol, int]:
    """A usual value for every symbol: what costs are stated for."""
    sizes: dict[str, int] = dict(usual_sizes(graph.inputs, graph.bounds))
    for name in graph.data_symbols():
        low, high = graph.bounds.get(name, (0, None))
        limit = None if high is None else value_at(high, {symbol(other): size for other, size in sizes.items()})
        sizes[name] = max(low, TYPICAL_SIZE if limit is None else min(limit, TYPICAL_SIZE))
    return {symbol(name): size for name, size in sizes.items()}


def value_at(size: Dim, sizes: Mapping[sympy.Symbol, int]) -> int:
    """``size`` at these values; 0 where they make it negative, since not all together need be valid."""
    if isinstance(size, int):
        return size
    own = {each: sympy.Integer(sizes[each]) for each in size.free_symbols if each in sizes}
    return max(0, int(sympy.floor(size.xreplace(own))))
