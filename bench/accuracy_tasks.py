"""The tasks of accuracy.py: a trained network each, samples for calibration and others for evaluation, and measures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import accuracy_data
import numpy as np
from accuracy_scores import Measure, agreement, character_accuracy, cosine, f_measure, same_nearest

from mcpc.models import digits, inputs, zoo
from mcpc.models.tasks import notes, ocr
from mcpc.models.tasks import sentences as meaning

Array = np.ndarray[Any, Any]
Feeds = dict[str, Array]

#: The seed of the samples by whose scores the methods and float layers of tasks were chosen, which flatters these.
CHOSEN_BY = 26

#: Runs a network: inputs by name in, outputs by name out.
Run = Callable[[Feeds], dict[str, Array]]


@dataclass(frozen=True)
class Task:
    """``calibration`` and ``evaluation`` have no sample in common. ``answer`` makes what ``measures`` compare of a
    sample and its outputs. ``carried`` says which output becomes which input of the sample that follows, wherever that
    has none of its own; ``open_sizes`` are the shapes of inputs as mcpc.compile takes them. Where channels are scaled
    first, ``method`` finds the ranges, and layers whose names are ``floats`` stay float32."""

    model: Path
    calibration: Sequence[Feeds]
    evaluation: Sequence[Feeds]
    answer: Callable[[Feeds, dict[str, Array]], Any]
    measures: Sequence[Measure]
    carried: Mapping[str, str] = field(default_factory=dict)
    open_sizes: Mapping[str, tuple[int | None, ...]] = field(default_factory=dict)
    method: str = "percentile"
    floats: Sequence[str] = ()

    def answers(self, run: Run) -> Iterator[Any]:
        """What the network says about each sample of the evaluation."""
        for feeds, outputs in self._runs(self.evaluation, run):
            yield self.answer(feeds, outputs)

    def complete(self, run: Run) -> list[Feeds]:
        """The calibration with what samples have of those before them, as ``run`` gives it."""
        return [feeds for feeds, _ in self._runs(self.calibration, run)] if self.carried else list(self.calibration)

    def _runs(self, samples: Sequence[Feeds], run: Run) -> Iterator[tuple[Feeds, dict[str, Array]]]:
        outputs: dict[str, Array] = {}
        for sample in samples:
            carried = {name: outputs[output] for output, name in self.carried.items() if name not in sample}
            feeds = {**sample, **carried}
            outputs = run(feeds)
            yield feeds, outputs


def _only(outputs: dict[str, Array]) -> Array:
    [output] = outputs.values()
    return output


def _likeliest(feeds: Feeds, outputs: dict[str, Array]) -> int:
    return int(_only(outputs).argmax())


def magika(rng: np.random.Generator, calibration: int, evaluation: int) -> Task:
    """The types of real files, as the float32 network tells them."""
    rows = accuracy_data.file_features(rng, calibration + evaluation)
    samples = [{"bytes": rows[index]} for index in rng.permutation(len(rows))]
    measures = [Measure("same file type", agreement, least=99)]
    return Task(
        zoo.fetch("magika"),
        calibration=samples[:calibration],
        evaluation=samples[calibration:],
        answer=_likeliest,
        measures=measures,
    )


def ocr_rec(rng: np.random.Generator, calibration: int, evaluation: int) -> Task:
    """Printed lines are read, each as wide as it is."""
    model = zoo.fetch("ocr-rec")
    classes = ocr.characters(model)
    texts = accuracy_data.texts(rng, calibration + evaluation)
    samples = [{"x": ocr.recognition_input([image])} for image in accuracy_data.printed_lines(rng, texts)]
    truth = texts[calibration:]
    return Task(
        model,
        calibration=samples[:calibration],
        evaluation=samples[calibration:],
        answer=lambda feeds, outputs: ocr.read(_only(outputs), classes)[0],
        measures=[
            Measure("characters read", lambda answers, _: character_accuracy(answers, truth), drop=0.5),
            Measure("same text", agreement),
        ],
        open_sizes={"x": (None, 3, ocr.LINE_HEIGHT, None)},
    )


def ocr_det(rng: np.random.Generator, calibration: int, evaluation: int) -> Task:
    """The lines of printed pages are found, 16 a page."""
    pages = accuracy_data.printed_pages(rng, calibration + evaluation, lines=16)
    samples = [{"x": ocr.detection_input(image)} for image, _ in pages]
    truth = [boxes for _, boxes in pages[calibration:]]
    height, width = pages[0][0].shape[:2]

    def is_the_line(box: ocr.Box, ink: ocr.Box) -> bool:
        return box.covers(ink) >= 0.9 and ink.covers(box) >= 0.25

    return Task(
        zoo.fetch("ocr-det"),
        calibration=samples[:calibration],
        evaluation=samples[calibration:],
        answer=lambda feeds, outputs: ocr.text_boxes(_only(outputs), width, height),
        measures=[Measure("lines found, F", lambda answers, _: f_measure(answers, truth, is_the_line), drop=0.5)],
    )


def basic_pitch(rng: np.random.Generator, calibration: int, evaluation: int) -> Task:
    """The notes of two voices are heard: the key, and its beginning to 50 ms, as in MIREX's note tracking by onset."""
    scores = [accuracy_data.score(rng) for _ in range(calibration + evaluation)]
    samples: list[Feeds] = []
    for score in scores:
        audio = notes.played(score, int(rng.integers(2, 8)))
        noise = 10 ** rng.uniform(-4, -2) * rng.standard_normal(audio.shape)
        samples.append({"serving_default_input_2:0": (audio + noise).astype(np.float32)})

    def is_the_note(a: notes.Note, b: notes.Note) -> bool:
        return a.key == b.key and abs(a.onset - b.onset) <= 0.05

    return Task(
        zoo.fetch("basic-pitch"),
        calibration=samples[:calibration],
        evaluation=samples[calibration:],
        answer=lambda feeds, outputs: notes.heard(outputs[notes.NOTES], outputs[notes.ONSETS]),
        measures=[
            Measure("notes, F", lambda answers, _: f_measure(answers, scores[calibration:], is_the_note), drop=1),
            Measure("notes as float32 hears them, F", partial(f_measure, matches=is_the_note)),
        ],
    )


