"""Whole networks, from ONNX to outputs: against ONNX Runtime on the host, and the same on AArch64 under qemu."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import mcpc
from mcpc.errors import McpcError
from mcpc.models import digits, inputs, mobilenetv2, zoo
from mcpc.sample_inputs import sample_inputs
from mcpc.verification import compare, reference, verify

from .conftest import DeviceRun

NETWORKS = ("digits", "mobilenetv2", "silero-vad")
DEVICES = ("rock5b", "aarch64", "rpi5")


@dataclass
class Network:
    name: str
    path: Path
    artifacts: dict[str, Path]

    def artifact(self, target: str) -> Path:
        if target not in self.artifacts:
            output = self.path.with_name(f"{self.name}-{target}.mcp26bin")
            self.artifacts[target] = mcpc.compile(self.path, target, output)
        return self.artifacts[target]


@pytest.fixture(scope="session", params=NETWORKS)
def network(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Network:
    folder = tmp_path_factory.mktemp(request.param)
    path = folder / f"{request.param}.onnx"
    if request.param == "digits":
        path.write_bytes((Path(digits.__file__).parent / "digits.onnx").read_bytes())
    elif request.param == "mobilenetv2":
        onnx.save(mobilenetv2.build(), path)
    else:
        try:
            path.write_bytes(zoo.fetch(request.param).read_bytes())
        except McpcError as error:
            pytest.skip(f"the real model cannot be fetched: {error.message}")
    return Network(request.param, path, {})


def test_host_matches_onnxruntime(network: Network) -> None:
    for seed in range(3):
        comparisons = verify(network.artifact("host"), network.path, seed=seed)
        assert all(each.matches for each in comparisons), [each.describe() for each in comparisons]


@pytest.mark.parametrize("target", DEVICES)
def test_selftest_on_aarch64(network: Network, target: str, run_on_aarch64: DeviceRun) -> None:
    done = run_on_aarch64(network.artifact(target), "--selftest", "--threads", "2")
    assert done.returncode == 0, done.stdout + done.stderr


def test_baseline_variant_runs_on_an_armv8_0_core(network: Network, run_on_aarch64: DeviceRun) -> None:
    done = run_on_aarch64(network.artifact("aarch64"), "--selftest", cpu="cortex-a53")
    assert done.returncode == 0, done.stdout + done.stderr


def test_rock5b_code_is_refused_where_its_instructions_are_missing(network: Network, run_on_aarch64: DeviceRun) -> None:
    done = run_on_aarch64(network.artifact("rock5b"), "--selftest", cpu="cortex-a53")
    assert done.returncode == 5
    assert "asimddp" in done.stderr


@pytest.mark.parametrize("target", ("host", *DEVICES))
def test_arena_is_close_to_the_live_set(network: Network, target: str) -> None:
    facts = mcpc.inspect(network.artifact(target))
    assert 0 < facts["arena_bytes"] <= 1.05 * facts["live_set_bytes"]


def test_file_is_little_more_than_its_weights(network: Network) -> None:
    if network.name == "digits":
        pytest.skip("40 KB of weights: alignment to 64 KiB dominates")
    model = onnx.load(network.path)
    nodes = [attribute.t for node in model.graph.node if node.op_type == "Constant" for attribute in node.attribute]
    weights = sum(onnx.numpy_helper.to_array(t).nbytes for t in [*model.graph.initializer, *nodes])
    assert network.artifact("host").stat().st_size <= 1.1 * weights + 3 * 65536


def test_two_threads_give_the_same_bits_as_one(network: Network) -> None:
    with mcpc.load(network.artifact("host"), threads=1) as one, mcpc.load(network.artifact("host"), threads=2) as two:
        feeds = sample_inputs(one.get_inputs(), 5)
        for a, b in zip(one.run(None, feeds), two.run(None, feeds), strict=True):
            np.testing.assert_array_equal(a, b)


def test_digits_are_read(tmp_path: Path) -> None:
    """The trained network on images it has not seen, through the compiled artifact."""
    images, labels = digits.held_out()
    model = Path(digits.__file__).parent / "digits.onnx"
    with mcpc.load(mcpc.compile(model, "host", tmp_path / "digits.mcp26bin")) as session:
        name = session.get_inputs()[0].name
        guesses = [int(session.run(None, {name: image[None]})[0].argmax()) for image in images]
    assert np.mean(np.array(guesses) == labels) >= 0.97


def test_speech_is_told_from_silence_with_carried_state(tmp_path: Path) -> None:
    """silero-vad over some seconds, its state fed back: the same probabilities as ONNX Runtime's, high in speech."""
    try:
        path = zoo.fetch("silero-vad")
    except McpcError as error:
        pytest.skip(f"the real model cannot be fetched: {error.message}")
    audio, _ = inputs.speech(6.0)
    state_ours = state_theirs = np.zeros((2, 1, 128), np.float32)
    ours: list[float] = []
    theirs: list[float] = []
    with mcpc.load(mcpc.compile(path, "host", tmp_path / "silero.mcp26bin")) as session:
        for frame in inputs.vad_frames(audio)[:60]:
            probability, state_ours = session.run(None, {"input": frame[None], "state": state_ours})
            ours.append(float(probability[0, 0]))
            want: list[Any] = reference(path, {"input": frame[None], "state": state_theirs}, ["output", "stateN"])
            theirs.append(float(want[0][0, 0]))
            state_theirs = want[1]
    assert compare("probability", np.array(ours, np.float32), np.array(theirs, np.float32), atol=1e-3).matches
    assert max(ours) > 0.5 > min(ours)
