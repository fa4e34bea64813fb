"""Weights as some neural processors read them: uint8 around 128, where they lie, and with the same results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import mcpc
from mcpc.artifact import Artifact
from mcpc.errors import UsageError
from mcpc.golden import Golden
from mcpc.ir import OPSET
from mcpc.plugins import find_target
from mcpc.runtime_api import cpu_has

from .conftest import DeviceRun

Array = np.ndarray[Any, Any]

RNG = np.random.default_rng(11)
#: Both extremes among them, and sizes that fill no panel.
KERNEL = RNG.integers(-128, 128, (12, 8, 3, 3)).astype(np.int8)
FILTERS = RNG.integers(-128, 128, (8, 1, 3, 3)).astype(np.int8)
MATRIX = RNG.integers(-128, 128, (30, 21)).astype(np.int8)


def network() -> bytes:
    """Convolutions and a product of integers, as networks have them that come quantised."""
    nodes = [
        helper.make_node("ConvInteger", ["x", "kernel", "zero"], ["y"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("ConvInteger", ["x", "filters", "zero"], ["z"], "depthwise", pads=[1, 1, 1, 1], group=8),
        helper.make_node("MatMulInteger", ["a", "matrix", "zero"], ["b"], "matmul"),
    ]
    constants = {"kernel": KERNEL, "filters": FILTERS, "matrix": MATRIX, "zero": np.array(7, np.uint8)}
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.UINT8, shape)
        for name, shape in (("x", [1, 8, 6, 5]), ("a", [9, 30]))
    ]
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.INT32, shape)
        for name, shape in (("y", [1, 12, 6, 5]), ("z", [1, 8, 6, 5]), ("b", [9, 21]))
    ]
    tensors = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "integers", inputs, outputs, tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=12)
    return bytes(model.SerializeToString())


FEEDS = {"x": RNG.integers(0, 256, (1, 8, 6, 5)).astype(np.uint8), "a": RNG.integers(0, 256, (9, 30)).astype(np.uint8)}


def expected() -> list[Array]:
    image = np.pad(FEEDS["x"][0].astype(np.int32) - 7, ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3), axis=(1, 2))
    conv = np.einsum("chwij,ocij->ohw", windows, KERNEL.astype(np.int32))
    depthwise = np.einsum("chwij,cij->chw", windows, FILTERS[:, 0].astype(np.int32))
    return [conv[None], depthwise[None], (FEEDS["a"].astype(np.int32) - 7) @ MATRIX.astype(np.int32)]


@pytest.mark.parametrize("bias", [0, 128])
def test_results_are_the_same_to_the_last_bit(
    bias: int, tmp_path: Path, run_on_aarch64: DeviceRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = [name for name in ("host", "x86-64-v3") if find_target(name).variant_here(cpu_has) is not None]
    for target in here:
        with mcpc.load(mcpc.compile(network(), target, tmp_path / target, zero_point_bias=bias)) as session:
            for got, want in zip(session.run(None, FEEDS), expected(), strict=True):
                np.testing.assert_array_equal(got, want)
    cases = [Golden(list(FEEDS.values()), expected(), rtol=0.0, atol=0.0)]
    monkeypatch.setattr("mcpc.compiler.golden_cases", lambda *given: cases)
    for target in ("aarch64", "rock5b"):
        path = mcpc.compile(network(), target, tmp_path / target, zero_point_bias=bias, golden=1)
        done = run_on_aarch64(path, "--selftest")
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("target", ["x86-64-v3", "rock5b"])
def test_a_loader_finds_the_tensors_as_they_lie(target: str, tmp_path: Path) -> None:
    path = mcpc.compile(network(), target, tmp_path / "x", zero_point_bias=128)
    places = {each["subject"]: each for each in mcpc.inspect(path)["decisions"] if each["action"] == "bias"}
    matrices = {"conv": KERNEL.transpose(2, 3, 1, 0).reshape(-1, 12), "matmul": MATRIX}
    assert places.keys() == {*matrices, "depthwise"}
    width = find_target(target).nr
    with Artifact.open(path) as artifact:

        def tensor(name: str, layout: str) -> Array:
            at = {key: int(number) for key, number in places[name]["numbers"].items()}
            assert layout in places[name]["reason"] and at["offset"] % 64 == 0
            shard = artifact.section(artifact.meta.shards[at["shard"]].section)
            return np.frombuffer(shard[at["offset"] : at["offset"] + at["bytes"]], np.uint8)

        pairs = tensor("depthwise", "[taps/2][across][C][2]").reshape(2, 3, 8, 2).transpose(2, 0, 3, 1).reshape(8, 4, 3)
        np.testing.assert_array_equal(pairs[:, :3].astype(np.int16) - 128, FILTERS[:, 0])
        assert (pairs[:, 3] == 128).all()
        for name, matrix in matrices.items():
            stored = tensor(name, f"[N/{width}][K/4][{width}][4]")
            depth, columns = matrix.shape
            rows = (
                stored.reshape(-(-columns // width), -1, width, 4).transpose(1, 3, 0, 2).reshape(-(-depth // 4) * 4, -1)
            )
            np.testing.assert_array_equal(rows[:depth, :columns].astype(np.int16) - 128, matrix)
            assert (rows[depth:] == 128).all() and (rows[:, columns:] == 128).all()


def test_other_zero_points_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="zero-point bias"):
        mcpc.compile(network(), "host", tmp_path / "x", zero_point_bias=127)
