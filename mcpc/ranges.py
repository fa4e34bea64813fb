"""The ranges of tensors that calibration finds and quantisation rests on, as a table in a file that can be edited."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mcpc.errors import CalibrationError
from mcpc.files import replacing

Array = np.ndarray[Any, Any]

FORMAT = "mcpc calibration table"
VERSION = 1

#: What is said of channels.
CHANNELS = ("low", "high", "mean", "square")

#: The largest float32.
_LARGEST = float.fromhex("0x1.fffffep127")


@dataclass(frozen=True)
class Range:
    """The numbers of a float32 tensor that should be told apart."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not -_LARGEST <= self.low <= self.high <= _LARGEST:
            raise CalibrationError("E400", f"{self.low} to {self.high} is no range of float32 numbers")

    @property
    def magnitude(self) -> float:
        return max(abs(self.low), abs(self.high))


@dataclass(frozen=True, eq=False)
class Channels:
    """Of the numbers of each channel of a tensor: the least, the largest, their mean and that of their squares, float64
    [channels]."""

    low: Array
    high: Array
    mean: Array
    square: Array

    def __post_init__(self) -> None:
        arrays = (self.low, self.high, self.mean, self.square)
        if not all(each.shape == self.low.shape and each.ndim == 1 and np.isfinite(each).all() for each in arrays):
            raise CalibrationError("E400", "channels have as many finite extremes and means as there are")


@dataclass(frozen=True)
class RangeTable:
    """Ranges by tensor name. ``method``, ``samples``, ``data`` and ``runner`` say where they come from; ``ignored``
    counts numbers that were NaN or infinite, by tensor. ``usual`` is what nearly all magnitudes of a tensor stay below,
    for those whose range goes far beyond: few outliers cost the others their resolution. ``channels`` are there for
    tensors of which they were asked for."""

    ranges: Mapping[str, Range]
    method: str = ""
    samples: int = 0
    data: str = ""
    runner: str = ""
    ignored: Mapping[str, int] = field(default_factory=dict)
    usual: Mapping[str, float] = field(default_factory=dict)
    channels: Mapping[str, Channels] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Write the table as JSON, a line a tensor. Raises UsageError E002 where that cannot be."""
        lines = []
        for name, each in sorted(self.ranges.items()):
            entry: dict[str, Any] = {"low": each.low, "high": each.high}
            if name in self.ignored:
                entry["ignored"] = self.ignored[name]
            if name in self.usual:
                entry["usual"] = self.usual[name]
            lines.append(f"    {json.dumps(name)}: {json.dumps(entry)}")
        head = {
            "format": FORMAT, "version": VERSION, "method": self.method, "samples": self.samples, "data": self.data,
            "runner": self.runner,
        }  # fmt: skip
        fields = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
        fields.append('  "tensors": {\n' + ",\n".join(lines) + "\n  }")
        if self.channels:
            lines = [
                f"    {json.dumps(name)}: {json.dumps({key: getattr(each, key).tolist() for key in CHANNELS})}"
                for name, each in sorted(self.channels.items())
            ]
            fields.append('  "channels": {\n' + ",\n".join(lines) + "\n  }")
        with replacing(path) as file:
            file.write(("{\n" + ",\n".join(fields) + "\n}\n").encode())


def parse_table(document: Any) -> RangeTable:
    """A table of what its file's JSON holds, of which ``format`` is known. Raises CalibrationError E400 where its
    version or a range is none, KeyError, TypeError, AttributeError or ValueError where it is damaged otherwise."""
    if document.get("version") != VERSION:
        message = f"it is a calibration table of version {document.get('version')}; this mcpc reads {VERSION}"
        raise CalibrationError("E400", message)
    ranges, ignored, usual = {}, {}, {}
    for name, entry in document["tensors"].items():
        ranges[name] = Range(float(entry["low"]), float(entry["high"]))
        if "ignored" in entry:
            ignored[name] = int(entry["ignored"])
        if "usual" in entry:
            usual[name] = float(entry["usual"])
    channels = {
        name: Channels(*(np.array(entry[key], np.float64) for key in CHANNELS))
        for name, entry in document.get("channels", {}).items()
    }
    texts = {key: str(document.get(key, "")) for key in ("method", "data", "runner")}
    return RangeTable(
        ranges, samples=int(document.get("samples", 0)), ignored=ignored, usual=usual, channels=channels, **texts
    )
