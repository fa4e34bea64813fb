"""The sample models: what is committed is what the builders give, and fetching checks what it brings."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from click.testing import CliRunner

from mcpc.errors import UsageError
from mcpc.models import digits, inputs, mobilenetv2, zoo
from mcpc.models.__main__ import main


def run(model: onnx.ModelProto, feed: dict[str, np.ndarray]) -> np.ndarray:
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, feed)[0])


def test_committed_digits_network_reads_the_held_out_images() -> None:
    images, labels = digits.held_out()
    assert images.shape == (450, 1, 8, 8) and images.dtype == np.float32 and images.max() == 1
    probabilities = run(digits.build(digits.trained(), "N"), {"image": images})
    assert (probabilities.argmax(1) == labels).mean() >= 0.98
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-5)


def test_committed_digits_file_is_what_the_builder_writes_and_small() -> None:
    assert digits.MODEL.read_bytes() == digits.build(digits.trained()).SerializeToString()
    assert digits.MODEL.stat().st_size < 300_000 and digits.TEST_SET.stat().st_size < 60_000


def test_held_out_images_are_scikit_learns_test_split() -> None:
    pytest.importorskip("sklearn", reason="needs the dev extra")
    train_x, _, test_x, test_y = digits.split()
    images, labels = digits.held_out()
    np.testing.assert_array_equal(digits.as_input(test_x), images)
    np.testing.assert_array_equal(test_y, labels)
    assert not {image.tobytes() for image in train_x} & {image.tobytes() for image in test_x}


def test_digits_gradients_match_differences() -> None:
    rng = np.random.default_rng(0)
    parameters = {name: array.astype(np.float64) for name, array in digits.initial_parameters(rng).items()}
    images, labels = rng.random((4, 1, 8, 8)), np.array([1, 2, 3, 4])

    def loss() -> float:
        logits = digits.forward(parameters, images)[-1]
        return float((np.log(np.exp(logits).sum(1)) - logits[np.arange(4), labels]).mean())

    for name, gradient in digits.gradients(parameters, images, labels).items():
        flat = parameters[name].reshape(-1)
        for at in rng.integers(0, flat.size, 5):
            kept, step = flat[at], 1e-6
            flat[at] = kept + step
            above = loss()
            flat[at] = kept - step
            slope = (above - loss()) / (2 * step)
            flat[at] = kept
            assert gradient.reshape(-1)[at] == pytest.approx(slope, rel=1e-4, abs=1e-7), name


def test_mobilenetv2_has_the_papers_size_and_tame_activations() -> None:
    model = mobilenetv2.build()
    ops = [node.op_type for node in model.graph.node]
    assert (ops.count("Conv"), ops.count("BatchNormalization"), ops.count("Clip"), ops.count("Add")) == (52, 52, 35, 10)
    learned = [w for w in model.graph.initializer if w.name.endswith((".weight", ".bias"))]
    assert sum(int(np.prod(w.dims)) for w in learned) == 3_504_872  # torchvision's count
    output = run(model, {"input": np.random.default_rng(0).standard_normal((1, 3, 224, 224), np.float32)})
    assert output.shape == (1, 1000) and 0.3 < output.std() < 5


def test_mobilenetv2_is_seeded() -> None:
    first, again = (mobilenetv2.build(3, "N", 32, 10).SerializeToString() for _ in range(2))
    assert first == again != mobilenetv2.build(4, "N", 32, 10).SerializeToString()


def test_speech_and_frames() -> None:
    audio, speaks = inputs.speech(2.0)
    frames = inputs.vad_frames(audio)
    assert frames.shape == (62, 576) and frames.dtype == np.float32
    np.testing.assert_array_equal(frames[1, :64], frames[0, -64:])
    np.testing.assert_array_equal(frames[1, 64:], audio[512:1024])
    assert np.abs(audio).max() <= 1
    assert np.std(audio[speaks]) > 10 * np.std(audio[~speaks]) > 0


# ---- the zoo


def test_zoo_entries_are_complete() -> None:
    known = zoo.entries()
    assert {"silero-vad", "minilm", "ocr-det"} <= set(known)
    for entry in known.values():
        assert entry.path.endswith(".onnx") and len(entry.sha256) == 64 and entry.feed and "==" in entry.package


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> zoo.Entry:
    """An entry whose package is a wheel made here, in place of the package index."""
    monkeypatch.setenv("MCPC_CACHE_DIR", str(tmp_path / "cache"))
    data = b"a model"
    entry = replace(zoo.entries()["silero-vad"], path="p/m.onnx", sha256=hashlib.sha256(data).hexdigest())
    with zipfile.ZipFile(tmp_path / "p.whl", "w") as archive:
        archive.writestr("p/m.onnx", data)
    monkeypatch.setattr(zoo, "entries", lambda: {"m": entry})
    monkeypatch.setattr(zoo, "_download", lambda entry, folder: tmp_path / "p.whl")
    return entry


def test_fetch_takes_the_file_out_of_the_wheel_and_keeps_it(wheel: zoo.Entry, tmp_path: Path) -> None:
    path = zoo.fetch("m")
    assert path.read_bytes() == b"a model" and path.is_relative_to(tmp_path / "cache")
    (tmp_path / "p.whl").unlink()
    assert zoo.fetch("m") == path
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_fetch_refuses_another_file(wheel: zoo.Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zoo, "entries", lambda: {"m": replace(wheel, sha256="0" * 64)})
    with pytest.raises(UsageError, match="sha256"):
        zoo.fetch("m")
    monkeypatch.setattr(zoo, "entries", lambda: {"m": replace(wheel, path="p/other.onnx")})
    with pytest.raises(UsageError, match=r"p\.whl does not hold p/other\.onnx"):
        zoo.fetch("m")


def test_fetch_without_an_index_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCPC_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(UsageError) as caught:
        zoo.fetch("silero-vad")
    assert caught.value.code == "E002" and "cannot download silero-vad==6.2.3" in caught.value.message
    assert "\n" not in caught.value.message and caught.value.hint


def test_fetch_of_an_unknown_name_lists_the_known() -> None:
    with pytest.raises(UsageError) as caught:
        zoo.fetch("nope")
    assert "silero-vad" in caught.value.hint


# ---- python -m mcpc.models


def test_command_builds_and_lists(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "d.onnx"
    result = CliRunner().invoke(main, ["build", "digits", "--batch", "N", "-o", str(path)])
    assert result.exit_code == 0, result.output
    assert onnx.load(path).graph.input[0].type.tensor_type.shape.dim[0].dim_param == "N"
    listed = CliRunner().invoke(main, ["list"]).output
    assert all(name in listed for name in ("digits", "mobilenetv2", *zoo.entries()))


def test_command_copies_what_it_fetches(wheel: zoo.Entry, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["fetch", "m", "-o", str(tmp_path / "here")])
    assert result.exit_code == 0 and result.output.strip() == str(tmp_path / "here" / "m.onnx")
    assert (tmp_path / "here" / "m.onnx").read_bytes() == b"a model"


def test_command_reports_faults_in_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mcpc.models", "fetch", "nope"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error[E002]: no model is called 'nope'\nhint: ")
