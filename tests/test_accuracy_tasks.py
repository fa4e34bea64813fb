"""The measures of bench/accuracy.py count right, and its tasks give their networks what these read."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import accuracy
import accuracy_data
import accuracy_scores as scores
import numpy as np
import onnx
import pytest
from accuracy_runners import REFERENCE, RUNNERS, Network, reference
from accuracy_scores import Measure
from accuracy_tasks import CHOSEN_BY, PLANS, Feeds, Task

from mcpc.errors import McpcError
from mcpc.models.tasks import notes, ocr
from mcpc.models.tasks.notes import Note

# ---- measures


def test_agreement_is_the_share_of_equal_answers() -> None:
    assert scores.agreement([1, 2, 3, 4], [1, 2, 0, 4]) == 75
    with pytest.raises(ValueError):
        scores.agreement([1], [1, 2])


def test_edits_are_insertions_deletions_and_replacements() -> None:
    for a, b, distance in (("", "", 0), ("abc", "", 3), ("", "ab", 2), ("kitten", "sitting", 3), ("ab", "ba", 2)):
        assert scores.edit_distance(a, b) == distance == scores.edit_distance(b, a)


def test_characters_count_over_all_texts_without_blanks() -> None:
    assert scores.character_accuracy(["a b c", "12x4"], ["abc", "1234"]) == pytest.approx(100 * 6 / 7)


def test_things_found_match_one_each() -> None:
    def near(a: float, b: float) -> bool:
        return abs(a - b) <= 1

    assert scores.f_measure([[1, 5]], [[1, 5]], near) == 100
    assert scores.f_measure([[1, 1]], [[1]], near) == pytest.approx(200 / 3)  # the second matches nothing
    assert scores.f_measure([[1], []], [[9], [1]], near) == 0  # another sample's does not count
    assert scores.f_measure([[]], [[]], near) == 100


def test_vectors_are_compared_by_cosine_and_by_their_nearest() -> None:
    vectors = [np.array(each) for each in ([1.0, 0.0], [0.6, 0.8], [0.8, 0.6], [0.0, 1.0])]
    assert scores.cosine(vectors, vectors) == pytest.approx(100)
    assert scores.cosine(vectors[:1], vectors[1:2]) == pytest.approx(60)
    assert scores.same_nearest(vectors, vectors) == 100
    moved = [*vectors[:2], np.array([1.0, 0.0]), vectors[3]]  # the second and the third were each other's nearest
    assert scores.same_nearest(moved, vectors) == 50


def test_goals_are_absolute_or_relative_to_float32() -> None:
    least, drop, none = (Measure("m", scores.agreement, **goal) for goal in ({"least": 99}, {"drop": 0.5}, {}))
    assert least.is_met(99.0, 100.0) and not least.is_met(98.9, 90.0)
    assert drop.is_met(95.5, 96.0) and not drop.is_met(95.4, 96.0) and drop.is_met(97.0, 96.0)
    assert none.is_met(0.0, 100.0)
    assert (least.goal, drop.goal, none.goal) == ("≥ 99", "drop ≤ 0.5", "")


# ---- data


def test_notes_that_are_played_are_heard_in_perfect_outputs() -> None:
    """Written into the network's outputs as it would, they come back, one after the other on the same key too."""
    played = [Note(45, 0.3, 0.7), Note(69, 0.1, 0.5), Note(69, 0.5, 1.0)]
    grid, onsets = np.zeros((1, 172, 88)), np.zeros((1, 172, 88))
    for note in played:
        begin, end = (round(time * notes.RATE / notes.HOP) for time in (note.onset, note.end))
        grid[0, begin:end, note.key - notes.LOWEST_KEY] = 0.9
        onsets[0, [begin - 1, begin], note.key - notes.LOWEST_KEY] = 0.6, 0.8
    grid[0, 100:105, 3], onsets[0, 100, 3] = 0.9, 0.9  # too short
    heard = notes.heard(grid, onsets)
    assert [note.key for note in heard] == [45, 69, 69]
    for a, b in zip(heard, played, strict=True):
        assert a.onset == pytest.approx(b.onset, abs=0.01) and a.end == pytest.approx(b.end, abs=0.01)
    audio = notes.played([Note(69, 0.5, 1.0)], 1)[0, :, 0]
    assert not audio[: int(0.5 * notes.RATE)].any() and not audio[int(1.0 * notes.RATE) + 1 :].any()
    spectrum = np.abs(np.fft.rfft(audio))
    assert spectrum.argmax() * notes.RATE / notes.WINDOW == pytest.approx(440, abs=2)


def test_data_is_the_same_for_the_same_seed() -> None:
    for make in (accuracy_data.sentences, accuracy_data.texts):
        first, again, other = (make(np.random.default_rng(seed), 40) for seed in (1, 1, 2))
        assert first == again != other and len(set(first)) == 40
    files = [accuracy_data.file_features(np.random.default_rng(seed), 40) for seed in (1, 1)]
    assert all(np.array_equal(a, b) for a, b in zip(*files, strict=True))
    assert len({row.tobytes() for row in files[0]}) == 40


def test_worn_print_stays_dark_on_light() -> None:
    rng = np.random.default_rng(0)
    image = ocr.line("word", 30)
    for _ in range(20):
        worn = accuracy_data.worn(rng, image)
        assert worn.dtype == np.uint8 and worn.shape == image.shape
        assert worn[image == 255].mean() > worn[image == 0].mean() + 40


