"""The ranges of tensors that calibration finds and quantisation rests on, as a table in a file that can be edited."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcpc.errors import CalibrationError
from mcpc.files import replacing

FORMAT = "mcpc calibration table"
VERSION = 1

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


@dataclass(frozen=True)
class RangeTable:
    """Ranges by tensor name. ``method``, ``samples``, ``data`` and ``runner`` say where they come from; ``ignored``
    counts numbers that were NaN or infinite, by tensor. ``usual`` is what nearly all magnitudes of a tensor stay below,
    for those whose range goes far beyond: few outliers cost the others their resolution."""

    ranges: Mapping[str, Range]
    method: str = ""
    samples: int = 0
    data: str = ""
    runner: str = ""
    ignored: Mapping[str, int] = field(default_factory=dict)
    usual: Mapping[str, float] = field(default_factory=dict)

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
    texts = {key: str(document.get(key, "")) for key in ("method", "data", "runner")}
    return RangeTable(ranges, samples=int(document.get("samples", 0)), ignored=ignored, usual=usual, **texts)
