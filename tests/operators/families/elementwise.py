"""Elementwise operators: each over its types, its forms of broadcasting, its special numbers."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from ..case import ONNX, ORT, Family
from ..graphs import Array, Graph
from ..graphs import Weight as W

FAMILY = Family("elementwise")
op = FAMILY.op

FLOAT, INT32, INT64 = np.float32, np.int32, np.int64
TYPES = {"float32": FLOAT, "int32": INT32, "int64": INT64}
INFINITY, NAN = np.inf, np.nan
#: Zeros of both signs, ones, subnormals, the ends of the range, infinities, NaN.
_POSITIVE = [0.0, 1, 0.5, 1.5, 2.5, 1e-40, 1e-20, 88, 104, 3e38, INFINITY]
SPECIAL = np.array([*_POSITIVE, *(-number for number in _POSITIVE), NAN], np.float32)
ORDINARY = np.linspace(-6, 6, 37, dtype=np.float32)


def numbers(*shape: int, dtype: type = FLOAT, low: int = -9, high: int = 10) -> Array:
    """Whole numbers, which every type holds, each with its own value."""
    size = int(np.prod(shape))
    return (np.arange(size) * 7 % (high - low) + low).astype(dtype).reshape(shape)


def pairs() -> tuple[Array, Array]:
    """Every special number with every other."""
    left, right = np.meshgrid(SPECIAL, SPECIAL, indexing="ij")
    return left.copy(), right.copy()


# ---- two operands: types, special numbers
for name in ("Add", "Sub", "Mul", "Div", "Max", "Min"):
    for text, dtype in TYPES.items():
        divisor = numbers(3, 13, dtype=dtype, low=1) if name == "Div" else numbers(3, 13, dtype=dtype)[::-1].copy()
        op(f"{name}, {text}", name, numbers(3, 13, dtype=dtype), divisor)
    op(f"{name}, special numbers", name, *pairs())
for name in ("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"):
    for text, dtype in TYPES.items():
        op(f"{name}, {text}", name, numbers(3, 13, dtype=dtype), numbers(1, 13, dtype=dtype))
    op(f"{name}, special numbers", name, *pairs())
TRUTH = np.array([[True, True, False, False] * 5]), np.array([[True, False, True, False] * 5])
for name in ("And", "Or", "Xor", "Equal"):
    op(f"{name}, bool", name, *TRUTH)
for text, dtype in {"int32": INT32, "int64": INT64}.items():
    extremes = np.array([np.iinfo(dtype).min, np.iinfo(dtype).max, -1, 0, 1, 7, -7, 6], dtype)
    for name in ("Add", "Sub", "Mul"):
        op(f"{name}, {text} wraps around", name, extremes, extremes[::-1].copy())
    op(
        f"Div, {text} truncates",
        "Div",
        np.array([7, -7, 7, -7, 6, -6, 0, 1], dtype),
        np.array([2, 2, -2, -2, 3, 3, 5, -5], dtype),
    )
    op(f"Mod, {text}", "Mod", numbers(5, 9, dtype=dtype), numbers(9, dtype=dtype, low=1))
    op(f"Mod, {text}, negative divisor", "Mod", numbers(5, 9, dtype=dtype), numbers(9, dtype=dtype, low=-9, high=0))
    op(f"Mod, {text}, fmod", "Mod", numbers(5, 9, dtype=dtype), numbers(9, dtype=dtype, low=-9, high=0), fmod=1)
    op(f"Abs, {text}", "Abs", numbers(19, dtype=dtype))
    op(f"Neg, {text}", "Neg", numbers(19, dtype=dtype))
    op(f"Sign, {text}", "Sign", numbers(19, dtype=dtype))
    for name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        op(f"{name}, {text}", name, numbers(3, 13, dtype=dtype), numbers(13, dtype=dtype, low=-30, high=40))
    op(f"BitwiseNot, {text}", "BitwiseNot", numbers(19, dtype=dtype))
op("Relu, int32", "Relu", numbers(19, dtype=INT32))

# ---- the rarer types
BY_ONNX = {"judges": (ONNX,), "because": "ONNX Runtime lacks the type"}
RARE = (np.int8, np.uint8, np.int16, np.uint16, np.uint32, np.uint64, np.float64)
for dtype in RARE:
    text = np.dtype(dtype).name
    is_unsigned, is_float = np.dtype(dtype).kind == "u", np.dtype(dtype).kind == "f"
    left, right = numbers(3, 13, dtype=dtype), numbers(13, dtype=dtype)[::-1].copy()
    if is_unsigned:
        left, right = left + dtype(9), right + dtype(9)
    for name in ("Add", "Sub", "Mul", "Max", "Min", "Less", "GreaterOrEqual", "Equal"):
        op(f"{name}, {text}", name, left, right, case=BY_ONNX)
    op(f"Where, {text}", "Where", left > right, left, right, case=BY_ONNX)
    op(f"Clip, {text}", "Clip", left, W(np.array(2, dtype)), W(np.array(7, dtype)), case=BY_ONNX)
    op(f"Abs, {text}", "Abs", left, case=BY_ONNX)
    op(f"Sign, {text}", "Sign", left, case=BY_ONNX)
    if not is_unsigned:
        op(f"Neg, {text}", "Neg", left, case=BY_ONNX)
    truncates = {"judges": (ORT,), "because": "onnx.reference rounds down"} if dtype in (np.int8, np.int16) else BY_ONNX
    op(f"Div, {text}", "Div", left, numbers(13, dtype=dtype, low=1), case=truncates)
    if not is_float:
        op(f"Mod, {text}", "Mod", left, numbers(13, dtype=dtype, low=1), case=BY_ONNX)
        op(f"Mod, {text}, fmod", "Mod", left, numbers(13, dtype=dtype, low=1), fmod=1, case=BY_ONNX)
        op(f"BitwiseXor, {text}", "BitwiseXor", left, right, case=BY_ONNX)
        op(f"BitwiseNot, {text}", "BitwiseNot", left, case=BY_ONNX)
    if is_unsigned:
        bits = (np.arange(13) % (8 * np.dtype(dtype).itemsize)).astype(dtype)
        for direction in ("LEFT", "RIGHT"):
            large = left * dtype(2 ** (8 * np.dtype(dtype).itemsize - 6) + 1)
            op(f"BitShift {direction}, {text}", "BitShift", large, bits, direction=direction, case=BY_ONNX)
past = np.array([31, 32, 33, 2**32 - 1], np.uint32)
op("BitShift by all bits and more", "BitShift", np.full(4, 2**32 - 1, np.uint32), past, direction="LEFT", case=BY_ONNX)
op("Add, float16", "Add", ORDINARY.astype(np.float16), numbers(37).astype(np.float16) / np.float16(8))
op(
    "Exp, float16",
    "Exp",
    ORDINARY.astype(np.float16),
    case={"judges": (ONNX,), "because": "ONNX Runtime lacks the type"},
)
op("Where, float16", "Where", ORDINARY > 1, ORDINARY.astype(np.float16), W(np.array(0.1, np.float16)))
op(
    "Cast, float32 to float16",
    "Cast",
    np.array([0.1, 65504, 65520, 1e-8, 6e-8, 2049, 2051, -INFINITY, NAN], np.float32),
    to=TensorProto.FLOAT16,
)
op("Cast, float16 to int32", "Cast", np.array([0.1, 2049, -3.9, 65504], np.float16), to=TensorProto.INT32)
op("Cast, float64 to int64", "Cast", np.array([2.0**53 + 2, -(2.0**62) - 1024, 0.99999999999]), to=TensorProto.INT64)
op("Cast, float64 to uint64", "Cast", np.array([2.0**63 + 2048, 1.9, 2.0**64 - 2048]), to=TensorProto.UINT64)
op("Cast, uint64 to float32", "Cast", np.array([2**64 - 1, 2**63 + 2**40, 16777217], np.uint64), to=TensorProto.FLOAT)
DIVIDEND, DIVISOR = pairs()
for text, dtype in {"float32": np.float32, "float64": np.float64}.items():
    op(f"Mod of {text}, special numbers", "Mod", DIVIDEND.astype(dtype), DIVISOR.astype(dtype), fmod=1)
    op(
        f"Mod of {text}",
        "Mod",
        ORDINARY.astype(dtype) * dtype(1e6),
        dtype(0.7) + np.abs(ORDINARY).astype(dtype),
        fmod=1,
    )

# ---- powers
for text, dtype in {"int32": INT32, "int64": INT64}.items():
    base = numbers(37, dtype=dtype)
    op(f"Pow, {text}", "Pow", base, numbers(37, dtype=dtype, low=0, high=5))
    roots = (
        np.array([4, 9, 27, 1000, 0, 1, 2**30], dtype),
        np.array([0.5, 1.5, 2, 1 / 3 + 1e-6, 3, 99, 0.5], np.float32),
    )
    op(f"Pow of {text} by float32", "Pow", *roots)
    op(f"Pow of {text} by a constant", "Pow", base, W(np.array(2, np.float32)))
op("Pow of int32 by int64", "Pow", numbers(37, dtype=INT32), W(np.array(3)))
op("Pow of float64", "Pow", np.abs(ORDINARY).astype(float), np.linspace(-3, 3, 37))
op("Pow of float64, special numbers", "Pow", *(each.astype(float) for each in pairs()))
op("Pow of floats", "Pow", np.abs(ORDINARY), np.linspace(-3, 3, 37, dtype=np.float32))
op("Pow, whole exponents of either sign", "Pow", ORDINARY, numbers(37, low=-3, high=4))
op("Pow, special numbers", "Pow", *pairs(), case={"judges": (ORT,), "because": "numpy makes 0 of some subnormals"})
for exponent in (0.0, 0.5, 1.0, -1.0, 2.0, 3.0, -2.0, 2.5):
    op(f"Pow by {exponent}", "Pow", np.abs(ORDINARY) + 0.25, W(np.array(exponent, np.float32)))
op("Pow, int32 exponents", "Pow", ORDINARY, numbers(37, dtype=INT32, low=0, high=4))
op("Pow, int64 exponents", "Pow", ORDINARY, W(np.array(3, np.int64)))

# ---- broadcasting
for left, right in (
    ((2, 3, 4, 5), (2, 3, 4, 5)),
    ((2, 3, 4, 5), ()),
    ((2, 3, 4, 5), (1,)),
    ((2, 3, 4, 5), (5,)),
    ((2, 3, 4, 5), (4, 1)),
    ((2, 3, 4, 5), (3, 1, 1)),
    ((2, 3, 4, 5), (2, 1, 1, 5)),
    ((2, 3, 4, 5), (1, 3, 1, 5)),
    ((2, 1, 4, 1), (3, 1, 5)),
    ((7,), (5, 7)),
    ((1, 1), (6,)),
    ((), (2, 3)),
    ((), ()),
    ((2, 1, 3, 1, 2, 1, 9), (1, 2, 1, 2, 1, 2, 9)),
    ((300, 9), (9,)),
    ((2, 300, 1), (2, 1, 9)),
):
    text = " by ".join("x".join(map(str, shape)) or "scalar" for shape in (left, right))
    op(f"Sub {text}", "Sub", numbers(*left), numbers(*right))
    op(f"Sub {text}, constant", "Sub", numbers(*left), W(numbers(*right)))
SIZES = (2, 1, 3, 1, 2, 1, 2, 1, 2, 1)
op("Sub of rank 10, every other axis broadcast", "Sub", numbers(*SIZES), numbers(*SIZES[::-1]))
op("Less, int64, broadcast to bool", "Less", numbers(4, 1, dtype=INT64), numbers(9, dtype=INT64))
op("And, broadcast", "And", TRUTH[0].reshape(20, 1), TRUTH[1])


# ---- one operand
def unary(name: str, values: Array, **options: object) -> None:
    op(f"{name}{options.pop('text', '')}", name, values, **options)


for name in ("Abs", "Neg", "Floor", "Ceil", "Round", "Sqrt", "Exp", "Log", "Tanh", "Sigmoid", "Erf", "Relu", "Sign"):
    values = np.abs(ORDINARY) if name in ("Sqrt", "Log") else ORDINARY
    unary(name, values)
    unary(name, SPECIAL, text=", special numbers")
RISING = ("Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "Asin", "Acos", "Atan")
for name in RISING:
    within = (
        ORDINARY / 6 if name in ("Asin", "Acos", "Atanh") else np.abs(ORDINARY) + 1 if name == "Acosh" else ORDINARY
    )
    for text, dtype in {"float32": np.float32, "float64": np.float64}.items():
        op(f"{name}, {text}", name, within.astype(dtype), case=BY_ONNX)
        op(f"{name}, {text}, special numbers", name, SPECIAL.astype(dtype), case=BY_ONNX)
DOUBLE = ("Exp", "Log", "Tanh", "Sigmoid", "Erf", "Floor", "Ceil", "Round", "Sqrt", "Softplus", "Elu", "Gelu", "Mish")
for name in DOUBLE:
    op(f"{name}, float64", name, np.abs(ORDINARY).astype(float) + 1e-9, case=BY_ONNX)
    op(f"{name}, float64, special numbers", name, SPECIAL.astype(float), case=BY_ONNX)
for name in ("Sin", "Cos", "Tan"):
    op(f"{name}, float64", name, 9 * ORDINARY.astype(float), case=BY_ONNX)
op("IsInf, float64", "IsInf", SPECIAL.astype(float))
op("IsNaN, float64", "IsNaN", SPECIAL.astype(float))
op("Shrink, int32", "Shrink", numbers(19, dtype=INT32), bias=1.5, lambd=2.5, case=BY_ONNX)
SMOOTH = ("Softplus", "Softsign", "HardSigmoid", "HardSwish", "Elu", "Selu", "Celu", "Mish")
for name in ("Sin", "Cos", "Tan", "Reciprocal", *SMOOTH):
    unary(name, ORDINARY + 0.01)
    large = np.abs(SPECIAL) > 1e12  # of which sin and cos know no more than that they are numbers
    unary(
        name,
        SPECIAL[~large | np.isinf(SPECIAL)] if name in ("Sin", "Cos", "Tan") else SPECIAL,
        text=", special numbers",
    )
op("Round, halves", "Round", np.arange(-6, 6, 0.5, dtype=np.float32))
op("Elu, alpha", "Elu", ORDINARY, alpha=2.5)
op("Celu, alpha", "Celu", ORDINARY, alpha=2.5)
op("Selu, alpha and gamma", "Selu", ORDINARY, alpha=1.25, gamma=0.5)
op("HardSigmoid, alpha and beta", "HardSigmoid", ORDINARY, alpha=0.125, beta=0.25)
op("LeakyRelu", "LeakyRelu", ORDINARY)
op("LeakyRelu, alpha", "LeakyRelu", SPECIAL, alpha=-0.5)
op("ThresholdedRelu", "ThresholdedRelu", ORDINARY, alpha=1.5)
op("Shrink", "Shrink", ORDINARY, lambd=1.5, bias=0.5)
op("Gelu", "Gelu", ORDINARY)
op("Gelu, tanh", "Gelu", ORDINARY, approximate="tanh")
op("Swish", "Swish", ORDINARY, case={"judges": (ONNX,), "because": "ONNX Runtime lacks it"})
op("Swish, alpha", "Swish", ORDINARY, alpha=1.5, case={"judges": (ONNX,), "because": "ONNX Runtime lacks it"})
op("PRelu", "PRelu", numbers(2, 3, 5), numbers(3, 1))
op("PRelu, constant slope", "PRelu", SPECIAL, W(np.array([0.25], np.float32)))
op("Not", "Not", TRUTH[0])
op("IsNaN", "IsNaN", SPECIAL)
op("IsInf", "IsInf", SPECIAL)
op("IsInf, positive only", "IsInf", SPECIAL, detect_negative=0)
op("IsInf, negative only", "IsInf", SPECIAL, detect_positive=0)
op("IsInf, neither", "IsInf", SPECIAL, detect_positive=0, detect_negative=0)
op("Exp of one element", "Exp", np.array(0.5, np.float32))
op("Exp over several units", "Exp", np.linspace(-3, 3, 1031, dtype=np.float32))

# ---- several operands
for name in ("Sum", "Mean", "Max", "Min"):
    op(f"{name} of one", name, numbers(9))
    op(f"{name} of three, broadcast", name, numbers(2, 4, 9), numbers(4, 1), W(numbers(9)))
    op(f"{name} of twenty", name, *[numbers(9) + i for i in range(20)])
op("Max of twenty, broadcast", "Max", numbers(3, 9), *[numbers(3, 1) + i for i in range(19)])

# ---- Clip
BOUNDS = {"both": (-2.0, 3.0), "low": (-2.0, None), "high": (None, 3.0), "none": (None, None), "crossed": (3.0, -2.0)}
for text, bounds in BOUNDS.items():
    constants = [None if b is None else W(np.array(b, np.float32)) for b in bounds]
    op(f"Clip, {text}", "Clip", ORDINARY, *constants)
    if text != "none":
        op(
            f"Clip, {text}, computed",
            "Clip",
            ORDINARY,
            *[None if b is None else np.array(b, np.float32) for b in bounds],
        )
op("Clip, special numbers", "Clip", SPECIAL, W(np.array(-1, np.float32)), W(np.array(1, np.float32)))
op("Clip from 0 to infinity", "Clip", SPECIAL, W(np.array(0, np.float32)), W(np.array(INFINITY, np.float32)))
for text, dtype in {"int32": INT32, "int64": INT64}.items():
    op(f"Clip, {text}", "Clip", numbers(19, dtype=dtype), W(np.array(-2, dtype)), W(np.array(3, dtype)))

# ---- Where
CHOICE = np.array([[True, False, True], [False, False, True]])
for text, dtype in {**TYPES, "bool": np.bool_}.items():
    reason = {"judges": (ONNX,), "because": "ONNX Runtime lacks it"} if dtype is np.bool_ else None
    op(
        f"Where, {text}",
        "Where",
        CHOICE,
        numbers(2, 3, dtype=dtype),
        numbers(2, 3, dtype=dtype)[::-1].copy(),
        case=reason,
    )
op("Where, all broadcast", "Where", CHOICE.reshape(2, 3, 1), numbers(5), W(numbers(4, 1, 1, 5)))
op("Where, broadcast condition", "Where", np.array([True, False]).reshape(2, 1), numbers(2, 9), numbers(9))
op("Where, constant condition", "Where", W(CHOICE), numbers(2, 3), W(np.array(-INFINITY, np.float32)))
op("Where, NaN not chosen", "Where", CHOICE, np.full((2, 3), NAN, np.float32), numbers(2, 3))

# ---- Cast
SMALL = np.array([0.0, -0.0, 1, -1, 1.9, -1.9, 100.5, -100.5, 0.1], np.float32)
KINDS = {"float32": TensorProto.FLOAT, "int32": TensorProto.INT32, "int64": TensorProto.INT64, "bool": TensorProto.BOOL}
for source, dtype in {**TYPES, "bool": np.bool_}.items():
    for target, code in KINDS.items():
        op(f"Cast, {source} to {target}", "Cast", SMALL.astype(dtype), to=code)
op("Cast, special numbers to bool", "Cast", SPECIAL, to=TensorProto.BOOL)
op(
    "Cast, large int64 to float32",
    "Cast",
    np.array([2**24 + 1, 2**53 + 1, -(2**62) - 1, 2**31 - 1, 16777219], np.int64),
    to=TensorProto.FLOAT,
)
op(
    "Cast, int64 to int32 wraps around",
    "Cast",
    np.array([2**32 + 5, -(2**31) - 1, 2**31], np.int64),
    to=TensorProto.INT32,
)
op("Cast, large float32 to int64", "Cast", np.array([2.0**40, -(2.0**62), 1e10], np.float32), to=TensorProto.INT64)
for target in ("uint8", "int8"):
    op(
        f"Cast, float32 to {target}",
        "Cast",
        np.array([0, 1, 7.9, 100], np.float32),
        to=getattr(TensorProto, target.upper()),
    )
    op(f"Cast, {target} to float32", "Cast", np.array([0, 1, 7, 100], target), to=TensorProto.FLOAT)
op("CastLike", "CastLike", SMALL, numbers(2, dtype=INT64))


# ---- chains, fused where the passes are on
def chain_of_types(g: Graph) -> str:
    x = g.input(ORDINARY)
    is_large = g("Greater", x, W(np.array(1.5, np.float32)))
    whole = g("Cast", x, to=TensorProto.INT32)
    doubled = g("Add", whole, whole)
    back = g("Cast", doubled, to=TensorProto.FLOAT)
    return g("Where", is_large, back, g("Neg", x))


def chain_with_branches(g: Graph) -> str:
    x, y = g.input((3, 17)), g.input((17,))
    a = g("Add", x, y)
    b = g("Mul", a, g("Sigmoid", a))
    return g("Sub", g("Tanh", b), g("Mul", a, y))


def long_chain(g: Graph) -> str:
    x = g.input((5, 9))
    for i in range(40):
        x = g("Add", x, W((9,))) if i % 3 else g("Tanh", x)
    return x


def many_operands(g: Graph) -> str:
    x = g.input((4, 9))
    for i in range(24):
        x = g("Add", x, (4, 9) if i % 2 else (9,))
    return x


def logic(g: Graph) -> str:
    x, y = g.input(numbers(4, 9)), g.input(numbers(9, low=-3, high=4))
    both = g("And", g("Less", x, y), g("Not", g("Equal", y, W(np.array(0, np.float32)))))
    return g("Xor", both, g("Or", g("Greater", x, W(np.array(5, np.float32))), both))


FAMILY.graph("chain through three types", chain_of_types)
FAMILY.graph("chain with branches", chain_with_branches)
FAMILY.graph("chain of forty", long_chain)
FAMILY.graph("chain of twenty-four operands", many_operands)
FAMILY.graph("chain of bools", logic)
FAMILY.graph("x + x, x * x", lambda g: g("Mul", a := g("Add", x := g.input((3, 5)), x), a))
