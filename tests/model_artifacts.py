"""Sample models, what they read, and their artifacts: each made once in a run of the tests, when first asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import mcpc
from mcpc.errors import McpcError
from mcpc.models import builders, inputs, zoo
from mcpc.models.tasks import notes, ocr, turns

Array = np.ndarray[Any, Any]
Feeds = dict[str, Array]


@dataclass(frozen=True)
class Sample:
    """A model as the tests use it.

    Attributes: feeds, makes inputs from a source of numbers and sizes; sizes, those of the tests, several where they
    are symbolic; small, those for an emulated processor; small_build, options to build the model for these;
    input_shapes, what is fixed when it is compiled; rtol, atol and absolute, how near ONNX Runtime the outputs are:
    atol is a part of each output's range.
    """

    feeds: Callable[..., Feeds]
    sizes: tuple[tuple[int, ...], ...]
    small: tuple[int, ...]
    small_build: Mapping[str, Any] = field(default_factory=dict)
    input_shapes: Mapping[str, tuple[int | None, ...]] = field(default_factory=dict)
    rtol: float = 1e-3
    atol: float = 1e-4
    absolute: float = 0.0


def _normal(name: str, *shape: int | None) -> Callable[..., Feeds]:
    """Standard normal numbers for one input; None in ``shape`` stands for the sizes, in order."""

    def feeds(rng: np.random.Generator, *sizes: int) -> Feeds:
        left = iter(sizes)
        return {name: rng.standard_normal([next(left) if s is None else s for s in shape], np.float32)}

    return feeds


def _pixels(rng: np.random.Generator, height: int, width: int) -> Feeds:
    return {"images": rng.random((1, 3, height, width), np.float32)}


def _tokens(rng: np.random.Generator, batch: int, sequence: int) -> Feeds:
    """Token ids; every other sequence has padding after its first half."""
    mask = np.ones((batch, sequence), np.int64)
    mask[1::2, (sequence + 1) // 2 :] = 0
    ids = rng.integers(0, 30000, (batch, sequence))
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}


def _frames(rng: np.random.Generator, batch: int, time: int) -> Feeds:
    x = rng.standard_normal((batch, time, 40), np.float32)
    return {"x": x, "h0": 0.3 * rng.standard_normal((2, batch, 64), np.float32)}


def _frames_both_ways(rng: np.random.Generator, batch: int, time: int) -> Feeds:
    states = {name: 0.3 * rng.standard_normal((4, batch, 64), np.float32) for name in ("h0", "c0")}
    return {"x": rng.standard_normal((time, batch, 40), np.float32), **states}


def _bytes(rng: np.random.Generator, batch: int) -> Feeds:
    return {"bytes": rng.integers(0, 257, (batch, 2048)).astype(np.int32)}


def _chords(rng: np.random.Generator, batch: int) -> Feeds:
    chords = [notes.tone(tuple(int(key) for key in rng.integers(40, 80, 3))) for _ in range(batch)]
    return {"serving_default_input_2:0": np.concatenate(chords)}


def _pages(rng: np.random.Generator, batch: int, height: int, width: int) -> Feeds:
    """White pages with a number every 40 pixels or so: on noise ocr-det finds nothing, and its output is nearly 0."""
    pages = []
    for _ in range(batch):
        words = [(4, y, str(rng.integers(10**6))) for y in range(2, height - 20, 40)]
        pages.append(ocr.detection_input(ocr.page(words, width, height, 18)[0]))
    return {"x": np.concatenate(pages)}


def _lines(rng: np.random.Generator, batch: int, width: int) -> Feeds:
    """Lines with as many digits as fit, 20 pixels each or so."""
    lines = [ocr.line("".join(str(digit) for digit in rng.integers(0, 10, width // 30))) for _ in range(batch)]
    return {"x": ocr.recognition_input(lines, width)[..., :width]}


def _speech(rng: np.random.Generator, batch: int) -> Feeds:
    audio = [inputs.speech(4.0, int(rng.integers(1000)))[0] for _ in range(batch)]
    return {"input_features": np.concatenate([turns.features(each) for each in audio])}


_IMAGE = {
    "feeds": _normal("input", 1, 3, None, None),
    "sizes": ((224, 224),),
    "small": (64, 64),
    "small_build": {"size": 64},
}
_TEXT = {"feeds": _tokens, "sizes": ((1, 16), (3, 40), (2, 5), (1, 1), (2, 100)), "small": (2, 9)}
_SEQUENCE = {"sizes": ((1, 10), (3, 33), (2, 1), (5, 7)), "small": (2, 9)}

SAMPLES = {
    "resnet50": Sample(**_IMAGE),
    "efficientnet-b0": Sample(**_IMAGE),
    "yolov8n": Sample(_pixels, ((640, 640),), (96, 96), {"size": 96}),
    "deit-tiny": Sample(**_IMAGE),
    "ds-cnn": Sample(_normal("mfcc", None, 1, 49, 10), ((1,),), (1,)),
    "bert-mini": Sample(**_TEXT),
    "gru": Sample(_frames, **_SEQUENCE),
    "lstm": Sample(_frames_both_ways, **_SEQUENCE),
    "magika": Sample(_bytes, ((1,), (3,), (2,), (5,)), (2,)),
    # its logarithm turns what rounding leaves of silent bands into outputs: ONNX Runtime's own two levels of
    # optimisation differ as much
    "basic-pitch": Sample(_chords, ((1,), (2,), (1,)), (1,), atol=2e-3),
    "ocr-det": Sample(_pages, ((1, 64, 96), (2, 160, 128), (1, 32, 64), (1, 320, 96)), (1, 32, 64)),
    "ocr-rec": Sample(_lines, ((1, 320), (3, 500), (2, 64), (1, 97)), (2, 64), input_shapes={"x": (None, 3, 48, None)}),
    # one rounding the other way changes a probability by a tenth and more: test_real_models.py measures it
    "smart-turn": Sample(_speech, ((1,), (2,), (1,)), (1,), absolute=0.35),
    "minilm": Sample(**_TEXT),
}

#: Models whose sizes are symbolic.
DYNAMIC = tuple(name for name, sample in SAMPLES.items() if len(sample.sizes) > 1)


class Workshop:
    """Makes models and artifacts below ``folder`` and keeps them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._artifacts: dict[tuple[str, str], Path] = {}

    def model(self, name: str, small: bool = False) -> Path:
        """The model's file. Skips the test where it has to be fetched and cannot be."""
        if name in builders.BUILDERS:
            path = self.folder / f"{name}{'-small' if small else ''}.onnx"
            if not path.exists():
                onnx.save(builders.build(name, **(SAMPLES[name].small_build if small else {})), path)
            return path
        return self.fetched(name)

    def fetched(self, name: str, file: str = "") -> Path:
        """A model of the zoo, or a file that belongs to it."""
        try:
            return zoo.fetch_file(name, file) if file else zoo.fetch(name)
        except McpcError as error:
            pytest.skip(f"the real model cannot be fetched: {error.message}")

    def artifact(self, name: str, target: str = "host", small: bool = False) -> Path:
        """The compiled model; a small one, for an emulated processor, has its self-test on inputs of the small size."""
        key = (f"{name}{'-small' if small else ''}", target)
        if key not in self._artifacts:
            model = self.model(name, small)
            golden = [feeds(name, SAMPLES[name].small)] if small else 0
            output = self.folder / f"{'-'.join(key)}.mcp26bin"
            mcpc.compile(model, target, output, input_shapes=SAMPLES[name].input_shapes, golden=golden)
            self._artifacts[key] = output
        return self._artifacts[key]


def feeds(name: str, size: tuple[int, ...], seed: int = 0) -> Feeds:
    """Inputs of one size for the model called ``name``."""
    return SAMPLES[name].feeds(np.random.default_rng(seed), *size)
