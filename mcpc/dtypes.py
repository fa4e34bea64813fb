"""Element types of artifacts: the code in the file (ONNX's TensorProto.DataType), numpy's type, ONNX Runtime's name.

Every element has whole bytes in memory, one of 4 or 2 bits the low bits of one, as ml_dtypes has it; only what is at
rest is packed (:func:`pack`): weights in an artifact's shards, tensors in ONNX files.

Light on purpose, for the loader: mcpc.ir has the compiler's view of the same types.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class ElementType:
    """``bits`` is the size of one element where it is packed."""

    code: int
    name: str
    ort_name: str
    bits: int
    numpy_name: str

    @property
    def is_native(self) -> bool:
        """Whether numpy has the type by itself."""
        return self.numpy.isbuiltin == 1

    @property
    def numpy(self) -> np.dtype[Any]:
        try:
            return np.dtype(self.numpy_name)
        except TypeError:
            import ml_dtypes  # types that numpy lacks

            dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, self.numpy_name))
            return dtype


_TYPES = (
    ElementType(1, "float32", "float", 32, "float32"),
    ElementType(2, "uint8", "uint8", 8, "uint8"),
    ElementType(3, "int8", "int8", 8, "int8"),
    ElementType(4, "uint16", "uint16", 16, "uint16"),
    ElementType(5, "int16", "int16", 16, "int16"),
    ElementType(6, "int32", "int32", 32, "int32"),
    ElementType(7, "int64", "int64", 64, "int64"),
    ElementType(9, "bool", "bool", 8, "bool"),
    ElementType(10, "float16", "float16", 16, "float16"),
    ElementType(11, "float64", "double", 64, "float64"),
    ElementType(12, "uint32", "uint32", 32, "uint32"),
    ElementType(13, "uint64", "uint64", 64, "uint64"),
    ElementType(16, "bfloat16", "bfloat16", 16, "bfloat16"),
    ElementType(17, "float8e4m3fn", "float8e4m3fn", 8, "float8_e4m3fn"),
    ElementType(18, "float8e4m3fnuz", "float8e4m3fnuz", 8, "float8_e4m3fnuz"),
    ElementType(19, "float8e5m2", "float8e5m2", 8, "float8_e5m2"),
    ElementType(20, "float8e5m2fnuz", "float8e5m2fnuz", 8, "float8_e5m2fnuz"),
    ElementType(21, "uint4", "uint4", 4, "uint4"),
    ElementType(22, "int4", "int4", 4, "int4"),
    ElementType(23, "float4e2m1", "float4e2m1", 4, "float4_e2m1fn"),
    ElementType(24, "float8e8m0", "float8e8m0", 8, "float8_e8m0fnu"),
    ElementType(25, "uint2", "uint2", 2, "uint2"),
    ElementType(26, "int2", "int2", 2, "int2"),
)

BY_CODE = {type.code: type for type in _TYPES}
BY_NAME = {type.name: type for type in _TYPES}


def pack(numbers: Array, bits: int) -> Array:
    """The bytes (uint8, flat) of ``numbers`` of 4 or 2 ``bits``: the first in the lowest bits of the first byte, zeros
    behind the last."""
    codes = np.ascontiguousarray(numbers).reshape(-1).view(np.uint8) & np.uint8(2**bits - 1)
    per_byte = 8 // bits
    rows = np.pad(codes, (0, -codes.size % per_byte)).reshape(-1, per_byte)
    packed: Array = np.bitwise_or.reduce(rows << np.arange(0, 8, bits, dtype=np.uint8), axis=1, dtype=np.uint8)
    return packed


def unpack(data: Array, bits: int, count: int) -> Array:
    """The first ``count`` numbers of ``bits`` bits in bytes (uint8) as :func:`pack` makes them, a byte each."""
    codes: Array = (data[:, None] >> np.arange(0, 8, bits, dtype=np.uint8)) & np.uint8(2**bits - 1)
    return codes.reshape(-1)[:count]
