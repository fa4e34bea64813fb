"""Measure the coefficients of a target on the machine that it is: the rate of every class of kernels, the bandwidth of
every level of memory, the cost of a step.

A small network for each class has operators of usual sizes side by side, with data that fit into the second cache; the
rate is the median of operations over time. Bandwidths come from sums of two tensors: of a cache the slope of time over
bytes, so that the cost of starting a step does not count. Of kernels that mix two classes, as minimal filtering does,
the rates are those that explain the times of layers with different shares of both.
"""

from __future__ import annotations

import dataclasses
import datetime
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from mcpc import coefficients, onnx_reader, plugins, processor
from mcpc.codegen import Family
from mcpc.cost_model import work_of
from mcpc.errors import Problems, TargetError
from mcpc.ir import OPSET, Graph
from mcpc.kernel_class import KernelClass
from mcpc.loader import Session
from mcpc.pipeline import PassContext, parse_pipeline, run_pipeline
from mcpc.runtime_api import cpu_has
from mcpc.sample_inputs import sample_inputs
from mcpc.target import Core, Measured, Target
from mcpc.trial import trial


class Measure(Protocol):
    """Times serialized networks. A run's time is without the cost of calling it; all are in milliseconds."""

    def __call__(self, model: bytes) -> Mapping[str, float]:
        """Of every step by the name of its node, and of a run ("")."""
        ...

    def mixtures(self, model: bytes) -> Sequence[Mixture]:
        """Of every step with each kernel that it can take."""
        ...

    def handed_over(self, model: bytes) -> tuple[float, float] | None:
        """Of a run of which every step goes to the thread pool, on one thread and on two; None where this process has
        not two cores."""
        ...


@dataclass(frozen=True)
class Mixture:
    """What a kernel executed, by class, in so many milliseconds."""

    operations: Mapping[KernelClass, int]
    ms: float


#: Steps of the network that shows what a step costs.
STEPS = 200

#: Elements of a step that two threads share: few enough to cost next to nothing, enough to be cut in two.
SHARED_ELEMENTS = 4096

#: A rate is measured with so many milliseconds of runs, and so many runs, at least.
MEASURE_MS, MEASURE_RUNS = 200.0, 9


