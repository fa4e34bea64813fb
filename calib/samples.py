"""Where calibration's samples come from: files, folders, lists of images, or a reader as ONNX Runtime's users write it.

Samples are read one at a time, each when it is asked for, so that their number costs no memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from mcpc.errors import CalibrationError
from mcpc.ir import Dim, Value

from .array_files import Stored, open_arrays
from .image_list import read_list

Array = np.ndarray[Any, Any]
Feeds = dict[str, Array]


@runtime_checkable
class CalibrationDataReader(Protocol):
    """ONNX Runtime's interface."""

    def get_next(self) -> Mapping[str, Array] | None:
        """Arrays by input name, None when there are no more."""


#: A path, a reader, or feeds.
Data = str | os.PathLike[str] | CalibrationDataReader | Sequence[Mapping[str, Array]]

#: Feeds that nobody has looked at yet, and what to call them in a message.
Source = Iterator[tuple[str, Mapping[str, Array]]]


@dataclass(frozen=True)
class Samples:
    """``each()`` yields feeds that fit the model's inputs. ``count`` is None where only reading on shows how many there
    are."""

    each: Callable[[], Iterator[Feeds]]
    count: int | None
    origin: str


def open_samples(data: Data, inputs: Sequence[Value]) -> Samples:
    """The samples in ``data`` for a model with these inputs, none of which has a default:

    * ``.npz``: arrays by input name. An array with one axis more than the input holds a sample at each index of its
      first axis; one of the input's rank a sample for every so many rows as the input has, for one row where that is
      symbolic. One that is a single sample goes with each of the others.
    * ``.npy``: the same for a model of one input.
    * a folder of ``.npz`` or ``.npy`` files like these, in the order of their names.
    * ``.txt``: a list of files, see :func:`.image_list.read_list`.
    * an object with ``get_next()``, or feeds.

    Raises CalibrationError E400 where there are no samples or files cannot be read; ``each`` does so for a sample with
    unknown or missing names, another shape, or numbers that are not finite.
    """
    if isinstance(data, CalibrationDataReader):
        return Samples(lambda: _checked(_read(data), inputs), None, type(data).__name__)
    if not isinstance(data, str | os.PathLike):
        if not data:
            raise CalibrationError("E400", "there are no samples")
        return Samples(lambda: _checked(((f"sample {i}", f) for i, f in enumerate(data)), inputs), len(data), "arrays")
    path = Path(data)
    if path.suffix == ".txt" and path.is_file():
        lines = read_list(path, inputs)
        return Samples(lambda: _checked(((line.place, line.read()) for line in lines), inputs), len(lines), path.name)
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    files = [file for file in files if file.suffix in (".npz", ".npy") and file.is_file()]
    if not files:
        hint = "known: .npz, .npy, a folder of these, and .txt"
        raise CalibrationError("E400", f"there are no calibration data in {path}", hint=hint)
    count = 0
    for file in files:
        with open_arrays(file, inputs) as arrays:
            count += _count(arrays, inputs, file)
    return Samples(lambda: _checked(_cut(files, inputs), inputs), count, path.name)


def _read(reader: CalibrationDataReader) -> Source:
    index = 0
    while (feeds := reader.get_next()) is not None:
        yield f"sample {index}", feeds
        index += 1


def _cut(files: Sequence[Path], inputs: Sequence[Value]) -> Source:
    for file in files:
        with open_arrays(file, inputs) as arrays:
            count = _count(arrays, inputs, file)
            pieces = {name: _pieces(stored, _rows(stored, inputs, name), count) for name, stored in arrays.items()}
            for index in range(count):
                yield f"{file.name}, sample {index}", {name: next(each) for name, each in pieces.items()}


def _rows(stored: Stored, inputs: Sequence[Value], name: str) -> int | None:
    """The rows of a sample; 0 where a sample is one index of a first axis of its own, None where all is one sample."""
    dims: tuple[Dim, ...] = next((value.type.dims for value in inputs if value.name == name), ())
    if len(stored.shape) == len(dims) + 1:
        return 0
    if not dims or len(stored.shape) != len(dims):
        return None  # what fits no input is told when its sample is reached
    return dims[0] if isinstance(dims[0], int) and dims[0] > 0 else 1


def _count(arrays: Mapping[str, Stored], inputs: Sequence[Value], file: Path) -> int:
    counts = {name: _samples_in(stored, _rows(stored, inputs, name)) for name, stored in arrays.items()}
    count = max(counts.values(), default=0)
    for name, each in counts.items():
        if each not in (1, count):
            message = f"{file.name} holds {each} samples of {name!r} and {count} of another input"
            raise CalibrationError("E400", message)
    if count == 0:
        raise CalibrationError("E400", f"there is no sample in {file}")
    return count


def _samples_in(stored: Stored, rows: int | None) -> int:
    if rows is None:
        return 1
    return stored.shape[0] if rows == 0 else -(-stored.shape[0] // rows)


def _pieces(stored: Stored, rows: int | None, count: int) -> Iterator[Array]:
    """The samples in ``stored``; one that is alone as often as there are others."""
    if _samples_in(stored, rows) == 1:
        whole = stored.read(stored.shape[0] if stored.shape else None)
        alone = whole[0] if rows == 0 else whole
        yield from (alone for _ in range(count))
        return
    for _ in range(count):
        piece = stored.read(rows or 1)
        yield piece[0] if rows == 0 else piece


def _checked(source: Source, inputs: Sequence[Value]) -> Iterator[Feeds]:
    """Feeds that are what the model takes. Raises CalibrationError E400, also where there are none."""
    found = False
    for place, feeds in source:
        found = True
        fitting = {value.name: _fitting(value, feeds, place) for value in inputs}
        unknown = sorted(set(feeds) - {value.name for value in inputs})
        if unknown:
            known = ", ".join(value.name for value in inputs)
            raise CalibrationError("E400", f"{place}: the model has no input {unknown[0]!r}", hint=f"it has {known}")
        yield fitting
    if not found:
        raise CalibrationError("E400", "there are no samples")


def _fitting(value: Value, feeds: Mapping[str, Array], place: str) -> Array:
    if value.name not in feeds:
        given = ", ".join(sorted(feeds)) or "nothing"
        raise CalibrationError("E400", f"{place}: there is no {value.name!r}", hint=f"it holds {given}")
    array = np.asarray(feeds[value.name])
    wanted, dims = value.dtype.numpy, value.type.dims
    is_close = array.dtype == wanted or (array.dtype.kind in "iuf" and np.dtype(wanted).kind == "f")
    if not is_close and not np.can_cast(array.dtype, wanted, "safe"):
        raise CalibrationError("E400", f"{place}: {value.name!r} is of {array.dtype}, not of {value.dtype.name}")
    fits = len(array.shape) == len(dims) and all(
        not isinstance(want, int) or want == size for want, size in zip(dims, array.shape, strict=True)
    )
    if not fits:
        shape, expected = "x".join(map(str, array.shape)), "x".join(map(str, dims))
        raise CalibrationError(
            "E400", f"{place}: {value.name!r} is {shape or 'a scalar'}, not {expected or 'a scalar'}"
        )
    with np.errstate(over="ignore"):  # what the input's type cannot hold becomes infinite, and is told
        array = np.ascontiguousarray(array, wanted).reshape(array.shape)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise CalibrationError("E400", f"{place}: {value.name!r} holds numbers that are not finite")
    return array
