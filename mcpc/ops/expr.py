"""Scalar expressions: what an elementwise operator computes for one element.

An :class:`Expr` is a tree over the :data:`PRIMITIVES`. One declaration serves the fused-loop emitters (which print it),
the cost model (:func:`flops`) and the inference of shape arithmetic (:func:`evaluate`). Python's operators build trees:
``where(x < 0, alpha * x, x)``.

Types: ``arg`` has its operand's type, comparisons and logic give bool, ``cast`` its target, every other primitive the
type of its first argument that is no constant; a constant takes the type of what it is combined with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mcpc.ir import DType

Number = bool | int | float


@dataclass(frozen=True)
class Primitive:
    """``flops`` is the work of one evaluation in additions; ``is_bool`` marks a result of type bool."""

    arity: int
    flops: int = 1
    is_bool: bool = False


#: Every operation of the expression language. Where ONNX leaves freedom the meaning is C's, with these exceptions:
#: ``min`` and ``max`` hand NaN on, ``mod`` takes its divisor's sign, ``round`` goes to the even neighbour, integer
#: ``div`` truncates, a right shift copies the sign; ``pow2_down``, ``pow2_up`` and ``pow2_nearest`` go from float32
#: numbers of 2^-127 and more to powers of two.
PRIMITIVES: dict[str, Primitive] = {
    "arg": Primitive(0, 0),
    "const": Primitive(0, 0),
    "cast": Primitive(1),
    **{name: Primitive(2) for name in ("add", "sub", "mul", "min", "max")},
    "div": Primitive(2, 4),
    "mod": Primitive(2, 8),
    "fmod": Primitive(2, 8),
    "pow": Primitive(2, 60),
    **{name: Primitive(1) for name in ("neg", "abs", "sign", "floor", "ceil", "round")},
    **{f"pow2_{name}": Primitive(1, 4) for name in ("down", "up", "nearest")},
    "sqrt": Primitive(1, 4),
    **{name: Primitive(1, 30) for name in ("exp", "expm1", "log", "log1p", "tanh", "sigmoid", "erf", "gelu")},
    **{name: Primitive(1, 40) for name in ("sin", "cos", "tan", "asin", "acos", "atan")},
    **{name: Primitive(1, 50) for name in ("sinh", "cosh", "asinh", "acosh", "atanh")},
    **{name: Primitive(2, 1, True) for name in ("eq", "lt", "le", "gt", "ge", "and", "or", "xor")},
    **{name: Primitive(1, 1, True) for name in ("not", "isnan", "isinf")},
    "where": Primitive(3),
    **{name: Primitive(2) for name in ("bitand", "bitor", "bitxor", "shl", "shr")},
    "bitnot": Primitive(1),
}


@dataclass(frozen=True, eq=False)
class Expr:
    """One application of a primitive. ``value`` is the operand's index of an ``arg`` (among the node's inputs), the
    number of a ``const``, the :class:`DType` of a ``cast``, and None otherwise."""

    op: str
    args: tuple[Expr, ...] = ()
    value: Number | DType | None = None

    def __post_init__(self) -> None:
        if len(self.args) != PRIMITIVES[self.op].arity:
            raise TypeError(f"{self.op} takes {PRIMITIVES[self.op].arity} operands, not {len(self.args)}")

    def __str__(self) -> str:
        if self.op == "arg":
            return f"x{self.value}"
        if self.op == "const":
            return str(self.value)
        inside = ", ".join(map(str, self.args))
        return f"cast({inside}, {self.value.name})" if isinstance(self.value, DType) else f"{self.op}({inside})"

    def __add__(self, other: Operand) -> Expr:
        return apply("add", self, other)

    def __radd__(self, other: Operand) -> Expr:
        return apply("add", other, self)

    def __sub__(self, other: Operand) -> Expr:
        return apply("sub", self, other)

    def __rsub__(self, other: Operand) -> Expr:
        return apply("sub", other, self)

    def __mul__(self, other: Operand) -> Expr:
        return apply("mul", self, other)

    def __rmul__(self, other: Operand) -> Expr:
        return apply("mul", other, self)

    def __truediv__(self, other: Operand) -> Expr:
        return apply("div", self, other)

    def __rtruediv__(self, other: Operand) -> Expr:
        return apply("div", other, self)

    def __neg__(self) -> Expr:
        return apply("neg", self)

    def __lt__(self, other: Operand) -> Expr:
        return apply("lt", self, other)

    def __le__(self, other: Operand) -> Expr:
        return apply("le", self, other)

    def __gt__(self, other: Operand) -> Expr:
        return apply("gt", self, other)

    def __ge__(self, other: Operand) -> Expr:
        return apply("ge", self, other)


Operand = Expr | Number


def arg(index: int) -> Expr:
    return Expr("arg", value=index)


def const(value: Number) -> Expr:
    if not isinstance(value, bool | int | float):
        raise TypeError("an operand is missing" if value is None else f"{value!r} is no number")
    return Expr("const", value=value)


def cast(operand: Operand, dtype: DType) -> Expr:
    return Expr("cast", (_expr(operand),), dtype)


def apply(op: str, *operands: Operand) -> Expr:
    """The primitive ``op`` of these operands; numbers become constants. ``TypeError`` where operands do not fit."""
    return Expr(op, tuple(_expr(operand) for operand in operands))


def primitive(op: str) -> Callable[..., Expr]:
    """``op`` as a function: ``primitive("exp")(x)``."""
    return lambda *operands: apply(op, *operands)


def where(condition: Expr, then: Operand, otherwise: Operand) -> Expr:
    return apply("where", condition, then, otherwise)


def _expr(operand: Operand) -> Expr:
    return operand if isinstance(operand, Expr) else const(operand)


def postorder(expr: Expr) -> Iterator[Expr]:
    """Every distinct node of the tree, arguments first; a shared one comes once."""
    done: set[int] = set()
    stack = [(expr, False)]
    while stack:
        node, leave = stack.pop()
        if id(node) in done:
            continue
        if leave:
            done.add(id(node))
            yield node
        else:
            stack.append((node, True))
            stack.extend((child, False) for child in reversed(node.args))


def flops(expr: Expr) -> int:
    """The work for one element, in additions; what is shared counts once."""
    return sum(PRIMITIVES[node.op].flops for node in postorder(expr))


def operands(expr: Expr) -> list[int]:
    """The indices of the operands that ``expr`` reads, ascending."""
    return sorted({int(node.value) for node in postorder(expr) if node.op == "arg" and isinstance(node.value, int)})


def evaluate(expr: Expr, arguments: Mapping[int, Any], functions: Mapping[str, Callable[..., Any]]) -> Any:
    """``expr`` over ``arguments`` (by operand index), each primitive computed by ``functions``.

    ``functions["cast"]`` gets the value and the :class:`DType`. Raises ``KeyError`` for a primitive it lacks.
    """
    results: dict[int, Any] = {}
    for node in postorder(expr):
        if node.op == "arg":
            results[id(node)] = arguments[int(node.value)]  # type: ignore[arg-type]
        elif node.op == "const":
            results[id(node)] = node.value
        else:
            inputs = [results[id(child)] for child in node.args]
            extra = [node.value] if node.op == "cast" else []
            results[id(node)] = functions[node.op](*inputs, *extra)
    return results[id(expr)]