@dataclass
class Probe:
    """A network of operators that do not depend on one another."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    inputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    untimed: list[str] = field(default_factory=list)

    def input(self, *shape: int, dtype: int = TensorProto.FLOAT) -> str:
        name = f"x{len(self.inputs)}"
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def weight(self, *shape: int, dtype: Any = np.float32) -> str:
        name = f"w{len(self.weights)}"
        numbers = np.random.default_rng(len(self.weights)).uniform(-1, 1, shape) * (1 if dtype is np.float32 else 100)
        self.weights.append(numpy_helper.from_array(numbers.astype(dtype), name))
        return name

    def integers(self, *numbers: int) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.array(numbers, np.int64), name))
        return name

    def add(self, op: str, *inputs: str, outputs: int = 1, is_output: bool = True, **attributes: Any) -> str:
        """The name of the first output of a new node; the other ones are left out."""
        name = f"{op}{len(self.nodes)}"
        made = [f"{name}_out", *(f"{name}_{index}" for index in range(1, outputs))]
        self.nodes.append(helper.make_node(op, inputs, made, name, **attributes))
        self.outputs += made if is_output else []
        return made[0]

    def add_inside(self, op: str, *inputs: str, **attributes: Any) -> None:
        """A node whose result is no output of the network: those get new pages with every run."""
        self.untimed.append(self.add("ReduceMax", self.add(op, *inputs, is_output=False, **attributes), keepdims=0))

    def model(self) -> bytes:
        outputs = [helper.make_empty_tensor_value_info(name) for name in self.outputs]
        graph = helper.make_graph(self.nodes, "probe", self.inputs, outputs, self.weights)
        opsets = [helper.make_opsetid("", OPSET)]
        serialized: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
        return serialized


# ---- what is run for each class


def _products(p: Probe) -> None:
    for rows, columns, depth in ((196, 256, 512), (784, 128, 128), (3136, 32, 64), (128, 512, 256)):
        p.add("MatMul", p.input(rows, depth), p.weight(depth, columns))


def _few_rows(p: Probe) -> None:
    for columns, depth in ((256, 512), (512, 384), (1024, 128)):
        p.add("MatMul", p.input(1, depth), p.weight(depth, columns))


def _activations(p: Probe) -> None:
    for batch, rows, columns, depth in ((4, 128, 128, 64), (8, 64, 64, 64), (2, 196, 64, 196)):
        p.add("MatMul", p.input(batch, rows, depth), p.input(batch, depth, columns))


def _convolution(p: Probe, channels: int, pixels: int, outputs: int, groups: int, kernel: int, stride: int) -> None:
    weight = p.weight(outputs, channels // groups, kernel, kernel)
    pads = [kernel // 2] * 4
    p.add("Conv", p.input(1, channels, pixels, pixels), weight, pads=pads, group=groups, strides=[stride] * 2)


def _convolutions(p: Probe) -> None:
    for channels, pixels, stride in ((64, 28, 2), (32, 56, 2), (128, 14, 2)):
        _convolution(p, channels, pixels, channels, 1, 3, stride)
    _convolution(p, 48, 28, 48, 1, 5, 1)


def _planar(p: Probe) -> None:
    for pixels, outputs, kernel, stride in ((112, 32, 3, 2), (64, 16, 3, 1), (112, 64, 7, 2)):
        _convolution(p, 3, pixels, outputs, 1, kernel, stride)


def _depthwise(p: Probe) -> None:
    for channels, pixels, kernel, stride in ((96, 28, 3, 1), (240, 14, 5, 1), (144, 28, 3, 2), (480, 7, 3, 1)):
        _convolution(p, channels, pixels, channels, channels, kernel, stride)


def _integers(p: Probe) -> None:
    for rows, columns, depth in ((196, 256, 512), (784, 128, 128)):
        p.add("MatMulInteger", p.input(rows, depth, dtype=TensorProto.UINT8), p.weight(depth, columns, dtype=np.int8))


def _attentions(p: Probe) -> None:
    for heads, rows, size in ((4, 128, 64), (3, 196, 64), (8, 64, 32)):
        p.add("Attention", *(p.input(1, heads, rows, size) for _ in range(3)))


def _recurrent(p: Probe) -> None:
    for op, gates, steps, inputs, hidden in (("LSTM", 4, 16, 64, 128), ("GRU", 3, 16, 64, 128)):
        weights = p.weight(1, gates * hidden, inputs), p.weight(1, gates * hidden, hidden)
        p.add(op, p.input(steps, 1, inputs), *weights, hidden_size=hidden)


def _pools(p: Probe) -> None:
    for op, channels, pixels in (("MaxPool", 64, 56), ("AveragePool", 128, 28), ("MaxPool", 256, 14)):
        p.add(op, p.input(1, channels, pixels, pixels), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])


def _reductions(p: Probe) -> None:
    for rows, columns in ((128, 384), (512, 64), (1000, 100)):
        p.add("Softmax", p.input(rows, columns))
        p.add("LayerNormalization", p.input(rows, columns), p.weight(columns))
    p.add("ReduceMean", p.input(256, 196), p.integers(1))


def _elementwise(p: Probe) -> None:
    for op in ("Sigmoid", "Tanh", "Erf", "Exp", "Gelu", "HardSwish"):
        p.add(op, p.input(64, 512))


def _moves(p: Probe) -> None:
    p.add("Transpose", p.input(196, 64, 4), perm=[2, 0, 1])
    p.add("Transpose", p.input(128, 4, 64), perm=[1, 0, 2])
    p.add("Concat", p.input(1, 64, 400), p.input(1, 64, 400), axis=2)
    p.add("Gather", p.input(1000, 64), p.integers(*range(0, 1000, 3)))
    p.add("Expand", p.input(64, 1, 64), p.integers(64, 16, 64))


def _far_moves(p: Probe) -> None:
    """Of a few MB, as between the layers of an image network."""
    p.add_inside("Transpose", p.input(144, 2, 3200), perm=[2, 1, 0])
    p.add_inside("Transpose", p.input(1600, 2, 192), perm=[2, 1, 0])
    p.add_inside("Concat", p.input(1, 6400, 64), p.input(1, 6400, 80), axis=2)
    p.add_inside("Slice", p.input(1, 6400, 128), *(p.integers(number) for number in (64, 128, 2)))
    p.add_inside("Pad", p.input(80, 80, 64), p.integers(1, 1, 0, 1, 1, 0))
    p.add_inside("Expand", p.input(40, 1, 40, 1, 128), p.integers(40, 2, 40, 2, 128))


def _scalars(p: Probe) -> None:
    p.add("TopK", p.input(16, 1000), p.integers(10), outputs=2)
    p.add("CumSum", p.input(64, 256), p.integers(1))


def _minimal_filters(p: Probe) -> None:
    """Few channels show the transforms, many the products."""
    for channels, pixels, outputs in ((16, 48, 16), (32, 48, 32), (64, 24, 64), (64, 48, 128), (128, 24, 64)):
        _convolution(p, channels, pixels, outputs, 1, 3, 1)


#: The classes that :func:`_minimal_filters` shows together.
MIXED = (KernelClass.WINOGRAD, KernelClass.TRANSFORM)

#: The networks by the class that they show.
PROBES: dict[KernelClass, Callable[[Probe], None]] = {
    KernelClass.GEMM: _products,
    KernelClass.GEMV: _few_rows,
    KernelClass.MATMUL: _activations,
    KernelClass.CONV: _convolutions,
    KernelClass.CONV_PLANAR: _planar,
    KernelClass.DEPTHWISE: _depthwise,
    KernelClass.INTEGER: _integers,
    KernelClass.ATTENTION: _attentions,
    KernelClass.RECURRENT: _recurrent,
    KernelClass.POOL: _pools,
    KernelClass.REDUCE: _reductions,
    KernelClass.ELEMENTWISE: _elementwise,
    KernelClass.MOVE: _moves,
    KernelClass.FAR_MOVE: _far_moves,
    KernelClass.SCALAR: _scalars,
}


def calibrate(
    target: Target,
    measure: Measure | None = None,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> Target:
    """``target`` with the coefficients of its big core measured on this machine; ``progress`` is called with what is
    measured, its index and the number of stages. TargetError E300 where this machine cannot run the target's code."""
    if measure is None:
        if target.variant_here(cpu_has) is None:
            message = f"this machine does not run code for {target.name}"
            hint = "calibrate on the device, or use the coefficients of the description"
            raise TargetError("E300", message, hint=hint)
        measure = Stopwatch(target)
    stages = [*PROBES, "mixed", "bandwidth", "steps"]
    progress("steps", 0, len(stages))
    launch_us = step_cost(measure)
    rates: dict[KernelClass, float] = {}
    for index, (kind, build) in enumerate(PROBES.items()):
        progress(f"{kind} kernels", index + 1, len(stages))
        probe = Probe()
        build(probe)
        rates[kind] = _rate(probe, measure, launch_us)
    progress("mixed kernels", len(stages) - 2, len(stages))
    probe = Probe()
    _minimal_filters(probe)
    described = target.big_core.rates
    rates |= mixed_rates(measure.mixtures(probe.model()), launch_us, [described[kind] for kind in MIXED])
    progress("memory", len(stages) - 1, len(stages))
    bandwidths: dict[str, Any] = {**_bandwidths(target.big_core, measure)}
    core = target.big_core
    scale = rates[KernelClass.GEMM] / core.rates[KernelClass.GEMM]
    measured = Measured(datetime.date.today().isoformat(), processor.name(), tuple(map(str, rates)))
    all_rates = {kind: _short(rates.get(kind, core.rates[kind] * scale)) for kind in KernelClass}
    source = f"measured {measured.date} on {measured.processor}"
    core = dataclasses.replace(core, **bandwidths, rates=all_rates, source=source)
    return dataclasses.replace(
        target,
        cores=(core, *target.cores[1:]),
        launch_us=_short(launch_us),
        parallel_us=_short(hand_over_cost(measure) or target.parallel_us),
        measured=measured,
    )


