"""The native family: ARM NEON and x86-64 AVX2 code from one kernel source."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mcpc import abi, ops
from mcpc._schema import BufferT, StepT
from mcpc.artifact import Code
from mcpc.codegen import Build
from mcpc.errors import ModelError, Problems
from mcpc.ir import Graph, Value, is_static
from mcpc.pipeline import Pass, PassContext
from mcpc.target import Target, Variant

from . import emit, module
from .image import flatten
from .kernel import Operand, Step
from .layout import AssignLayouts
from .lower import Lower
from .storage import Storage
from .toolchain import Machine, Unit, compile_objects, link_image
from .weights import Weights

KERNELS = Path(__file__).parent / "kernels"

#: A step goes to the thread pool where its predicted time is at least this many times the cost of handing it over.
PARALLEL_GAIN = 4.0

#: Operators without a kernel of their own that the generic passes replace.
REWRITTEN = ("BatchNormalization",)

#: No tensor may take more bytes: what a process can address. Below it no size or offset leaves 64 bits.
MOST_BYTES = 2**47


class NativeFamily:
    """See :class:`mcpc.codegen.Family`."""

    def passes(self, target: Target) -> Sequence[Pass]:
        return (Lower(), AssignLayouts())

    def declined(self, graph: Graph) -> list[ModelError]:
        """See :class:`mcpc.codegen.Family`."""
        folded: set[int] = set()  # computed from constants and shapes only
        errors = []
        for node in graph.nodes:
            inputs = [value for value in node.inputs if value is not None]
            if node.is_op("Shape", "Size") or all(value.is_constant or id(value) in folded for value in inputs):
                folded.update(id(output) for output in node.outputs if output is not None)
            elif ops.find(node.domain, node.op) is not None and node.op not in REWRITTEN:
                reason = emit.refusal(node)
                if reason is not None:
                    errors.append(ModelError("E101", reason, op=node.op, node=node.name))
        return errors

    def build(self, graph: Graph, target: Target, ctx: PassContext, jobs: int | None) -> Build:
        """Generate, compile and check the code of ``graph`` for every variant of ``target``.

        Raises all nodes without native code at once (E101, E102, E109), E108 for sizes that are not known, E111 for
        tensors beyond :data:`MOST_BYTES`.
        """
        require_static(graph)
        storage = Storage(graph, emit.in_place)
        steps = emit_steps(graph, storage, target.nr)
        weights = Weights()
        calls, records = [], []
        for index, step in enumerate(steps):
            addresses = [_address(operand, storage, weights) for operand in step.operands]
            record = _record(step, target, [index for kind, index, _ in addresses if kind == "constant"])
            is_parallel = record.predictedUs >= PARALLEL_GAIN * target.parallel_us
            title = f"{step.region.label}, {record.name}: {step.node.output.type}"
            calls.append(module.Call(step, [module.address(*place) for place in addresses], title, is_parallel))
            records.append(record)
        units = module.units(graph, calls, storage.plan.arena)
        if ctx.emit is not None:
            write_sources(units, ctx.emit / "c")
        return Build(
            code=[compile_variant(units, target, variant, jobs) for variant in target.variants],
            shards=weights.shards,
            steps=records,
            buffers=[BufferT(b.name, b.offset, b.nbytes, b.first, b.last) for b in storage.arena_buffers],
            arena_bytes=storage.plan.arena,
            live_set_bytes=storage.plan.live_set,
            scratch_bytes=max((step.scratch for step in steps), default=0),
        )


def require_static(graph: Graph) -> None:
    """Native code has fixed sizes so far."""
    problems = Problems()
    for value in graph.inputs:
        if not is_static(value.shape):
            shape = value.shape if value.shape is not None else (1, 3, 224, 224)
            example = "x".join(str(size) if isinstance(size, int) else "1" for size in shape)
            problems.add(
                ModelError(
                    "E108",
                    f"input %{value.name} has sizes that are not fixed: {value.type}",
                    hint=f"fix them, e.g. --input-shape {value.name}:{example}",
                )
            )
    problems.raise_if_any()
    for node in graph.nodes:
        for output in node.outputs:
            if output is not None and not is_static(output.shape):
                problems.add(
                    ModelError(
                        "E108", f"the size of %{output.name} depends on data: {output.type}", op=node.op, node=node.name
                    )
                )
    problems.raise_if_any()
    for value in graph.values():
        if value.type.nbytes > MOST_BYTES:
            name = value.producer.name if value.producer is not None else ""
            problems.add(ModelError("E111", f"%{value.name} does not fit into memory: {value.type}", node=name))
    problems.raise_if_any()


def emit_steps(graph: Graph, storage: Storage, nr: int) -> list[Step]:
    """One step a computing node, and one for each output that lies elsewhere."""
    problems = Problems()
    steps: list[Step] = []
    for node in storage.steps:
        with problems.collect():
            steps.append(emit.emit(node, nr))
    for value, index in storage.copies:
        steps.append(emit.copy_step(value, storage.output_value(value, index), nr))
    problems.raise_if_any()
    return steps


def _address(operand: Operand, storage: Storage, weights: Weights) -> tuple[str, int, int]:
    """(kind, index, byte offset) of an operand."""
    if not isinstance(operand, Value):
        shard, offset = weights.add(operand)
        return "constant", shard, offset
    buffer, offset = storage[operand]
    if buffer.kind == "constant":
        assert buffer.value is not None and buffer.value.data is not None
        stored = buffer.value.data.transpose(buffer.value.type.order)
        shard, base = weights.add(stored)
        return "constant", shard, base + offset
    return buffer.kind, buffer.index, buffer.offset + offset


def _record(step: Step, target: Target, shards: list[int]) -> StepT:
    node = step.node
    cost = ops.get(node).cost(node)
    flops, traffic = int(cost.flops), int(cost.bytes)
    core = target.big_core
    predicted = max(flops / core.gflops, traffic / core.gbps) / 1e3 + target.launch_us
    names = [inner.name for inner in node.body.nodes if inner.name] if node.body is not None else [node.name]
    return StepT(
        name=node.output.name if not any(names) else "+".join(dict.fromkeys(names)),
        op=step.region.label,
        kernel=step.kernel.label,
        shards=sorted(set(shards)),
        flops=flops,
        bytes=traffic,
        predictedUs=predicted,
        shape=str(node.output.type),
    )


def compile_variant(units: Sequence[Unit], target: Target, variant: Variant, jobs: int | None) -> Code:
    machine = Machine(target.triple, variant.mcpu)
    include = [KERNELS, abi.include_dir()]
    objects = compile_objects(units, machine, include, jobs)
    image = flatten(link_image(objects, machine))
    entry, plan = image.entries["mcp26_entry"], image.entries["mcp26_plan"]
    return Code(variant.name, target.isa, image.data, entry, plan, variant.features)


def write_sources(units: Sequence[Unit], folder: Path) -> None:
    """The generated C, for people: ``--emit DIR`` puts it below DIR/c."""
    folder.mkdir(parents=True, exist_ok=True)
    for unit in units:
        (folder / f"{unit.name}.c").write_text(unit.source, encoding="utf-8")
