"""``precision="auto"`` and limits of errors: what falls back, why, and what is said of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

import mcpc
from mcpc import plugins
from mcpc.accuracy_budget import DEFAULT_DROP, Budget, Outcome
from mcpc.cli import cli
from mcpc.errors import Problems, UsageError
from mcpc.fidelity import MOST_DB, Fidelity, fidelity
from mcpc.half_rounding import round_halves
from mcpc.ir import OPSET
from mcpc.kernel_class import KernelClass
from mcpc.layer_errors import Errors, LayerError
from mcpc.layer_times import Times
from mcpc.onnx_reader import read
from mcpc.per_layer import verify_layers
from mcpc.precision_search import Network, choose
from mcpc.reference import run_graph
from mcpc.target import Target
from mcpc.verification import selftest

from .conftest import DeviceRun

Array = np.ndarray[Any, Any]

COUNT, SIDE = 4, 64


def network() -> bytes:
    """ "dense0" to "dense3", 64 to 64, a Relu behind each. One element of what "dense2" reads is a thousand times as
    large as the others, and it is not looked at: in 256 steps to the largest, hardly anything is left of them."""
    rng = np.random.default_rng(1)
    nodes, constants, name = [], [], "x"
    for index in range(COUNT):
        weights = rng.standard_normal((SIDE, SIDE)).astype(np.float32) / np.float32(8)
        if index == 1:
            weights[:, 0] = 1000 * np.abs(weights[:, 0])
        if index == 2:
            weights[0] = 0
        constants.append(numpy_helper.from_array(weights, f"w{index}"))
        nodes.append(helper.make_node("MatMul", [name, f"w{index}"], [f"d{index}"], f"dense{index}"))
        name = "y" if index == COUNT - 1 else f"r{index}"
        nodes.append(helper.make_node("Relu", [f"d{index}"], [name], f"relu{index}"))
    x, y = (helper.make_tensor_value_info(each, TensorProto.FLOAT, [16, SIDE]) for each in "xy")
    graph = helper.make_graph(nodes, "dense", [x], [y], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=12)
    return bytes(model.SerializeToString())


SAMPLES = [{"x": np.random.default_rng(seed).standard_normal((16, SIDE), np.float32)} for seed in range(12)]


@pytest.fixture
def integers_at(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lets every target multiply so many billions of 8-bit integers a second, and launch steps for nothing."""
    find = plugins.find_target

    def change(gops: float) -> None:
        def found(name: str) -> Target:
            target = find(name)
            cores = tuple(replace(c, rates={**c.rates, KernelClass.INTEGER: gops}) for c in target.cores)
            return replace(target, cores=cores, launch_us=0.0)

        monkeypatch.setattr(plugins, "find_target", found)

    return change


def compiled(
    tmp_path: Path, precision: str = "auto", target: str = "x86-64-v3", **options: Any
) -> tuple[Path, dict[str, Any]]:
    options = {"calib_data": SAMPLES, "golden": 0, **options}
    path = mcpc.compile(network(), target, tmp_path / "m", precision=precision, **options)
    return path, mcpc.inspect(path)


def chosen(document: Mapping[str, Any]) -> dict[str, str]:
    return {each["layer"]: each["precision"] for each in document["precision"]["layers"]}


def verdict(document: Mapping[str, Any]) -> dict[str, Any]:
    (found,) = (each for each in document["precision"]["network"] if each["verdict"] != "slower")
    return dict(found)


# ---- whole networks


def test_the_layer_that_integers_ruin_falls_back_alone(tmp_path: Path, integers_at: Any) -> None:
    integers_at(1e6)
    _, whole = compiled(tmp_path, "int8", min_sqnr=25)
    assert set(chosen(whole).values()) == {"int8"}
    assert verdict(whole)["verdict"] == "not met" and verdict(whole)["sqnr_db"] < 25
    assert [each["layer"] for each in whole["precision"]["layers"] if each["alone_sqnr_db"] < 25] == ["dense2"]
    path, document = compiled(tmp_path, min_sqnr=25, golden=1)
    assert chosen(document) == {"dense0": "int8", "dense1": "int8", "dense2": "fp32", "dense3": "int8"}
    (reason,) = (each["reason"] for each in document["precision"]["layers"] if each["layer"] == "dense2")
    assert "of 4 layers 1 fall back" in reason
    assert verdict(document)["verdict"] == "met" and document["provenance"]["precision"] == "auto"
    assert all(each.matches for each in selftest(path))


