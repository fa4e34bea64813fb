"""ONNX tensors as numpy arrays, checked before any byte is read; external data are mapped, never copied."""

from __future__ import annotations

import math
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np
import onnx
from onnx import SparseTensorProto, TensorProto, numpy_helper

from mcpc.dtypes import pack, unpack
from mcpc.errors import ModelError
from mcpc.ir import DType

Array = np.ndarray[Any, Any]

#: Bytes that a sparse tensor may take once its zeros are filled in.
LARGEST_DENSE = 2**31

#: The typed field that holds an element type's numbers where raw bytes do not; int32_data for all others.
_FIELDS: dict[int, str] = {
    TensorProto.FLOAT: "float_data",
    TensorProto.DOUBLE: "double_data",
    TensorProto.INT64: "int64_data",
    TensorProto.UINT64: "uint64_data",
    TensorProto.UINT32: "uint64_data",
}


def dtype_of(code: int, what: str) -> DType:
    """The element type of an ONNX type code; E109, naming ``what``, where it is not supported."""
    try:
        return DType.of(onnx.helper.tensor_dtype_to_np_dtype(code))
    except (KeyError, ValueError, TypeError):
        names = {number: name for name, number in TensorProto.DataType.items()}
        text = names.get(code, f"of unknown type code {code}").lower()
        raise ModelError("E109", f"{what} is {text}: this data type is not supported") from None


def type_code(dtype: DType) -> int:
    """The ONNX type code of an element type."""
    return int(onnx.helper.np_dtype_to_tensor_dtype(dtype.numpy))


class ExternalData:
    """The data files beside a model. Each is mapped once; tensors are views into the mapping."""

    def __init__(self, folder: Path | None) -> None:
        """``folder``: where the model lies, None for a model without a file."""
        self._folder = folder
        self._maps: dict[str, Array] = {}
        self._refused: set[str] = set()

    def bytes_of(self, tensor: TensorProto, size: int) -> Array | None:
        """``size`` bytes of ``tensor``, as a view of type uint8; None where its file was refused before.

        Raises E105 where the file is missing or too short, E106 where its path leaves the model's folder.
        """
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        if location in self._refused:
            return None
        try:
            data = self._maps[location] if location in self._maps else self._open(tensor.name, location)
        except ModelError:
            self._refused.add(location)
            raise
        self._maps[location] = data
        try:
            offset, length = int(entries.get("offset", 0)), int(entries.get("length", size))
        except ValueError:
            raise ModelError("E105", f"tensor {tensor.name}: offset or length of {location} is no number") from None
        if offset < 0 or length < size or offset + size > data.size:
            message = (
                f"tensor {tensor.name} needs {size} bytes at offset {offset} of {location}, "
                f"which has {data.size} bytes ({length} for this tensor)"
            )
            raise ModelError("E105", message, hint="the file is truncated or belongs to another model")
        return data[offset : offset + size]

    def _open(self, name: str, location: str) -> Array:
        if self._folder is None:
            message = (
                f"tensor {name} lies in {location or 'an external file'}, but the model was not read from a folder"
            )
            raise ModelError("E105", message, hint="pass the model's path")
        outside = ModelError(
            "E106",
            f"tensor {name}: the external data path {location!r} leads outside the model's folder",
            hint="external data must lie beside the model",
        )
        posix, windows = PurePosixPath(location), PureWindowsPath(location)
        if posix.is_absolute() or windows.anchor or ".." in posix.parts or ".." in windows.parts:
            raise outside
        path = self._folder / location
        try:
            if not path.resolve().is_relative_to(self._folder.resolve()):
                raise outside
            if not path.is_file():
                message = f"tensor {name}: the external data file {location!r} is missing"
                raise ModelError("E105", message, hint=f"it belongs into {self._folder}")
            if path.stat().st_size == 0:
                return np.empty(0, np.uint8)
            return np.memmap(path, np.uint8, "r")
        except (OSError, ValueError, RuntimeError) as error:
            raise ModelError("E105", f"tensor {name}: cannot read the file {location!r}: {error}") from None


