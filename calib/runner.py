"""Who runs the network while tensors are observed: ONNX Runtime, or code compiled for this machine."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mcpc.calibrator import Compiler, Run
from mcpc.errors import CalibrationError, McpcError

Array = np.ndarray[Any, Any]

#: Seconds that ONNX Runtime may still need before it pays to compile the network with all tensors as outputs.
PATIENCE = 30.0

#: Samples after which, and over how many, a runner is timed: the first ones warm up.
WARM_UP, TIMED = 1, 3


class Runner:
    """ONNX Runtime at first. Where it would take long for what is left of ``count`` samples (None: not known), the
    network that ``compiled`` makes takes a few in turn, and the faster of the two the rest. ``name`` says which ran."""

    def __init__(
        self, model: bytes, names: Sequence[str], count: int | None, compiled: Compiler | None, folder: Path
    ) -> None:
        self._contestants = [_Contestant("ONNX Runtime", onnxruntime(model, names))]
        self._rival = partial(compiled, model, names, folder) if compiled is not None else None
        self._left = count or 0
        self.name = self._contestants[0].name

    def run(self, feeds: Mapping[str, Array]) -> Sequence[Array]:
        if self._rival is not None and self._contestants[0].is_timed:
            if self._left * self._contestants[0].least > PATIENCE:
                with suppress(McpcError):  # what cannot be compiled does not compete
                    self._contestants.append(_Contestant("the compiled network", self._rival()))
            self._rival = None
        fastest = min(self._contestants, key=lambda each: each.least)
        chosen = next((each for each in self._contestants if not each.is_timed), fastest)
        self.name = chosen.name
        self._left -= 1
        return chosen(feeds)


@dataclass
class _Contestant:
    name: str
    run: Run
    turns: int = 0
    least: float = math.inf  # seconds

    @property
    def is_timed(self) -> bool:
        return self.turns >= WARM_UP + TIMED

    def __call__(self, feeds: Mapping[str, Array]) -> Sequence[Array]:
        began = time.perf_counter()
        results = self.run(feeds)
        self.turns += 1
        if self.turns > WARM_UP:
            self.least = min(self.least, time.perf_counter() - began)
        return results


def onnxruntime(model: bytes, names: Sequence[str]) -> Run:
    """With its optimisations, on all cores. Raises CalibrationError E400 where it refuses the network."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = os.cpu_count() or 1
    options.log_severity_level = 4
    try:
        session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise CalibrationError("E400", f"ONNX Runtime refuses the network: {error}") from error
    return lambda feeds: [np.asarray(array) for array in session.run(list(names), dict(feeds))]
