"""The range of a symbolic size, from the bounds of its symbols: interval arithmetic over sympy expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import sympy

from mcpc.ir import Dim, SizeBound

#: Smallest and largest value; None where there is no limit.
Range = tuple[Fraction | None, Fraction | None]


#: No tensor takes more bytes, and no size is larger: what a process can address. Below it no size leaves 64 bits.
MOST_BYTES = 2**47


def largest(size: Dim, bounds: Mapping[str, SizeBound]) -> int | None:
    """An upper limit of ``size``, None where there is none. Not always the least one: occurrences of one symbol count
    as independent. ``bounds`` are as in :attr:`mcpc.ir.Graph.bounds`; symbols without an entry are 0 or more."""
    if isinstance(size, int):
        return size
    high = _range(size, bounds)[1]
    return None if high is None else int(high.__floor__())


def _range(expr: sympy.Basic, bounds: Mapping[str, SizeBound]) -> Range:
    if isinstance(expr, sympy.Rational):
        exact = Fraction(int(expr.p), int(expr.q))
        return exact, exact
    if isinstance(expr, sympy.Symbol):
        low, high = bounds.get(str(expr.name), (0, None))
        limit = None if high is None else largest(high, bounds)
        return Fraction(low), None if limit is None else Fraction(limit)
    rule = _RULES.get(type(expr).__name__)
    return (None, None) if rule is None else rule([_range(item, bounds) for item in expr.args])


def _add(items: Sequence[Range]) -> Range:
    lows, highs = [low for low, _ in items], [high for _, high in items]
    low = None if None in lows else sum((x for x in lows if x is not None), Fraction(0))
    high = None if None in highs else sum((x for x in highs if x is not None), Fraction(0))
    return low, high


def _mul(items: Sequence[Range]) -> Range:
    result: Range = (Fraction(1), Fraction(1))
    for item in items:
        result = _product(result, item)
    return result


def _product(a: Range, b: Range) -> Range:
    (a_low, a_high), (b_low, b_high) = a, b
    zero = Fraction(0)
    if (zero, zero) in (a, b):
        return zero, zero
    if a_low is not None and a_low >= 0 and b_low is not None and b_low >= 0:
        return a_low * b_low, None if a_high is None or b_high is None else a_high * b_high
    if a_low is None or a_high is None or b_low is None or b_high is None:
        if a_low is not None and a_low >= 0 and b_high is not None and b_high <= 0:
            return None if b_low is None or a_high is None else a_high * b_low, a_low * b_high
        if b_low is not None and b_low >= 0 and a_high is not None and a_high <= 0:
            return _product(b, a)
        return None, None
    ends = [x * y for x in (a_low, a_high) for y in (b_low, b_high)]
    return min(ends), max(ends)


def _pow(items: Sequence[Range]) -> Range:
    (low, high), (exponent, _) = items
    if low is None or low < 0 or exponent is None or exponent.denominator != 1:
        return None, None
    if exponent >= 0:
        return low**exponent.numerator, None if high is None else high**exponent.numerator
    # A divisor: where it may be 0, the quotient counts for nothing.
    least = max(low, Fraction(1))
    return Fraction(0) if high is None or high == 0 else high**exponent.numerator, least**exponent.numerator


def _rounded(items: Sequence[Range], up: bool) -> Range:
    low, high = (None if x is None else Fraction(x.__ceil__() if up else x.__floor__()) for x in items[0])
    return low, high


def _max(items: Sequence[Range]) -> Range:
    lows = [low for low, _ in items if low is not None]
    highs = [high for _, high in items]
    return max(lows, default=None), None if None in highs else max(x for x in highs if x is not None)


def _min(items: Sequence[Range]) -> Range:
    lows = [low for low, _ in items]
    highs = [high for _, high in items if high is not None]
    return None if None in lows else min(x for x in lows if x is not None), min(highs, default=None)


def _mod(items: Sequence[Range]) -> Range:
    (low, high), (_, divisor) = items
    if low is None or low < 0:
        return Fraction(0), divisor
    ends = [x for x in (high, divisor) if x is not None]
    return Fraction(0), min(ends, default=None)


_RULES: dict[str, Callable[[Sequence[Range]], Range]] = {
    "Add": _add,
    "Mul": _mul,
    "Pow": _pow,
    "floor": lambda items: _rounded(items, up=False),
    "ceiling": lambda items: _rounded(items, up=True),
    "Max": _max,
    "Min": _min,
    "Mod": _mod,
}
