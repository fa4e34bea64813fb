"""`mcpc verify --per-layer` compares every tensor that compiled code makes, and names the first that is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from onnx import helper
from onnx.numpy_helper import from_array

import mcpc
from mcpc import per_layer
from mcpc.cli import cli
from mcpc.per_layer import ExposeLayers, verify_layers


def build(scale: float = 1.0, dtype: type = np.float32) -> bytes:
    """Conv and Relu (one kernel, stored channels-last), Scale (an elementwise step of its own name), mean, Gemm."""
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["conv"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["conv"], ["relu"], name="relu"),
        helper.make_node("MaxPool", ["relu"], ["pool"], name="pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("ReduceMean", ["pool"], ["mean"], name="mean", axes=[2, 3], keepdims=0),
        helper.make_node("Gemm", ["mean", "v"], ["y"], name="head"),
    ]
    weights = {
        "w": rng.standard_normal((4, 3, 3, 3), np.float32),
        "v": rng.standard_normal((4, 2), np.float32) * np.float32(scale),
    }
    info = helper.make_tensor_value_info
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    inputs, outputs = [info("x", code, ["N", 3, 6, 6])], [info("y", code, ["N", 2])]
    initial = [from_array(array.astype(dtype), name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "net", inputs, outputs, initial)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("layers")
    (folder / "m.onnx").write_bytes(build())
    return mcpc.compile(folder / "m.onnx", "host", folder / "m.mcp26bin", dims={"N": (1, 4)}), folder / "m.onnx"


def test_every_step_is_compared_with_the_models_tensor(files: tuple[Path, Path]) -> None:
    layers = verify_layers(*files, dims={"N": 3})
    assert all(layer.matches for layer in layers)
    found = {layer.layer.name: layer for layer in layers}
    assert {"pool", "mean", "y"} <= found.keys()
    assert found["pool"].against == "model" and found["pool"].comparison.shape == (3, 4, 3, 3)
    steps = {step["name"] for step in mcpc.inspect(files[0])["steps"]}
    assert {layer.layer.node for layer in layers} >= {name for name in steps if "+" not in name}


def test_a_network_of_16_bits_is_compared_too(tmp_path: Path) -> None:
    """Passes that code generation repeats run where the artifact's pipeline had them."""
    (tmp_path / "m.onnx").write_bytes(build(dtype=np.float16))
    artifact = mcpc.compile(tmp_path / "m.onnx", "host", tmp_path / "m.mcp26bin")
    layers = verify_layers(artifact, tmp_path / "m.onnx")
    assert all(layer.matches for layer in layers)
    assert any(layer.layer.op == "Conv+Cast+Relu+Cast" for layer in layers)


def test_the_first_layer_that_differs_is_named(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def compile_another(artifact: Path, model: Path, expose: ExposeLayers, folder: Path, table: None) -> Path:
        path = mcpc.compile(build(scale=2), "host", folder / "m.mcp26bin", finish=[expose])
        sound = ExposeLayers()
        mcpc.compile(model, "host", folder / "sound.mcp26bin", finish=[sound])
        expose.models[:] = sound.models  # what the code should compute
        return path

    monkeypatch.setattr(per_layer, "_compile_again", compile_another)
    artifact, model = map(str, files)
    result: Any = CliRunner().invoke(cli, ["verify", artifact, model, "--per-layer", "--json"])
    document = json.loads(result.stdout)
    assert result.exit_code == 1 and not document["matches"]
    assert all(each["matches"] for each in document["outputs"])  # the artifact itself is sound
    assert [each["name"] for each in document["layers"] if not each["matches"]] == ["y"]
    [error] = document["errors"]
    assert (error["code"], error["node"]) == ("E606", "head") and "tensor 'y' differs" in error["message"]


def test_a_sound_artifact_passes_on_the_command_line(files: tuple[Path, Path]) -> None:
    result = CliRunner().invoke(cli, ["verify", *map(str, files), "--per-layer"])
    assert result.exit_code == 0 and "against" in result.output and "DIFFERS" not in result.output


def test_an_artifact_of_another_model_is_called_so(files: tuple[Path, Path], tmp_path: Path) -> None:
    """Its layers, which are compiled from the model that is given, cannot show the difference."""
    (tmp_path / "other.onnx").write_bytes(build(scale=2))
    result = CliRunner().invoke(cli, ["verify", str(files[0]), str(tmp_path / "other.onnx"), "--per-layer", "--json"])
    document = json.loads(result.stdout)
    assert result.exit_code == 1 and all(each["matches"] for each in document["layers"])
    [error] = document["errors"]
    assert error["hint"] == "the artifact is compiled from another file than this model"