def test_what_is_stated_of_the_outputs_is_what_they_do(tmp_path: Path, integers_at: Any) -> None:
    integers_at(1e6)
    path, document = compiled(tmp_path, min_sqnr=25)
    weights = [numpy_helper.to_array(each).astype(np.float64) for each in initializers()]
    noise = signal = 0.0
    with mcpc.load(path) as session:
        for feeds in SAMPLES:
            want = feeds["x"].astype(np.float64)
            for each in weights:
                want = np.maximum(want @ each, 0)
            noise += ((session.run(None, feeds)[0] - want) ** 2).sum()
            signal += (want**2).sum()
    assert verdict(document)["sqnr_db"] == pytest.approx(10 * math.log10(signal / noise), abs=0.1)
    assert verdict(document)["drop_l2"] == pytest.approx(math.sqrt(noise / signal), rel=0.02)


def initializers() -> Any:
    import onnx

    return onnx.load_from_string(network()).graph.initializer


@pytest.mark.parametrize(("max_drop", "least"), [(0.0, 0), (0.02, 1), (0.5, 3), (1.0, 4)])
def test_a_tighter_budget_lets_fewer_layers_be_integers(
    tmp_path: Path, integers_at: Any, max_drop: float, least: int
) -> None:
    integers_at(1e6)
    _, document = compiled(tmp_path, max_drop=max_drop)
    count = sum(each == "int8" for each in chosen(document).values())
    assert count == 0 if max_drop == 0 else count >= least
    assert verdict(document)["verdict"] == "met" and verdict(document)["drop_l2"] <= max_drop


def test_integers_that_do_not_pay_on_a_target_are_left_out(tmp_path: Path, integers_at: Any) -> None:
    integers_at(1.0)
    path, document = compiled(tmp_path)
    assert set(chosen(document).values()) == {"fp32"}
    for each in document["precision"]["layers"]:
        assert each["int8_us"] > each["fp32_us"] and "int8 is predicted to take" in each["reason"]
    plain = mcpc.compile(network(), "x86-64-v3", tmp_path / "plain", golden=0)
    assert document["predicted_us"] == mcpc.inspect(plain)["predicted_us"]
    with mcpc.load(path) as one, mcpc.load(plain) as other:
        assert (one.run(None, SAMPLES[0])[0] == other.run(None, SAMPLES[0])[0]).all()


@pytest.mark.parametrize("gops", [60.0, 100.0, 200.0, 400.0])
def test_it_is_never_predicted_to_be_slower(tmp_path: Path, integers_at: Any, gops: float) -> None:
    integers_at(gops)
    _, document = compiled(tmp_path, max_drop=1.0)
    plain = mcpc.inspect(mcpc.compile(network(), "x86-64-v3", tmp_path / "plain", golden=0))
    assert document["predicted_us"] <= plain["predicted_us"]
    assert verdict(document)["predicted_us"] == pytest.approx(document["predicted_us"])


def test_layers_that_are_asked_for_are_not_chosen(tmp_path: Path, integers_at: Any) -> None:
    integers_at(1e6)
    _, document = compiled(tmp_path, min_sqnr=25, layer_precisions={"dense2": "int8", "dense0": "fp32"})
    assert chosen(document)["dense2"] == "int8" and chosen(document)["dense0"] == "fp32"
    assert verdict(document)["verdict"] == "not met"


def test_an_artifact_of_both_is_verified_layer_by_layer(tmp_path: Path, integers_at: Any) -> None:
    integers_at(1e6)
    (tmp_path / "m.onnx").write_bytes(network())
    path, document = compiled(tmp_path, min_sqnr=25)
    layers = [each for each in verify_layers(path, tmp_path / "m.onnx") if each.precision is not None]
    found = {each.precision["layer"]: each.precision["precision"] for each in layers if each.precision is not None}
    assert found == chosen(document)
    assert all(each.matches for each in layers if each.against == "graph")


