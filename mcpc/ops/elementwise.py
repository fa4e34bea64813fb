"""Elementwise operators: one expression each, which shape inference, emitters and the cost model share.

A declaration's function takes the operands (None where an optional one is left out) and, as keywords with ONNX's
defaults, the attributes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import nan, pi, sqrt

import ml_dtypes

from mcpc.ir import OPSET, Dim, DType, Node, TensorType, dim
from mcpc.ops import expr as e
from mcpc.ops.context import (
    ALL,
    ALL_FLOATS,
    FLOAT8,
    FLOATS,
    INTEGERS,
    NUMBERS,
    WIDE,
    InferContext,
    broadcast,
    expect,
    fail,
    optional_type,
    same_dtype,
    show,
    type_of,
)
from mcpc.ops.expr import Expr, apply, primitive, where
from mcpc.ops.registry import ROUNDED, Cost, OpDef, register, traffic
from mcpc.ops.symbolic import elementwise_contents

BOOL = frozenset({DType.bool})
SIGNED = frozenset({DType.int8, DType.int16, DType.int32, DType.int64}) | FLOATS


@dataclass(frozen=True)
class Elementwise(OpDef):
    """An operator whose output elements each depend on one element of every (broadcast) input."""

    build: Callable[..., Expr] = field(kw_only=True)
    #: The types of its operands.
    dtypes: frozenset[DType] = frozenset()
    #: Whether ``build`` also takes the first operand's type, as ``dtype``.
    is_typed: bool = False

    def applies(self, node: Node) -> bool:
        """Whether ``node`` is of a form that is elementwise."""
        return True

    def expression(self, node: Node) -> Expr:
        """What ``node`` computes for one element; ``arg(i)`` is the node's input ``i``. E102: unknown attribute."""
        operands = [None if value is None else e.arg(index) for index, value in enumerate(node.inputs)]
        more = {"dtype": type_of(node, 0).dtype} if self.is_typed else {}
        try:
            return self.build(*operands, **node.attrs, **more)
        except TypeError as error:
            fail(node, f"inputs or attributes of {node.op} do not fit: {str(error).split('() ')[-1]}", "E102")


def declare(
    name: str,
    build: Callable[..., Expr],
    dtypes: frozenset[DType],
    *,
    since: int = 1,
    result: Callable[[Node], DType] | None = None,
    shape: Callable[[Node, InferContext], tuple[Dim, ...] | None] | None = None,
    tolerance: float = ROUNDED,
    is_typed: bool = False,
    form: type[Elementwise] = Elementwise,
) -> None:
    """Register an elementwise operator. Without ``result`` all operands share one of ``dtypes``, and so does the
    output; ``result`` checks and derives types that mix. ``shape`` replaces multidirectional broadcasting."""

    def infer(node: Node, context: InferContext) -> list[TensorType]:
        definition.expression(node)
        for index, value in enumerate(node.inputs):
            if value is not None and result is None:
                expect(node, index, dtypes)
        dtype = result(node) if result is not None else same_dtype(node, *range(len(node.inputs)))
        sizes = shape(node, context) if shape is not None else all_broadcast(node, context)
        return [TensorType(dtype, sizes)]

    def cost(node: Node) -> Cost:
        work = SELF_GATE_FLOPS if is_self_gate(node) else e.flops(definition.expression(node))
        return Cost(dim(node.output.type.elements * work), traffic(node))

    definition = form(
        name,
        infer,
        cost,
        tolerance,
        (since, OPSET),
        contents=lambda node, context: elementwise_contents(node, context, definition.expression(node)),
        build=build,
        dtypes=dtypes,
        is_typed=is_typed,
    )
    register(definition)


#: A Sigmoid, where x sigmoid(x) as a whole is one function (SiLU) of half the work.
SELF_GATE_FLOPS = 14


