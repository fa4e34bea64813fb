"""Small pieces of C text: sizes, literals, element types."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import sympy
from sympy.printing.str import StrPrinter

from mcpc.errors import TargetError
from mcpc.ir import Dim, DType

C_TYPES: dict[DType, str] = {
    DType.float32: "float",
    DType.float64: "double",
    DType.float16: "uint16_t",  # the bits: kernels convert to float
    DType.bfloat16: "uint16_t",
    **{dtype: "uint8_t" for dtype in DType if dtype.bits < 8 or dtype.name.startswith("float8")},
    DType.int8: "int8_t",
    DType.int16: "int16_t",
    DType.int32: "int32_t",
    DType.int64: "int64_t",
    DType.uint8: "uint8_t",
    DType.uint16: "uint16_t",
    DType.uint32: "uint32_t",
    DType.uint64: "uint64_t",
    DType.bool: "uint8_t",
}


def c_type(dtype: DType) -> str:
    try:
        return C_TYPES[dtype]
    except KeyError:
        raise TargetError("E109", f"native code has no {dtype.name} arithmetic yet") from None


class _SizePrinter(StrPrinter):
    """sympy to C over int64_t; every symbol is a local variable that the kernel loads from env->symbols. Quotients are
    whole where the size is valid."""

    def _print_Symbol(self, expr: sympy.Symbol) -> str:
        return size_variable(str(expr.name))

    def _print_Pow(self, expr: sympy.Pow, rational: bool = False) -> str:
        count = int(expr.exp)
        base = self._print(expr.base)
        if count < 0:
            return f"floor_div(1, {self._print(expr.base**-count)})"
        return f"({' * '.join([f'({base})'] * count)})"

    def _print_Add(self, expr: sympy.Add, order: object = None) -> str:
        numerator, denominator = expr.as_numer_denom()  # the terms by themselves may not be whole
        if denominator == 1:
            return str(super()._print_Add(expr, order))
        return f"(({self._print(numerator)}) / ({self._print(denominator)}))"

    def _print_Mul(self, expr: sympy.Mul) -> str:
        numerator, denominator = expr.as_numer_denom()
        if denominator.is_number:
            return str(super()._print_Mul(expr))
        return f"floor_div({self._print(numerator)}, {self._print(denominator)})"  # never traps

    def _print_Mod(self, expr: sympy.Mod) -> str:
        return f"floor_mod({self._print(expr.args[0])}, {self._print(expr.args[1])})"

    def _print_Abs(self, expr: sympy.Abs) -> str:
        inner = self._print(expr.args[0])
        return f"max_size({inner}, -({inner}))"

    def _print_floor(self, expr: sympy.Expr) -> str:
        numerator, denominator = expr.args[0].as_numer_denom()
        return f"floor_div({self._print(numerator)}, {self._print(denominator)})"

    def _print_ceiling(self, expr: sympy.Expr) -> str:
        numerator, denominator = expr.args[0].as_numer_denom()
        return f"-floor_div(-({self._print(numerator)}), {self._print(denominator)})"

    def _print_Max(self, expr: sympy.Expr) -> str:
        return self._fold("max_size", expr)

    def _print_Min(self, expr: sympy.Expr) -> str:
        return self._fold("min_size", expr)

    def _fold(self, name: str, expr: sympy.Expr) -> str:
        text = str(self._print(expr.args[0]))
        for arg in expr.args[1:]:
            text = f"{name}({text}, {self._print(arg)})"
        return text


def size_variable(name: str) -> str:
    """The C variable for a symbolic size: ``size_a_2e_b`` for ``a.b``, another one for each name."""
    escaped = r"\W|_(?=[0-9a-f]+(_|\W))"  # what no identifier may hold, and what looks like an escape
    return "size_" + re.sub(escaped, lambda match: f"_{ord(match.group()):x}_", name)


def uses_variable(text: str, name: str) -> bool:
    """Whether C text uses the variable for the symbolic size called ``name``."""
    return re.search(rf"\b{size_variable(name)}\b", text) is not None


def size(value: Dim) -> str:
    """A size as C text: a literal, or an expression over the symbols' variables."""
    return str(value) if isinstance(value, int) else f"({_SizePrinter().doprint(value)})"


def float_literal(value: float) -> str:
    """``value`` rounded to float32, exactly, as a C literal."""
    if math.isnan(value):
        return '__builtin_nanf("")'
    if math.isinf(value):
        return "__builtin_inff()" if value > 0 else "-__builtin_inff()"
    short = f"{value:.9g}"
    return (short if re.search(r"[.e]", short) else short + ".0") + "f"


def literal(value: float | int | bool, dtype: DType) -> str:
    if dtype.is_float and dtype is not DType.float64:
        return float_literal(float(value))
    if dtype == DType.float64:
        number = float(value)
        if math.isnan(number) or math.isinf(number):
            return f"(double){float_literal(number)}"
        return repr(number)
    if dtype == DType.bool:
        return "1" if value else "0"
    number = int(value)
    if number == -(2**63):
        return "INT64_MIN"
    suffix = "LL" if abs(number) > 2**31 - 1 else ""
    return f"{number}{'ULL' if number > 2**63 - 1 else suffix}"


def comment(text: str) -> str:
    """``text`` made safe inside a C comment: one line, without what ends a comment, opens one or splices lines."""
    text = re.sub(r"[\x00-\x1f\x7f\\]", " ", text)
    return re.sub(r"\*(?=/)|/(?=\*)", r"\g<0> ", text)


def indent(lines: Sequence[str], by: int = 1) -> str:
    return "\n".join("    " * by + line if line else "" for line in lines)