def test_the_command_line_warns_of_a_budget_that_is_not_met(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(network())
    np.savez(tmp_path / "data.npz", x=np.concatenate([feeds["x"] for feeds in SAMPLES]))
    common = ["compile", str(tmp_path / "m.onnx"), "--calib-data", str(tmp_path / "data.npz"), "--golden", "0"]
    common += ["-o", str(tmp_path / "m"), "--target", "x86-64-v3"]
    done = CliRunner().invoke(cli, [*common, "--precision", "int8", "--min-sqnr", "40", "--max-drop", "0.9"])
    assert done.exit_code == 0, done.output
    assert "warning: network: the relative L2 error is" in done.stderr and "at least 40 dB is asked for" in done.stderr
    done = CliRunner().invoke(cli, [*common, "--precision", "auto", "--max-drop", "0.3", "--drop-metric", "top1"])
    assert done.exit_code == 0, done.output
    assert "note: network: the share of rows with another largest element is" in done.stderr


def test_layers_by_hand_from_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(network())
    np.savez(tmp_path / "data.npz", x=np.concatenate([feeds["x"] for feeds in SAMPLES]))
    common = ["compile", str(tmp_path / "m.onnx"), "--calib-data", str(tmp_path / "data.npz"), "--golden", "0"]
    common += ["-o", str(tmp_path / "m"), "--precision", "int8", "--layer-precision"]
    assert CliRunner().invoke(cli, [*common, "dense2=fp32"]).exit_code == 0
    assert [name for name, each in chosen(mcpc.inspect(tmp_path / "m")).items() if each == "fp32"] == ["dense2"]
    twice = ["dense2=fp32", "--layer-precision", "dense2=int8"]
    for texts in (["dense2"], ["=fp32"], ["dense2="], ["dense9=fp32"], ["dense2=int4"], twice):
        assert isinstance(CliRunner().invoke(cli, [*common, *texts]).exception, UsageError)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"precision": "auto"}, "take calibration data"),
        ({"precision": "auto", "calib_data": SAMPLES, "max_drop": 1.5}, "max_drop is a share from 0 to 1, not 1.5"),
        ({"precision": "auto", "calib_data": SAMPLES, "min_sqnr": math.nan}, "min_sqnr is a number of dB"),
        ({"precision": "auto", "calib_data": SAMPLES, "drop_metric": "l1"}, "no drop metric 'l1'"),
        ({"precision": "int8", "calib_table": "ranges.json", "min_sqnr": 20}, "take calibration data"),
        ({"precision": "fp32", "min_sqnr": 20}, "are for precision int8"),
        ({"precision": "fp32", "layer_precisions": {"dense0": "fp32"}}, "are for precision int8"),
        ({"precision": "auto", "calib_data": SAMPLES, "layer_precisions": {"dense9": "fp32"}}, "no layer 'dense9'"),
        ({"precision": "auto", "calib_data": SAMPLES, "layer_precisions": {"dense0": "fp8"}}, "no precision 'fp8'"),
    ],
)
def test_what_is_refused(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        mcpc.compile(network(), "host", tmp_path / "m", golden=0, **options)


def test_a_layer_that_has_no_form_of_integers_cannot_be_asked_for(tmp_path: Path) -> None:
    nodes = [helper.make_node("ConvTranspose", ["x", "w"], ["y"], "up", strides=[2, 2])]
    w = numpy_helper.from_array(np.random.default_rng(0).standard_normal((8, 4, 2, 2), np.float32), "w")
    info = helper.make_tensor_value_info
    ends = [info("x", TensorProto.FLOAT, [1, 8, 6, 6])], [info("y", TensorProto.FLOAT, [1, 4, 12, 12])]
    model = helper.make_model(
        helper.make_graph(nodes, "up", *ends, [w]), opset_imports=[helper.make_opsetid("", OPSET)], ir_version=12
    )
    samples = [{"x": np.random.default_rng(1).standard_normal((1, 8, 6, 6), np.float32)}]
    source = bytes(model.SerializeToString())
    options: dict[str, Any] = {"precision": "int8", "calib_data": samples, "golden": 0}
    with pytest.raises(UsageError, match="layer 'up' cannot be int8"):
        mcpc.compile(source, "host", tmp_path / "m", layer_precisions={"up": "int8"}, **options)
    assert chosen(mcpc.inspect(mcpc.compile(source, "host", tmp_path / "m", **options))) == {"up": "fp32"}


# ---- float16


def test_layers_that_are_no_integers_are_float16_where_that_pays(
    tmp_path: Path, integers_at: Any, run_on_aarch64: DeviceRun
) -> None:
    integers_at(1e6)
    (tmp_path / "m.onnx").write_bytes(network())
    path, document = compiled(tmp_path, target="rock5b", min_sqnr=25, golden=1)
    assert chosen(document) == {"dense0": "int8", "dense1": "int8", "dense2": "fp16", "dense3": "int8"}
    assert document["provenance"]["precision"] == "auto+fp16"
    times = document["precision"]["layers"][2]
    assert times["fp16_us"] < times["fp32_us"] and verdict(document)["verdict"] == "met"
    done = run_on_aarch64(path, "--selftest")
    assert done.returncode == 0, done.stdout + done.stderr
    integers_at(1.0)
    path, document = compiled(tmp_path, target="rock5b", golden=1)
    assert set(chosen(document).values()) == {"fp16"} and "compute-halves" in {e["name"] for e in document["passes"]}
    whole = mcpc.inspect(mcpc.compile(network(), "rock5b", tmp_path / "half", precision="fp16", golden=0))
    assert document["predicted_us"] == pytest.approx(whole["predicted_us"])
    done = run_on_aarch64(path, "--selftest")
    assert done.returncode == 0, done.stdout + done.stderr


def test_float16_that_overflows_falls_back(tmp_path: Path, integers_at: Any) -> None:
    integers_at(1.0)
    large = [{"x": 100 * feeds["x"]} for feeds in SAMPLES]  # behind "dense1" there are numbers beyond 65504
    _, document = compiled(tmp_path, target="rock5b", calib_data=large, max_drop=0.5)
    assert set(chosen(document).values()) == {"fp32"} and verdict(document)["verdict"] == "met"
    reasons = {each["reason"] for each in document["precision"]["layers"]}
    assert "compute-halves" in {each["name"] for each in document["passes"]}
    assert document["provenance"]["precision"] == "auto"
    assert any("int8 is predicted to take" in each for each in reasons)


def test_layers_in_float16_are_imitated_by_rounding() -> None:
    graph = round_halves(read(network(), Problems()), {"dense0"})
    (got, exact) = (run_graph(each, SAMPLES[0])[0] for each in (graph, read(network(), Problems())))
    x, weights = SAMPLES[0]["x"], [numpy_helper.to_array(each) for each in initializers()]
    halves = [array.astype(np.float16).astype(np.float32) for array in (x, weights[0])]
    want = (halves[0].astype(np.float64) @ halves[1]).astype(np.float32).astype(np.float16).astype(np.float64)
    for each in weights[1:]:
        want = np.maximum(want, 0) @ each
    assert np.abs(got - np.maximum(want, 0)).max() < 1e-3 * np.abs(want).max()
    assert 50 < fidelity(got, exact).sqnr < 90


def test_float16_is_asked_for_in_auto_only(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no precision 'fp16' for layer 'dense0'"):
        compiled(tmp_path, "int8", layer_precisions={"dense0": "fp16"})


# ---- the measures of a budget


def test_drops_of_outputs() -> None:
    outcome = Outcome()
    want = {"p": np.array([[1, 2], [3, 4], [6, 5], [8, 7]], np.float32), "label": np.array([1, 2, 3, 4])}
    got = {"p": np.array([[1, 2], [4, 3], [6, 5], [8, 7]], np.float32), "label": np.array([1, 2, 3, 5])}
    outcome.add(want, want)
    outcome.add(got, want)
    assert outcome.drop("top1") == 1 / 8  # of both outputs
    relative = math.sqrt(2 / (2 * 204))
    assert outcome.drop("l2") == pytest.approx(max(relative, 1 / 8))
    assert outcome.sqnr == pytest.approx(-20 * math.log10(relative))
    assert Budget(max_drop=0.125, drop_metric="top1").allows(outcome)
    assert not Budget(max_drop=0.124, drop_metric="top1").allows(outcome)
    assert not Budget(min_sqnr=outcome.sqnr + 0.1).allows(outcome) and Budget(min_sqnr=outcome.sqnr).allows(outcome)


def test_the_default_limit_is_of_the_metric_that_is_asked_for() -> None:
    assert Budget(drop_metric="top1").or_default() == Budget(max_drop=DEFAULT_DROP, drop_metric="top1")


def test_without_a_change_nothing_is_dropped() -> None:
    outcome = Outcome()
    outcome.add({"y": np.zeros((2, 1), np.float32)}, {"y": np.zeros((2, 1), np.float32)})
    assert outcome.drop("l2") == outcome.drop("top1") == 0 and outcome.sqnr == MOST_DB
    assert Budget(max_drop=0.0, min_sqnr=100).allows(outcome)


# ---- the search


class Imagined:
    """Layers with a noise each, which adds up in the output, and times; counts what is asked."""

    def __init__(self, noise: Sequence[float], us: Sequence[float], floats: Sequence[float]) -> None:
        self.names = [f"l{index:03}" for index in range(len(noise))]
        self.noise, self.us, self.floats = (dict(zip(self.names, each, strict=True)) for each in (noise, us, floats))
        self.asked = 0

    def times(self, integers: frozenset[str]) -> Times:
        layers = {name: self.us[name] if name in integers else self.floats[name] for name in self.names}
        return Times(sum(layers.values()), layers)

    def outcome(self, integers: frozenset[str]) -> Outcome:
        self.asked += 1
        result = Outcome()
        moved = math.sqrt(sum(self.noise[name] for name in integers))
        result.add({"y": np.array([1.0, moved])}, {"y": np.array([1.0, 0.0])})
        return result

    def choose(self, budget: Budget) -> tuple[set[str], Mapping[str, str]]:
        network = Network(self.times(frozenset()), self.times, self.outcome, self.outcome)
        exact = Fidelity(MOST_DB, 1.0)
        alone = {
            name: LayerError(Fidelity(-10 * math.log10(noise), 1.0) if noise else exact, exact)
            for name, noise in self.noise.items()
        }
        choice = choose(network, self.names, Errors(alone, {}), budget, None)
        return set(choice.integers), choice.reasons


def test_the_noisiest_fall_back_first_and_no_more_than_needed() -> None:
    noise = [1e-6 * (index + 1) for index in range(100)]
    imagined = Imagined(noise, [1.0] * 100, [2.0] * 100)
    integers, reasons = imagined.choose(Budget(max_drop=math.sqrt(sum(noise[:60]) * 1.0001)))
    assert integers == set(imagined.names[:60])
    assert set(reasons) == set(imagined.names[60:])
    assert imagined.asked <= 3 + 64 + math.ceil(math.log2(100))


def test_slow_layers_are_left_out_before_errors_are_looked_at() -> None:
    imagined = Imagined([1.0, 0.0, 0.0], [3.0, 1.0, 2.0], [2.0, 2.0, 2.0])
    integers, reasons = imagined.choose(Budget(max_drop=0.0))
    assert integers == {"l001"} and imagined.asked == 2
    assert set(reasons) == {"l000", "l002"}


def test_layers_fall_back_together_where_floats_are_fused() -> None:
    imagined = Imagined([0.0] * 5, [1.0, 1.0, 3.0, 1.0, 1.0], [2.0] * 5)
    times = imagined.times

    def with_fusion(integers: frozenset[str]) -> Times:
        """The last two are one kernel as floats, which saves more than integers do."""
        fused = 3.0 if not integers & {"l003", "l004"} else 0.0
        return replace(times(integers), total=times(integers).total - fused)

    imagined.times = with_fusion  # type: ignore[method-assign]
    integers, reasons = imagined.choose(Budget(max_drop=1.0))
    assert integers == {"l000", "l001"}
    assert reasons["l003"] == reasons["l004"] and "with int8 in 2 layers here" in reasons["l003"]


def test_a_slower_layer_that_saves_conversions_is_an_integer() -> None:
    imagined = Imagined([0.0] * 3, [1.0, 2.5, 1.0], [2.0] * 3)
    times = imagined.times

    def with_conversions(integers: frozenset[str]) -> Times:
        """One unit at each border between the layers."""
        kinds = [name in integers for name in imagined.names]
        return replace(times(integers), total=times(integers).total + (kinds[0] != kinds[1]) + (kinds[1] != kinds[2]))

    imagined.times = with_conversions  # type: ignore[method-assign]
    assert imagined.choose(Budget(max_drop=1.0)) == (set(imagined.names), {})


def test_many_runs_that_lose_only_together_stay_float() -> None:
    """More runs than are looked at one by one, each of which seems to gain."""
    imagined = Imagined([0.0] * 99, [1.0, 1.0, 3.0] * 33, [2.0] * 99)
    times = imagined.times

    def with_conversions(integers: frozenset[str]) -> Times:
        return replace(times(integers), total=times(integers).total + 1000.0 * bool(integers))

    imagined.times = with_conversions  # type: ignore[method-assign]
    integers, reasons = imagined.choose(Budget(max_drop=1.0))
    assert not integers and "with int8 the network is predicted" in reasons["l000"]


def test_layers_that_gain_less_than_the_network_loses_stay_float() -> None:
    imagined = Imagined([0.0], [1.0], [2.0])
    times = imagined.times

    def with_conversions(integers: frozenset[str]) -> Times:
        return replace(times(integers), total=times(integers).total + 5.0 * bool(integers))

    imagined.times = with_conversions  # type: ignore[method-assign]
    integers, reasons = imagined.choose(Budget(max_drop=1.0))
    assert not integers and "the network is predicted" in reasons["l000"]
