"""An input of a chosen size for each sample model: what tests, benchmarks and self-tests feed it.

Trained models get data of the kind that they were trained on, since on noise some of them find nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mcpc.models import inputs, llama, smollm2
from mcpc.models.tasks import file_types, notes, ocr, turns

Array = np.ndarray[Any, Any]
Feeds = dict[str, Array]


@dataclass(frozen=True)
class Sample:
    """``make`` gives a model's inputs from a source of numbers and some sizes; ``usual`` are the sizes in use, and
    ``input_shapes`` is what one fixes when compiling."""

    make: Callable[..., Feeds]
    usual: tuple[int, ...] = ()
    input_shapes: Mapping[str, tuple[int | None, ...]] = field(default_factory=dict)


def feeds(name: str, sizes: tuple[int, ...] | None = None, seed: int = 0) -> Feeds:
    """Inputs for the model called ``name``, by their names; ``sizes`` None means the usual ones."""
    sample = SAMPLES[name]
    return sample.make(np.random.default_rng(seed), *(sample.usual if sizes is None else sizes))


# ---- images


def _image(name: str) -> Callable[..., Feeds]:
    """Normalised pixels of one image."""

    def make(rng: np.random.Generator, height: int, width: int) -> Feeds:
        return {name: rng.standard_normal((1, 3, height, width), np.float32)}

    return make


def _digit(rng: np.random.Generator) -> Feeds:
    from mcpc.models import digits

    images, _ = digits.held_out()
    return {"image": images[rng.integers(len(images))][None]}


def _pixels(rng: np.random.Generator, height: int, width: int) -> Feeds:
    return {"images": rng.random((1, 3, height, width), np.float32)}


def _pages(rng: np.random.Generator, batch: int, height: int, width: int) -> Feeds:
    """White pages with a number every 40 pixels or so."""
    pages = []
    for _ in range(batch):
        words = [(4, y, str(rng.integers(10**6))) for y in range(2, height - 20, 40)]
        pages.append(ocr.detection_input(ocr.page(words, width, height, 18)[0]))
    return {"x": np.concatenate(pages)}


def _lines(rng: np.random.Generator, batch: int, width: int) -> Feeds:
    """Lines with as many digits as fit, 20 pixels each or so."""
    lines = [ocr.line("".join(str(digit) for digit in rng.integers(0, 10, width // 30))) for _ in range(batch)]
    return {"x": ocr.recognition_input(lines, width)[..., :width]}


# ---- text and bytes


def _tokens(rng: np.random.Generator, batch: int, sequence: int) -> Feeds:
    """Token ids; every other sequence has padding after its first half."""
    mask = np.ones((batch, sequence), np.int64)
    mask[1::2, (sequence + 1) // 2 :] = 0
    ids = rng.integers(0, 30000, (batch, sequence))
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}


def _continuation(config: llama.Config) -> Callable[..., Feeds]:
    """New tokens after some that have left their keys and values."""

    def make(rng: np.random.Generator, batch: int, sequence: int, past: int) -> Feeds:
        caches = [f"past_key_values.{layer}.{kind}" for layer in range(config.layers) for kind in ("key", "value")]
        shape = (batch, config.key_heads, past, config.each)
        return {
            "input_ids": rng.integers(0, config.vocabulary, (batch, sequence)),
            "attention_mask": np.ones((batch, past + sequence), np.int64),
            "position_ids": np.tile(np.arange(past, past + sequence), (batch, 1)),
            **{name: rng.standard_normal(shape, np.float32) for name in caches},
        }

    return make


def _bytes(rng: np.random.Generator, batch: int) -> Feeds:
    """Files of printable characters, some of them short."""
    files = [rng.integers(32, 127, rng.integers(100, 5000)).astype(np.uint8).tobytes() for _ in range(batch)]
    return {"bytes": np.concatenate([file_types.features(file) for file in files])}


# ---- sound


def _mfcc(rng: np.random.Generator, batch: int) -> Feeds:
    return {"mfcc": rng.standard_normal((batch, 1, 49, 10), np.float32)}


def _frames(rng: np.random.Generator, batch: int, time: int) -> Feeds:
    """Feature frames with a state that has seen something."""
    x = rng.standard_normal((batch, time, 40), np.float32)
    return {"x": x, "h0": 0.3 * rng.standard_normal((2, batch, 64), np.float32)}


def _frames_both_ways(rng: np.random.Generator, batch: int, time: int) -> Feeds:
    states = {name: 0.3 * rng.standard_normal((4, batch, 64), np.float32) for name in ("h0", "c0")}
    return {"x": rng.standard_normal((time, batch, 40), np.float32), **states}


def _chords(rng: np.random.Generator, batch: int) -> Feeds:
    chords = [notes.tone(tuple(int(key) for key in rng.integers(40, 80, 3))) for _ in range(batch)]
    return {"serving_default_input_2:0": np.concatenate(chords)}


def _speech_frame(rng: np.random.Generator) -> Feeds:
    frames = inputs.vad_frames(inputs.speech(1.0, int(rng.integers(1000)))[0])
    return {"input": frames[10:11], "state": np.zeros((2, 1, 128), np.float32)}


def _speech(rng: np.random.Generator, batch: int) -> Feeds:
    audio = [inputs.speech(4.0, int(rng.integers(1000)))[0] for _ in range(batch)]
    return {"input_features": np.concatenate([turns.features(each) for each in audio])}


SAMPLES = {
    "digits": Sample(_digit),
    "mobilenetv2": Sample(_image("input"), (224, 224)),
    "resnet50": Sample(_image("input"), (224, 224)),
    "efficientnet-b0": Sample(_image("input"), (224, 224)),
    "yolov8n": Sample(_pixels, (640, 640)),
    "deit-tiny": Sample(_image("input"), (224, 224)),
    "bert-mini": Sample(_tokens, (1, 128)),
    "llama-mini": Sample(_continuation(llama.MINI), (1, 1, 128)),
    "smollm2": Sample(_continuation(smollm2.CONFIG), (1, 1, 128)),
    "ds-cnn": Sample(_mfcc, (1,)),
    "gru": Sample(_frames, (1, 100)),
    "lstm": Sample(_frames_both_ways, (1, 100)),
    "basic-pitch": Sample(_chords, (1,)),
    "magika": Sample(_bytes, (1,)),
    "smart-turn": Sample(_speech, (1,)),
    "ocr-det": Sample(_pages, (1, 320, 320)),
    "ocr-rec": Sample(_lines, (1, 320), {"x": (None, 3, ocr.LINE_HEIGHT, None)}),
    "silero-vad": Sample(_speech_frame),
    "minilm": Sample(_tokens, (1, 64)),
}
