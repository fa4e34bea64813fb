"""What networks are rounded to: the passes that do it, and where the ranges come from that eight bits need."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mcpc import plugins
from mcpc.calibrator import Progress, Run
from mcpc.errors import UsageError
from mcpc.ir import Graph, Value
from mcpc.pipeline import Pass, parse_pipeline
from mcpc.ranges import Channels, RangeTable

#: What ``precision`` may be, and the pass that rounds to it.
PRECISIONS = {
    "fp32": None,
    "fp16": "halve",
    "int8": "quantize",
    "int8-dynamic": "quantize-dynamic",
    "auto": "quantize",
}

#: What ``weights`` may be, and the bits of each number.
WEIGHTS = {"int8": 8, "int4": 4}

HALVE, QUANTIZE, QUANTIZE_DYNAMIC = (PRECISIONS[each] for each in ("fp16", "int8", "int8-dynamic"))
QUANTIZE_WEIGHTS = "quantize-weights"

#: What prepares networks for QUANTIZE.
SMOOTH = "smooth"

#: How calibration finds ranges where no method is given.
METHOD = "minmax"

#: The most samples that are kept to measure errors on, and the bytes that they may take; one is kept anyway.
MEASURED, MEASURED_BYTES = 32, 64 << 20

Feeds = Mapping[str, np.ndarray[Any, Any]]


def rounded(
    series: Sequence[Pass],
    precision: str,
    available: Mapping[str, type[Pass]],
    weights: str | None = None,
    block_size: int | None = None,
    smooth: bool = False,
) -> list[Pass]:
    """``series`` with the passes that round to ``precision``, and to ``weights`` what that leaves, before the one that
    looks at stored weights; where there is none, at the end. ``smooth`` prepares for QUANTIZE. A series that rounds so
    by itself stays as it is.

    Raises UsageError E001 where there are no such weights, or nothing to prepare for, PipelineError E202 where a block
    is none."""
    added: list[Pass] = []
    names, rounding = [each.name for each in series], PRECISIONS[precision]
    if smooth and (rounding != QUANTIZE or QUANTIZE in names):
        raise UsageError("E001", "smooth is for precision int8 and auto", hint="in --passes it goes before quantize")
    if smooth:
        added.append(available[SMOOTH]())
    if rounding is not None:
        added.append(available[rounding]())
    if precision == "auto":
        added += parse_pipeline(f"{HALVE}{{listed=true}}", available)
    if weights is None and block_size is not None:
        raise UsageError("E001", "block_size is for weights of few bits", hint='give weights="int4"')
    if weights is not None:
        if weights not in WEIGHTS:
            raise UsageError("E001", f"there are no weights {weights!r}", hint=f"known: {', '.join(WEIGHTS)}")
        blocks = "" if block_size is None else f" block_size={block_size}"
        stored = parse_pipeline(f"{QUANTIZE_WEIGHTS}{{bits={WEIGHTS[weights]}{blocks}}}", available)
        added = [*stored, *added] if precision == "fp16" else [*added, *stored]  # before all others become float16
    at = names.index("widen") if "widen" in names else len(names)
    return [*series[:at], *(each for each in added if each.name not in names), *series[at:]]


def judged(series: Sequence[Pass]) -> tuple[Sequence[Pass], Sequence[Pass]]:
    """``series`` cut where the graph computes what the artifact is judged by: behind the last pass that makes another
    network, by rounding activations, or weights to few bits; else at the start, as rounding to float16 is an error like
    any other."""
    others = (QUANTIZE, QUANTIZE_DYNAMIC, QUANTIZE_WEIGHTS)
    at = max((index + 1 for index, each in enumerate(series) if each.name in others), default=0)
    return series[:at], series[at:]


def at_quantize(series: Sequence[Pass]) -> tuple[Sequence[Pass], Pass | None, Sequence[Pass]]:
    """What is before ``quantize``, the pass itself, what is behind; where there is none, all is behind."""
    at = next((index for index, each in enumerate(series) if each.name == QUANTIZE), None)
    return ((), None, series) if at is None else (series[:at], series[at], series[at + 1 :])


class Spread:
    """Keeps some of the samples that pass, however many: at least half of ``most`` of them where there are so many,
    evenly spread, the first among them; fewer where they are larger than ``nbytes`` together."""

    def __init__(self, most: int, nbytes: int) -> None:
        self._most, self._nbytes, self._every, self._count = most, nbytes, 1, 0
        self.kept: list[Feeds] = []

    def add(self, feeds: Feeds) -> None:
        if self._count % self._every == 0:
            own = sum(array.nbytes for array in feeds.values())
            if len(self.kept) >= min(self._most, max(1, self._nbytes // max(own, 1))):
                self.kept, self._every = self.kept[::2], 2 * self._every
            if self._count % self._every == 0:
                self.kept.append(feeds)
        self._count += 1


class Ranges:
    """Called by ``quantize`` with a graph and tensors: finds their ranges by the samples in ``data``
    (:func:`mcpc.calib.samples.open_samples`), and writes them to ``table`` if there is one; without data by that, a
    file or the ranges themselves. Asked again, it gives what it found. ``samples`` are up to :data:`MEASURED` of those
    in ``data``, once it was called."""

    def __init__(
        self,
        data: Any,
        method: str | None,
        table: str | os.PathLike[str] | RangeTable | None,
        progress: Progress | None = None,
    ) -> None:
        self._data, self._method, self._progress = data, method, progress
        self._table = Path(table) if isinstance(table, str | os.PathLike) else table
        self._spread = Spread(MEASURED, MEASURED_BYTES)
        self._found: RangeTable | None = None
        self._channels: Mapping[str, Channels] = {}

    @property
    def samples(self) -> Sequence[Feeds]:
        return self._spread.kept

    def check(self, series: Sequence[Pass], is_measured: bool, is_chosen: bool) -> None:
        """UsageError E001 where a pass of ``series`` needs ranges and there are neither data nor a table, or where
        there are and none does; where a method is given and no data; where errors are to be measured and there are no
        data; where layers are chosen by hand (``is_chosen``) that no pass asks about."""
        is_given = self._data is not None or self._table is not None
        is_needed = any(each.name == QUANTIZE for each in series)
        if not is_needed and (is_given or is_measured or is_chosen):
            what = "calibration data" if is_given else "limits of errors" if is_measured else "layer_precisions"
            raise UsageError("E001", f"{what} are for precision int8 and auto", hint='give precision="int8"')
        if is_measured and self._data is None:
            message = "precision auto and limits of errors take calibration data: errors are measured on them"
            raise UsageError("E001", message, hint="give calib_data")
        if is_needed and not is_given:
            raise UsageError(
                "E001", "int8 takes calibration data", hint="give calib_data, or a calib_table made before"
            )
        if self._method is not None and self._data is None:
            raise UsageError("E001", "calib_method is for calibration data", hint="give calib_data")

    def __call__(self, graph: Graph, tensors: Sequence[Value]) -> RangeTable:
        if self._found is None:
            self._found = self._find(graph, tensors, {})
            if self._data is not None and isinstance(self._table, Path):
                replace(self._found, channels=self._channels).save(self._table)
        return self._found

    def channels(self, graph: Graph, axes: Mapping[Value, int]) -> Mapping[str, Channels]:
        """What is seen along an axis of tensors, by their names; nothing of those that a table does not have.
        UsageError E001 where it has no channels at all."""
        self._channels = self._find(graph, [], axes).channels
        if self._data is None and not self._channels:
            message = "smooth takes what was seen of channels, and the calibration table has nothing of them"
            raise UsageError("E001", message, hint="give calib_data, or a table that was made with smooth")
        return self._channels

    def _find(self, graph: Graph, tensors: Sequence[Value], axes: Mapping[Value, int]) -> RangeTable:
        if self._data is None and isinstance(self._table, RangeTable):
            return self._table
        calibrator = plugins.find_calibrator()
        if self._data is None:
            assert isinstance(self._table, Path)
            return calibrator.load(self._table)
        return calibrator.collect(
            graph,
            tensors,
            self._data,
            self._method or METHOD,
            compiled=compiled_here,
            progress=self._progress,
            seen=None if axes else self._spread.add,
            axes=axes,
        )


def compiled_here(model: bytes, names: Sequence[str], folder: Path) -> Run:
    """See :data:`mcpc.calibrator.Compiler`."""
    from mcpc.compiler import compile  # which calls this module
    from mcpc.loader import load

    session = load(compile(model, "host", folder / "network.mcp26bin", golden=0))
    return lambda feeds: session.run(list(names), dict(feeds))