def _short(number: float) -> float:
    return float(f"{number:.4g}")


def _chain(steps: int, elements: int) -> bytes:
    """A network of so many small steps, one behind the other."""
    probe = Probe()
    value = probe.input(elements)
    for index in range(steps):
        value = probe.add("Neg", value, is_output=index == steps - 1)
    return probe.model()


def step_cost(measure: Measure) -> float:
    """Microseconds that a step takes beside its work, from runs of many tiny ones."""
    one, many = (measure(_chain(count, 8))[""] for count in (1, STEPS))
    return max((many - one) / (STEPS - 1) * 1e3, 1e-3)


def hand_over_cost(measure: Measure) -> float | None:
    """Microseconds that two threads lose by sharing a step: what they take beyond half the time of one."""
    one, many = (measure.handed_over(_chain(count, SHARED_ELEMENTS)) for count in (1, STEPS))
    if one is None or many is None:
        return None
    shared, alone = many[1] - one[1], many[0] - one[0]
    return max((shared - alone / 2) / (STEPS - 1) * 1e3, 1e-2)


def mixed_rates(mixtures: Sequence[Mixture], launch_us: float, described: Sequence[float]) -> dict[KernelClass, float]:
    """The rates of the two classes of :data:`MIXED`, in 1e9 operations a second, that miss the times of the kernels
    that execute both by the least sum of squares, relative to the times. Where the times tell no such rates, those of
    the description, both faster or slower by one factor; none where no kernel executes both."""
    mixtures = [each for each in mixtures if all(each.operations.get(kind) for kind in MIXED)]
    if not mixtures:
        return {}
    times = np.array([max(each.ms * 1e3 - launch_us, 1e-3) for each in mixtures])
    counts = np.array([[each.operations[kind] for kind in MIXED] for each in mixtures]) / 1e3 / times[:, None]
    periods = np.linalg.lstsq(counts, np.ones(len(mixtures)), rcond=None)[0]
    if min(periods) <= 0:
        given = 1 / np.array(described)
        periods = given / np.median(counts @ given)
    return dict(zip(MIXED, (1 / periods).tolist(), strict=True))


