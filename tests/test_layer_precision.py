"""What is said of each layer's precision: errors as numpy has them, predicted times, and where reports show both."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

import mcpc
from mcpc import layer_errors, plugins
from mcpc.cli import cli
from mcpc.errors import Problems
from mcpc.fidelity import MOST_DB, FidelitySums, fidelity
from mcpc.graph_copy import copied
from mcpc.html_report import render
from mcpc.ir import OPSET, Graph
from mcpc.ir_text import format_graph
from mcpc.kernel_class import KernelClass
from mcpc.layer_times import predict
from mcpc.onnx_reader import read
from mcpc.per_layer import verify_layers
from mcpc.pipeline import PassContext, parse_pipeline, run_pipeline
from mcpc.precision import Spread
from mcpc.target import Target
from mcpc.tensor_scales import scales_in

Array = np.ndarray[Any, Any]


def network(rows: int = 7) -> bytes:
    """x [rows, 64] -> "first" (Gemm, bias, Relu) -> "second" (MatMul) -> y [rows, 32]."""
    rng = np.random.default_rng(1)
    arrays = {"w": (64, 96), "b": (96,), "v": (96, 32)}
    constants = [numpy_helper.from_array(rng.standard_normal(s).astype(np.float32), name) for name, s in arrays.items()]
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["a"], "first"),
        helper.make_node("Relu", ["a"], ["r"], "relu"),
        helper.make_node("MatMul", ["r", "v"], ["y"], "second"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 64])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, 32])
    graph = helper.make_graph(nodes, "layers", [x], [y], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=12)
    return bytes(model.SerializeToString())


SAMPLES = [{"x": np.random.default_rng(seed).standard_normal((7, 64), np.float32)} for seed in range(4)]


def with_integer_rate(monkeypatch: pytest.MonkeyPatch, gops: float) -> None:
    """Let every target multiply so many billions of 8-bit integers a second."""
    find = plugins.find_target

    def slowed(name: str) -> Target:
        target = find(name)
        return replace(
            target, cores=tuple(replace(c, rates={**c.rates, KernelClass.INTEGER: gops}) for c in target.cores)
        )

    monkeypatch.setattr(plugins, "find_target", slowed)


# ---- measures


def test_sums_give_what_all_numbers_at_once_do() -> None:
    rng = np.random.default_rng(0)
    want = [rng.standard_normal((3, n)).astype(np.float32) for n in (5, 1, 20_000)]
    got = [each + np.float32(0.1) * rng.standard_normal(each.shape).astype(np.float32) for each in want]
    sums = FidelitySums()
    for a, b in zip(got, want, strict=True):
        sums.add(a, b)
    x, y = (np.concatenate([each.ravel() for each in arrays]).astype(np.float64) for arrays in (got, want))
    found = sums.result()
    assert found.sqnr == pytest.approx(10 * np.log10((y**2).sum() / ((x - y) ** 2).sum()))
    assert found.cosine == pytest.approx(x @ y / np.linalg.norm(x) / np.linalg.norm(y))
    assert found.relative_l2 == pytest.approx(np.linalg.norm(x - y) / np.linalg.norm(y))


@pytest.mark.parametrize(
    ("got", "want", "sqnr", "cosine"),
    [
        ([1.0, 2.0], [1.0, 2.0], MOST_DB, 1.0),
        ([0.0, 0.0], [0.0, 0.0], MOST_DB, 1.0),
        ([1.0, 0.0], [0.0, 0.0], -MOST_DB, 0.0),
        ([0.0, 0.0], [1.0, 0.0], 0.0, 0.0),
        ([7.0, 2.0], [np.inf, 2.0], MOST_DB, 1.0),  # nothing is known of what is lost
        ([np.inf, 2.0], [1.0, 2.0], -MOST_DB, 0.0),
        ([np.nan, 2.0], [1.0, 2.0], -MOST_DB, 0.0),
        ([1e30, -1e30], [-1e30, 1e30], -10 * np.log10(4), -1.0),
    ],
)
def test_measures_at_their_ends(got: list[float], want: list[float], sqnr: float, cosine: float) -> None:
    found = fidelity(np.array(got, np.float32), np.array(want, np.float32))
    assert (found.sqnr, found.cosine) == pytest.approx((sqnr, cosine))


@pytest.mark.parametrize(("count", "kept"), [(0, 0), (3, 3), (8, 8), (9, 5), (16, 8), (1000, 8)])
def test_samples_that_are_kept_are_spread(count: int, kept: int) -> None:
    spread = Spread(8, 1 << 20)
    for index in range(count):
        spread.add({"x": np.array(index)})
    indices = [int(feeds["x"]) for feeds in spread.kept]
    assert len(indices) == kept
    assert len(set(np.diff(indices))) <= 1 and indices[:1] == [0][:kept]


def test_a_copy_has_bodies_of_its_own() -> None:
    info = helper.make_tensor_value_info
    bodies = {
        f"{branch}_branch": helper.make_graph(
            [helper.make_node(op, ["x", "x"], [f"{branch}.y"], f"{branch}.{op}")],
            branch,
            [],
            [info(f"{branch}.y", TensorProto.FLOAT, [2])],
        )
        for branch, op in (("then", "Add"), ("else", "Mul"))
    }
    nodes = [helper.make_node("If", ["c"], ["y"], "choice", **bodies), helper.make_node("Relu", ["y"], ["z"], "relu")]
    ends = [info("c", TensorProto.BOOL, []), info("x", TensorProto.FLOAT, [2])]
    graph = helper.make_graph(nodes, "choices", ends, [info("z", TensorProto.FLOAT, [2])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=12)
    first = run_pipeline(
        read(bytes(model.SerializeToString()), Problems()), parse_pipeline("fuse", plugins.passes()), PassContext()
    )
    before, again = format_graph(first), copied(first)
    again.verify()
    assert format_graph(again) == before
    (choice,) = [node for node in again.nodes if node.bodies]
    body = choice.bodies["then_branch"]
    body.nodes[0].op = "Sub"
    assert again.fresh("x") != "x" and body.fresh("y") != "y"
    assert format_graph(first) == before


def test_large_samples_are_kept_in_little_memory() -> None:
    spread = Spread(8, 2500)
    for _ in range(20):
        spread.add({"x": np.zeros(1000, np.uint8)})
    assert len(spread.kept) == 2
    spread = Spread(8, 10)
    spread.add({"x": np.zeros(1000, np.uint8)})
    spread.add({"x": np.zeros(1000, np.uint8)})
    assert len(spread.kept) == 1


def test_a_copy_shares_nothing_but_numbers() -> None:
    graph = read(network(), Problems())
    before = format_graph(graph)
    again = copied(graph)
    assert format_graph(again) == before
    again.verify()
    again.set_inputs(again.nodes[0], [again.inputs[0], *again.nodes[0].inputs[1:2]])
    again.nodes[0].attrs["transB"] = 1
    assert format_graph(graph) == before


# ---- errors


def rounded(x: Array, low: float, high: float) -> Array:
    """To 255 steps between ``low`` or 0 and ``high`` or 0, as QuantizeLinear and DequantizeLinear have it."""
    low, high = min(low, 0.0), max(high, 0.0)
    step = np.float32((high - low) / 255)
    zero = np.float32(round(-low / step))
    return np.asarray((np.clip(np.rint(x / step) + zero, 0, 255) - zero) * step, np.float32)


def rounded_weights(w: Array) -> Array:
    """To 127 steps a column."""
    steps = (np.abs(w).max(0) / 127).astype(np.float32)
    return np.asarray(np.rint(w / steps) * steps, np.float32)


def evaluated() -> Mapping[str, tuple[Array, Array, Array]]:
    """By layer: its results in float64, alone with rounded operands, and behind a layer that was rounded too."""
    w, b, v = (numpy_helper.to_array(each) for each in mcpc_initializers())
    wq, vq = rounded_weights(w), rounded_weights(v)
    x = np.concatenate([feeds["x"] for feeds in SAMPLES])
    first = x.astype(np.float64) @ w + b
    relu = np.maximum(first, 0)
    first_alone = rounded(x, x.min(), x.max()).astype(np.float64) @ wq + b
    second_alone = rounded(relu, 0, relu.max()).astype(np.float64) @ vq
    through = rounded(np.maximum(first_alone, 0), 0, relu.max()).astype(np.float64) @ vq
    return {"first": (first, first_alone, first_alone), "second": (relu @ v, second_alone, through)}


def mcpc_initializers() -> Any:
    import onnx

    return onnx.load_from_string(network()).graph.initializer


@pytest.mark.parametrize("most_bytes", [layer_errors.MOST_BYTES, 1])
def test_errors_are_those_that_numpy_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_bytes: int) -> None:
    monkeypatch.setattr(layer_errors, "MOST_BYTES", most_bytes)  # 1: a run for each layer
    path = mcpc.compile(network(), "host", tmp_path / "x", precision="int8", calib_data=SAMPLES, golden=0)
    precision = mcpc.inspect(path)["precision"]
    assert [each["layer"] for each in precision["layers"]] == ["first", "second"]
    for each in precision["layers"]:
        want, alone, through = evaluated()[each["layer"]]
        assert each["precision"] == "int8"
        for got, prefix in ((alone, "alone_"), (through, "")):
            exact = fidelity(got, want)
            assert each[f"{prefix}sqnr_db"] == pytest.approx(exact.sqnr, abs=0.05)
            assert each[f"{prefix}cosine"] == pytest.approx(exact.cosine, abs=2e-6)
    (output,) = precision["outputs"]
    assert output == {"output": "y", **{key: precision["layers"][1][key] for key in ("sqnr_db", "cosine")}}


def test_layers_that_stay_float_have_no_error_of_their_own(tmp_path: Path) -> None:
    path = mcpc.compile(
        network(), "host", tmp_path / "x", precision="int8", calib_data=SAMPLES, golden=0,
        layer_precisions={"first": "fp32"},
    )  # fmt: skip
    first, second = mcpc.inspect(path)["precision"]["layers"]
    assert (first["precision"], first["alone_sqnr_db"], first["sqnr_db"]) == ("fp32", None, MOST_DB)
    assert second["precision"] == "int8" and second["sqnr_db"] == second["alone_sqnr_db"] < 60


def test_a_table_alone_measures_nothing(tmp_path: Path) -> None:
    table = tmp_path / "table.json"
    options: dict[str, Any] = {"precision": "int8", "calib_table": table, "golden": 0}
    mcpc.compile(network(), "host", tmp_path / "x", calib_data=SAMPLES, **options)
    precision = mcpc.inspect(mcpc.compile(network(), "host", tmp_path / "y", **options))["precision"]
    assert {each["sqnr_db"] for each in precision["layers"]} == {None} and precision["outputs"] == []
    assert all(each["int8_us"] > 0 for each in precision["layers"])


# ---- times


def test_times_of_layers_are_those_of_the_steps(tmp_path: Path) -> None:
    path = mcpc.compile(network(), "x86-64-v3", tmp_path / "x", precision="int8", calib_data=SAMPLES, golden=0)
    document = mcpc.inspect(path)
    assert sum(each["int8_us"] for each in document["precision"]["layers"]) == pytest.approx(
        document["predicted_us"], abs=0.01
    )
    plain = mcpc.inspect(mcpc.compile(network(), "x86-64-v3", tmp_path / "y", golden=0))
    assert sum(each["fp32_us"] for each in document["precision"]["layers"]) == pytest.approx(
        plain["predicted_us"], abs=0.01
    )
    assert plain["precision"] == {"layers": [], "outputs": [], "network": []}


def test_rounding_belongs_to_the_layer_that_reads_it() -> None:
    graph, layers = quantised_graph({"first": "fp32"}), ["first", "second"]
    target = plugins.find_target("x86-64-v3")
    family = plugins.find_family(target.family)
    times = predict(graph, layers, parse_pipeline("integer, dce", plugins.passes()), family, target, {})
    alone = predict(read(network(), Problems()), layers, [], family, target, {})
    assert times.layers["first"] == pytest.approx(alone.layers["first"])
    assert sum(times.layers.values()) == pytest.approx(times.total)


def quantised_graph(layer_precisions: Mapping[str, str]) -> Graph:
    from mcpc.precision import Ranges

    options = {"ranges": Ranges(SAMPLES, "minmax", None), "layer_precisions": layer_precisions}
    return run_pipeline(
        read(network(), Problems()), parse_pipeline("quantize", plugins.passes()), PassContext(options=options)
    )


def test_integers_that_take_longer_are_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, data = tmp_path / "m.onnx", tmp_path / "data.npz"
    model.write_bytes(network())
    np.savez(data, x=np.concatenate([feeds["x"] for feeds in SAMPLES]))
    with_integer_rate(monkeypatch, 1.0)
    options = ["--precision", "int8", "--calib-data", str(data), "--target", "x86-64-v3", "-o", str(tmp_path / "x")]
    done = CliRunner().invoke(cli, ["compile", str(model), *options, "--golden", "0"])
    assert done.exit_code == 0, done.output
    (warning,) = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
    assert "int8 is predicted to take" in warning and "first by" in warning and "second by" in warning
    (verdict,) = mcpc.inspect(tmp_path / "x")["precision"]["network"]
    assert verdict["verdict"] == "slower" and verdict["predicted_us"] > verdict["fp32_us"]
    with_integer_rate(monkeypatch, 1e6)
    done = CliRunner().invoke(cli, ["compile", str(model), *options, "--golden", "0"])
    assert done.exit_code == 0 and "warning" not in done.stderr


# ---- where it is shown


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("precision")
    (folder / "m.onnx").write_bytes(network())
    return mcpc.compile(
        folder / "m.onnx", "host", folder / "m", precision="int8", calib_data=SAMPLES, golden=0,
        symmetric_activations=True,
    )  # fmt: skip


def test_inspect_shows_layers_as_text_json_and_page(artifact: Path) -> None:
    shown = CliRunner().invoke(cli, ["inspect", str(artifact), "--section", "precision"]).output
    document = mcpc.inspect(artifact)
    for each in document["precision"]["layers"]:
        (line,) = [line for line in shown.splitlines() if line.endswith(each["layer"])]
        assert line.startswith("int8") and f"{each['sqnr_db']:.1f}" in line and f"{each['alone_cosine']:.6f}" in line
    as_json = CliRunner().invoke(cli, ["inspect", str(artifact), "--section", "precision", "--json"]).output
    assert json.loads(as_json) == {"precision": document["precision"]}
    page = render(document)
    assert "<h2>Precision</h2>" in page and f"{document['precision']['layers'][0]['alone_sqnr_db']:.1f}" in page


def test_inspect_says_where_nothing_was_quantised(tmp_path: Path) -> None:
    path = mcpc.compile(network(), "host", tmp_path / "x", golden=0)
    shown = CliRunner().invoke(cli, ["inspect", str(path), "--section", "precision"])
    assert shown.exit_code == 0 and "no layer was quantised" in shown.output
    assert "<h2>Precision</h2>" not in render(mcpc.inspect(path))


def test_verify_per_layer_shows_what_integers_leave_of_the_floats(artifact: Path) -> None:
    model = artifact.with_name("m.onnx")
    found = {each.layer.name: each for each in verify_layers(artifact, model, inputs=SAMPLES[0])}
    want = np.maximum(SAMPLES[0]["x"] @ numpy_helper.to_array(mcpc_initializers()[0]) + bias(), 0)
    (stored,) = [each for name, each in found.items() if name.startswith("r.quantized")]
    scale = scales_in(mcpc.inspect(artifact)["decisions"])["r"]
    assert stored.fidelity is not None
    assert 30 < stored.fidelity.sqnr < fidelity(rounded(want, 0, scale.step * 255), want).sqnr + 0.1
    with mcpc.load(artifact) as session:
        (y,) = session.run(None, SAMPLES[0])
    exact = want @ numpy_helper.to_array(mcpc_initializers()[2])
    last = found["y"]
    assert last.fidelity is not None and last.fidelity.sqnr == pytest.approx(fidelity(y, exact).sqnr, abs=0.01)
    layers = {each.precision["layer"]: each.precision for each in found.values() if each.precision is not None}
    assert layers == {each["layer"]: each for each in mcpc.inspect(artifact)["precision"]["layers"]}
    arguments = ["verify", str(artifact), str(model), "--per-layer"]
    assert "SQNR dB" in CliRunner().invoke(cli, arguments).output
    documents = json.loads(CliRunner().invoke(cli, [*arguments, "--json"]).stdout)["layers"]
    assert {each["precision"] for each in documents if "precision" in each} == {"int8"}
    assert all(each["int8_us"] > 0 for each in documents if "precision" in each)
    assert any("sqnr_db" in each for each in documents)


def bias() -> Array:
    return numpy_helper.to_array(mcpc_initializers()[1])


def test_verify_per_layer_of_floats_shows_no_errors_of_integers(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(network())
    path = mcpc.compile(tmp_path / "m.onnx", "host", tmp_path / "m", golden=0)
    done = CliRunner().invoke(cli, ["verify", str(path), str(tmp_path / "m.onnx"), "--per-layer"])
    assert done.exit_code == 0 and "SQNR" not in done.output
