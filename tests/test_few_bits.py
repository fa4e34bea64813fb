"""Weights of few bits, and products whose ranges each run finds: against numpy, and on both processors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import mcpc
from mcpc.cli import cli
from mcpc.errors import McpcError, Problems
from mcpc.fidelity import FidelitySums, fidelity
from mcpc.ir import OPSET
from mcpc.judge import judge
from mcpc.onnx_reader import read
from mcpc.passes.quantize_weights import rounded
from mcpc.per_layer import verify_layers
from mcpc.sample_inputs import sample_inputs
from mcpc.stored_precision import SEEDS
from mcpc.verification import selftest

from .conftest import DeviceRun

Array = np.ndarray[Any, Any]

DEPTH, WIDTH, COLUMNS = 200, 96, 40

RNG = np.random.default_rng(5)
FIRST = RNG.standard_normal((DEPTH, WIDTH), np.float32) * np.exp(RNG.standard_normal((DEPTH, 1))).astype(np.float32)
SECOND, BIAS = RNG.standard_normal((COLUMNS, WIDTH), np.float32), RNG.standard_normal(COLUMNS).astype(np.float32)


def network() -> bytes:
    """x [n, 200] -> MatMul "up" -> Relu -> Gemm "down", of weights [40, 96] and a bias -> y [n, 40]."""
    arrays = {"first": FIRST, "second": SECOND, "bias": BIAS}
    nodes = [
        helper.make_node("MatMul", ["x", "first"], ["a"], "up"),
        helper.make_node("Relu", ["a"], ["r"], "relu"),
        helper.make_node("Gemm", ["r", "second", "bias"], ["y"], "down", transB=1),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", DEPTH])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", COLUMNS])
    constants = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "few", [x], [y], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=12)
    return bytes(model.SerializeToString())


def inputs(rows: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal((rows, DEPTH), np.float32)


def stored(weights: Array, bits: int, block: int) -> Array:
    """[K, N] as the file holds it, in float64, a block at a time."""
    most = 2 ** (bits - 1) - 1
    result = np.zeros(weights.shape)
    for start in range(0, len(weights), block or len(weights)):
        part = weights[start : start + (block or len(weights))]
        step = (np.abs(part).max(0) / np.float32(most)).astype(np.float64)
        result[start : start + len(part)] = np.clip(np.rint(part / step), -most, most) * step
    return result


# ---- weights of few bits


@pytest.mark.parametrize("block", [0, 32, 64, 100, 128, 500])
@pytest.mark.parametrize("weights", ["int8", "int4"])
def test_weights_are_rounded_in_blocks(tmp_path: Path, weights: str, block: int) -> None:
    path = mcpc.compile(network(), "host", tmp_path / "m", weights=weights, block_size=block)
    bits = {"int8": 8, "int4": 4}[weights]
    first, second = stored(FIRST, bits, block), stored(SECOND.T, bits, block)
    assert all(each.matches for each in selftest(path))
    with mcpc.load(path) as session:
        for rows in (1, 7):
            x = inputs(rows).astype(np.float64)
            want = np.maximum(x @ first, 0) @ second + BIAS
            (got,) = session.run(None, {"x": inputs(rows)})
            assert np.abs(got - want).max() <= 1e-4 * np.abs(want).max()
            floats = np.maximum(x @ FIRST, 0) @ SECOND.T + BIAS
            assert fidelity(got, floats).sqnr > {8: 30, 4: 6}[bits]


def test_smaller_blocks_keep_more(tmp_path: Path) -> None:
    x = inputs(7)
    floats = np.maximum(x.astype(np.float64) @ FIRST, 0) @ SECOND.T + BIAS
    ratios = []
    for block in (0, 64, 16):
        path = mcpc.compile(network(), "host", tmp_path / "m", weights="int4", block_size=block, golden=0)
        with mcpc.load(path) as session:
            ratios.append(fidelity(session.run(None, {"x": x})[0], floats).sqnr)
    assert ratios[0] + 1 < ratios[1] < ratios[2] - 1


@given(st.integers(0, 2**32), st.integers(1, 9), st.sampled_from([7, 127]), st.floats(1e-38, 1e30))
@settings(max_examples=50, deadline=None)
def test_a_weight_moves_by_half_a_step_at_most(seed: int, block: int, most: int, scale: float) -> None:
    weights = np.random.default_rng(seed).standard_normal((10, 3), np.float32) * np.float32(scale)
    whole, steps = rounded(weights, block, most)
    repeated = np.repeat(steps, block, 0)[:10]
    assert np.abs(whole).max() <= most and (steps > 0).all()
    assert (np.abs(whole * repeated.astype(np.float64) - weights) <= 0.5001 * repeated).all()


def test_a_block_of_zeros_stays_zeros() -> None:
    whole, steps = rounded(np.zeros((4, 2), np.float32), 2, 7)
    assert not whole.any() and (steps == 1).all()


def test_the_file_shrinks_and_says_by_how_much_weights_move(tmp_path: Path) -> None:
    sizes = {}
    for weights in (None, "int8", "int4"):
        document = mcpc.inspect(mcpc.compile(network(), "host", tmp_path / "m", weights=weights, golden=0))
        sizes[weights] = document["weights_bytes"]
        for name, array in (("first", FIRST), ("second", SECOND.T)) if weights else ():
            (found,) = (e["numbers"] for e in document["decisions"] if (e["subject"], e["action"]) == (name, weights))
            exact = stored(array, {"int8": 8, "int4": 4}[str(weights)], 128)
            assert found["relative_l2"] == pytest.approx(
                np.linalg.norm(exact - array) / np.linalg.norm(array), rel=1e-3
            )
    assert sizes["int8"] < 0.32 * sizes[None] and sizes["int4"] < 0.2 * sizes[None]


def test_weights_that_are_read_otherwise_stay(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "product"),
        helper.make_node("ReduceSum", ["w"], ["s"], "sum", keepdims=0),
        helper.make_node("Where", ["c", "w", "w2"], ["v"], "choice"),
        helper.make_node("MatMul", ["a", "v"], ["b"], "computed"),
        helper.make_node("Add", ["b", "s"], ["y"], "add"),
    ]
    w = np.random.default_rng(0).standard_normal((64, 64), np.float32)
    info = helper.make_tensor_value_info
    ends = [info("x", TensorProto.FLOAT, [2, 64]), info("c", TensorProto.BOOL, [64, 64])]
    constants = [numpy_helper.from_array(w, "w"), numpy_helper.from_array(w + 1, "w2")]
    graph = helper.make_graph(nodes, "shared", ends, [info("y", TensorProto.FLOAT, [2, 64])], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=12)
    path = mcpc.compile(bytes(model.SerializeToString()), "host", tmp_path / "m", weights="int4", golden=0)
    reasons = {each["subject"]: each["reason"] for each in mcpc.inspect(path)["decisions"] if each["action"] == "keep"}
    assert reasons["w"] == "float32: it is read in several ways"


def test_all_else_may_be_float16(tmp_path: Path) -> None:
    path = mcpc.compile(network(), "host", tmp_path / "m", weights="int4", precision="fp16")
    names = [each["name"] for each in mcpc.inspect(path)["passes"]]
    assert names.index("quantize-weights") < names.index("halve")
    assert all(each.matches for each in selftest(path))


# ---- ranges of each run


def dynamic(x: Array) -> Array:
    """``x`` rounded as DynamicQuantizeLinear has it."""
    low, high = min(float(x.min()), 0.0), max(float(x.max()), 0.0)
    step = np.float32((np.float32(high) - np.float32(low)) / np.float32(255))
    zero = np.clip(np.rint(np.float32(-low) / step), 0, 255)
    return np.asarray((np.clip(np.rint(x / step) + zero, 0, 255) - zero) * step.astype(np.float64))


def test_ranges_are_found_in_the_run(tmp_path: Path) -> None:
    path = mcpc.compile(network(), "host", tmp_path / "m", precision="int8-dynamic")
    assert all(each.matches for each in selftest(path))
    document = mcpc.inspect(path)
    assert document["provenance"]["precision"] == "int8-dynamic"
    actions = {each["subject"]: each["action"] for each in document["decisions"] if each["pass"] == "quantize-dynamic"}
    assert actions == {"up": "int8", "down": "int8"}
    assert any("integers" in step["kernel"] for step in document["steps"])
    first, second = stored(FIRST, 8, 0), stored(SECOND.T, 8, 0)
    with mcpc.load(path) as session:
        for scale in (0.01, 1.0, 1000.0):  # which no range from samples would serve
            x = inputs(5) * np.float32(scale)
            relu = np.maximum(dynamic(x) @ first, 0)
            want = dynamic(relu.astype(np.float32)) @ second + BIAS
            (got,) = session.run(None, {"x": x})
            step = (relu.max() / 255) * np.abs(second).max()
            assert np.abs(got - want).max() <= 2 * step  # ties between two integers
            floats = np.maximum(x.astype(np.float64) @ FIRST, 0) @ SECOND.T + BIAS
            assert fidelity(got, floats).sqnr > 25


def test_no_more_is_lost_than_by_onnxruntimes_dynamic_quantisation(tmp_path: Path) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    (tmp_path / "m.onnx").write_bytes(network())
    quantize_dynamic(tmp_path / "m.onnx", tmp_path / "q.onnx", per_channel=True, weight_type=QuantType.QInt8)
    path = mcpc.compile(tmp_path / "m.onnx", "host", tmp_path / "m", precision="int8-dynamic", golden=0)
    ours, theirs, floats = FidelitySums(), FidelitySums(), judge(tmp_path / "m.onnx", ["y"])
    rival = judge(tmp_path / "q.onnx", ["y"])
    with mcpc.load(path) as session:
        for seed in range(5):
            feeds = {"x": inputs(8, seed)}
            (want,) = floats(feeds)
            ours.add(session.run(None, feeds)[0], want)
            theirs.add(rival(feeds)[0], want)
    assert ours.result().sqnr > theirs.result().sqnr - 0.1


def test_zeros_are_zeros(tmp_path: Path) -> None:
    path = mcpc.compile(network(), "host", tmp_path / "m", precision="int8-dynamic", golden=0)
    with mcpc.load(path) as session:
        (got,) = session.run(None, {"x": np.zeros((2, DEPTH), np.float32)})
    assert (got == BIAS).all()


@pytest.mark.parametrize("options", [{"weights": "int4"}, {"weights": "int8"}, {"precision": "int8-dynamic"}])
def test_selftest_on_aarch64(tmp_path: Path, options: dict[str, Any], run_on_aarch64: DeviceRun) -> None:
    path = mcpc.compile(network(), "aarch64", tmp_path / "m", **options)
    done = run_on_aarch64(path, "--selftest")
    assert done.returncode == 0, done.stdout + done.stderr


# ---- reports


@pytest.mark.parametrize(
    ("options", "kind", "first", "second"),
    [
        ({"weights": "int4", "block_size": 64}, "int4 weights", stored(FIRST, 4, 64), stored(SECOND.T, 4, 64)),
        ({"weights": "int8", "block_size": 0}, "int8 weights", stored(FIRST, 8, 0), stored(SECOND.T, 8, 0)),
        ({"precision": "int8-dynamic"}, "int8-dynamic", stored(FIRST, 8, 0), stored(SECOND.T, 8, 0)),
    ],
)
def test_layers_are_told_with_their_errors(
    tmp_path: Path, options: dict[str, Any], kind: str, first: Array, second: Array
) -> None:
    (tmp_path / "m.onnx").write_bytes(network())
    path = mcpc.compile(network(), "host", tmp_path / "m", **options)
    up, down = mcpc.inspect(path)["precision"]["layers"]
    graph = read(network(), Problems())
    sums = {"up": FidelitySums(), "down": FidelitySums()}
    for seed in SEEDS:
        x = sample_inputs(graph.inputs, seed, bounds=graph.bounds)["x"]
        taken = dynamic if "dynamic" in kind else np.asarray
        relu = np.maximum(x.astype(np.float64) @ FIRST, 0)
        sums["up"].add(taken(x) @ first, x.astype(np.float64) @ FIRST)
        sums["down"].add(taken(relu.astype(np.float32)) @ second + BIAS, relu @ SECOND.T + BIAS)
    for each in (up, down):
        assert each["precision"] == kind and each["fp32_us"] > 0
        assert each[f"{kind.replace('-', '_').replace(' ', '_')}_us"] > 0
        assert each["alone_sqnr_db"] == pytest.approx(sums[each["layer"]].result().sqnr, abs=0.05)
    assert up["sqnr_db"] == up["alone_sqnr_db"] and down["sqnr_db"] < down["alone_sqnr_db"]
    shown = CliRunner().invoke(cli, ["inspect", str(path), "--section", "precision"]).output
    assert shown.count(kind) == 3  # the column of times, and two layers
    found = verify_layers(path, tmp_path / "m.onnx")
    assert {each.precision["layer"] for each in found if each.precision is not None} == {"up", "down"}
    assert all(each.matches for each in found if each.against == "graph")


def test_a_network_that_samples_do_not_fit_is_told_without_errors(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Gather", ["table", "at"], ["x"], "pick"),
        helper.make_node("Reshape", ["x", "sizes"], ["rows"], "rows"),
        helper.make_node("MatMul", ["rows", "first"], ["y"], "product"),
    ]
    info = helper.make_tensor_value_info
    ends = [info("at", TensorProto.INT64, ["k"]), info("sizes", TensorProto.INT64, [2])]
    constants = [numpy_helper.from_array(each, name) for name, each in (("table", inputs(9)), ("first", FIRST))]
    graph = helper.make_graph(nodes, "picked", ends, [info("y", TensorProto.FLOAT, ["a", WIDTH])], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=12)
    document = mcpc.inspect(mcpc.compile(bytes(model.SerializeToString()), "host", tmp_path / "m", weights="int4"))
    (layer,) = document["precision"]["layers"]
    assert layer["precision"] == "int4 weights" and layer["sqnr_db"] is None
    assert any(each["subject"] == "errors" and each["action"] == "omit" for each in document["decisions"])


# ---- options


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"weights": "int3"}, "no weights 'int3'"),
        ({"block_size": 32}, "block_size is for weights of few bits"),
        ({"weights": "int4", "block_size": -1}, "a block of -1"),
        ({"precision": "int8-dynamic", "calib_data": [{"x": inputs(1)}]}, "calibration data are for precision int8"),
    ],
)
def test_what_is_refused(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(McpcError, match=words):
        mcpc.compile(network(), "host", tmp_path / "m", golden=0, **options)


def test_from_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(network())
    for index, options in enumerate((["--weights", "int4", "--block-size", "32"], ["--precision", "int8-dynamic"])):
        path = tmp_path / f"{index}"
        done = CliRunner().invoke(cli, ["compile", str(tmp_path / "m.onnx"), "-o", str(path), *options])
        assert done.exit_code == 0, done.output
        assert CliRunner().invoke(cli, ["selftest", str(path)]).exit_code == 0
    specs = [each["spec"] for each in mcpc.inspect(tmp_path / "0")["passes"]]
    assert "quantize-weights{block_size=32}" in specs