def read_tensor(tensor: TensorProto, external: ExternalData, name: str = "") -> Array | None:
    """The numbers of ``tensor``, read-only; None where its external file was refused before.

    Raises :class:`ModelError`: E109 for the data type, E100 where sizes contradict each other, E105 and E106 for
    external data.
    """
    name = name or tensor.name
    dtype = dtype_of(tensor.data_type, f"tensor {name}")
    shape = tuple(tensor.dims)
    if any(size < 0 for size in shape):
        raise ModelError("E100", f"tensor {name} has the shape {list(shape)}")
    count = math.prod(shape)
    nbytes = (count * dtype.bits + 7) // 8
    described = f"{dtype.name}{list(shape)}"
    if tensor.data_location == TensorProto.EXTERNAL:
        data = external.bytes_of(tensor, nbytes)
        return None if data is None else _typed(data, dtype, shape)
    if tensor.HasField("raw_data"):
        raw = tensor.raw_data
        if len(raw) != nbytes:
            raise ModelError("E100", f"tensor {name} holds {len(raw)} bytes of raw data, {described} needs {nbytes}")
        return _typed(np.frombuffer(raw, np.uint8), dtype, shape)
    return _from_field(tensor, dtype, shape, count, f"tensor {name}", described)


def read_sparse(sparse: SparseTensorProto, external: ExternalData, name: str = "") -> Array | None:
    """``sparse`` with its zeros filled in; otherwise as :func:`read_tensor`, E111 where it would not fit in memory."""
    name = name or sparse.values.name
    values = read_tensor(sparse.values, external, name)
    indices = read_tensor(sparse.indices, external, f"{name}'s indices")
    if values is None or indices is None:
        return None
    shape = tuple(sparse.dims)
    if any(size < 0 for size in shape):
        raise ModelError("E100", f"tensor {name} has the shape {list(shape)}")
    if math.prod(shape) * values.dtype.itemsize > LARGEST_DENSE:
        raise ModelError("E111", f"sparse tensor {name} of shape {list(shape)} is too large to fill in its zeros")
    linear = indices.ndim == 1  # else [values, rank]
    if (
        values.ndim != 1
        or indices.dtype != np.int64
        or indices.shape != (len(values),) + (() if linear else (len(shape),))
    ):
        raise ModelError("E100", f"tensor {name}: indices of shape {list(indices.shape)} do not fit its values")
    limits = np.array(math.prod(shape) if linear else shape, np.int64)
    if np.any(indices < 0) or np.any(indices >= limits):
        raise ModelError("E100", f"tensor {name}: an index lies outside of {list(shape)}")
    dense = np.zeros(shape, values.dtype)
    if linear:
        dense.reshape(-1)[indices] = values
    else:
        dense[tuple(indices.T)] = values
    return dense


def raw_bytes(array: Array) -> Array:
    """What raw data hold of ``array``, as bytes; a view where that is what memory holds."""
    bits = DType.of(array).bits
    return pack(array, bits) if bits < 8 else np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _typed(data: Array, dtype: DType, shape: tuple[int, ...]) -> Array:
    if dtype.bits < 8:
        return unpack(data, dtype.bits, math.prod(shape)).view(dtype.numpy).reshape(shape)
    return data.view(dtype.numpy.newbyteorder("<") if dtype.numpy.kind in "fiu" else dtype.numpy).reshape(shape)


def _from_field(
    tensor: TensorProto, dtype: DType, shape: tuple[int, ...], count: int, what: str, described: str
) -> Array:
    field = _FIELDS.get(tensor.data_type, "int32_data")
    entries = len(getattr(tensor, field))
    wanted = (count * dtype.bits + 7) // 8 if dtype.bits < 8 else count
    if entries != wanted:
        raise ModelError("E100", f"{what} holds {entries} elements in {field}, the size of {described} is {wanted}")
    if count == 0:
        return np.empty(shape, dtype.numpy)
    try:
        return np.asarray(numpy_helper.to_array(tensor)).astype(dtype.numpy, copy=False).reshape(shape)
    except (ValueError, TypeError, OverflowError) as error:
        raise ModelError("E100", f"{what}: {error}") from None
