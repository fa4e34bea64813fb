"""``precision="int8"``: how right, the same on which processors, from which ranges, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

import mcpc
from mcpc.errors import CalibrationError, McpcError, UsageError
from mcpc.golden import Golden
from mcpc.ir import OPSET
from mcpc.models import digits
from mcpc.models.digits import MODEL
from mcpc.verification import compare, reference, selftest, verify

from .conftest import DeviceRun

Array = np.ndarray[Any, Any]

IMAGES, LABELS = digits.held_out()
SAMPLES = [{"image": image[None]} for image in IMAGES[:50]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("int8")


@pytest.fixture(scope="module")
def artifact(folder: Path) -> Path:
    """digits by 50 images. ``steps`` beside it has the states of its graph, ``table.json`` the ranges."""
    return mcpc.compile(
        MODEL, "host", folder / "digits", precision="int8", calib_data=SAMPLES, calib_table=folder / "table.json",
        emit=folder / "steps",
    )  # fmt: skip


def quantised(folder: Path) -> Path:
    """The state of the graph that the artifact is judged by."""
    (path,) = (folder / "steps").glob("*-quantize.onnx")
    return path


# ---- results


def test_digits_are_read_as_well_as_by_floats(artifact: Path) -> None:
    with mcpc.load(artifact) as session:
        guesses = [int(session.run(None, {"image": image[None]})[0].argmax()) for image in IMAGES[50:]]
    assert np.mean(np.array(guesses) == LABELS[50:]) >= 0.97
    document = mcpc.inspect(artifact)
    assert document["provenance"]["precision"] == "int8"
    actions = {each["subject"]: each["action"] for each in document["decisions"] if each["pass"] == "integer"}
    assert actions == {"conv1": "integer", "conv2": "integer", "fc": "integer"}


def test_the_quantised_graph_is_the_judge(artifact: Path, folder: Path) -> None:
    assert all(each.matches for each in selftest(artifact))
    for seed in range(3):
        assert all(each.matches for each in verify(artifact, quantised(folder), seed=seed))
    with mcpc.load(artifact) as session:
        for feeds in SAMPLES[:10]:
            (want,) = reference(quantised(folder), feeds, ["probabilities"])
            assert compare("probabilities", session.run(None, feeds)[0], want, atol=1e-3).matches
    assert not all(each.matches for each in verify(artifact, MODEL))


@pytest.mark.parametrize("target", ["aarch64", "rock5b"])
def test_selftest_on_aarch64(folder: Path, target: str, run_on_aarch64: DeviceRun) -> None:
    path = mcpc.compile(MODEL, target, folder / target, precision="int8", calib_data=SAMPLES)
    done = run_on_aarch64(path, "--selftest", "--threads", "2")
    assert done.returncode == 0, done.stdout + done.stderr


def layers() -> bytes:
    """Two products of any number of rows, with a bias, and what bounds the first."""
    rng = np.random.default_rng(1)
    arrays = {"w": (64, 96), "b": (96,), "v": (96, 32)}
    constants = [numpy_helper.from_array(rng.standard_normal(s).astype(np.float32), name) for name, s in arrays.items()]
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["a"], "first"),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("MatMul", ["r", "v"], ["y"], "second"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 64])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 32])
    graph = helper.make_graph(nodes, "layers", [x], [y], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=12)
    return bytes(model.SerializeToString())


def rows(count: int) -> list[Mapping[str, Array]]:
    return [{"x": np.random.default_rng(seed).standard_normal((7, 64), np.float32)} for seed in range(count)]


def test_the_same_bits_on_both_processors(
    tmp_path: Path, run_on_aarch64: DeviceRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums of integers are exact, and what is done with them is one operation after another."""
    data = rows(4)
    with mcpc.load(mcpc.compile(layers(), "host", tmp_path / "host", precision="int8", calib_data=data)) as session:
        cases = [Golden([feeds["x"]], session.run(None, feeds), rtol=0.0, atol=0.0) for feeds in data]
    monkeypatch.setattr("mcpc.compiler.golden_cases", lambda *given: cases)
    for target in ("aarch64", "rock5b"):
        path = mcpc.compile(layers(), target, tmp_path / target, precision="int8", calib_data=data, golden=1)
        done = run_on_aarch64(path, "--selftest")
        assert done.returncode == 0, done.stdout + done.stderr