def is_self_gate(node: Node) -> bool:
    """Whether ``node`` is a float32 Sigmoid that only multiplies what it is taken of."""
    if not node.is_op("Sigmoid") or node.output.dtype is not DType.float32:
        return False
    users = node.output.users
    return bool(users) and all(user.is_op("Mul") and node.inputs[0] in user.inputs for user in users)


def all_broadcast(node: Node, context: InferContext) -> tuple[Dim, ...] | None:
    return broadcast(node, [value.shape for value in node.inputs if value is not None])


def first_shape(node: Node, context: InferContext) -> tuple[Dim, ...] | None:
    """Inputs after the first are scalars."""
    for index in range(1, len(node.inputs)):
        type = optional_type(node, index)
        if type is not None and type.shape not in (None, (), (1,)):
            fail(node, f"input {index} must be a scalar, it is {show(type)}")
    return type_of(node, 0).shape


def unidirectional(node: Node, context: InferContext) -> tuple[Dim, ...] | None:
    """The second input broadcasts to the first."""
    x, slope = type_of(node, 0), type_of(node, 1)
    shape = all_broadcast(node, context)
    if shape is not None and (len(shape) != x.rank or any(a == 1 != b for a, b in zip(x.dims, shape, strict=True))):
        fail(node, f"{show(slope)} does not broadcast to {show(x)}")
    return x.shape


# ---- result types that differ from the operands'


def compares(dtypes: frozenset[DType]) -> Callable[[Node], DType]:
    def result(node: Node) -> DType:
        for index in range(len(node.inputs)):
            expect(node, index, dtypes)
        same_dtype(node, *range(len(node.inputs)))
        return DType.bool

    return result


def selected(node: Node) -> DType:
    expect(node, 0, BOOL)
    return same_dtype(node, 1, 2)


def power(node: Node) -> DType:
    expect(node, 1, NUMBERS)
    return expect(node, 0, {DType.int32, DType.int64} | FLOATS).dtype


def cast_target(node: Node) -> DType:
    target = node.attrs.get("to")
    if not isinstance(target, DType):
        fail(node, "attribute to is missing or names no supported type", "E109")
    return target


# ---- expressions


def softplus(x: Expr) -> Expr:
    """log(1 + exp(x)) without overflow."""
    return apply("max", x, 0) + apply("log1p", apply("exp", -apply("abs", x)))


def gelu(x: Expr, approximate: str = "none") -> Expr:
    if approximate == "tanh":
        return 0.5 * x * (1 + apply("tanh", sqrt(2 / pi) * (x + 0.044715 * x * x * x)))
    return apply("gelu", x)


def clip(x: Expr, low: Expr | None = None, high: Expr | None = None, *, dtype: DType) -> Expr:
    """ONNX's default bounds are the type's finite extremes, so that infinities become finite."""
    if dtype.is_float:
        limits = ml_dtypes.finfo(dtype.numpy)
        low = e.const(float(limits.min)) if low is None else low
        high = e.const(float(limits.max)) if high is None else high
    x = x if low is None else apply("max", x, low)
    return x if high is None else apply("min", x, high)


def fold(op: str) -> Callable[..., Expr]:
    """``op`` over any number of operands, from the left."""

    def build(first: Expr, *rest: Expr) -> Expr:
        for operand in rest:
            first = apply(op, first, operand)
        return first

    return build


def mean(*operands: Expr) -> Expr:
    return fold("add")(*operands) / len(operands)


def is_inf(x: Expr, detect_negative: int = 1, detect_positive: int = 1) -> Expr:
    infinite = apply("isinf", x)
    if detect_negative and detect_positive:
        return infinite
    if not detect_negative and not detect_positive:
        return apply("lt", x, x)
    return apply("and", infinite, x > 0 if detect_positive else x < 0)


