"""``--precision fp16``: how large, how near, and what is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

import mcpc
from mcpc.cli import cli
from mcpc.errors import UsageError
from mcpc.ir import OPSET
from mcpc.verification import selftest, verify

WIDTH = 256
Array = np.ndarray[Any, Any]


def network(first: Array, second: Array) -> bytes:
    """Two layers on any number of rows."""
    nodes = [
        helper.make_node("MatMul", ["x", "first"], ["a"], "up"),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("MatMul", ["r", "second"], ["y"], "down"),
    ]
    constants = [numpy_helper.from_array(each, name) for each, name in ((first, "first"), (second, "second"))]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", WIDTH]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "layers", ends[:1], ends[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=12)
    return bytes(model.SerializeToString())


def weights(seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal((WIDTH, WIDTH), np.float32) / 16


def rounded(weight: Array) -> Array:
    return weight.astype(np.float16).astype(np.float32)


def test_float32_arithmetic_on_rounded_weights(tmp_path: Path) -> None:
    first, second = weights(1), weights(2)
    half = mcpc.compile(network(first, second), "host", tmp_path / "half", precision="fp16", golden=0)
    full = mcpc.compile(network(rounded(first), rounded(second)), "host", tmp_path / "full", golden=0)
    for rows in (1, 3, 67):
        x = np.random.default_rng(rows).standard_normal((rows, WIDTH), np.float32)
        with mcpc.load(half) as ours, mcpc.load(full) as theirs:
            (got,), (want,) = ours.run(None, {"x": x}), theirs.run(None, {"x": x})
        assert np.array_equal(got, want)
    assert mcpc.inspect(half)["weights_bytes"] < 0.51 * mcpc.inspect(full)["weights_bytes"]
    assert mcpc.inspect(half)["provenance"]["precision"] == "fp16"


def test_weights_beyond_the_range_stay_and_are_told(tmp_path: Path) -> None:
    first = weights(1)
    first[3, 4] = 1e6
    path = tmp_path / "model.onnx"
    path.write_bytes(network(first, weights(2)))
    output = tmp_path / "out.mcp26bin"
    arguments = ["compile", str(path), "--target", "host", "--precision", "fp16", "-o", str(output)]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    assert "note: first: float32: its largest number, 1e+06, is beyond float16's 65504" in result.output
    assert all(each.matches for each in verify(output, path))
    actions = {each["subject"]: each["action"] for each in mcpc.inspect(output)["decisions"] if each["pass"] == "halve"}
    assert actions == {"first": "keep", "second": "halve"}


def test_verify_and_self_test_allow_for_the_precision_and_no_more(tmp_path: Path) -> None:
    model, wrong = tmp_path / "model.onnx", tmp_path / "wrong.onnx"
    model.write_bytes(network(weights(1), weights(2)))
    wrong.write_bytes(network(weights(1), weights(2) * np.float32(1.2)))
    half = mcpc.compile(model, "host", tmp_path / "half", precision="fp16")
    assert all(each.matches for each in (*verify(half, model), *selftest(half)))
    assert not any(each.matches for each in verify(half, wrong))
    assert not any(each.matches for each in verify(half, model, atol=1e-7, rtol=0))
    full = mcpc.compile(model, "host", tmp_path / "full")
    near = tmp_path / "near.onnx"
    near.write_bytes(network(rounded(weights(1)), rounded(weights(2))))
    assert not any(each.matches for each in verify(full, near))  # what fp16 may differ by, fp32 may not


def test_a_pipeline_that_halves_by_itself_does_so_once(tmp_path: Path) -> None:
    model = network(weights(1), weights(2))
    path = mcpc.compile(model, "host", tmp_path / "once", precision="fp16", passes="fold, halve, fuse", golden=0)
    assert [each["name"] for each in mcpc.inspect(path)["passes"]].count("halve") == 1


def test_unknown_precisions_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no precision 'fp8'"):
        mcpc.compile(network(weights(1), weights(2)), "host", tmp_path / "x", precision="fp8")
