"""Arithmetic on the contents of integer tensors during shape inference: sizes computed by Shape, Mul, Div, Where, …"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import sympy

from mcpc.ir import DType, Node
from mcpc.ops.expr import Expr, evaluate
from mcpc.ops.expr import operands as operands_of
from mcpc.ops.registry import Contents

if TYPE_CHECKING:
    from mcpc.ops.context import InferContext


class Unknown(Exception):
    """The result depends on what is not known."""


def elementwise_contents(node: Node, context: InferContext, expr: Expr) -> list[Contents | None]:
    """What an elementwise node holds, given what its operands hold."""
    if any(value is not None and value.dtype.is_float for value in (*node.inputs, *node.outputs)):
        return [None]
    used = operands_of(expr)
    contents = [context.contents(node.inputs[index]) for index in used]
    if any(item is None for item in contents):
        return [None]
    arrays = np.broadcast_arrays(*[item for item in contents if item is not None])
    result = np.empty(arrays[0].shape, dtype=object)
    for position in np.ndindex(result.shape):
        try:
            elements = {index: array[position] for index, array in zip(used, arrays, strict=True)}
            result[position] = evaluate(expr, elements, FUNCTIONS)
        except (Unknown, KeyError):
            result[position] = None
    return [result]


def _known(function: Callable[..., Any]) -> Callable[..., Any]:
    def checked(*operands: Any) -> Any:
        if any(operand is None for operand in operands):
            raise Unknown
        return function(*operands)

    return checked


def _number(value: Any) -> bool:
    return isinstance(value, int | np.integer)


def _truncated(a: Any, b: Any) -> Any:
    if b == 0:
        raise Unknown
    if _number(a) and _number(b):
        return int(abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)
    if sympy.sympify(a).is_nonnegative and sympy.sympify(b).is_nonnegative:
        return sympy.floor(sympy.sympify(a) / b)
    raise Unknown


def _modulo(a: Any, b: Any) -> Any:
    if b == 0:
        raise Unknown
    return a % b if _number(a) and _number(b) else sympy.Mod(a, b)


def _fmod(a: Any, b: Any) -> Any:
    return a - b * _truncated(a, b)


def _power(a: Any, b: Any) -> Any:
    if not _number(b) or not 0 <= b < 64:
        raise Unknown
    return a**b


def _decide(relation: Any) -> int:
    if relation in (True, sympy.true):
        return 1
    if relation in (False, sympy.false):
        return 0
    raise Unknown


def _equal(a: Any, b: Any) -> int:
    if _number(a) and _number(b):
        return int(a == b)
    difference = sympy.expand(a - b)
    if difference == 0:
        return 1
    # A size is never negative: this decides the comparison with -1 in exporters' Expand and Reshape idioms.
    if difference.is_zero is False:
        return 0
    raise Unknown


def _absolute(a: Any) -> Any:
    return abs(a)


def _convert(value: Any, dtype: DType) -> Any:
    if dtype is DType.bool:
        return 1 - _equal(value, 0)
    if _number(value):
        info = ml_dtypes.iinfo(dtype.numpy)
        span = int(info.max) - int(info.min) + 1
        return (int(value) - int(info.min)) % span + int(info.min)
    return value


def _where(condition: Any, then: Any, otherwise: Any) -> Any:
    if condition is None:
        raise Unknown
    return then if condition else otherwise


def _extreme(function: Callable[..., Any], symbolic: Any) -> Callable[..., Any]:
    return lambda a, b: function(a, b) if _number(a) and _number(b) else symbolic(a, b)


#: The primitives that make sense on sizes. Others raise KeyError: their result is unknown.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": _known(lambda a, b: a + b),
    "sub": _known(lambda a, b: a - b),
    "mul": _known(lambda a, b: a * b),
    "div": _known(_truncated),
    "mod": _known(_modulo),
    "fmod": _known(_fmod),
    "pow": _known(_power),
    "min": _known(_extreme(min, sympy.Min)),
    "max": _known(_extreme(max, sympy.Max)),
    "neg": _known(lambda a: -a),
    "abs": _known(_absolute),
    "eq": _known(_equal),
    "lt": _known(lambda a, b: _decide(a < b)),
    "le": _known(lambda a, b: _decide(a <= b)),
    "gt": _known(lambda a, b: _decide(a > b)),
    "ge": _known(lambda a, b: _decide(a >= b)),
    "and": _known(lambda a, b: int(bool(a) and bool(b))),
    "or": _known(lambda a, b: int(bool(a) or bool(b))),
    "xor": _known(lambda a, b: int(bool(a) != bool(b))),
    "not": _known(lambda a: int(not a)),
    "where": _where,
    "cast": _known(_convert),
}
