"""Calibration tables: mcpc's own, TensorRT's calibration caches, and those of ONNX Runtime's quantiser."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from typing import Any

from mcpc.errors import CalibrationError
from mcpc.ranges import FORMAT, Range, RangeTable, parse_table


def load_table(path: Path) -> RangeTable:
    """The ranges in ``path``, whose contents say which kind of table it is. Raises CalibrationError E400.

    TensorRT's and the text form of ONNX Runtime's know magnitudes only; the ranges are symmetric then.
    """
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise CalibrationError("E400", f"{path} cannot be read: {error}") from None
    try:
        if text.lstrip().startswith("{"):
            document = json.loads(text)
            return parse_table(document) if document.get("format") == FORMAT else _from_json(document, path)
        if text.startswith("TRT-"):
            return _from_tensorrt(text, path)
        return _from_text(text, path)
    except CalibrationError as error:
        raise CalibrationError("E400", f"{path.name}: {error.message}") from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        message = f"{path.name} is no calibration table: {type(error).__name__}: {error}"
        raise CalibrationError("E400", message) from None


def _from_tensorrt(text: str, path: Path) -> RangeTable:
    """A line a tensor, ``name: 3c010a14``: the bits of the float32 scale, the magnitude that 127 stands for by 127."""
    head, *lines = text.splitlines()
    ranges = {}
    for line in lines:
        match = re.fullmatch(r"(.*): ([0-9a-fA-F]{8})", line.rstrip())
        if match is not None:
            (scale,) = struct.unpack(">f", bytes.fromhex(match[2]))
            ranges[match[1]] = Range(-127 * scale, 127 * scale)
        elif line.strip():
            raise ValueError(f"{line!r} is no line of a TensorRT cache")
    return RangeTable(ranges, method=head.strip(), data=path.name)


def _from_text(text: str, path: Path) -> RangeTable:
    """A line a tensor: its name and magnitude (calibration.cache)."""
    ranges = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, magnitude = line.rsplit(maxsplit=1)
        ranges[name] = Range(-abs(float(magnitude)), abs(float(magnitude)))
    return RangeTable(ranges, method="ONNX Runtime", data=path.name)


def _from_json(document: dict[str, Any], path: Path) -> RangeTable:
    """``lowest`` and ``highest`` by tensor (calibration.json, or a calibrator's saved TensorsData)."""
    method = str(document.get("calibration_method", "ONNX Runtime"))
    tensors = document["data"] if document.get("CLS") == "TensorsData" else document
    ranges = {
        name: Range(_number(entry["lowest"]), _number(entry["highest"]))
        for name, entry in tensors.items()
        if isinstance(entry, dict) and entry.get("CLS") == "TensorData"
    }
    if not ranges:
        raise ValueError("it has no tensors")
    return RangeTable(ranges, method=method, data=path.name)


def _number(value: Any) -> float:
    """A number, also as a nest of lists around one, or as ONNX Runtime writes a NumPy array."""
    if isinstance(value, dict):
        value = value["data"]
    while isinstance(value, list):
        (value,) = value
    return float(value)
