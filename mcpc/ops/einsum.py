"""Einsum, declared by the products, sums and transpositions that it stands for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mcpc.ir import OPSET, Value, product
from mcpc.ops.context import fail, show, unify
from mcpc.ops.contrib import Expansion, stands_for

#: An axis' name: a letter, or a number for one that an ellipsis stands for, counted from the right.
Label = str | int


@dataclass
class Term:
    """An operand with a name for each axis."""

    value: Value
    labels: list[Label]

    def size(self, label: Label) -> object:
        return self.value.type.dims[self.labels.index(label)]


@stands_for("Einsum", domain="", versions=(12, OPSET))
def einsum(e: Expansion) -> Sequence[Value | None]:
    """Terms are multiplied two at a time, from the left; a label is summed as soon as nobody needs it any more."""
    terms, result = _parse(e)
    terms = [_diagonals(e, term) for term in terms]
    left = terms[0]
    for index, right in enumerate(terms[1:], 2):
        needed = {label for term in terms[index:] for label in term.labels} | set(result)
        left = _contract(e, left, right, needed)
    left = _summed(e, left, set(result))
    return [_arranged(e, left, result).value]


def _parse(e: Expansion) -> tuple[list[Term], list[Label]]:
    """The operands, and the labels of the result: those of the equation, or the letters that occur once in alphabetical
    order, behind the ellipsis."""
    equation = str(e.node.attrs.get("equation", "")).replace(" ", "")
    sides = equation.split("->")
    texts = sides[0].split(",")
    if len(sides) > 2 or not all(re.fullmatch(r"[A-Za-z]*(\.\.\.)?[A-Za-z]*", t) for t in (*texts, *sides[1:])):
        fail(e.node, f"the equation {equation!r} is none", "E102")
    if len(texts) != len(e.node.inputs):
        fail(
            e.node, f"the equation {equation!r} is about {len(texts)} operands, there are {len(e.node.inputs)}", "E102"
        )
    terms, hidden = [], 0
    for index, text in enumerate(texts):
        value = e.input(index)
        if value.type.rank is None:
            fail(e.node, f"the rank of %{value.name} is not known", "E108")
        letters = len(text.replace("...", ""))
        more = value.type.rank - letters
        if more < 0 or (more > 0 and "..." not in text):
            fail(e.node, f"the equation {equation!r} gives {show(value.type)} the axes {text!r}")
        hidden = max(hidden, more if "..." in text else 0)
        terms.append(Term(value, _labels(text, more)))
    if len(sides) == 2:
        result = _labels(sides[1], hidden)
    else:
        once = sorted(letter for letter in set(sides[0]) - set(",.") if sides[0].count(letter) == 1)
        result = [*range(hidden, 0, -1), *once]
    known = {label for term in terms for label in term.labels}
    if len(set(result)) != len(result) or not set(result) <= known:
        fail(e.node, f"the result of the equation {equation!r} has an axis twice, or one that no operand has", "E102")
    return terms, result


def _labels(text: str, hidden: int) -> list[Label]:
    before, ellipsis, after = text.partition("...")
    return [*before, *(range(hidden, 0, -1) if ellipsis else ()), *after]


def _diagonals(e: Expansion, term: Term) -> Term:
    """Of axes with one label the diagonal is taken: every (n + 1)th element of the flat pair."""
    for label in dict.fromkeys(term.labels):
        while term.labels.count(label) > 1:
            first = term.labels.index(label)
            second = term.labels.index(label, first + 1)
            dims = term.value.type.dims
            n = unify(e.node, dims[first], dims[second], f"axes named {label!r}")
            others = [axis for axis in range(len(term.labels)) if axis not in (first, second)]
            last = len(others)
            moved = _transposed(e, term.value, [*others, first, second])
            if isinstance(n, int):
                flat = e("Reshape", moved, e.ints(*[0] * last, n * n))
                value = e("Slice", flat, e.ints(0), e.ints(n * n), e.ints(last), e.ints(n + 1))
            else:
                one = e.graph.constant("one", np.array(1, np.int64))
                size = e("Squeeze", e("Shape", moved, start=last, end=last + 1))
                places = e("Mul", e("Range", e("Sub", one, one), size, one), e("Add", size, one))
                value = e("Gather", e("Reshape", moved, e.ints(*[0] * last, -1)), places, axis=last)
            term = Term(value, [*(term.labels[axis] for axis in others), label])
    return term


def _transposed(e: Expansion, value: Value, perm: list[int]) -> Value:
    return value if perm == sorted(perm) else e("Transpose", value, perm=perm)


def _arranged(e: Expansion, term: Term, labels: Sequence[Label]) -> Term:
    """The term with its axes in this order."""
    return Term(_transposed(e, term.value, [term.labels.index(label) for label in labels]), list(labels))


def _summed(e: Expansion, term: Term, needed: set[Label]) -> Term:
    axes = [axis for axis, label in enumerate(term.labels) if label not in needed]
    if not axes:
        return term
    value = e("ReduceSum", term.value, e.ints(*axes), keepdims=0)
    return Term(value, [label for label in term.labels if label in needed])


def _contract(e: Expansion, left: Term, right: Term, needed: set[Label]) -> Term:
    """The product of two terms, summed over what they share and nobody needs: one MatMul, or a broadcast product where
    there is no such label."""
    left = _summed(e, left, needed | set(right.labels))
    right = _summed(e, right, needed | set(left.labels))
    shared = [label for label in left.labels if label in right.labels]
    summed = [label for label in shared if label not in needed]
    batch = [label for label in shared if label in needed]
    rows = [label for label in left.labels if label not in shared]
    columns = [label for label in right.labels if label not in shared]
    if not summed or any(1 in (left.size(label), right.size(label)) for label in summed):
        labels = [*batch, *summed, *rows, *columns]
        return _summed(e, Term(e("Mul", _spread(e, left, labels), _spread(e, right, labels)), labels), needed)
    a = _arranged(e, left, [*batch, *rows, *summed]).value
    b = _arranged(e, right, [*batch, *summed, *columns]).value
    at = len(batch)
    result = e(
        "MatMul",
        _grouped(e, a, at, [(at, at + len(rows)), (at + len(rows), len(left.labels))]),
        _grouped(e, b, at, [(at, at + len(summed)), (at + len(summed), len(right.labels))]),
    )
    if len(rows) != 1 or len(columns) != 1:
        sizes = [_sizes(e, a, at, at + len(rows)), _sizes(e, b, at + len(summed), len(right.labels))]
        shape = [_sizes(e, result, 0, at), *sizes]
        result = e("Reshape", result, _joined(e, [part for part in shape if part is not None]), allowzero=1)
    return Term(result, [*batch, *rows, *columns])


def _spread(e: Expansion, term: Term, labels: Sequence[Label]) -> Value:
    """The term with axes of size 1 for the labels that it lacks."""
    own = _arranged(e, term, [label for label in labels if label in term.labels]).value
    missing = [axis for axis, label in enumerate(labels) if label not in term.labels]
    return e("Unsqueeze", own, e.ints(*missing)) if missing else own


def _sizes(e: Expansion, value: Value, start: int, end: int) -> Value | None:
    """The sizes of these axes, None for no axis."""
    if start == end:
        return None
    dims = value.type.dims[start:end]
    known = [size for size in dims if isinstance(size, int)]
    return e.ints(*known) if len(known) == len(dims) else e("Shape", value, start=start, end=end)


def _joined(e: Expansion, parts: Sequence[Value]) -> Value:
    return e("Concat", *parts, axis=0) if len(parts) > 1 else parts[0] if parts else e.ints()


def _grouped(e: Expansion, value: Value, kept: int, groups: Sequence[tuple[int, int]]) -> Value:
    """The first ``kept`` axes as they are, then each group of axes as one."""
    if all(end - start == 1 for start, end in groups):
        return value
    parts = [_sizes(e, value, 0, kept)]
    for start, end in groups:
        size, sizes = product(value.type.dims[start:end]), _sizes(e, value, start, end)
        if isinstance(size, int):
            parts.append(e.ints(size))
        else:
            parts.append(sizes if end - start == 1 else e("ReduceProd", sizes, keepdims=1))
    return e("Reshape", value, _joined(e, [part for part in parts if part is not None]), allowzero=1)