# ---- tasks

#: Samples for calibration, and for evaluation.
FEW = {"magika": (3, 5), "ocr-rec": (2, 8), "ocr-det": (1, 2), "basic-pitch": (2, 3), "silero-vad": (1, 1),
       "digits": (4, 20), "minilm": (3, 8)}  # fmt: skip


@functools.cache
def small_task(name: str) -> Task:
    try:
        return PLANS[name].make(np.random.default_rng(0), *FEW[name])
    except McpcError as error:
        if "cannot download" not in error.message:
            raise
        pytest.skip(f"what the task needs cannot be fetched: {error.message}")


def test_every_task_is_tried() -> None:
    assert list(FEW) == list(PLANS)


@pytest.mark.parametrize("name", FEW)
def test_samples_are_what_the_network_reads(name: str) -> None:
    task = small_task(name)
    graph = onnx.load(task.model, load_external_data=False).graph
    weights = {tensor.name for tensor in graph.initializer}
    inputs = {value.name: value.type.tensor_type for value in graph.input if value.name not in weights}
    run = reference(task.model)
    calibration = task.complete(run)
    for feeds in (*calibration, *task.evaluation):
        assert set(feeds) | set(task.carried.values()) == set(inputs)
        for key, array in feeds.items():
            sizes = [dim.dim_value for dim in inputs[key].shape.dim]
            assert array.dtype == onnx.helper.tensor_dtype_to_np_dtype(inputs[key].elem_type)
            assert len(array.shape) == len(sizes)
            assert all(want in (0, got) for want, got in zip(sizes, array.shape, strict=True))
            assert array.dtype.kind != "f" or np.isfinite(array).all()
    assert all(set(feeds) == set(inputs) for feeds in calibration)


@pytest.mark.parametrize("name", FEW)
def test_no_sample_is_in_calibration_and_evaluation(name: str) -> None:
    task = small_task(name)

    def keys(samples: Any) -> list[bytes]:
        new = [{key: each for key, each in feeds.items() if key not in task.carried.values()} for feeds in samples]
        return [b"".join(feeds[key].tobytes() for key in sorted(feeds)) for feeds in new]

    calibration, evaluation = keys(task.calibration), keys(task.evaluation)
    assert len({*calibration, *evaluation}) == len(calibration) + len(evaluation)


@pytest.mark.parametrize("name", FEW)
def test_the_float32_network_does_its_task(name: str) -> None:
    """It meets its own goals, and what is true is told to the measures: most of it is found."""
    task = small_task(name)
    answers = list(task.answers(reference(task.model)))
    assert len(answers) == len(task.evaluation)
    for measure in task.measures:
        score = measure.score(answers, answers)
        assert measure.is_met(score, score) and 75 < score < 100 + 1e-4


def test_states_go_from_one_sample_to_the_next() -> None:
    def run(feeds: Feeds) -> dict[str, Any]:
        return {"sum": feeds["state"] + feeds["x"]}

    samples: list[Feeds] = [{"x": np.array(x)} for x in (1, 2, 3, 4)]
    samples[0]["state"], samples[2]["state"] = np.array(10), np.array(100)
    answer: Callable[..., int] = lambda feeds, outputs: int(outputs["sum"])  # noqa: E731
    task = Task(Path("none.onnx"), samples, samples, answer, [], carried={"sum": "state"})
    assert list(task.answers(run)) == [11, 13, 103, 107]
    assert [int(feeds["state"]) for feeds in task.complete(run)] == [10, 11, 100, 103]


# ---- the whole


def test_runners_are_scored_and_those_that_fail_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(work: object) -> None:
        raise RuntimeError("no such thing\nand more")

    def forgets(work: Any) -> Network:
        run = reference(work.task.model)
        return Network(lambda feeds: {name: np.roll(array, 1, -1) for name, array in run(feeds).items()}, 3, 1)

    monkeypatch.setitem(RUNNERS, "fails", fails)
    monkeypatch.setitem(RUNNERS, "forgets", forgets)
    runners = ["fails", "forgets", "onnxruntime int8, exact"]
    task = accuracy.evaluate("digits", small_task("digits"), runners, "minmax")
    assert task["unable"] == {"fails": "no such thing"}
    right, same = task["measures"]
    assert right["scores"][REFERENCE] > 90 and same["scores"][REFERENCE] == 100
    assert right["scores"]["forgets"] < 30 and right["missed"] == ["forgets"] and same["missed"] == []
    assert same["scores"]["onnxruntime int8, exact"] >= 90
    counts = {runner: (each["integer"], each["all"]) for runner, each in task["products"].items()}
    assert counts == {REFERENCE: (0, 3), "forgets": (1, 3), "onnxruntime int8, exact": (3, 3)}
    document = {
        "command": "c", "seed": 3, "machine": {"processor": "p"}, "versions": {"onnxruntime": "1"},
        "tasks": {"digits": task}, "runners": [REFERENCE, *runners],
    }  # fmt: skip
    text = accuracy.markdown(document)
    [row] = [line for line in text.splitlines() if line.startswith("| digits") and "| right |" in line]
    assert row.count("✗") == 1 and "| – |" in row and row.split(" | ")[3] == "drop ≤ 0.2"
    assert "Without fails (digits): no such thing" in text
    assert "of seed 3; " in text and f"of seed {CHOSEN_BY}." in text
