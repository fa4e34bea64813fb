"""Arrays in .npy and .npz files, read row by row: a file of a thousand samples is never in memory as a whole."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from mcpc.errors import CalibrationError
from mcpc.ir import Value

Array = np.ndarray[Any, Any]


#: What reading a damaged file raises: sizes in a header may be beyond memory, and beyond integers of 64 bits.
DAMAGED = (
    *(OSError, ValueError, EOFError, MemoryError, OverflowError),
    *(zipfile.BadZipFile, zlib.error, NotImplementedError),
)


class Stored:
    """An array in an open .npy stream (NumPy's format, NEP 1). One in Fortran's order is read whole at once."""

    def __init__(self, stream: IO[bytes]) -> None:
        version = npy.read_magic(stream)
        header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, is_fortran, self._dtype = header(stream)
        if self._dtype.hasobject:
            raise ValueError("it holds Python objects")
        self.shape: tuple[int, ...] = shape
        self._stream = stream
        self._whole = self._take(shape).reshape(shape[::-1]).T if is_fortran and len(shape) > 1 else None
        self._at = 0

    def read(self, rows: int | None) -> Array:
        """The next ``rows`` rows, or as many as are left; a scalar where there are no axes."""
        if rows is None:
            return self._take(self.shape)
        rows, first = min(rows, self.shape[0] - self._at), self._at
        self._at += rows
        return self._take((rows, *self.shape[1:])) if self._whole is None else self._whole[first : first + rows]

    def _take(self, shape: tuple[int, ...]) -> Array:
        size = int(np.prod(shape, dtype=np.int64)) * self._dtype.itemsize
        data = self._stream.read(size)
        if len(data) != size:
            raise ValueError("it is truncated")
        return np.frombuffer(data, self._dtype).reshape(shape)


@contextmanager
def open_arrays(file: Path, inputs: Sequence[Value]) -> Iterator[dict[str, Stored]]:
    """The arrays of a .npz file by their names, or that of a .npy file by the model's only input. Raises
    CalibrationError E400 where the file, or what is read from it inside the block, is damaged."""
    if file.suffix == ".npy" and len(inputs) != 1:
        names = ", ".join(value.name for value in inputs)
        hint = "a .npz file holds arrays by input name"
        raise CalibrationError("E400", f"{file} is for one input, and the model has {names}", hint=hint)
    try:
        with ExitStack() as stack:
            if file.suffix == ".npy":
                yield {inputs[0].name: Stored(stack.enter_context(file.open("rb")))}
                return
            archive = stack.enter_context(zipfile.ZipFile(file))
            members = [name for name in archive.namelist() if name.endswith(".npy")]
            streams = {name.removesuffix(".npy"): stack.enter_context(archive.open(name)) for name in members}
            yield {name: Stored(stream) for name, stream in streams.items()}
    except DAMAGED as error:
        raise CalibrationError("E400", f"{file} cannot be read: {error}") from None
