"""Symbolic sizes on the command line: bounded or fixed by `compile`, chosen by `run`, `bench` and `verify`."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper

import mcpc
from mcpc.cli import cli, main
from mcpc.sample_inputs import sample_inputs


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sizes as exporters write them: a name, an odd name, none at all."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", "p2o.DynamicDimension.1", None, 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["unrelated", None, "?", 3])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "sizes", [x], [y])
    path = tmp_path_factory.mktemp("sizes") / "m.onnx"
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(proto.SerializeToString())
    return path


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, Any]:
    with pytest.raises(SystemExit) as ended:
        main([*map(str, arguments)])
    status = int(ended.value.code or 0)
    captured = capsys.readouterr()
    return status, captured.out or captured.err


def compiled(model: Path, folder: Path, *options: str) -> Path:
    output = folder / "m.mcp26bin"
    result = CliRunner().invoke(cli, ["compile", str(model), "-o", str(output), "-q", *options])
    assert result.exit_code == 0, result.exception
    return output


def test_bounds_are_the_artifacts(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--dim", "N=2..4", "--dim", "p2o.DynamicDimension.1=..9", "--dim", "x.2=5")
    path = compiled(model, tmp_path, *options)
    document = mcpc.inspect(path)
    assert document["inputs"][0]["shape"] == ["N", "p2o.DynamicDimension.1", 5, 3]
    assert [(each["name"], each["min"], each["max"]) for each in document["symbols"]] == [
        ("N", 2, 4), ("p2o.DynamicDimension.1", 0, 9)
    ]  # fmt: skip
    assert not document["unbounded"]
    _, text = call(capsys, "inspect", path)
    assert "N from 2 to 4" in text and "p2o.DynamicDimension.1 from 0 to 9" in text
    assert call(capsys, "inspect", path, "--html", tmp_path / "m.html")[0] == 0
    page = (tmp_path / "m.html").read_text(encoding="utf-8")
    assert "<td>N</td><td>2</td><td>4</td>" in page and "<td>p2o.DynamicDimension.1</td><td>0</td><td>9</td>" in page
    status, text = call(capsys, "run", path, "--random-inputs", 0, "--dim", "N=3", "--json")
    assert status == 0 and json.loads(text)["outputs"][0]["shape"][0] == 3
    status, text = call(capsys, "bench", path, "--dim", "N=4", "--iterations", 1, "--warmup", 0, "--json")
    assert status == 0 and json.loads(text)["input_shapes"]["x"][0] == 4
    assert call(capsys, "verify", path, model, "--dim", "N=4")[0] == 0
    status, text = call(capsys, "run", path, "--random-inputs", 0, "--dim", "N=5")
    assert (status, "--dim N=5: the size must be in 2..4" in text) == (2, True)
    status, text = call(capsys, "bench", path, "--dim", "M=1")
    assert status == 2 and "there is no such size" in text and "the symbolic sizes: N, p2o.DynamicDimension.1" in text


def test_open_sizes_stay_open(model: Path, tmp_path: Path) -> None:
    path = compiled(model, tmp_path, "--input-shape", "x:?x2x?x3")
    assert mcpc.inspect(path)["inputs"][0]["shape"] == ["N", 2, "x.2", 3]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--dim", "M=4"], "its symbolic sizes: N, p2o.DynamicDimension.1, x.2"),
        (["--dim", "N=5..2"], "the range is empty"),
        (["--dim", "N=4", "--input-shape", "x:2x2x2x3"], "size N is"),
        (["--dim", "N=4..8", "--input-shape", "x:2x2x2x3"], "size N is 2 already"),
        (["--dim", "N=99999999999999999999"], "size 99999999999999999999 exceeds all memory"),
        (["--dim", "N=1..99999999999999999999"], "size 99999999999999999999 exceeds all memory"),
        (["--input-shape", "x:99999999999999999999x2x2x3"], "exceeds all memory"),
        (["--dim", "N=-1"], "neither a size nor a range"),
        (["--dim", "N"], "is not NAME=VALUE"),
        (["--dim", "N=1", "--dim", "N=2"], "gives 'N' twice"),
        (["--input-shape", "x:2x2x2x4"], "the model fixes"),
    ],
)
def test_what_does_not_fit_is_said(
    model: Path, options: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, text = call(capsys, "compile", model, "-o", tmp_path / "m.mcp26bin", *options)
    assert status == 2 and said in text and not list(tmp_path.iterdir())


def test_python_takes_the_same(model: Path, tmp_path: Path) -> None:
    dims: dict[str, Any] = {"N": 4, "p2o.DynamicDimension.1": (1, 8)}
    path = mcpc.compile(model, output=tmp_path / "m.mcp26bin", dims=dims, input_shapes={"x": (None, None, 2, 3)})
    document = mcpc.inspect(path)
    assert document["inputs"][0]["shape"] == [4, "p2o.DynamicDimension.1", 2, 3]


@pytest.mark.parametrize(
    ("names", "sizes"),
    [
        (["hidden", "sequence_length", "past_sequence_length", "total_sequence_length"], [16, 16, 16, 32]),
        (["past", "past + 1"], [16, 17]),
        (["length", "total"], [16, 16]),
    ],
)
def test_sizes_that_are_named_as_sums_are_sampled_as_such(names: list[str], sizes: list[int]) -> None:
    inputs = [SimpleNamespace(name=name, shape=["batch", name], type="tensor(float)") for name in names]
    assert [sample.shape[1] for sample in sample_inputs(inputs, 0).values()] == sizes