def operations(model: bytes) -> dict[str, int]:
    """What each node of a network of known sizes executes, by its name."""
    problems = Problems()
    graph = onnx_reader.read(model, problems)
    problems.raise_if_any()
    return {node.name: sum(int(count) for count in work_of(node).at({}).operations.values()) for node in graph.nodes}


def _rate(probe: Probe, measure: Measure, launch_us: float) -> float:
    """1e9 operations a second, the median over the nodes."""
    model = probe.model()
    counts, times = operations(model), measure(model)
    names = [name for name in counts if name in times and f"{name}_out" not in probe.untimed]
    rates = [counts[name] / max(times[name] * 1e3 - launch_us, 1e-3) / 1e3 for name in names]
    return statistics.median(rates)


def _bandwidths(core: Core, measure: Measure) -> dict[str, float]:
    """GB/s of every level; none is faster than the one before it."""
    sizes = [core.l1d_kib << 10, core.l2_kib << 10, core.l3_kib << 10]
    result: dict[str, float] = {}
    fastest = float("inf")
    for name, inner, nbytes in zip(coefficients.BANDWIDTHS, [0, *sizes], [*sizes, 8 * max(sizes)], strict=True):
        if not nbytes:
            result[name] = 0.0
            continue
        low, high = (
            max(inner * 2, nbytes // 4) if nbytes > 4 * inner else inner + (nbytes - inner) // 2,
            nbytes * 3 // 4,
        )
        fastest = min(fastest, _bandwidth(low, high, measure))
        result[name] = _short(fastest)
    return result


def _bandwidth(low: int, high: int, measure: Measure) -> float:
    """GB/s of a sum of two tensors, all three of ``low`` to ``high`` bytes together: the slope of time over bytes."""
    points = []
    for nbytes in (low, high):
        probe = Probe()
        count = nbytes // 12 // 64 * 64
        probe.add_inside("Add", probe.input(count), probe.input(count))
        times = measure(probe.model())
        points.append((count * 12, times[probe.nodes[0].name] * 1e6))
    (small, before), (large, after) = points
    slope = (large - small) / max(after - before, 1e-3)
    return slope if after > before else large / after


class Stopwatch:
    """Compiles networks for ``target`` as they are, and times them here."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def __call__(self, model: bytes) -> dict[str, float]:
        graph, family = self._shaped(model)
        with trial(graph, self.target, family, {}) as session:
            return _times(session, graph)

    def mixtures(self, model: bytes) -> list[Mixture]:
        graph, family = self._shaped(model)
        found = []
        for kernel, steps in family.tunable(graph, self.target).items():
            with trial(graph, self.target, family, {"kernel": kernel}) as session:
                times = _times(session, graph)
            for name, step in steps.items():
                executed = {kind: int(count) for kind, count in step.operations.items()}
                found += [Mixture(executed, times[name])] if name in times else []
        return found

    def handed_over(self, model: bytes) -> tuple[float, float] | None:
        if len(os.sched_getaffinity(0)) < 2:
            return None
        graph, family = self._shaped(model)
        target = dataclasses.replace(self.target, parallel_us=0.0)
        results = []
        for threads in (1, 2):
            with trial(graph, target, family, {}, threads=threads) as session:
                results.append(_times(session, graph)[""])
        return results[0], results[1]

    def _shaped(self, model: bytes) -> tuple[Graph, Family]:
        problems = Problems()
        graph = onnx_reader.read(model, problems)
        problems.raise_if_any()
        family = plugins.find_family(self.target.family)
        series = [*parse_pipeline("dce", plugins.passes()), *family.passes(self.target)]
        return run_pipeline(graph, series, PassContext(target=self.target)), family


def _times(session: Session, graph: Graph) -> dict[str, float]:
    """Milliseconds of every step by its name, and of a run ("")."""
    feeds = sample_inputs(graph.inputs, 0, bounds=graph.bounds)
    profiles: list[list[dict[str, Any]]] = []
    runs: list[float] = []
    session.run(None, feeds)
    while len(runs) < MEASURE_RUNS or sum(runs) < MEASURE_MS:
        began = time.perf_counter()
        session.run(None, feeds)
        runs.append((time.perf_counter() - began) * 1e3)
        profiles.append(session.profile(feeds))
    times = {steps[0]["name"]: _typical([step["ms"] for step in steps]) for steps in zip(*profiles, strict=True)}
    return {**times, "": _typical(runs)}


def _typical(times: Sequence[float]) -> float:
    """The lower quartile: what disturbs a run only makes it longer."""
    return float(np.percentile(times, 25))
