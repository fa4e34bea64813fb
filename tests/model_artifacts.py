"""Sample models and their artifacts for tests: each made once, when first asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx
import pytest

import mcpc
from mcpc.errors import McpcError
from mcpc.models import builders, zoo
from mcpc.models.samples import SAMPLES, feeds


@dataclass(frozen=True)
class Case:
    """How a model is tested.

    Attributes: sizes, of its inputs as mcpc.models.samples has them, several where they are symbolic; small, those for
    an emulated processor; small_build, options to build the model for these; rtol, atol and absolute, how near ONNX
    Runtime the outputs are: atol is a part of each output's range.
    """

    sizes: tuple[tuple[int, ...], ...]
    small: tuple[int, ...]
    small_build: Mapping[str, Any] = field(default_factory=dict)
    rtol: float = 1e-3
    atol: float = 1e-4
    absolute: float = 0.0


_IMAGE = Case(((224, 224),), (64, 64), {"size": 64})
_TEXT = Case(((1, 16), (3, 40), (2, 5), (1, 1), (2, 100)), (2, 9))
_SEQUENCE = Case(((1, 10), (3, 33), (2, 1), (5, 7)), (2, 9))

CASES = {
    "resnet50": _IMAGE,
    "efficientnet-b0": _IMAGE,
    "yolov8n": Case(((640, 640),), (96, 96), {"size": 96}),
    "deit-tiny": _IMAGE,
    "ds-cnn": Case(((1,),), (1,)),
    "bert-mini": _TEXT,
    "llama-mini": Case(((1, 8, 0), (2, 5, 3), (1, 1, 40), (2, 1, 0)), (1, 2, 5)),
    "gru": _SEQUENCE,
    "lstm": _SEQUENCE,
    "magika": Case(((1,), (3,), (2,), (5,)), (2,)),
    # its logarithm turns what rounding leaves of silent bands into outputs: ONNX Runtime's own two levels of
    # optimisation differ by 1e-3
    "basic-pitch": Case(((1,), (2,), (1,)), (1,), atol=2e-3),
    "ocr-det": Case(((1, 64, 96), (2, 160, 128), (1, 32, 64), (1, 320, 96)), (1, 32, 64)),
    # where a line is cut within a digit, two classes are about as likely: there ONNX Runtime's levels differ by 1e-4
    "ocr-rec": Case(((1, 320), (3, 500), (2, 64), (1, 97)), (2, 64), atol=5e-4),
    # one rounding the other way changes a probability by a tenth and more: test_real_models.py measures it
    "smart-turn": Case(((1,), (2,), (1,)), (1,), absolute=0.35),
    "minilm": _TEXT,
}

#: Models whose sizes are symbolic.
DYNAMIC = tuple(name for name, case in CASES.items() if len(case.sizes) > 1)


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
                onnx.save(builders.build(name, **(CASES[name].small_build if small else {})), path)
            return path
        return self.fetched(name)

    def fetched(self, name: str, file: str = "") -> Path:
        """A model of the zoo, or a file that belongs to it."""
        try:
            return zoo.fetch_file(name, file) if file else zoo.fetch(name)
        except McpcError as error:
            if "cannot download" not in error.message:
                raise
            pytest.skip(f"the real model cannot be fetched: {error.message}")

    def artifact(self, name: str, target: str = "host", small: bool = False) -> Path:
        """The compiled model; a small one, for an emulated processor, has its self-test on inputs of the small size."""
        key = (f"{name}{'-small' if small else ''}", target)
        if key not in self._artifacts:
            model = self.model(name, small)
            golden = [feeds(name, CASES[name].small)] if small else 0
            output = self.folder / f"{'-'.join(key)}.mcp26bin"
            mcpc.compile(model, target, output, input_shapes=SAMPLES[name].input_shapes, golden=golden)
            self._artifacts[key] = output
        return self._artifacts[key]
