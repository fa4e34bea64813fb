"""Calibration of whole networks: what is observed, by whom, and what goes wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mcpc
from mcpc.calib import runner
from mcpc.calib.collection import collect
from mcpc.calibrator import Run
from mcpc.errors import CalibrationError, UsageError
from mcpc.ir import DType, Graph, TensorType

Array = np.ndarray[Any, Any]

F32 = DType.float32


def network() -> Graph:
    """y = log(x), z = y + x"""
    graph = Graph("network")
    x = graph.add_input("x", TensorType(F32, (1, 4)))
    (y,) = graph.emit("Log", [x], [TensorType(F32, (1, 4))], names=["y"])
    (z,) = graph.emit("Add", [y, x], [TensorType(F32, (1, 4))], names=["z"])
    graph.outputs.append(z)
    return graph


def compiled(model: bytes, names: Sequence[str], folder: Path) -> Run:
    session = mcpc.load(mcpc.compile(model, "host", folder / "network.mcp26bin", golden=0))
    return lambda feeds: session.run(list(names), dict(feeds))


def tensors(graph: Graph) -> list[Any]:
    return [*graph.inputs, *(node.output for node in graph.nodes)]


DATA = np.array([[[1, 2, 4, 8]], [[0, 1, 1, 16]]], np.float32)


def test_ranges_of_inputs_inner_tensors_and_outputs() -> None:
    graph = network()
    told: list[tuple[str, int, int]] = []
    samples = [{"x": each} for each in DATA]
    table = collect(graph, tensors(graph), samples, "minmax", progress=lambda *each: told.append(each))
    assert table.samples == 2 and table.method == "minmax" and table.runner == "ONNX Runtime"
    assert (table.ranges["x"].low, table.ranges["x"].high) == (0.0, 16.0)
    assert table.ranges["y"].low == 0.0 and table.ranges["y"].high == pytest.approx(np.log(16))
    assert table.ranges["z"].high == pytest.approx(16 + np.log(16))
    assert table.ignored == {"y": 1, "z": 1}  # log(0)
    assert told == [("calibrate with ONNX Runtime", index, 2) for index in range(2)]


def test_a_range_of_outliers_is_told() -> None:
    graph = network()
    graph.inputs[0].type = TensorType(F32, (1, 40_000))
    x = np.ones((1, 40_000), np.float32)
    x[0, 7] = 5000.0
    samples = [{"x": x}]
    assert collect(graph, graph.inputs, samples, "minmax").usual == {"x": 2.0}
    assert collect(graph, graph.inputs, samples, "percentile").usual == {}


@pytest.mark.parametrize("faster", ["ONNX Runtime", "the compiled network"])
def test_the_faster_of_two_runners_takes_over(monkeypatch: pytest.MonkeyPatch, faster: str) -> None:
    graph = network()
    samples = [{"x": each} for each in np.repeat(DATA, 10, axis=0)]
    expected = collect(graph, tensors(graph), samples, "mse")
    clock = [0.0]

    def taking(seconds: float, run: Run) -> Run:
        def timed(feeds: Mapping[str, Array]) -> Sequence[Array]:
            clock[0] += seconds
            return run(feeds)

        return timed

    plain, fast = runner.onnxruntime, faster == "the compiled network"
    monkeypatch.setattr(runner, "PATIENCE", 0.0)
    monkeypatch.setattr(runner, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    monkeypatch.setattr(runner, "onnxruntime", lambda *args: taking(2.0, plain(*args)))
    table = collect(
        graph, tensors(graph), samples, "mse", compiled=lambda *args: taking(1.0 if fast else 3.0, compiled(*args))
    )
    assert table.runner == faster
    assert table.ignored == expected.ignored
    for name, each in expected.ranges.items():
        assert (table.ranges[name].low, table.ranges[name].high) == pytest.approx((each.low, each.high), rel=1e-5)


def test_a_tensor_without_a_finite_number_gets_no_range() -> None:
    graph = network()
    table = collect(graph, tensors(graph), [{"x": 0 * DATA[0]}], "minmax")
    assert set(table.ranges) == {"x"} and table.ignored == {"y": 4, "z": 4}


def test_unknown_methods_are_refused() -> None:
    graph = network()
    with pytest.raises(UsageError, match="no calibration method 'minmex'") as caught:
        collect(graph, tensors(graph), [{"x": DATA[0]}], "minmex")
    assert "minmax" in caught.value.hint


def test_samples_that_do_not_run_are_named() -> None:
    graph = Graph("gather")
    x = graph.add_input("x", TensorType(DType.int64, (2,)))
    table = graph.constant("table", np.arange(4, dtype=np.float32))
    (y,) = graph.emit("Gather", [table, x], [TensorType(F32, (2,))], names=["y"])
    graph.outputs.append(y)
    samples = [{"x": np.array([0, 3])}, {"x": np.array([0, 4])}]
    with pytest.raises(CalibrationError, match="sample 1 of arrays does not run"):
        collect(graph, [y], samples, "minmax")
