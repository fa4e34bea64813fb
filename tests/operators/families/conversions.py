"""Cast and its relatives to and from the types of few bits, to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from mcpc.dtypes import BY_NAME
from mcpc.ir import DType

from ..case import ONNX, Family
from ..graphs import Array, Graph
from ..graphs import Weight as W

FAMILY = Family("conversions")
RNG = np.random.default_rng(5)
EXACT = {"judges": (ONNX,), "because": "ONNX Runtime passes no such arrays to Python", "tolerance": 0.0}

FLOAT8 = (DType.float8e4m3fn, DType.float8e4m3fnuz, DType.float8e5m2, DType.float8e5m2fnuz)
INTEGERS = (DType.int4, DType.uint4, DType.int2, DType.uint2)
SMALL = (*FLOAT8, DType.float4e2m1, *INTEGERS)


def op(name: str, *operands: Any, **options: Any) -> None:
    FAMILY.op(name, *operands, case=EXACT, **options)


def code(dtype: DType) -> int:
    return BY_NAME[dtype.name].code


def all_of(dtype: DType) -> Array:
    """Every number that the type has."""
    return np.arange(2**dtype.bits, dtype=np.uint8).view(dtype.numpy)


#: What every small float rounds: each of its numbers, the middles between them, what is next to these, and far beyond.
EDGES = np.concatenate([all_of(dtype).astype(np.float64) for dtype in (*FLOAT8, DType.float4e2m1)])
EDGES = np.unique(EDGES[np.isfinite(EDGES)])
MIDDLES = (EDGES[1:] + EDGES[:-1]) / 2
NUMBERS = np.concatenate([EDGES, MIDDLES, MIDDLES * (1 + 2**-20), MIDDLES * (1 - 2**-20), [-0.0, 1e-30, -1e-40]])
FAR = np.array([1e6, -1e6, 465, 240, 248, 61440, 65536, 3e38, np.inf, -np.inf, np.nan], np.float32)
REAL = np.concatenate([NUMBERS.astype(np.float32), FAR])
DOUBLE = np.concatenate([NUMBERS, FAR, [1e300, -1e300, 1e-300]])
HALF = REAL[np.abs(REAL) < 60000].astype(np.float16)
WHOLE = np.array([*range(-40, 300), 1000, -1000, 60000, -60000, 2**20, -(2**31), 2**31 - 1], np.int32)

for dtype in (*FLOAT8, DType.float4e2m1):
    for source, numbers in (("float32", REAL), ("float16", HALF), ("float64", DOUBLE), ("int32", WHOLE)):
        op(f"{source} to {dtype.name}", "Cast", numbers, to=code(dtype))
        if dtype in FLOAT8:
            op(f"{source} to {dtype.name}, not saturated", "Cast", numbers, to=code(dtype), saturate=0)
#: Rounded to float32 first, they would lie in the middle of two numbers of fewer bits.
TWICE = np.float16(1) + np.arange(40, dtype=np.float64) / 2**11 + 2.0 ** -np.arange(14, 54)
op("float64 to float16", "Cast", np.concatenate([DOUBLE, TWICE, -TWICE, [65519.99999, 65520]]), to=TensorProto.FLOAT16)
for dtype in SMALL:
    for target in (DType.float32, DType.float16, DType.float64, DType.bfloat16, DType.bool):
        op(f"{dtype.name} to {target.name}", "Cast", all_of(dtype), to=code(target))
for dtype in INTEGERS:
    for source in ("int8", "uint8", "int32", "int64", "float32", "float16", "bool"):
        numbers = np.arange(0 if source in ("uint8", "bool") else -9, 31)
        op(f"{source} to {dtype.name}", "Cast", numbers.astype(source), to=code(dtype))
    for target in (DType.int8, DType.uint8, DType.int64, DType.uint16):
        op(f"{dtype.name} to {target.name}", "Cast", all_of(dtype), to=code(target))
op("int4 to float8e4m3fn", "Cast", all_of(DType.int4), to=TensorProto.FLOAT8E4M3FN)
op("float8e5m2 to float8e4m3fn", "Cast", all_of(DType.float8e5m2), to=TensorProto.FLOAT8E4M3FN)
op("float8e4m3fn to float4e2m1", "Cast", all_of(DType.float8e4m3fn)[:127], to=TensorProto.FLOAT4E2M1)

# ---- powers of two
POWERS = np.concatenate([2.0**k * np.array([1, 1.25, 1.5, 1.75]) for k in range(-126, 127)]).astype(np.float32)
for mode in ("up", "down", "nearest"):
    op(f"float32 to float8e8m0, {mode}", "Cast", POWERS, to=TensorProto.FLOAT8E8M0, round_mode=mode)
    op(f"not saturated, {mode}", "Cast", POWERS, to=TensorProto.FLOAT8E8M0, round_mode=mode, saturate=0)
for target in (DType.float32, DType.float64, DType.bfloat16):
    op(f"float8e8m0 to {target.name}", "Cast", all_of(DType.float8e8m0), to=code(target))

# ---- CastLike, BitCast
for dtype in (*SMALL, DType.float8e8m0):
    numbers = np.array([0.5, 1, 2, 4], np.float32)
    op(f"CastLike to {dtype.name}", "CastLike", numbers, np.ones((), dtype.numpy))
op("CastLike, not saturated", "CastLike", REAL, np.ones((), DType.float8e5m2.numpy), saturate=0)


def there_and_back(g: Graph, dtype: DType) -> Any:
    x = g("Mul", RNG.standard_normal((3, 19), np.float32), W(np.array(3, np.float32)))
    stored = g("Cast", x, to=code(dtype))
    return g("Add", g("Cast", stored, to=TensorProto.FLOAT), x)


for dtype in (*FLOAT8, DType.float4e2m1):
    FAMILY.graph(f"there and back through {dtype.name}", lambda g, dtype=dtype: there_and_back(g, dtype),
                 **{**EXACT, "tolerance": 1e-6})  # fmt: skip

# ---- BitCast, and what opset 28 gives more types
NEWER = Family("bits", opset=28)


def newer(name: str, op: str, *operands: Any, **options: Any) -> None:
    NEWER.op(name, op, *operands, case=EXACT, **options)


PAIRS = (
    *((DType.float32, DType.int32), (DType.int32, DType.float32), (DType.float64, DType.uint64)),
    *((DType.float16, DType.int16), (DType.bfloat16, DType.uint16), (DType.int8, DType.float8e4m3fn)),
    *((DType.int4, DType.uint4), (DType.uint4, DType.float4e2m1), (DType.int2, DType.uint2), (DType.bool, DType.uint8)),
)
for origin, target in PAIRS:
    numbers = np.array([[1, 0, 1], [0, 1, 1]]).astype(origin.numpy)
    newer(f"BitCast of {origin.name} to {target.name}", "BitCast", numbers, to=code(target))
X = RNG.standard_normal((3, 7), np.float32)
NEWER.graph(
    "the sign of a float",
    lambda g: g(
        "BitwiseAnd", g("BitCast", g("Mul", g.input(X), X), to=TensorProto.UINT32), W(np.array(2**31, np.uint32))
    ),
    **EXACT,
)
NEWER.graph(
    "BitCast of a view",
    lambda g: g("BitCast", g("Reshape", g("Relu", X), W(np.array([7, 3]))), to=TensorProto.INT32),
    **EXACT,
)
NEWER.graph("BitCast of a constant", lambda g: g("BitCast", W(X), to=TensorProto.INT32), **EXACT)
NEWER.graph(
    "BitCast of channels-last",
    lambda g: g("BitCast", g("MaxPool", (1, 8, 4, 4), kernel_shape=[2, 2]), to=TensorProto.INT32),
    **EXACT,
)
for signed in (np.int8, np.int16, np.int32, np.int64):
    limits = np.iinfo(signed)
    numbers = np.array([limits.min, limits.min + 1, -7, -1, 0, 1, 5, limits.max], signed)
    for direction in ("LEFT", "RIGHT"):
        for amount in (0, 1, 3, limits.bits - 1):
            newer(
                f"BitShift {direction} of {signed.__name__} by {amount}",
                "BitShift",
                *(numbers, np.array([amount], signed)),
                direction=direction,
            )
for name in ("float16", "float64"):
    NEWER.op(f"Celu of {name}", "Celu", X.astype(name), alpha=1.5, case={**EXACT, "tolerance": 2e-3})