def convolutions(count: int) -> bytes:
    """Each followed by a Relu, on 64 channels of 24 x 24."""
    rng = np.random.default_rng(3)
    nodes, constants, name = [], [], "x"
    for index in range(count):
        weights = rng.standard_normal((64, 64, 1, 1), np.float32) / np.float32(8)
        constants.append(numpy_helper.from_array(weights, f"w{index}"))
        nodes.append(helper.make_node("Conv", [name, f"w{index}"], [f"c{index}"], f"conv{index}"))
        name = "y" if index == count - 1 else f"r{index}"
        nodes.append(helper.make_node("Relu", [f"c{index}"], [name]))
    x, y = (helper.make_tensor_value_info(each, TensorProto.FLOAT, [1, 64, 24, 24]) for each in "xy")
    graph = helper.make_graph(nodes, "convolutions", [x], [y], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=12)
    return bytes(model.SerializeToString())


def test_numbers_between_two_steps_are_no_faults(tmp_path: Path) -> None:
    """Of this many, some lie so near to the middle between two steps that the order of a sum decides."""
    data = [{"x": np.random.default_rng(seed).standard_normal((1, 64, 24, 24), np.float32)} for seed in range(2)]
    path = mcpc.compile(
        convolutions(8), "host", tmp_path / "x", precision="int8", calib_data=data, golden=3, verify_passes=True
    )
    assert all(each.matches for each in selftest(path))


# ---- ranges


def test_the_same_table_gives_the_same_bytes(artifact: Path, folder: Path) -> None:
    first, second = (
        mcpc.compile(MODEL, "host", folder / name, precision="int8", calib_table=folder / "table.json")
        for name in ("again", "once more")
    )
    assert first.read_bytes() == second.read_bytes()
    with mcpc.load(artifact) as one, mcpc.load(first) as other:  # it says what was measured on the samples too
        assert all((one.run(None, feeds)[0] == other.run(None, feeds)[0]).all() for feeds in SAMPLES[:5])


def test_a_table_can_be_edited(artifact: Path, folder: Path) -> None:
    document = json.loads((folder / "table.json").read_text())
    assert document["samples"] == 50 and set(document["tensors"]) >= {"relu1", "relu2"}
    document["tensors"]["relu1"]["high"] = 255.0
    (folder / "edited.json").write_text(json.dumps(document))
    path = mcpc.compile(MODEL, "host", folder / "edited", precision="int8", calib_table=folder / "edited.json")
    reasons = [each["reason"] for each in mcpc.inspect(path)["decisions"] if each["subject"] == "conv2"]
    assert "operands are rounded to steps of 1" in reasons


def test_a_table_of_another_tool(artifact: Path, folder: Path) -> None:
    tensors = json.loads((folder / "table.json").read_text())["tensors"]
    lines = [f"{name} {max(-each['low'], each['high'])}" for name, each in tensors.items()]
    (folder / "calibration.cache").write_text("\n".join(lines))
    path = mcpc.compile(MODEL, "host", folder / "cache", precision="int8", calib_table=folder / "calibration.cache")
    assert all(each.matches for each in selftest(path))


@pytest.mark.parametrize("method", ["moving-average", "percentile", "entropy", "mse"])
def test_every_method_gives_a_network_that_reads_digits(tmp_path: Path, method: str) -> None:
    path = mcpc.compile(
        MODEL, "host", tmp_path / "x", precision="int8", calib_data=SAMPLES, calib_method=method, golden=0
    )
    with mcpc.load(path) as session:
        guesses = [int(session.run(None, {"image": image[None]})[0].argmax()) for image in IMAGES[50:]]
    assert np.mean(np.array(guesses) == LABELS[50:]) >= 0.96


def test_a_pipeline_that_quantises_by_itself_does_so_once(tmp_path: Path) -> None:
    path = mcpc.compile(
        layers(), "host", tmp_path / "x", passes="fold, quantize{symmetric=true}, integer, dce", calib_data=rows(2)
    )
    names = [each["name"] for each in mcpc.inspect(path)["passes"]]
    assert names[:2] == ["fold", "quantize"] and names.count("quantize") == 1
    assert all(each.matches for each in selftest(path))


# ---- odd data