def modulo(a: Expr, b: Expr, fmod: int = 0, *, dtype: DType) -> Expr:
    """The remainder has the sign of ``a`` with ``fmod``, else that of ``b``, zeros too."""
    if fmod or not dtype.is_float:
        return apply("fmod" if fmod else "mod", a, b)
    rest = apply("fmod", a, b)
    other_side = apply("xor", rest < 0, b < 0)
    zero = where(b < 0, e.const(-0.0), e.const(0.0))
    return where(apply("eq", rest, 0), zero, where(other_side, rest + b, rest))


def shift(x: Expr, amount: Expr, direction: str = "") -> Expr:
    if direction not in ("LEFT", "RIGHT"):
        raise TypeError(f"direction {direction!r} is neither LEFT nor RIGHT")
    return apply("shl" if direction == "LEFT" else "shr", x, amount)


def hard_sigmoid(x: Expr, alpha: float = 0.2, beta: float = 0.5) -> Expr:
    return apply("max", 0, apply("min", 1, alpha * x + beta))


def elu(x: Expr, alpha: float = 1.0) -> Expr:
    return where(x < 0, alpha * apply("expm1", x), x)


def celu(x: Expr, alpha: float = 1.0) -> Expr:
    return apply("max", x, 0) + apply("min", alpha * apply("expm1", x / alpha), 0)


def selu(x: Expr, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875) -> Expr:
    return gamma * where(x > 0, x, alpha * apply("expm1", x))


def shrink(x: Expr, bias: float = 0.0, lambd: float = 0.5, *, dtype: DType) -> Expr:
    if not dtype.is_float:  # the bias need not be whole
        return e.cast(shrink(e.cast(x, DType.float64), bias, lambd, dtype=DType.float64), dtype)
    return where(x < -lambd, x + bias, where(x > lambd, x - bias, 0))


def converted(x: Expr, source: DType, target: DType, saturate: int = 1, round_mode: str = "up") -> Expr:
    """``x`` of type ``source`` as ``target``. ``saturate``: to float8, what is out of range becomes the nearest number.
    ``round_mode``: to a power of two (float8e8m0), "up", "down" or "nearest"; the sign is dropped."""
    if source is not DType.float64 and target in (*FLOAT8, DType.float8e8m0):
        x = e.cast(x, DType.float32)
    if target is DType.float8e8m0:
        if round_mode not in ("up", "down", "nearest"):
            raise TypeError(f"round_mode {round_mode!r} is none of up, down, nearest")
        x, least, most = apply("abs", e.cast(x, DType.float32)), 2.0**-127, 2.0**127
        x = apply("max", apply("min", x, most), least) if saturate else where(x < least, nan, x)
        return e.cast(apply(f"pow2_{round_mode}", x), target)
    if saturate and target in FLOAT8:
        most = float(ml_dtypes.finfo(target.numpy).max)
        x = apply("max", apply("min", x, most), -most)
    return e.cast(x, target)


class Conversion(Elementwise):
    """Cast or CastLike."""

    def expression(self, node: Node) -> Expr:
        target = node.attrs.get("to") if node.op == "Cast" else type_of(node, 1).dtype
        more = {name: value for name, value in node.attrs.items() if name != "to"}
        if not isinstance(target, DType):
            return e.arg(0)  # :func:`cast_target` complains
        try:
            return converted(e.arg(0), type_of(node, 0).dtype, target, **more)
        except TypeError as error:
            fail(node, f"inputs or attributes of {node.op} do not fit: {str(error).split('() ')[-1]}", "E102")


