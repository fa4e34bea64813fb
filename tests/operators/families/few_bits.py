"""Linear quantisation to and from every type of few bits, in every granularity."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from mcpc.ir import DType

from ..case import ONNX, Family
from ..graphs import Array
from ..graphs import Weight as W
from .quantize import ints, powers, stored

FAMILY = Family("few bits")
op = FAMILY.op
RNG = np.random.default_rng(10)


def scales(*shape: int) -> Array:
    """Around one."""
    return np.asarray(RNG.random(shape) + 0.5, np.float32)


BY_ONNX = {"judges": (ONNX,), "because": "ONNX Runtime passes no such arrays to Python", "tolerance": 1e-6}
FEW = (DType.int2, DType.uint2, DType.int4, DType.uint4, DType.float4e2m1)
EIGHT = (DType.float8e4m3fn, DType.float8e4m3fnuz, DType.float8e5m2, DType.float8e5m2fnuz)
#: Shapes of a scale, and the attributes that say what it is for, of a tensor [6, 9].
GRAINS: dict[str, tuple[tuple[int, ...], dict[str, int]]] = {
    "one scale": ((), {}),
    "a scale a row": ((6,), {"axis": 0}),
    "a scale a column": ((9,), {"axis": 1}),
    "in blocks along 0": ((3, 9), {"axis": 0, "block_size": 2}),
    "in blocks along 1, the last one shorter": ((6, 3), {"axis": 1, "block_size": 4}),
}


for dtype in (*FEW, *EIGHT, DType.int16, DType.uint16):
    for name, (shape, attrs) in GRAINS.items():
        zero = stored(dtype, *shape) if dtype.bits < 8 else np.zeros(shape, dtype.numpy)
        x = RNG.standard_normal((6, 9), np.float32) * 3
        op(f"QuantizeLinear to {dtype.name}, {name}", "QuantizeLinear", x, W(scales(*shape)), W(zero),
           case=BY_ONNX, **attrs)  # fmt: skip
        numbers = stored(dtype, 6, 9) if dtype.bits <= 8 else ints(dtype.numpy.type, 6, 9, most=999)
        op(f"DequantizeLinear of {dtype.name}, {name}", "DequantizeLinear", numbers, W(scales(*shape)), W(zero),
           case=BY_ONNX, **attrs)  # fmt: skip
for name, (shape, attrs) in GRAINS.items():
    to_float = {"output_dtype": TensorProto.FLOAT, **attrs}
    numbers = stored(DType.float4e2m1, 6, 9)
    op(f"DequantizeLinear by powers of two, {name}", "DequantizeLinear", numbers, W(powers(*shape)), case=BY_ONNX,
       **to_float)  # fmt: skip
    to_four = {"output_dtype": TensorProto.FLOAT4E2M1, **attrs}
    op(f"QuantizeLinear by powers of two, {name}", "QuantizeLinear", (6, 9), W(powers(*shape)), case=BY_ONNX,
       precision=TensorProto.FLOAT, **to_four)  # fmt: skip
for dtype in (DType.int8, DType.uint16, DType.float8e4m3fn):
    for name, (shape, attrs) in GRAINS.items():
        x, divisors = RNG.integers(-(2**31), 2**31 - 1, (6, 9), np.int32), RNG.integers(2**22, 2**24, shape, np.int32)
        op(f"QuantizeLinear of int32 by int32 to {dtype.name}, {name}", "QuantizeLinear", x, W(np.asarray(divisors)),
           W(np.zeros(shape, dtype.numpy)), case=BY_ONNX, **attrs)  # fmt: skip
for dtype in EIGHT:
    x = np.array([1e6, -1e6, 460, 470, 250, np.inf, -np.inf, np.nan, 3], np.float32)
    op(f"QuantizeLinear to {dtype.name}, not saturated", "QuantizeLinear", x, W(np.array([1] * 9, np.float32)),
       W(np.zeros(9, dtype.numpy)), axis=0, saturate=0, case=BY_ONNX)  # fmt: skip
op("DequantizeLinear of int4 in blocks along 1, computed scales", "DequantizeLinear",
   stored(DType.int4, 6, 9), scales(6, 3), stored(DType.int4, 6, 3), axis=1, block_size=4, case=BY_ONNX)  # fmt: skip
op("QuantizeLinear to uint4 in blocks along 0, computed scales", "QuantizeLinear", (6, 9), scales(3, 9),
   stored(DType.uint4, 3, 9), axis=0, block_size=2, case=BY_ONNX)  # fmt: skip
op("DequantizeLinear of a constant of two bits", "DequantizeLinear", W(stored(DType.int2, 3, 7)), scales(7), axis=1,
   case=BY_ONNX)  # fmt: skip
op("DequantizeLinear of a constant of four bits", "DequantizeLinear", W(stored(DType.uint4, 3, 7)),
   np.array(0.1, np.float32), W(stored(DType.uint4)), case=BY_ONNX)  # fmt: skip
