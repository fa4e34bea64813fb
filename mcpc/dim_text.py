"""Symbolic sizes as text: ``N``, ``2*N + 1``, ``floor((N - 1)/2)``, ``"odd name"*4``.

One small language, printed and parsed here: integers, symbols (quoted where they are no plain identifier), ``+ - * /``,
``**`` with an integer exponent, parentheses, and the functions of :data:`FUNCTIONS`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Protocol

import sympy
from sympy.core.sorting import default_sort_key

from mcpc.ir import Dim, dim, symbol

#: The functions of the language, by the name that sympy gives their class.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: getattr(sympy, name) for name in ("floor", "ceiling", "Max", "Min", "Mod", "Abs")
}

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z", re.ASCII)

# How tightly an expression holds together; an operand that holds less tightly than its operator gets parentheses.
_SUM, _PRODUCT, _ATOM = range(3)


def quote(text: str) -> str:
    """``text`` as a string literal of the text form."""
    return json.dumps(text)


def format_dim(size: Dim) -> str:
    return str(size) if isinstance(size, int) else _format(sympy.sympify(size))[0]


def _format(expr: sympy.Basic) -> tuple[str, int]:
    if isinstance(expr, sympy.Symbol):
        name = str(expr.name)
        return name if _PLAIN.match(name) and name not in FUNCTIONS else quote(name), _ATOM
    if isinstance(expr, sympy.Integer):
        return str(expr), _ATOM if expr >= 0 else _SUM
    if isinstance(expr, sympy.Rational):
        return f"{expr.p}/{expr.q}", _PRODUCT if expr.p > 0 else _SUM
    if isinstance(expr, sympy.Add):
        return _format_sum(expr), _SUM
    if isinstance(expr, sympy.Mul | sympy.Pow):
        return _format_product(expr)
    arguments = sorted(expr.args, key=default_sort_key) if isinstance(expr, sympy.Max | sympy.Min) else expr.args
    return f"{type(expr).__name__}({', '.join(_format(argument)[0] for argument in arguments)})", _ATOM


def _format_sum(expr: sympy.Add) -> str:
    """Symbolic terms first, the number last: ``2*N + M - 1``."""
    terms = sorted(expr.args, key=lambda term: (term.is_number, default_sort_key(term)))
    text = ""
    for term in terms:
        negative = bool(term.could_extract_minus_sign()) and not isinstance(term, sympy.Add)
        part, tightness = _format(-term if negative else term)
        part = f"({part})" if tightness == _SUM else part
        text += (" - " if negative else " + ") + part if text else ("-" if negative else "") + part
    return text


def _format_product(expr: sympy.Expr) -> tuple[str, int]:
    if expr.could_extract_minus_sign():
        part, tightness = _format(-expr)
        return f"-({part})" if tightness == _SUM else f"-{part}", _SUM
    above: list[str] = []
    below: list[str] = []
    factors = expr.args if isinstance(expr, sympy.Mul) else (expr,)
    for factor in sorted(factors, key=lambda f: (not f.is_number, default_sort_key(f))):
        if isinstance(factor, sympy.Rational):
            above += [str(factor.p)] if factor.p != 1 else []
            below += [str(factor.q)] if factor.q != 1 else []
            continue
        base, exponent = factor.as_base_exp()
        inverse = bool(exponent.is_Integer and exponent < 0)
        part, tightness = _format(base)
        part = part if tightness == _ATOM else f"({part})"
        power = -exponent if inverse else exponent
        (below if inverse else above).append(part if power == 1 else f"{part}**{_format(power)[0]}")
    text = "*".join(above or ["1"])
    for divisor in below:
        text += f"/{divisor}"
    return text, _ATOM if len(above) == 1 and not below and "**" not in text else _PRODUCT


# ---- parsing


class Tokens(Protocol):
    """What the parser needs of a tokenizer; ``kind`` is 'int', 'name', 'string' or the punctuation itself."""

    @property
    def kind(self) -> str: ...
    def take(self, kind: str = "") -> str: ...
    def accept(self, kind: str) -> bool: ...
    def fail(self, message: str) -> Exception: ...


#: Nesting beyond this is refused instead of exhausting Python's stack; the largest exponent keeps evaluation cheap.
_MAX_DEPTH, _MAX_EXPONENT = 50, 16


def parse_dim(tokens: Tokens) -> Dim:
    """A size from ``tokens``, up to the first token that cannot continue it."""
    return dim(_parse_sum(tokens, 0))


def _parse_sum(tokens: Tokens, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        raise tokens.fail("the expression is nested too deeply")
    result = _parse_product(tokens, depth)
    while tokens.kind in ("+", "-"):
        if tokens.take() == "+":
            result = result + _parse_product(tokens, depth)
        else:
            result = result - _parse_product(tokens, depth)
    return result


def _parse_product(tokens: Tokens, depth: int) -> Any:
    result = _parse_power(tokens, depth)
    while tokens.kind in ("*", "/"):
        if tokens.take() == "*":
            result = result * _parse_power(tokens, depth)
        else:
            divisor = _parse_power(tokens, depth)
            if divisor == 0:
                raise tokens.fail("division by zero")
            result = result / divisor
    return result


def _parse_power(tokens: Tokens, depth: int) -> Any:
    if tokens.accept("-"):
        return -_parse_power(tokens, depth + 1) if depth <= _MAX_DEPTH else _parse_sum(tokens, depth)
    base = _parse_atom(tokens, depth)
    if not tokens.accept("**"):
        return base
    exponent = int(tokens.take("int"))
    if exponent > _MAX_EXPONENT:
        raise tokens.fail(f"exponent {exponent} is too large")
    return base**exponent


def _parse_atom(tokens: Tokens, depth: int) -> Any:
    if tokens.kind == "int":
        return sympy.Integer(tokens.take())
    if tokens.kind == "string":
        return symbol(tokens.take())
    if tokens.accept("("):
        result = _parse_sum(tokens, depth + 1)
        tokens.take(")")
        return result
    name = tokens.take("name")
    if name not in FUNCTIONS:
        return symbol(name)
    tokens.take("(")
    arguments = [_parse_sum(tokens, depth + 1)]
    while tokens.accept(","):
        arguments.append(_parse_sum(tokens, depth + 1))
    tokens.take(")")
    try:
        return FUNCTIONS[name](*arguments)
    except (TypeError, ZeroDivisionError) as error:
        raise tokens.fail(f"{name}: {error}") from None
