"""Convolutions of bytes of every form: exact, and the same on every processor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mcpc
from mcpc import ops
from mcpc.golden import Golden
from mcpc.ir import DType, Graph, Node, TensorType, Value
from mcpc.onnx_writer import to_model
from mcpc.plugins import find_target
from mcpc.runtime_api import cpu_has
from mcpc.targets.native import choice

from .conftest import DeviceRun

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Convolution:
    """One over as many axes as ``size`` has; ``pads`` as in ONNX."""

    size: tuple[int, ...]
    depth: int  # of a group
    columns: int  # of a group
    groups: int
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    is_signed: bool = False
    batch: int = 1

    @property
    def dtype(self) -> DType:
        return DType.int8 if self.is_signed else DType.uint8

    @property
    def zero(self) -> Array:
        return np.array(-7 if self.is_signed else 131, self.dtype.numpy)

    def input(self, rng: np.random.Generator) -> Array:
        shape = (self.batch, self.depth * self.groups, *self.size)
        return rng.integers(0, 256, shape).astype(np.uint8).view(self.dtype.numpy)

    def weights(self, rng: np.random.Generator) -> Array:
        return rng.integers(-128, 128, (self.columns * self.groups, self.depth, *self.kernel)).astype(np.int8)

    def wanted(self, x: Array, w: Array) -> Array:
        axes = len(self.size)
        begins, ends = self.pads[:axes], self.pads[axes:]
        padded = np.pad(x.astype(np.int64) - self.zero, [(0, 0), (0, 0), *zip(begins, ends, strict=True)])
        extent = [(k - 1) * by + 1 for k, by in zip(self.kernel, self.dilations, strict=True)]
        windows = np.lib.stride_tricks.sliding_window_view(padded, extent, tuple(range(2, 2 + axes)))
        for axis, (step, by) in enumerate(zip(self.strides, self.dilations, strict=True)):
            windows = windows.take(range(0, windows.shape[2 + axis], step), 2 + axis)
            windows = windows.take(range(0, windows.shape[2 + axes + axis], by), 2 + axes + axis)
        windows = windows.reshape(self.batch, self.groups, self.depth, *windows.shape[2:])
        split = w.astype(np.int64).reshape(self.groups, self.columns, self.depth, *self.kernel)
        letters = "hw"[:axes], "ij"[:axes]
        sums = np.einsum("ngc{0}{1},goc{1}->ngo{0}".format(*letters), windows, split)
        return np.asarray(sums.reshape(self.batch, -1, *sums.shape[3:])).astype(np.int32)


@st.composite
def convolutions(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Convolution:
    axes = draw(st.sampled_from([1, 2, 2]))

    def each(strategy: st.SearchStrategy[int]) -> tuple[int, ...]:
        return tuple(draw(strategy) for _ in range(axes))

    kernel, dilations = each(st.integers(1, 5)), each(st.sampled_from([1, 1, 1, 2, 3]))
    extent = [(k - 1) * by + 1 for k, by in zip(kernel, dilations, strict=True)]
    pads = tuple(draw(st.integers(0, most)) for _ in range(2) for most in extent)
    size = tuple(draw(st.integers(max(1, need - 2), need + 11)) for need in extent)
    size = tuple(max(s, e - pads[i] - pads[axes + i]) for i, (s, e) in enumerate(zip(size, extent, strict=True)))
    is_depthwise = draw(st.booleans())
    groups = draw(st.integers(2, 40)) if is_depthwise else draw(st.sampled_from([1, 1, 2, 3, 4, 6]))
    depth, columns = (1, 1) if is_depthwise else (draw(st.integers(1, 9)), draw(st.integers(1, 20)))
    strides = each(st.integers(1, 3))
    return Convolution(size, depth, columns, groups, kernel, strides, dilations, pads, draw(st.booleans()),
                       draw(st.integers(1, 2)))  # fmt: skip


def network(cases: Sequence[Convolution]) -> tuple[Graph, list[Array], list[Array]]:
    """A graph of convolutions beside one another, its inputs and its results."""
    rng = np.random.default_rng(7)
    graph, inputs, results = Graph("convolutions"), [], []
    for index, case in enumerate(cases):
        x, w = case.input(rng), case.weights(rng)
        operands = (
            graph.add_input(f"x{index}", TensorType(case.dtype, x.shape)),
            graph.constant("w", w),
            graph.constant("zero", case.zero),
        )
        attrs = {"group": case.groups, "strides": case.strides, "dilations": case.dilations, "pads": case.pads}
        out = Value(f"y{index}", TensorType(DType.int32, None))
        node = Node("ConvInteger", operands, [out], attrs, out.name)
        ops.infer_node(node, ops.InferContext())
        graph.append(node)
        graph.outputs.append(out)
        inputs.append(x)
        results.append(case.wanted(x, w))
    return graph, inputs, results


@pytest.mark.parametrize("target", ["host", "x86-64-v3"])
@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cases=st.lists(convolutions(), min_size=6, max_size=6))
def test_sums_are_exact(tmp_path: Path, target: str, cases: list[Convolution]) -> None:
    graph, inputs, results = network(cases)
    path = mcpc.compile(to_model(graph).SerializeToString(), target, tmp_path / "x", passes="fuse, dce", golden=0)
    with mcpc.load(path) as session:
        for want, got in zip(results, session.run(None, {f"x{i}": x for i, x in enumerate(inputs)}), strict=True):
            np.testing.assert_array_equal(got, want, strict=True)


FILTERED = [
    Convolution((14, 15), 32, 24, 1, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    Convolution((9, 8), 16, 40, 1, (3, 3), (1, 1), (1, 1), (2, 0, 1, 1), True, 2),
    Convolution((14, 15), 30, 24, 1, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    Convolution((14, 15), 32, 24, 1, (3, 3), (2, 1), (1, 1), (1, 1, 1, 1)),
    Convolution((14, 15), 16, 24, 2, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
]


@pytest.mark.parametrize(("target", "bias"), [("x86-64-v3", 0), ("x86-64-v3", 128), ("x86-64-v4", 0), ("rock5b", 0)])
def test_minimal_filtering_where_only_pairs_are_multiplied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, bias: int
) -> None:
    """Whole channels, one group, stride 1; and weights that no neural processor is to find."""
    monkeypatch.setattr(choice, "MOST_GROWTH", 10.0)
    graph, inputs, results = network(FILTERED)
    model = to_model(graph).SerializeToString()
    path = mcpc.compile(model, target, tmp_path / "x", passes="fuse, dce", golden=0, zero_point_bias=bias)
    document = mcpc.inspect(path)
    kernels = [step["kernel"] for step in document["steps"] if step["kernel"] != "relayout"]
    filtered = kernels.count("conv winograd 2x2 of integers")
    weighed = {each["subject"]: each["numbers"] for each in document["decisions"] if each["pass"] == "kernels"}
    for step in document["steps"]:  # what is stated of a step is what its kernel executes
        if step["name"] in weighed:
            stated = weighed[step["name"]]["winograd 2x2 us" if "winograd" in step["kernel"] else "indirect us"]
            assert step["predicted_us"] == pytest.approx(stated, rel=1e-3)
    assert filtered == (2 if target == "x86-64-v3" and not bias else 0) and len(kernels) == len(FILTERED)
    if find_target(target).variant_here(cpu_has) is not None:
        with mcpc.load(path) as session:
            got = session.run(None, {f"x{i}": x for i, x in enumerate(inputs)})
        for each, want in zip(got, results, strict=True):
            np.testing.assert_array_equal(each, want, strict=True)


#: One of each kernel and kind of group: first layers, filter banks, depthwise, few and many columns a group.
FORMS = [
    Convolution((18, 19), 3, 20, 1, (7, 7), (2, 2), (1, 1), (3, 3, 3, 3)),
    Convolution((9, 40), 1, 9, 1, (3, 9), (1, 3), (1, 1), (1, 4, 1, 4), True),
    Convolution((70,), 1, 17, 1, (25,), (10,), (1,), (0, 0)),
    Convolution((12, 11), 1, 1, 24, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    Convolution((12, 11), 1, 1, 21, (5, 5), (2, 2), (1, 1), (2, 2, 2, 2), True, 2),
    Convolution((33,), 1, 1, 40, (31,), (1,), (1,), (15, 15)),
    Convolution((9, 9), 1, 1, 8, (3, 3), (1, 1), (6, 6), (6, 6, 6, 6)),
    Convolution((7, 7), 3, 4, 6, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    Convolution((5, 6), 5, 18, 3, (3, 1), (1, 1), (2, 2), (2, 0, 2, 0), True),
    Convolution((6, 7), 1, 2, 12, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
]  # fmt: skip


@pytest.mark.parametrize("cpu", ["cortex-a76", "cortex-a72"])
def test_sums_are_exact_on_aarch64(
    tmp_path: Path, run_on_aarch64: DeviceRun, monkeypatch: pytest.MonkeyPatch, cpu: str
) -> None:
    """With a dot product and without."""
    graph, inputs, results = network(FORMS)
    case = Golden(inputs, results, rtol=0.0, atol=0.0)
    monkeypatch.setattr("mcpc.compiler.golden_cases", lambda *given: [case])
    model = to_model(graph).SerializeToString()
    path = mcpc.compile(model, "aarch64", tmp_path / "x", passes="fuse, dce", golden=1)
    done = run_on_aarch64(path, "--selftest", cpu=cpu)
    assert done.returncode == 0, done.stdout + done.stderr
