"""The native family: ARM NEON and x86-64 AVX2 code from one kernel source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import sympy

from mcpc import abi, ops
from mcpc._schema import StepT
from mcpc.artifact import Code
from mcpc.codegen import Build, Tunable
from mcpc.cost_model import Work, leaves, roofline, takes_longer, typical_sizes, value_at, weight_bytes
from mcpc.dim_range import MOST_BYTES
from mcpc.errors import ModelError, Problems
from mcpc.halves import Widen
from mcpc.ir import Graph, Node, Value, dim, is_static
from mcpc.ops.contrib import Contrib
from mcpc.pipeline import Pass, PassContext
from mcpc.target import Target, Variant

from . import coverage, emit, module, quantized
from .absorb import AbsorbWeights
from .address import Address
from .arena import Arena
from .choice import choose, key_of, weighed
from .ctext import size
from .half_arithmetic import ComputeHalves
from .image import flatten
from .kernel import ByteWeights, Operand, State, Step, Symbols, Workspace
from .layout import AssignLayouts
from .lower import Lower
from .parts import PlaceParts
from .phases import Phases
from .quantized import LowerQuantized
from .schedule import schedule
from .separable import FuseSeparable
from .storage import Storage
from .toolchain import Machine, Unit, compile_objects, link_image
from .weights import Weights

KERNELS = Path(__file__).parent / "kernels"

#: A step goes to the thread pool where its predicted time is at least this many times the cost of handing it over.
PARALLEL_GAIN = 4.0

#: Operators without a kernel of their own that the generic passes replace.
REWRITTEN = quantized.REWRITTEN

#: States of steps start at multiples of this many bytes.
STATE_ALIGNMENT = 16


class NativeFamily:
    """See :class:`mcpc.codegen.Family`."""

    def passes(self, target: Target) -> Sequence[Pass]:
        return (
            Widen(),
            LowerQuantized(),
            Lower(),
            AbsorbWeights(),
            AssignLayouts(),
            ComputeHalves(),
            FuseSeparable(),
            PlaceParts(),
        )

    def declined(self, graph: Graph) -> list[ModelError]:
        """See :class:`mcpc.codegen.Family`."""
        folded: set[int] = set()  # computed from constants and shapes only
        errors = []
        for node in graph.all_nodes():
            inputs = [value for value in node.inputs if value is not None]
            if node.is_op("Shape", "Size") or all(value.is_constant or id(value) in folded for value in inputs):
                folded.update(id(output) for output in node.outputs if output is not None)
            elif node.is_op("If", "Loop", "Scan"):  # what is in their bodies has been asked already
                continue
            elif not isinstance(ops.find(node.domain, node.op), Contrib | None) and node.op not in REWRITTEN:
                reason = emit.refusal(node)
                if reason is not None:
                    errors.append(ModelError("E101", reason, op=node.op, node=node.name))
        return errors

    def ways(self, definition: ops.OpDef) -> Sequence[str]:
        """See :class:`mcpc.codegen.Family`."""
        return coverage.ways(definition)

    def tunable(self, graph: Graph, target: Target) -> Mapping[str, Mapping[str, Tunable]]:
        """See :class:`mcpc.codegen.Family`."""
        result: dict[str, dict[str, Tunable]] = {}
        for node, candidates in weighed(graph, target, {}):
            if len(candidates) > 1:
                for each in candidates:
                    result.setdefault(each.name, {})[step_name(node)] = Tunable(key_of(node), each.operations)
        return result

    def predict(self, graph: Graph, target: Target, ctx: PassContext) -> list[tuple[Node, float]]:
        """See :class:`mcpc.codegen.Family`."""
        plan = schedule(graph, target, choose(graph, target, ctx))
        typical, stored = typical_sizes(graph), weight_bytes(graph)
        steps = [item for item in plan.items if isinstance(item, Step)]
        return [(step.node, predicted_us(replace(step.work, weight_set=stored), typical, target)) for step in steps]

    def build(self, graph: Graph, target: Target, ctx: PassContext, jobs: int | None) -> Build:
        """Generate, compile and check the code of ``graph`` for every variant of ``target``.

        Raises all nodes without native code at once (E101, E102, E108, E109), E111 for tensors beyond
        :data:`MOST_BYTES`.
        """
        require_sizes(graph)
        plan = schedule(graph, target, choose(graph, target, ctx))
        storage = Storage(graph, plan, emit.in_place)
        copies = [emit.copy_step(value, storage.output_value(value, i), target) for value, i in storage.copies]
        steps = [*storage.steps, *copies]
        arena = Arena(storage.arena_buffers, graph.bounds)
        weights, states = Weights(target.alignment), States()
        typical, stored = typical_sizes(graph), weight_bytes(graph)
        phases = Phases(graph, steps, plan.entries)
        calls, records = [], []
        for step in steps:
            addresses = [_address(operand, storage, arena, weights, states, target) for operand in step.operands]
            if target.npu.zero_point_bias:
                _tell_bias(step, addresses, target, ctx)
            shards = [place.index for place in addresses if place.kind == "constant"]
            work = replace(step.work, weight_set=stored)
            record = _record(step, work, typical, target, shards)
            title = f"{step.region.label}, {record.name}: {step.node.output.type}"
            jump = None if step.jump is None else storage.labels[step.jump]
            parallel = step.units != "1" and parallel_condition(work, target)
            calls.append(module.Call(step, addresses, title, parallel, jump))
            records.append(record)
        units = module.units(graph, calls, phases, arena, plan.symbols)
        if ctx.emit is not None:
            write_sources(units, ctx.emit / "c")
        return Build(
            code=[compile_variant(units, target, variant, jobs) for variant in target.variants],
            shards=weights.shards,
            steps=records,
            buffers=arena.records(),
            arena_bytes=arena.nbytes,
            live_set_bytes=arena.live_set,
            scratch_bytes=max((step.scratch for step in steps), default=0),
            state_bytes=states.nbytes,
            unbounded=arena.is_dynamic,
            offset_count=arena.offset_count,
            symbols=plan.symbols,
        )


def require_sizes(graph: Graph) -> None:
    """Every input needs a rank, and no tensor of fixed size may be larger than memory."""
    problems = Problems()
    for value in graph.inputs:
        if value.shape is None:
            problems.add(
                ModelError(
                    "E108",
                    f"the rank of input %{value.name} is not known",
                    hint=f"give its shape, e.g. --input-shape {value.name}:1x3x224x224",
                )
            )
    problems.raise_if_any()
    for value in dict.fromkeys((*graph.values(), *graph.computed())):
        if value.shape is not None and is_static(value.shape) and value.type.nbytes > MOST_BYTES:
            name = value.producer.name if value.producer is not None else ""
            problems.add(ModelError("E111", f"%{value.name} does not fit into memory: {value.type}", node=name))
    problems.raise_if_any()


def parallel_condition(work: Work, target: Target) -> bool | str:
    """Whether a step goes to the thread pool; a C expression where that depends on sizes."""
    conditions = takes_longer(work, target, PARALLEL_GAIN * target.parallel_us)
    if all(isinstance(amount, int) for amount, _ in conditions):
        return any(amount >= limit for amount, limit in conditions)
    return " || ".join(f"{size(amount)} >= {limit}" for amount, limit in conditions)


class States:
    """Where the steps' states lie."""

    def __init__(self) -> None:
        self.nbytes = 0

    def add(self, state: State) -> int:
        place = self.nbytes
        self.nbytes = place + -(-state.nbytes // STATE_ALIGNMENT) * STATE_ALIGNMENT
        return place


def _tell_bias(step: Step, addresses: Sequence[Address], target: Target, ctx: PassContext) -> None:
    """Record where the weights of a step lie that a neural processor reads too."""
    ctx.pass_name = "weights"
    for operand, address in zip(step.operands, addresses, strict=True):
        if isinstance(operand, ByteWeights):
            reason = f"uint8 around {target.npu.zero_point_bias}, {operand.layout}, padded with the zero point"
            place = {"shard": address.index, "offset": address.offset, "bytes": operand.data.nbytes}
            ctx.decide(step.node, "bias", reason, **place)


def _address(
    operand: Operand, storage: Storage, arena: Arena, weights: Weights, states: States, target: Target
) -> Address:
    if isinstance(operand, Symbols):
        return Address("symbols", 0, 0)
    if isinstance(operand, State):
        return Address("state", 0, states.add(operand))
    if isinstance(operand, ByteWeights):
        shard, offset = weights.add(operand.stored(target.npu.zero_point_bias))
        return Address("constant", shard, offset)
    if not isinstance(operand, Value | Workspace):
        shard, offset = weights.add(operand)
        return Address("constant", shard, offset)
    buffer, within = storage[operand]
    if buffer.kind == "constant":
        assert buffer.value is not None and buffer.value.data is not None
        stored = buffer.value.data.transpose(buffer.value.type.order)
        shard, base = weights.add(stored)
        return Address("constant", shard, dim(base + within))
    if buffer.kind == "arena":
        return arena.address(buffer, within)
    return Address(buffer.kind, buffer.index, within)


def _record(
    step: Step, work: Work, typical: Mapping[sympy.Symbol, int], target: Target, shards: Sequence[int]
) -> StepT:
    node = step.node
    cost = ops.get(node).cost(node)
    return StepT(
        name=step_name(node),
        op=step.region.label,
        kernel=step.kernel.label,
        shards=sorted(set(shards)),
        flops=value_at(cost.flops, typical),
        bytes=value_at(cost.bytes, typical),
        predictedUs=predicted_us(work, typical, target),
        shape=str(node.output.type),
    )


def predicted_us(work: Work, typical: Mapping[sympy.Symbol, int], target: Target) -> float:
    """Of a step, at usual sizes."""
    return roofline(work.at(typical), target).us


def step_name(node: Node) -> str:
    """What reports call the step of a node: the names of all that it computes."""
    names = [inner.name for inner in leaves(node) if inner.name] if node.body is not None else [node.name]
    return node.output.name if not any(names) else "+".join(dict.fromkeys(names))


def compile_variant(units: Sequence[Unit], target: Target, variant: Variant, jobs: int | None) -> Code:
    image = flatten(link_variant(units, target, variant, jobs))
    entry, plan = image.entries["mcp26_entry"], image.entries["mcp26_plan"]
    return Code(variant.name, target.isa, image.data, entry, plan, variant.features)


def link_variant(units: Sequence[Unit], target: Target, variant: Variant, jobs: int | None = None) -> bytes:
    """The ELF shared object that a CODE section is made of: addresses in it are offsets in the section, and it has the
    functions' names."""
    machine = Machine(target.triple, variant.mcpu, (f"-DMCP26_WEIGHT_BIAS={target.npu.zero_point_bias}",))
    return link_image(compile_objects(units, machine, [KERNELS, abi.include_dir()], jobs), machine)


def write_sources(units: Sequence[Unit], folder: Path) -> None:
    """The generated C, for people and for :func:`read_sources`: ``--emit DIR`` puts it below DIR/c."""
    folder.mkdir(parents=True, exist_ok=True)
    for unit in units:
        (folder / f"{unit.name}.c").write_text(unit.source, encoding="utf-8")


def read_sources(folder: Path) -> list[Unit]:
    """What :func:`write_sources` wrote."""
    return [Unit(path.stem, path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.c"))]