def _declare_all() -> None:
    # Arithmetic
    for name, op in {"Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div"}.items():
        declare(name, primitive(op), NUMBERS)
    declare("Mod", modulo, NUMBERS, since=10, is_typed=True)
    declare("Pow", lambda a, b: apply("pow", a, b), NUMBERS, result=power)
    declare("PRelu", lambda x, slope: where(x < 0, slope * x, x), WIDE, shape=unidirectional)
    for name, op in {"Min": "min", "Max": "max"}.items():
        declare(name, fold(op), NUMBERS)
    declare("Sum", fold("add"), FLOATS)
    declare("Mean", mean, FLOATS)
    declare("Clip", clip, NUMBERS, shape=first_shape, is_typed=True)
    for name, op in {"Neg": "neg", "Abs": "abs", "Sign": "sign"}.items():
        declare(name, primitive(op), SIGNED if name == "Neg" else NUMBERS, since=9 if name == "Sign" else 1)

    # Float functions of one operand
    since = {"Round": 11, "Sinh": 9, "Cosh": 9, "Asinh": 9, "Acosh": 9, "Atanh": 9, "Erf": 9}
    since |= dict.fromkeys(("Sin", "Cos", "Tan", "Asin", "Acos", "Atan"), 7)
    for name in ("Floor", "Ceil", "Sqrt", "Exp", "Log", "Tanh", "Sigmoid", *since):
        declare(name, primitive(name.lower()), FLOATS, since=since.get(name, 1))
    declare("Reciprocal", lambda x: 1 / x, FLOATS)
    declare("Relu", lambda x: apply("max", x, 0), SIGNED)
    declare("LeakyRelu", lambda x, alpha=0.01: where(x < 0, alpha * x, x), FLOATS)
    declare("ThresholdedRelu", lambda x, alpha=1.0: where(x > alpha, x, 0), FLOATS, since=10)
    declare("Elu", elu, FLOATS)
    declare("Celu", celu, FLOATS, since=12)
    declare("Selu", selu, FLOATS)
    declare("Softplus", softplus, FLOATS)
    declare("Softsign", lambda x: x / (1 + apply("abs", x)), FLOATS)
    declare("HardSigmoid", hard_sigmoid, FLOATS)
    declare("HardSwish", lambda x: x * hard_sigmoid(x, 1 / 6, 0.5), FLOATS, since=14)
    declare("Mish", lambda x: x * apply("tanh", softplus(x)), FLOATS, since=18)
    declare("Gelu", gelu, FLOATS, since=20)
    declare("Swish", lambda x, alpha=1.0: x * apply("sigmoid", x if alpha == 1 else alpha * x), FLOATS, since=24)
    declare("Shrink", shrink, NUMBERS - {DType.bfloat16}, since=9, is_typed=True)

    # Comparisons, logic, bits, selection, conversion
    for name, op, since_opset in (
        ("Less", "lt", 1),
        ("LessOrEqual", "le", 12),
        ("Greater", "gt", 1),
        ("GreaterOrEqual", "ge", 12),
    ):
        declare(name, primitive(op), NUMBERS, since=since_opset, result=compares(NUMBERS))
    declare("Equal", lambda a, b: apply("eq", a, b), NUMBERS | BOOL, result=compares(NUMBERS | BOOL))
    for name, op in {"And": "and", "Or": "or", "Xor": "xor"}.items():
        declare(name, primitive(op), BOOL)
    declare("Not", lambda x: apply("not", x), BOOL)
    declare("IsNaN", lambda x: apply("isnan", x), ALL_FLOATS, since=9, result=compares(ALL_FLOATS))
    declare("IsInf", is_inf, ALL_FLOATS, since=10, result=compares(ALL_FLOATS))
    for name, op in {"BitwiseAnd": "bitand", "BitwiseOr": "bitor", "BitwiseXor": "bitxor"}.items():
        declare(name, primitive(op), INTEGERS, since=18)
    declare("BitwiseNot", lambda x: apply("bitnot", x), INTEGERS, since=18)
    declare("BitShift", shift, INTEGERS, since=11)
    declare("Where", where, ALL, since=9, result=selected)
    declare("Cast", converted, ALL, result=cast_target, form=Conversion)
    declare(
        "CastLike",
        converted,
        ALL,
        since=15,
        form=Conversion,
        result=lambda node: type_of(node, 1).dtype,
        shape=lambda node, _: type_of(node, 0).shape,
    )


_declare_all()
