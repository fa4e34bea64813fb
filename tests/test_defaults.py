"""Inputs that may be left out: from an initializer that a model also lists as an input to a run without it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper
from onnx.numpy_helper import from_array

import mcpc
from mcpc.artifact import Artifact, Code, Contents, write_artifact
from mcpc.cli.options import read_bounds
from mcpc.errors import FormatError, RuntimeFault
from mcpc.loader import Session
from mcpc.verification import selftest, verify

W = np.array([[1, 2], [3, 4]], np.float32)
SCALES = np.array([1, 10, 100], np.float32)


def build() -> bytes:
    """y = x @ w, z[K] = scales[K]; w and scales may be fed, bias may not."""
    info = helper.make_tensor_value_info
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Add", ["m", "bias"], ["y"]),
        helper.make_node("Neg", ["scales"], ["z"]),
    ]
    inputs = [
        info("w", TensorProto.FLOAT, [2, 2]),
        info("x", TensorProto.FLOAT, ["N", 2]),
        info("scales", TensorProto.FLOAT, ["K"]),
    ]
    outputs = [info("y", TensorProto.FLOAT, ["N", 2]), info("z", TensorProto.FLOAT, ["K"])]
    initial = {"w": W, "bias": np.array([5, 6], np.float32), "scales": SCALES}
    graph = helper.make_graph(nodes, "g", inputs, outputs, [from_array(array, name) for name, array in initial.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("defaults")
    (folder / "m.onnx").write_bytes(build())
    return folder / "m.onnx", mcpc.compile(folder / "m.onnx", "host", folder / "m.mcp26bin")


def same(session: Session, reference: Any, feeds: dict[str, np.ndarray[Any, Any]]) -> None:
    for got, want in zip(session.run(None, feeds), reference.run(None, feeds), strict=True):
        assert got.shape == want.shape and np.allclose(got, want)


def test_runs_with_and_without_them_are_onnx_runtimes(files: tuple[Path, Path]) -> None:
    model, artifact = files
    reference = ort.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    with mcpc.load(artifact, threads=1) as session:
        assert [each.name for each in session.get_inputs()] == ["x"]
        optional = {each.name: each.shape for each in session.get_overridable_initializers()}
        assert optional == {"w": [2, 2], "scales": ["K"]}
        for feeds in (
            {"x": x},
            {"x": x[:1], "w": W.T.copy()},
            {"x": x, "w": W * 2, "scales": np.zeros(7, np.float32)},
            {"x": x, "scales": np.ones(0, np.float32)},
            {"x": x},
        ):
            same(session, reference, feeds)
        with pytest.raises(RuntimeFault, match=r"E600.*'x' is missing"):
            session.run(None, {"w": W})
        with pytest.raises(RuntimeFault, match=r"E602.*'w'"):
            session.run(None, {"x": x, "w": np.ones((3, 2), np.float32)})
        session.bind("x", x)
        assert np.allclose(session.run_bound()[0], x @ W + [5, 6])
        session.bind("scales", SCALES[:2])
        assert session.run_bound()[1].tolist() == [-1, -10]
        session.bind("scales", None)
        assert session.run_bound()[1].tolist() == [-1, -10, -100]


def test_checks_use_them(files: tuple[Path, Path]) -> None:
    model, artifact = files
    assert all(each.matches for each in selftest(artifact))
    assert all(each.matches for each in verify(artifact, model, dims={"N": 5}))
    assert all(each.matches for each in verify(artifact, model, inputs={"w": W + 1}))
    assert [each["optional"] for each in mcpc.inspect(artifact)["inputs"]] == [False, True, True]


def test_lazy_verification_and_budgets_cover_them(files: tuple[Path, Path]) -> None:
    _, artifact = files
    with Artifact.open(artifact) as opened:
        opened.verify()
        assert [default.shape for default in opened.meta.defaults] == [[2, 2], [3]]
    with mcpc.load(artifact, threads=1) as session:
        needed = session.memory_bytes
    with mcpc.load(artifact, threads=1, memory_budget=needed + (1 << 20)) as session:
        assert session.run(["z"], {"x": np.zeros((1, 2), np.float32)})[0].tolist() == [-1, -10, -100]


def test_frozen_they_are_no_inputs(tmp_path: Path) -> None:
    path = mcpc.compile(build(), "host", tmp_path / "m.mcp26bin", freeze_defaults=True)
    with mcpc.load(path, threads=1) as session:
        assert not session.get_overridable_initializers()
        with pytest.raises(RuntimeFault, match="no input 'w'"):
            session.run(None, {"x": np.zeros((1, 2), np.float32), "w": W})


def test_ranges_on_the_command_line() -> None:
    assert read_bounds(("N=4", "W=1..32", "H=..8", "a=b=2..")) == {
        "N": 4, "W": (1, 32), "H": (0, 8), "a=b": (2, None)
    }  # fmt: skip


@pytest.mark.parametrize(
    ("field", "value"),
    [("input", 9), ("shard", 9), ("offset", 1 << 40), ("offset", 2), ("bytes", 8), ("shape", [2]), ("shape", [2, 3])],
)
def test_a_damaged_default_is_refused(files: tuple[Path, Path], field: str, value: Any, tmp_path: Path) -> None:
    path = damaged(files[1], tmp_path / "bad.mcp26bin", lambda meta: setattr(meta.defaults[0], field, value))
    with pytest.raises(FormatError, match=r"E501.*Meta\.defaults"):
        mcpc.load(path)


def test_two_defaults_of_one_input_are_refused(files: tuple[Path, Path], tmp_path: Path) -> None:
    path = damaged(files[1], tmp_path / "bad.mcp26bin", lambda meta: meta.defaults.append(meta.defaults[0]))
    with pytest.raises(FormatError, match=r"E501.*Meta\.defaults"):
        mcpc.load(path)


def damaged(artifact: Path, path: Path, damage: Callable[[Any], object]) -> Path:
    """The artifact with other metadata, sealed again."""
    with Artifact.open(artifact) as opened:
        meta = opened.meta
        code = [
            Code(each.name, each.isa, opened.section(each.section), each.entry, each.plan, tuple(each.features or []))
            for each in meta.code
        ]
        shards = [opened.section(each.section) for each in meta.shards]
    damage(meta)
    write_artifact(path, Contents(meta, code, shards))
    return path
