"""What networks are rounded to: the passes that do it, and where the ranges come from that eight bits need."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mcpc import plugins
from mcpc.calibrator import Progress, Run
from mcpc.errors import UsageError
from mcpc.ir import Graph, Value
from mcpc.pipeline import Pass
from mcpc.ranges import RangeTable

#: What ``precision`` may be, and the pass that rounds to it.
PRECISIONS = {"fp32": None, "fp16": "halve", "int8": "quantize"}

QUANTIZE = PRECISIONS["int8"]

#: The most samples on which errors are measured.
MEASURED = 8

Feeds = Mapping[str, np.ndarray[Any, Any]]


def rounded(series: Sequence[Pass], precision: str, available: Mapping[str, type[Pass]]) -> list[Pass]:
    """``series`` with the pass that rounds to ``precision``, before the one that looks at stored weights; where there
    is none, at the end. A series that rounds so by itself stays as it is."""
    rounding, names = PRECISIONS[precision], [each.name for each in series]
    if rounding is None or rounding in names:
        return list(series)
    at = names.index("widen") if "widen" in names else len(names)
    return [*series[:at], available[rounding](), *series[at:]]


def judged(series: Sequence[Pass]) -> tuple[Sequence[Pass], Sequence[Pass]]:
    """``series`` cut where the graph computes what the artifact is judged by: behind ``quantize``, whose rounding of
    activations makes another network; else at the start, as rounding weights is an error like any other."""
    at = next((index + 1 for index, each in enumerate(series) if each.name == QUANTIZE), 0)
    return series[:at], series[at:]


class Spread:
    """Keeps some of the samples that pass, however many: at least half of ``most`` of them where there are so many,
    evenly spread, the first among them."""

    def __init__(self, most: int) -> None:
        self._most, self._every, self._count = most, 1, 0
        self.kept: list[Feeds] = []

    def add(self, feeds: Feeds) -> None:
        if self._count % self._every == 0:
            if len(self.kept) == self._most:
                self.kept, self._every = self.kept[::2], 2 * self._every
            if self._count % self._every == 0:
                self.kept.append(feeds)
        self._count += 1


class Ranges:
    """Called by ``quantize`` with a graph and tensors: finds their ranges by the samples in ``data``
    (:func:`mcpc.calib.samples.open_samples`), and writes them to ``table`` if there is one; without data by that, a
    file or the ranges themselves. ``samples`` are up to :data:`MEASURED` of those in ``data``, once it was called."""

    def __init__(
        self,
        data: Any,
        method: str,
        table: str | os.PathLike[str] | RangeTable | None,
        progress: Progress | None = None,
    ) -> None:
        self._data, self._method, self._progress = data, method, progress
        self._table = Path(table) if isinstance(table, str | os.PathLike) else table
        self._spread = Spread(MEASURED)

    @property
    def samples(self) -> Sequence[Feeds]:
        return self._spread.kept

    def check(self, series: Sequence[Pass]) -> None:
        """UsageError E001 where a pass of ``series`` needs ranges and there are neither data nor a table, or where
        there are and none does."""
        is_given = self._data is not None or self._table is not None
        is_needed = any(each.name == QUANTIZE for each in series)
        if is_needed and not is_given:
            raise UsageError(
                "E001", "int8 takes calibration data", hint="give calib_data, or a calib_table made before"
            )
        if is_given and not is_needed:
            raise UsageError("E001", "calibration data are for precision int8", hint='give precision="int8"')

    def __call__(self, graph: Graph, tensors: Sequence[Value]) -> RangeTable:
        if self._data is None and isinstance(self._table, RangeTable):
            return self._table
        calibrator = plugins.find_calibrator()
        if self._data is None:
            assert isinstance(self._table, Path)
            return calibrator.load(self._table)
        ranges = calibrator.collect(
            graph,
            tensors,
            self._data,
            self._method,
            compiled=compiled_here,
            progress=self._progress,
            seen=self._spread.add,
        )
        if isinstance(self._table, Path):
            ranges.save(self._table)
        return ranges


def compiled_here(model: bytes, names: Sequence[str], folder: Path) -> Run:
    """See :data:`mcpc.calibrator.Compiler`."""
    from mcpc.compiler import compile  # which calls this module
    from mcpc.loader import load

    session = load(compile(model, "host", folder / "network.mcp26bin", golden=0))
    return lambda feeds: session.run(list(names), dict(feeds))
