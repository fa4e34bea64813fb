"""Calibration for quantised networks: samples, what is observed of tensors while they pass, and the ranges it gives."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mcpc.calibrator import Compiler, Progress
from mcpc.ir import Graph, Value
from mcpc.ranges import RangeTable

from .collection import collect
from .samples import open_samples
from .tables import load_table


class Calibration:
    """See :class:`mcpc.calibrator.Calibrator`."""

    def collect(
        self,
        graph: Graph,
        tensors: Sequence[Value],
        data: Any,
        method: str,
        *,
        compiled: Compiler | None = None,
        progress: Progress | None = None,
    ) -> RangeTable:
        inputs = [value for value in graph.inputs if value.default is None]
        return collect(graph, tensors, open_samples(data, inputs), method, compiled=compiled, progress=progress)

    def load(self, path: Path) -> RangeTable:
        return load_table(path)