def with_outlier(x: Array) -> Array:
    x = x.copy()
    x[0, 0] = 1e30
    return x


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize(
    ("change", "method"),
    [
        (lambda x: np.zeros_like(x), "minmax"),
        (lambda x: np.full_like(x, 3.0), "entropy"),
        (lambda x: np.where(np.arange(64) == 5, np.float32(2), x), "mse"),  # a channel
        (lambda x: np.where(np.arange(64) == 5, np.float32(0), x), "minmax"),
    ],
    ids=["zeros", "constant", "constant channel", "channel of zeros"],
)
def test_what_never_changes_is_computed_as_by_floats(
    tmp_path: Path, change: Callable[[Array], Array], method: str, smooth: bool
) -> None:
    data = [{"x": change(feeds["x"])} for feeds in rows(20)]
    path = mcpc.compile(
        layers(), "host", tmp_path / "x", precision="int8", calib_data=data, calib_method=method, smooth=smooth
    )
    (want,) = reference(layers(), data[0], ["y"])
    with mcpc.load(path) as session:
        (got,) = session.run(None, data[0])
    assert np.abs(got - want).max() < 0.05 * max(np.abs(want).max(), 1e-3)


def test_an_outlier_is_told_and_percentile_leaves_it_out(tmp_path: Path) -> None:
    """Of one input; what it makes of a row behind that is no outlier there."""
    data = [{"x": with_outlier(feeds["x"])} if index == 3 else feeds for index, feeds in enumerate(rows(100))]
    for method, most in (("minmax", 1e30), ("percentile", 10)):
        table = tmp_path / f"{method}.json"
        path = mcpc.compile(
            layers(),
            "host",
            tmp_path / method,
            precision="int8",
            calib_data=data,
            calib_method=method,
            calib_table=table,
        )
        assert json.loads(table.read_text())["tensors"]["x"]["high"] <= most * 1.001
        told = {
            each["subject"]: each["reason"] for each in mcpc.inspect(path)["decisions"] if each["action"] == "outliers"
        }
        assert ("x" in told) == (method == "minmax") and all("percentile leaves" in each for each in told.values())
        with mcpc.load(path) as session:
            assert np.isfinite(session.run(None, data[3])[0]).all()


def test_weights_of_zeros_give_zeros(tmp_path: Path) -> None:
    model = onnx.load_from_string(layers())
    (weights,) = [tensor for tensor in model.graph.initializer if tensor.name == "v"]
    weights.CopyFrom(numpy_helper.from_array(np.zeros((96, 32), np.float32), "v"))
    path = mcpc.compile(model.SerializeToString(), "host", tmp_path / "x", precision="int8", calib_data=rows(3))
    with mcpc.load(path) as session:
        assert not session.run(None, rows(1)[0])[0].any()


@pytest.mark.parametrize(
    "options",
    [
        {"precision": "int8", "calib_data": [{"x": np.zeros((2, 0), np.float32)}], "smooth": True},
        {"precision": "int8-dynamic"},
    ],
)
def test_sums_of_nothing_stay_floats(tmp_path: Path, options: dict[str, Any]) -> None:
    product = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> g (float[2, 0] x) => (float[2, 3] y) { y = MatMul(x, w) }"""
    )
    product.graph.initializer.append(numpy_helper.from_array(np.zeros((0, 3), np.float32), "w"))
    path = mcpc.compile(product.SerializeToString(), "host", tmp_path / "x", **options)
    with mcpc.load(path) as session:
        np.testing.assert_array_equal(session.run(None, {"x": np.zeros((2, 0), np.float32)})[0], np.zeros((2, 3)))


# ---- what is refused


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"precision": "int8"}, UsageError, "int8 takes calibration data"),
        ({"calib_data": SAMPLES}, UsageError, "calibration data are for precision int8"),
        ({"precision": "fp16", "calib_table": "table.json"}, UsageError, "calibration data are for precision int8"),
        ({"precision": "int8", "calib_data": []}, CalibrationError, "there are no samples"),
        ({"precision": "int8", "calib_data": [{"x": IMAGES[:1]}]}, CalibrationError, "there is no 'image'"),
        ({"precision": "int8", "calib_data": [{"image": IMAGES[:1] * np.nan}]}, CalibrationError, "not finite"),
        ({"precision": "int8", "calib_data": SAMPLES, "calib_method": "max"}, UsageError, "no calibration method"),
        ({"precision": "int8", "calib_data": "missing.npz"}, CalibrationError, "no calibration data in missing.npz"),
        ({"precision": "int8", "calib_table": "missing.json"}, CalibrationError, "missing.json cannot be read"),
        ({"precision": "int8", "calib_table": "a.json", "calib_method": "mse"}, UsageError, "is for calibration data"),
        ({"calib_method": "mse"}, UsageError, "calib_method is for calibration data"),
    ],
)
def test_what_is_refused(tmp_path: Path, options: dict[str, Any], error: type[McpcError], words: str) -> None:
    with pytest.raises(error, match=words):
        mcpc.compile(MODEL, "host", tmp_path / "x", **options)
    assert not (tmp_path / "x").exists()