SILERO_FLOATS = ("stft", "encoder/0/reparam_conv", "encoder/2/reparam_conv")


def silero_vad(rng: np.random.Generator, calibration: int, evaluation: int) -> Task:
    """Somebody speaks or not, every 32 ms of ten-second recordings, loud and quiet ones with more or less noise."""
    samples: list[Feeds] = []
    for _ in range(calibration + evaluation):
        audio, _ = inputs.speech(10.0, int(rng.integers(10**6)))
        loudness, noise = 10 ** rng.uniform(-1, 0), 10 ** rng.uniform(-4, -1.5)
        audio = (loudness * audio + noise * rng.standard_normal(len(audio))).astype(np.float32)
        recording: list[Feeds] = [{"input": frame[None]} for frame in inputs.vad_frames(audio)]
        recording[0]["state"] = np.zeros((2, 1, 128), np.float32)
        samples += recording
    each = len(samples) // (calibration + evaluation)
    return Task(
        zoo.fetch("silero-vad"),
        calibration=samples[: calibration * each],
        evaluation=samples[calibration * each :],
        answer=lambda feeds, outputs: bool(outputs["output"][0, 0] > 0.5),
        measures=[Measure("same decision", agreement, least=99)],
        carried={"stateN": "state"},
        method="mse",
        # found by trying, on the samples of CHOSEN_BY, without which layers as integers decisions stay the same
        floats=[f"F0::If_0_then_branch__Inline_0__/{each}/Conv" for each in SILERO_FLOATS],
    )


def digits_task(rng: np.random.Generator, calibration: int, evaluation: int) -> Task:
    """Handwritten digits of the test set, whose size is what ``evaluation`` may be at most."""
    images, labels = digits.held_out()
    train, _, _, _ = digits.split()
    chosen = digits.as_input(train[rng.permutation(len(train))[:calibration]])
    truth = labels[:evaluation].tolist()
    return Task(
        digits.MODEL,
        calibration=[{"image": image[None]} for image in chosen],
        evaluation=[{"image": image[None]} for image in images[:evaluation]],
        answer=_likeliest,
        measures=[
            Measure("right", lambda answers, _: agreement(answers, truth), drop=0.2),
            Measure("same digit", agreement),
        ],
    )


def minilm(rng: np.random.Generator, calibration: int, evaluation: int) -> Task:
    """Sentences become vectors, and are looked for by them."""
    tokenizer = zoo.fetch_file("minilm", "tokenizer.json")
    samples = [meaning.tokens([text], tokenizer) for text in accuracy_data.sentences(rng, calibration + evaluation)]
    return Task(
        zoo.fetch("minilm"),
        calibration=samples[:calibration],
        evaluation=samples[calibration:],
        answer=lambda feeds, outputs: meaning.embeddings(_only(outputs), feeds["attention_mask"])[0],
        measures=[Measure("cosine of vectors", cosine, least=99), Measure("same nearest", same_nearest, least=95)],
    )


@dataclass(frozen=True)
class Plan:
    """A task, and how many samples it has (recordings, pages) for calibration and for evaluation."""

    make: Callable[[np.random.Generator, int, int], Task]
    calibration: int
    evaluation: int

    def task(self, seed: int) -> Task:
        return self.make(np.random.default_rng(seed), self.calibration, self.evaluation)


PLANS = {
    "magika": Plan(magika, 100, 600),
    "ocr-rec": Plan(ocr_rec, 64, 320),
    "ocr-det": Plan(ocr_det, 8, 20),
    "basic-pitch": Plan(basic_pitch, 32, 64),
    "silero-vad": Plan(silero_vad, 4, 20),
    "digits": Plan(digits_task, 128, 450),
    "minilm": Plan(minilm, 64, 400),
}
