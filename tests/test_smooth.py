"""The pass ``smooth``: the same network, whose bytes lose less; what is predicted of products, and what follows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import mcpc
from mcpc import plugins
from mcpc.errors import UsageError
from mcpc.graph_check import check_graph
from mcpc.ir import Graph, Value
from mcpc.ir_text import parse_graph
from mcpc.judge import judge
from mcpc.onnx_writer import to_model
from mcpc.passes.bias_correction import mean_error
from mcpc.passes.quantize import Quantize
from mcpc.passes.smooth import PREDICTED, Smooth
from mcpc.per_layer import verify_layers
from mcpc.pipeline import PassContext, run_pipeline
from mcpc.precision import Ranges
from mcpc.ranges import Range, RangeTable

Array = np.ndarray[Any, Any]

RNG = np.random.default_rng(0)

#: Of eight channels two are a hundred times as large.
SIZES = np.array([1, 1, 100, 1, 1, 100, 1, 1], np.float32)

PRODUCTS = {
    "matmul": """graph "g" {
  input %x: float32[64, 8]
  const %w: float32[8, 16] = random(1)
  %y: float32[64, 16] = MatMul(%x, %w)
  output %y
}""",
    "gemm": """graph "g" {
  input %x: float32[64, 8]
  const %w: float32[16, 8] = random(1)
  const %b: float32[16] = random(2)
  %y: float32[64, 16] = Gemm(%x, %w, %b) {transB = 1}
  output %y
}""",
    "conv": """graph "g" {
  input %x: float32[1, 8, 6, 6]
  const %w: float32[16, 8, 3, 3] = random(1)
  %y: float32[1, 16, 6, 6] = Conv(%x, %w) {pads = [1, 1, 1, 1]}
  output %y
}""",
    "depthwise": """graph "g" {
  input %x: float32[1, 8, 6, 6]
  const %w: float32[8, 1, 3, 3] = random(1)
  %y: float32[1, 8, 6, 6] = Conv(%x, %w) {pads = [1, 1, 1, 1], group = 8}
  output %y
}""",
    "two readers": """graph "g" {
  input %x: float32[64, 8]
  const %w: float32[8, 16] = random(1)
  const %v: float32[8, 16] = random(2)
  %a: float32[64, 16] = MatMul(%x, %w)
  %b: float32[64, 16] = MatMul(%x, %v)
  %c: float32[64, 16] = Add(%a, %b)
  const %last: int64[1] = [1]
  %d: float32[64, 1] = ReduceMax(%x, %last) {keepdims = 1}
  %y: float32[64, 16] = Add(%c, %d)
  output %y
}""",
}


def samples(graph: Graph, count: int = 4) -> list[Mapping[str, Array]]:
    shape = graph.inputs[0].type.static_shape
    sizes = SIZES.reshape(-1, 1, 1) if len(shape) == 4 else SIZES
    return [{"x": RNG.standard_normal(shape).astype(np.float32) * sizes} for _ in range(count)]


def outputs(graph: Graph, feeds: Mapping[str, Array]) -> Array:
    (result,) = judge(to_model(graph).SerializeToString(), [graph.outputs[0].name])(feeds)
    return result


def lost(got: Array, want: Array) -> float:
    """The ratio of signal to noise, in dB."""
    return float(10 * np.log10(np.square(want).sum() / np.square(got - want).sum()))


@pytest.mark.parametrize("name", PRODUCTS)
def test_the_same_network_of_which_bytes_lose_less(name: str) -> None:
    data = samples(parse_graph(PRODUCTS[name]))
    want = outputs(parse_graph(PRODUCTS[name]), data[0])
    found = []
    for passes in ([Quantize()], [Smooth(), Quantize()]):
        graph, ctx = parse_graph(PRODUCTS[name]), PassContext(options={"ranges": Ranges(data, "minmax", None)})
        for step in passes:
            graph = run_pipeline(graph, [step], ctx)
            check_graph(graph)
            if isinstance(step, Smooth):
                np.testing.assert_allclose(outputs(graph, data[0]), want, rtol=1e-4, atol=1e-4 * np.abs(want).max())
        found.append(lost(outputs(graph, data[0]), want))
    assert found[1] > found[0] + 2, found
    (decision,) = [each for each in ctx.decisions if each.action == "smooth"]
    assert decision.subject == "x" and decision.numbers["after"] > decision.numbers["before"] + 1
    assert decision.numbers["after"] == pytest.approx(found[1], abs=3)  # what was predicted


def test_channels_alike_stay_as_they_are() -> None:
    graph = parse_graph(PRODUCTS["matmul"])
    data = [{"x": RNG.uniform(-1, 1, (64, 8)).astype(np.float32)} for _ in range(20)]
    ctx = PassContext(options={"ranges": Ranges(data, "minmax", None)})
    graph = run_pipeline(graph, [Smooth()], ctx)
    assert [node.op for node in graph.nodes] == ["MatMul"] and ctx.decisions == []
    assert 35 < ctx.options[PREDICTED][graph.nodes[0].name].sqnr < 50


def test_weights_that_others_read_too_stay_as_they_are() -> None:
    text = PRODUCTS["matmul"].replace("  output %y", "  %z: float32[8, 16] = Abs(%w)\n  output %z\n  output %y")
    graph = parse_graph(text)
    ctx = PassContext(options={"ranges": Ranges(samples(graph), "minmax", None)})
    graph = run_pipeline(graph, [Smooth()], ctx)
    assert "Mul" not in [node.op for node in graph.nodes]


def test_odd_channels_do_no_harm() -> None:
    """One that is always 0, one of a single huge number, one that is constant, and weights that are all zeros."""
    for weights in ("random(1)", "0"):
        graph = (
            parse_graph(PRODUCTS["matmul"].replace("random(1)", weights))
            if weights != "0"
            else parse_graph(PRODUCTS["matmul"].replace("random(1)", str([0.0] * 128)))
        )
        x = RNG.standard_normal((64, 8)).astype(np.float32)
        x[:, 0], x[:, 1], x[2, 2] = 0, 5, 1e30
        ctx = PassContext(options={"ranges": Ranges([{"x": x}], "minmax", None)})
        graph = run_pipeline(graph, [Smooth(), Quantize()], ctx)
        constants = [value.data for value in graph.constants() if value.data is not None]
        assert all(np.isfinite(each.astype(np.float64)).all() for each in constants)


def test_products_that_would_lose_too_much_stay_floats() -> None:
    """One number of a thousand is so large that all others are within a step of 0."""
    graph = parse_graph(PRODUCTS["matmul"])
    x = RNG.standard_normal((64, 8)).astype(np.float32)
    x[0] *= 300
    for least, action in ((60.0, "keep"), (0.0, "int8")):
        ctx = PassContext(options={"ranges": Ranges([{"x": x}], "minmax", None)})
        run_pipeline(parse_graph(PRODUCTS["matmul"]), [Smooth(), Quantize(least_sqnr=least)], ctx)
        (decision,) = [
            each for each in ctx.decisions if each.subject in (graph.nodes[0].name, graph.nodes[0].output.name)
        ]
        assert decision.action == action
        assert (action == "int8") or "rounding is predicted to leave" in decision.reason


# ---- bias correction


@pytest.mark.parametrize("name", ["gemm", "conv", "depthwise"])
def test_results_are_right_on_the_average(name: str) -> None:
    """With inputs far from 0, which make a bias of what the rounding of weights errs."""
    data = (
        [{"x": 5 + each["x"] / SIZES.max()} for each in samples(parse_graph(PRODUCTS[name]), 30)]
        if name == "gemm"
        else [{"x": 5 + RNG.standard_normal((1, 8, 6, 6)).astype(np.float32)} for _ in range(30)]
    )
    errors = []
    for corrects in (False, True):
        graph = parse_graph(PRODUCTS[name])
        ctx = PassContext(options={"ranges": Ranges(data, "minmax", None)})
        graph = run_pipeline(graph, [Smooth(gain=1000.0), Quantize(correct_bias=corrects, least_sqnr=0.0)], ctx)
        differences = [outputs(graph, feeds) - outputs(parse_graph(PRODUCTS[name]), feeds) for feeds in data]
        columns = (0, *range(2, differences[0].ndim))
        errors.append(float(np.abs(np.mean([each.mean(columns) for each in differences], axis=0)).mean()))
    assert errors[1] < 0.5 * errors[0], errors


def test_the_mean_error_of_a_convolution_counts_its_padding() -> None:
    graph = parse_graph(PRODUCTS["conv"])
    (node,) = graph.nodes
    error, mean = RNG.standard_normal((16, 8, 3, 3)), RNG.standard_normal(8)
    weights, x = error.astype(np.float32), np.broadcast_to(mean.astype(np.float32).reshape(1, 8, 1, 1), (1, 8, 6, 6))
    assert isinstance(node.inputs[1], Value)
    graph.set_inputs(node, [node.inputs[0], graph.constant("e", weights)])
    np.testing.assert_allclose(
        mean_error(node, error, mean), outputs(graph, {"x": x}).mean((0, 2, 3)), rtol=1e-4, atol=1e-4
    )


# ---- from the outside


def model() -> bytes:
    weights = RNG.standard_normal((8, 16)).astype(np.float32)
    node = helper.make_node("MatMul", ["x", "w"], ["y"], "product")
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size]) for name, size in (("x", 8), ("y", 16)))
    graph = helper.make_graph([node], "g", [x], [y], [numpy_helper.from_array(weights, "w")])
    return bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString()
    )


def test_a_table_holds_what_was_seen_of_channels(tmp_path: Path) -> None:
    data = [{"x": RNG.standard_normal((3, 8)).astype(np.float32) * SIZES} for _ in range(4)]
    network, table = model(), tmp_path / "table.json"
    results = []
    for name, given in (("first", data), ("again", None)):
        path = mcpc.compile(
            network, "host", tmp_path / name, precision="int8", smooth=True, calib_data=given, calib_table=table
        )
        with mcpc.load(path) as session:
            results.append(session.run(None, data[0])[0])
    np.testing.assert_array_equal(results[0], results[1])
    loaded = plugins.find_calibrator().load(table)
    assert set(loaded.ranges) == {"x.smooth"} and loaded.channels["x"].high.shape == (8,)
    np.testing.assert_allclose(loaded.channels["x"].high, np.max([each["x"].max(0) for each in data], axis=0))


def test_layers_are_verified_with_the_table(tmp_path: Path) -> None:
    data = [{"x": RNG.standard_normal((3, 8)).astype(np.float32) * SIZES} for _ in range(4)]
    network, table = tmp_path / "m.onnx", tmp_path / "table.json"
    network.write_bytes(model())
    path = mcpc.compile(
        network, "host", tmp_path / "m", precision="int8", smooth=True, calib_data=data, calib_table=table
    )
    layers = verify_layers(path, network, inputs=data[0], calib_table=table)
    assert all(each.matches for each in layers if each.against == "graph")
    (last,) = [each for each in layers if each.layer.name == "y"]
    assert last.fidelity is not None and last.fidelity.sqnr > 30
    with pytest.raises(UsageError, match="smoothed before it was quantised"):
        verify_layers(path, network)


def test_tables_without_channels_smooth_nothing(tmp_path: Path) -> None:
    table = RangeTable({"x": Range(-1, 1)})
    with pytest.raises(UsageError, match="the calibration table has nothing of them"):
        mcpc.compile(model(), "host", tmp_path / "x", precision="int8", smooth=True, calib_table=table)


def test_there_has_to_be_something_to_prepare_for(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="smooth is for precision int8 and auto"):
        mcpc.compile(model(), "host", tmp_path / "x", smooth=True)


def test_layers_that_would_lose_too_much_are_kept_when_a_network_is_compiled(tmp_path: Path) -> None:
    """One row of thousands is so large, in all channels, that all others are within a few steps of 0."""
    rows = RNG.standard_normal((8192, 8)).astype(np.float32)
    rows[0] *= 300
    for smooth, action in ((True, "keep"), (False, "int8")):
        path = mcpc.compile(
            model(), "host", tmp_path / action, precision="int8", smooth=smooth, calib_data=[{"x": rows}], golden=0
        )
        made = [
            each
            for each in mcpc.inspect(path)["decisions"]
            if (each["pass"], each["subject"]) == ("quantize", "product")
        ]
        assert made[-1]["action"] == action
