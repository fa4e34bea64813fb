"""Quantised tensors: to and from them, products of them, and weights that are stored as them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto

from mcpc.ir import DType

from ..case import ONNX, ORT, Family
from ..graphs import Array, Graph
from ..graphs import Weight as W

FAMILY = Family("quantisation")
op, case = FAMILY.op, FAMILY.graph
RNG, STORED_RNG = np.random.default_rng(8), np.random.default_rng(9)

I8, U8 = np.int8, np.uint8
Type = type[np.integer[Any]]


def ints(dtype: Type, *shape: int, most: int = 127) -> Array:
    low = max(-most, int(np.iinfo(dtype).min)) if np.iinfo(dtype).min else 0
    return RNG.integers(low, most + 1, shape).astype(dtype)


def scales(*shape: int) -> Array:
    return (RNG.random(shape, np.float32) + 0.5) / 64


def stored(dtype: DType, *shape: int) -> Array:
    """Any numbers of a type of 8 bits and fewer, but for what is no finite one."""
    codes = STORED_RNG.integers(0, 2 ** min(dtype.bits, 7), shape).astype(np.uint8)
    numbers = codes.view(dtype.numpy)
    is_finite = np.isfinite(numbers.astype(np.float32))
    return np.asarray(np.where(is_finite, numbers, np.zeros((), dtype.numpy)))


def powers(*shape: int) -> Array:
    """Scales that are powers of two."""
    return np.asarray(2.0 ** STORED_RNG.integers(-3, 3, shape)).astype(DType.float8e8m0.numpy)


def scalar(number: float, dtype: Any = np.float32) -> W:
    return W(np.array(number, dtype))


# ---- QuantizeLinear
TIES = np.arange(-260, 520, dtype=np.float32) / 2
FAR = np.array([-np.inf, -1e30, -40000, -32769, 32768, 65536, 1e30, np.inf, -0.0, 1e-40, 3e9, -3e9], np.float32)
OVERFLOWS = {"judges": (ORT,), "because": "onnx.reference computes with integers, which overflow"}
ANY_NAN = {"judges": (ORT,), "because": "onnx.reference converts NaN as the processor does"}
for dtype in (U8, I8):
    name = np.dtype(dtype).name
    op(f"QuantizeLinear to {name}, halves", "QuantizeLinear", TIES, scalar(1), scalar(0, dtype))
    op(f"QuantizeLinear to {name}, zero point", "QuantizeLinear", TIES, scalar(0.75), scalar(3, dtype))
    op(f"QuantizeLinear to {name}, out of range", "QuantizeLinear", FAR, scalar(0.5), scalar(7, dtype), case=OVERFLOWS)
    x = np.array([np.nan, 1, 2, np.nan, 3, 4, 5, 6] * 4, np.float32)
    op(f"QuantizeLinear to {name}, NaN", "QuantizeLinear", x, scalar(1), scalar(2, dtype), case=ANY_NAN)
    for axis, size in ((0, 3), (1, 5), (-1, 9), (2, 9)):
        op(
            f"QuantizeLinear to {name} along {axis}",
            "QuantizeLinear",
            (3, 5, 9),
            W(scales(size)),
            W(ints(dtype, size, most=9)),
            axis=axis,
        )
for dtype in (np.int16, np.uint16):
    name = np.dtype(dtype).name
    op(f"QuantizeLinear to {name}", "QuantizeLinear", TIES * 300, scalar(1), scalar(300, dtype))
    op(f"DequantizeLinear of {name}", "DequantizeLinear", ints(dtype, 3, 9, most=32767), scalar(0.1), scalar(9, dtype))
op("QuantizeLinear without a zero point", "QuantizeLinear", (4, 5), scalar(0.02))
op("QuantizeLinear, scale of one element", "QuantizeLinear", (4, 5), W(np.array([0.02], np.float32)))
op("QuantizeLinear to output_dtype", "QuantizeLinear", (4, 5), scalar(0.02), output_dtype=TensorProto.INT8)
op("QuantizeLinear, computed scale", "QuantizeLinear", (4, 5), np.array(0.02, np.float32), np.array(3, U8))
op("QuantizeLinear, computed scales", "QuantizeLinear", (4, 5, 2), scales(5), ints(I8, 5), axis=1)
op("QuantizeLinear of a scalar", "QuantizeLinear", np.array(0.7, np.float32), scalar(0.02))
op("QuantizeLinear of nothing", "QuantizeLinear", (0, 3), scalar(0.02))
op(
    "QuantizeLinear of int32",
    "QuantizeLinear",
    np.arange(-400, 400, 7, dtype=np.int32),
    scalar(2),
    scalar(1, I8),
    case={"judges": (ONNX,), "because": "ONNX Runtime has no such kernel"},
)
for axis, size in ((0, (3, 9)), (1, (6, 3))):  # 9 is no multiple of 4
    block = {"axis": axis, "block_size": 2 if axis == 0 else 4}
    op(
        f"QuantizeLinear in blocks along {axis}",
        "QuantizeLinear",
        (6, 9),
        W(scales(*size)),
        W(ints(I8, *size)),
        **block,
    )

# ---- DequantizeLinear
for dtype in (U8, I8):
    name, x = np.dtype(dtype).name, ints(dtype, 3, 5, 9)
    op(f"DequantizeLinear of {name}", "DequantizeLinear", x, scalar(0.1), scalar(5, dtype))
    for axis, size in ((0, 3), (1, 5), (2, 9)):
        zeros = W(ints(dtype, size, most=9))
        op(f"DequantizeLinear of {name} along {axis}", "DequantizeLinear", x, W(scales(size)), zeros, axis=axis)
op("DequantizeLinear of int32", "DequantizeLinear", ints(np.int32, 3, 5, most=1 << 20), W(scales(5)))
op("DequantizeLinear, computed scales", "DequantizeLinear", ints(I8, 3, 5, 4), scales(3), axis=0)
op("DequantizeLinear of a constant", "DequantizeLinear", W(ints(I8, 3, 5)), scalar(0.1))
op("DequantizeLinear of a constant along 0", "DequantizeLinear", W(ints(I8, 3, 5)), W(scales(3)), axis=0)
for kind in ("constant", "computed"):
    for axis, size in ((0, (3, 8)), (1, (6, 2))):
        parameters: list[Any] = [scales(*size), ints(U8, *size)]
        if kind == "constant":
            parameters = [W(each) for each in parameters]
        block = {"axis": axis, "block_size": 2 if axis == 0 else 4}
        op(f"DequantizeLinear in blocks along {axis}, {kind}", "DequantizeLinear", ints(U8, 6, 8), *parameters, **block)

# ---- float16 scales, float8
op("QuantizeLinear of float16", "QuantizeLinear", TIES.astype(np.float16), scalar(0.75, np.float16), scalar(3, I8))
op("DequantizeLinear to float16", "DequantizeLinear", ints(I8, 3, 9), scalar(0.1, np.float16), scalar(3, I8))
op("DequantizeLinear to float16 along 0", "DequantizeLinear", ints(I8, 3, 9), W(scales(3).astype(np.float16)), axis=0)
TINY = np.concatenate([np.arange(-40, 40) / 2.0**k for k in (4, 8, 9, 10, 11, 14, 16, 17, 18)]).astype(np.float32)
LARGE = np.array([447, 448, 449, 464, 465, 1e9, -480, 57000, 57344, 61440, 65536, np.inf, -np.inf, np.nan], np.float32)
for code, name in ((TensorProto.FLOAT8E4M3FN, "e4m3"), (TensorProto.FLOAT8E5M2, "e5m2")):
    case(
        f"there and back through {name}",
        lambda g, code=code: g(
            "DequantizeLinear",
            g("QuantizeLinear", np.concatenate([TINY, TIES, LARGE]), scalar(1), output_dtype=code),
            scalar(0.5),
        ),
    )
    case(
        f"there and back through {name} along 0",
        lambda g, code=code: g(
            "DequantizeLinear",
            g("QuantizeLinear", (3, 9), s := g.constant(scales(3)), axis=0, output_dtype=code),
            s,
            axis=0,
        ),
    )

# ---- both, and what is fused around them


def rounded(g: Graph, x: Any, *parameters: Any, **attrs: Any) -> Any:
    return g("DequantizeLinear", g("QuantizeLinear", x, *parameters, **attrs), *parameters, **attrs)


case("there and back", lambda g: rounded(g, (3, 50), scalar(0.03), scalar(128, U8)))
case("there and back along 0", lambda g: rounded(g, (3, 50), W(scales(3)), axis=0))
case(
    "there and back behind a product", lambda g: rounded(g, g("MatMul", (5, 7), W((7, 19))), scalar(0.1), scalar(9, U8))
)
case("quantised behind a product", lambda g: g("QuantizeLinear", g("MatMul", (5, 7), W((7, 19))), scalar(0.1)))
case(
    "there and back behind a Conv",
    lambda g: g("Relu", rounded(g, g("Conv", (1, 5, 6, 7), W((9, 5, 3, 3))), scalar(0.1), scalar(9, U8))),
)
case(
    "one quantised tensor, two readers and an output",
    lambda g: [
        q := g("QuantizeLinear", (3, 9), scalar(0.05), scalar(2, I8)),
        g("Relu", a := g("DequantizeLinear", q, scalar(0.05), scalar(2, I8))),
        g("MatMul", a, W((9, 4))),
    ],
)
case(
    "quantised pixels through a pool of floats",
    lambda g: rounded(g, g("MaxPool", rounded(g, (1, 3, 6, 6), scalar(0.1)), kernel_shape=[2, 2]), scalar(0.1)),
)

# ---- DynamicQuantizeLinear
for name, x in {
    "both signs": RNG.standard_normal((3, 17)).astype(np.float32),
    "positive": np.linspace(3, 9, 11, dtype=np.float32),
    "negative": np.linspace(-3, -9, 11, dtype=np.float32),
    "zeros": np.zeros((2, 3), np.float32),
    "halves": np.array([0, 2, -1, -2.5, 1.34, 0.5], np.float32),
}.items():
    judged = {"judges": (ORT,), "because": "onnx.reference gives zeros another scale"} if name == "zeros" else {}
    op(f"DynamicQuantizeLinear, {name}", "DynamicQuantizeLinear", x, outputs=3, case=judged)

# ---- integer products. Pairs of uint8 and int8 stay small: ONNX Runtime's sums of two saturate at 16 bits on AVX2
for a_type in (U8, I8):
    for b_type in (U8, I8):
        pair = f"{np.dtype(a_type).name} by {np.dtype(b_type).name}"
        b = W(ints(b_type, 37, 19, most=63))
        op(f"MatMulInteger, {pair}", "MatMulInteger", ints(a_type, 5, 37), b, scalar(3, a_type), scalar(2, b_type))
op("MatMulInteger without zero points", "MatMulInteger", ints(U8, 4, 9), ints(U8, 9, 8))
op("MatMulInteger, sums beyond 16 bits", "MatMulInteger", np.full((2, 300), 255, U8), np.full((300, 9), 255, U8))
op("MatMulInteger, a zero point a column", "MatMulInteger", ints(U8, 4, 9), W(ints(U8, 9, 11)), None, W(ints(U8, 11)))
op("MatMulInteger of batches", "MatMulInteger", ints(U8, 2, 3, 4, 9), ints(U8, 2, 3, 9, 5))
op("MatMulInteger of broadcast batches", "MatMulInteger", ints(U8, 2, 1, 3, 4), ints(U8, 1, 3, 4, 5))
op("MatMulInteger of a batch by one matrix", "MatMulInteger", ints(U8, 2, 4, 9), ints(U8, 9, 5))
op("MatMulInteger of a vector", "MatMulInteger", ints(U8, 9), ints(U8, 9, 5))
op("MatMulInteger of one column", "MatMulInteger", ints(U8, 6, 9), ints(U8, 9, 1))

WINDOWS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "3x3": ((1, 5, 6, 7), (9, 5, 3, 3), {"pads": [1, 1, 1, 1]}),
    "asymmetric pads and strides": ((2, 4, 7, 9), (3, 4, 3, 2), {"pads": [0, 1, 2, 0], "strides": [2, 3]}),
    "dilated": ((1, 3, 9, 9), (2, 3, 3, 3), {"dilations": [2, 3]}),
    "groups": ((1, 6, 5, 5), (4, 3, 3, 3), {"group": 2}),
    "depthwise": ((1, 11, 5, 5), (11, 1, 3, 3), {"group": 11, "pads": [1, 1, 1, 1]}),
    "one axis": ((1, 4, 12), (5, 4, 3), {"pads": [1, 1]}),
}
for name, (x_shape, w_shape, attrs) in WINDOWS.items():
    x, w = ints(U8, *x_shape, most=255), W(ints(U8, *w_shape, most=255))
    op(f"ConvInteger, {name}", "ConvInteger", x, w, scalar(100, U8), scalar(7, U8), **attrs)
op("ConvInteger, computed weights", "ConvInteger", ints(U8, 1, 6, 5, 5), ints(U8, 4, 3, 3, 2), scalar(9, U8), group=2)
op(
    "ConvInteger, three axes",
    "ConvInteger",
    ints(U8, 1, 2, 4, 5, 3),
    W(ints(U8, 3, 2, 2, 3, 2)),
    pads=[1, 0, 0, 0, 1, 1],
)
op("ConvInteger without zero points", "ConvInteger", ints(U8, 1, 3, 5, 5), W(ints(U8, 4, 3, 3, 3)))

# ---- QLinearMatMul, QLinearConv
for y_type in (U8, I8):
    name = np.dtype(y_type).name
    left = [ints(y_type, 5, 37), scalar(0.02), scalar(3, y_type)]
    out = [scalar(0.05), scalar(9, y_type)]
    right = [W(ints(y_type, 37, 19, most=63)), scalar(0.03), scalar(2, y_type)]
    op(f"QLinearMatMul, {name}", "QLinearMatMul", *left, *right, *out)
    columns = [right[0], W(scales(19)), W(ints(y_type, 19, most=5))]
    if y_type is U8:
        op("QLinearMatMul, a scale a column", "QLinearMatMul", *left, *columns, *out)
for name, (x_shape, w_shape, attrs) in WINDOWS.items():
    channels = w_shape[0]
    bias = W(RNG.integers(-900, 900, channels).astype(np.int32))
    x = ints(U8, *x_shape, most=255)
    data: list[Any] = [x, scalar(0.02), scalar(100, U8)]
    w = [W(ints(I8, *w_shape, most=60)), W(scales(channels)), W(np.zeros(channels, I8))]
    judged = {"judges": (ORT,), "because": "onnx.reference gives it a fourth axis"} if name == "one axis" else {}
    op(f"QLinearConv, {name}", "QLinearConv", *data, *w, scalar(0.06), scalar(120, U8), bias, case=judged, **attrs)
op(
    "QLinearConv without bias",
    "QLinearConv",
    *(ints(U8, 1, 3, 5, 5), scalar(0.02), scalar(9, U8)),
    *(W(ints(U8, 4, 3, 3, 3)), scalar(0.03), scalar(5, U8)),
    *(scalar(0.5), scalar(3, U8)),
)
op(
    "QLinearConv, computed scales",
    "QLinearConv",
    *(ints(U8, 1, 3, 5, 5), np.array(0.02, np.float32), np.array(9, U8)),
    *(W(ints(U8, 4, 3, 3, 3)), np.array(0.03, np.float32), scalar(5, U8)),
    *(np.array(0.5, np.float32), np.array(3, U8)),
)

# ---- weights that are stored in a smaller type
STORED = Family("stored weights")
op, case = STORED.op, STORED.graph
X = (7, 40)


def dequantized(g: Graph, *operands: Any, **attrs: Any) -> Any:
    return g("DequantizeLinear", *(W(each) if isinstance(each, np.ndarray) else each for each in operands), **attrs)


def scaled(g: Graph, numbers: Array, scale: Array, *shifts: Array) -> Any:
    """As exporters write what has no DequantizeLinear."""
    value = g("Cast", W(numbers), to=TensorProto.FLOAT)
    for shift in shifts:
        value = g("Sub", value, W(shift))
    return g("Mul", value, W(scale))


Q, T = ints(I8, 40, 21), ints(I8, 21, 40)
FOUR, FOUR_UNSIGNED = (
    ints(I8, 40, 21, most=7).astype(DType.int4.numpy),
    ints(U8, 40, 21, most=15).astype(DType.uint4.numpy),
)
WEIGHTS: dict[str, Callable[[Graph], Any]] = {
    "one scale": lambda g: dequantized(g, Q, np.array(0.02, np.float32)),
    "a scale a column": lambda g: dequantized(g, Q, scales(21), axis=1),
    "a scale and a zero point a column": lambda g: dequantized(g, Q, scales(21), ints(I8, 21), axis=1),
    "a scale a row": lambda g: dequantized(g, Q, scales(40), axis=0),
    "uint8 with a zero point": lambda g: dequantized(g, ints(U8, 40, 21), np.array(0.02, np.float32), np.array(99, U8)),
    "blocks along the depth": lambda g: dequantized(g, Q, scales(5, 21), axis=0, block_size=8),
    "blocks that do not divide the depth": lambda g: dequantized(g, Q, scales(3, 21), axis=0, block_size=16),
    "blocks with zero points": lambda g: dequantized(g, Q, scales(5, 21), ints(I8, 5, 21), axis=0, block_size=8),
    "blocks along the columns": lambda g: dequantized(g, Q, scales(40, 3), axis=1, block_size=7),
    "int4": lambda g: dequantized(g, FOUR, scales(21), axis=1),
    "int4 in blocks": lambda g: dequantized(g, FOUR, scales(5, 21), FOUR[:5], axis=0, block_size=8),
    "uint4 in blocks": lambda g: dequantized(g, FOUR_UNSIGNED, scales(5, 21), FOUR_UNSIGNED[:5], axis=0, block_size=8),
    "uint4 in blocks along the columns": lambda g: dequantized(
        g, FOUR_UNSIGNED, scales(40, 3), FOUR_UNSIGNED[:, :3], axis=1, block_size=7
    ),
    "Cast and Mul": lambda g: scaled(g, Q, scales(1, 21)),
    "Cast and Mul by a column": lambda g: scaled(g, Q, scales(40, 1)),
    "Cast, Sub and Mul": lambda g: scaled(g, ints(U8, 40, 21), scales(21), np.full(21, 128, np.float32)),
    "Cast and Mul, transposed": lambda g: g("Transpose", scaled(g, T, scales(21, 1)), perm=[1, 0]),
    "Cast alone": lambda g: g("Cast", W(Q), to=TensorProto.FLOAT),
    "reshaped": lambda g: g("Reshape", scaled(g, Q.reshape(8, 5, 21), scales(21)), W(np.array([40, 21]))),
    "float16": lambda g: g("Cast", W(RNG.standard_normal((40, 21)).astype(np.float16)), to=TensorProto.FLOAT),
    "float16, transposed": lambda g: g(
        "Transpose", g("Cast", W(RNG.standard_normal((21, 40)).astype(np.float16)), to=TensorProto.FLOAT), perm=[1, 0]
    ),
    "bfloat16": lambda g: g(
        "Cast", W(RNG.standard_normal((40, 21)).astype(DType.bfloat16.numpy)), to=TensorProto.FLOAT
    ),
    "e4m3": lambda g: dequantized(
        g, RNG.standard_normal((40, 21)).astype(DType.float8e4m3fn.numpy), scales(21), axis=1
    ),
    "e5m2": lambda g: dequantized(g, RNG.standard_normal((40, 21)).astype(DType.float8e5m2.numpy), scales(21), axis=1),
    "int2": lambda g: dequantized(g, stored(DType.int2, 40, 21), scales(21), axis=1),
    "uint2 in blocks": lambda g: dequantized(
        g, stored(DType.uint2, 40, 21), scales(5, 21), stored(DType.uint2, 5, 21), axis=0, block_size=8
    ),
    "e4m3fnuz": lambda g: dequantized(g, stored(DType.float8e4m3fnuz, 40, 21), scales(21), axis=1),
    "e5m2fnuz": lambda g: dequantized(g, stored(DType.float8e5m2fnuz, 40, 21), scales(40), axis=0),
    "e2m1 by powers of two": lambda g: dequantized(
        g, stored(DType.float4e2m1, 40, 21), powers(5, 21), axis=0, block_size=8, output_dtype=TensorProto.FLOAT
    ),
    "Cast from int4": lambda g: g("Cast", W(FOUR), to=TensorProto.FLOAT),
    "Cast from e4m3": lambda g: g("Cast", W(stored(DType.float8e4m3fn, 40, 21)), to=TensorProto.FLOAT),
    "rounded when it runs": lambda g: rounded(g, W((40, 21)), W(scales(21)), W(ints(I8, 21, most=3)), axis=1),
}
UNKNOWN = {"e2m1 by powers of two": {"judges": (ONNX,), "because": "ONNX Runtime lacks the type"}}
for name, weight in WEIGHTS.items():
    case(f"MatMul, {name}", lambda g, weight=weight: g("MatMul", X, weight(g)), **UNKNOWN.get(name, {}))
for rows in (1, 2, 3, 4, 5):
    case(
        f"MatMul, {rows} rows",
        lambda g, rows=rows: g(
            "MatMul", (rows, 40), dequantized(g, ints(I8, 40, 83), scales(83), ints(I8, 83), axis=1)
        ),
    )
case("MatMul of one row", lambda g: g("MatMul", (1, 40), dequantized(g, ints(I8, 40, 150), scales(150), axis=1)))
case(
    "MatMul of one row by blocks", lambda g: g("MatMul", (40,), dequantized(g, Q, scales(5, 21), axis=0, block_size=8))
)
case("MatMul of many rows", lambda g: g("MatMul", (2, 130, 40), dequantized(g, Q, scales(21), axis=1)))
case(
    "MatMul and what is fused behind it",
    lambda g: g("Relu", g("Add", g("MatMul", X, dequantized(g, Q, scales(21), axis=1)), W((21,)))),
)
case("MatMul of a computed vector", lambda g: g("MatMul", dequantized(g, Q, scales(21), axis=1), (21,)))
case("MatMul of a stack of weights", lambda g: g("MatMul", (2, 7, 5), scaled(g, ints(I8, 2, 5, 4), scales(4))))
case("Gemm", lambda g: g("Gemm", X, dequantized(g, Q, scales(21), axis=1), W((21,)), alpha=0.5, beta=2.0))
case("Gemm, transB", lambda g: g("Gemm", X, dequantized(g, T, scales(21), axis=0), transB=1))
case("Gemm, transA", lambda g: g("Gemm", (40, 7), dequantized(g, Q, scales(21), axis=1), transA=1))
case("two readers", lambda g: [g("MatMul", X, w := scaled(g, Q, scales(21))), g("Gemm", (3, 21), w, transB=1)])
case("a reader and an output", lambda g: [w := dequantized(g, Q, scales(40), axis=0), g("MatMul", X, w)])
case("elementwise too", lambda g: [g("MatMul", X, w := dequantized(g, Q, scales(21), axis=1)), g("Add", w, (40, 21))])
case("LSTM", lambda g: g("LSTM", (5, 2, 3), dequantized(g, ints(I8, 1, 16, 3), scales(16), axis=1), W((1, 16, 4)),
                         outputs=3, hidden_size=4))  # fmt: skip
for name, (x_shape, w_shape, attrs) in WINDOWS.items():
    case(
        f"Conv, {name}",
        lambda g, x=x_shape, w=w_shape, attrs=attrs: g(
            "Conv", x, dequantized(g, ints(I8, *w), scales(w[0]), axis=0), W((w[0],)), **attrs
        ),
    )
case("Conv, 1x1", lambda g: g("Conv", (2, 9, 5, 6), dequantized(g, ints(I8, 21, 9, 1, 1), scales(21), axis=0)))
case("Conv, Cast and Mul", lambda g: g("Conv", (2, 9, 5, 6), scaled(g, ints(I8, 5, 9, 3, 3), scales(5, 1, 1, 1))))
case(
    "Conv, stored bias",
    lambda g: g(
        "Conv",
        (1, 9, 5, 6),
        dequantized(g, ints(I8, 5, 9, 3, 3), scales(5), axis=0),
        dequantized(g, ints(np.int32, 5), scales(5), axis=0),
    ),
)
case(
    "ConvTranspose", lambda g: g("ConvTranspose", (1, 4, 5, 5), dequantized(g, ints(I8, 4, 3, 2, 2), scales(3), axis=1))
)

ROWS = np.array([[3, 0, -1], [39, 7, 3]])
TABLES: dict[str, Callable[[Graph], Any]] = {
    **{name: WEIGHTS[name] for name in ("one scale", "a scale and a zero point a column", "a scale a row")},
    **{name: WEIGHTS[name] for name in ("int4", "uint4 in blocks", "uint4 in blocks along the columns")},
    **{name: WEIGHTS[name] for name in ("int2", "uint2 in blocks", "e4m3fnuz", "e2m1 by powers of two")},
    **{name: WEIGHTS[name] for name in ("blocks along the columns", "blocks along the depth", "float16")},
    **{name: WEIGHTS[name] for name in ("Cast and Mul by a column", "Cast, Sub and Mul", "Cast and Mul, transposed")},
}
for name, table in TABLES.items():
    case(f"Gather, {name}", lambda g, table=table: g("Gather", table(g), ROWS), **UNKNOWN.get(name, {}))
case("Gather along 1", lambda g: g("Gather", dequantized(g, Q, scales(21), axis=1), ROWS % 21, axis=1))
case("Gather of one row", lambda g: g("Gather", dequantized(g, Q, scales(21), axis=1), np.array(3)))
case(
    "Gather and a product of one table",
    lambda g: [
        g("Gather", w := scaled(g, Q, scales(40, 1)), ROWS),
        g("MatMul", (3, 21), g("Transpose", w, perm=[1, 0])),
    ],
)
