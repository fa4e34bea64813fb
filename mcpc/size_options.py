"""Sizes that the user fixes or bounds: ``--input-shape`` and ``--dim``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mcpc.dim_range import MOST_BYTES
from mcpc.errors import UsageError
from mcpc.ir import Dim, Graph, Value, dim, symbol

#: A symbolic size's value, or its least and largest one (None: unbounded).
Bound = int | tuple[int, int | None]

#: A shape that the user states: sizes, None for one that stays open.
Shape = Sequence[int | None]


def fix_sizes(graph: Graph, dims: Mapping[str, Bound], shapes: Mapping[str, Shape]) -> None:
    """Put sizes into the types of the graph's inputs, and bounds into the graph; types must be inferred afterwards.

    A symbol that ``shapes`` or ``dims`` fixes has this value wherever it occurs. Raises :class:`UsageError` E001 where
    an option does not fit the model or another option.
    """
    fixed: dict[str, int] = {}

    def fix(name: str, value: int, option: str) -> None:
        if not 0 <= value <= MOST_BYTES:
            fault = "is negative" if value < 0 else "exceeds all memory"
            raise UsageError("E001", f"{option}: size {value} {fault}")
        if fixed.setdefault(name, value) != value:
            raise UsageError("E001", f"{option}: size {name} is {fixed[name]} already")

    inputs = {value.name: value for value in graph.inputs}
    for name, shape in shapes.items():
        text = "x".join("?" if size is None else str(size) for size in shape)
        option = f"--input-shape {name}:{text}"
        if name not in inputs:
            raise UsageError("E001", f"{option}: the model has no such input", hint=f"its inputs: {', '.join(inputs)}")
        value = inputs[name]
        if value.shape is None:
            value.type = replace(value.type, shape=open_shape(graph, value, len(shape)))
        assert value.shape is not None
        if len(value.shape) != len(shape):
            raise UsageError("E001", f"{option}: the input has rank {len(value.shape)}: {value.type}")
        for size, wanted in zip(value.shape, shape, strict=True):
            if wanted is None:
                continue
            if not isinstance(size, int):
                fix(str(size), wanted, option)
            elif size != wanted:
                raise UsageError("E001", f"{option}: the model fixes {value.type}")
    for name, bound in dims.items():
        if name not in graph.symbols():
            known = ", ".join(graph.symbols()) or "none"
            raise UsageError("E001", f"--dim {name}: the model has no such size", hint=f"its symbolic sizes: {known}")
        if isinstance(bound, int):
            fix(name, bound, f"--dim {name}={bound}")
            continue
        low, high = bound
        option = f"--dim {name}={low}..{'' if high is None else high}"
        if low < 0 or (high is not None and high < low):
            raise UsageError("E001", f"{option}: the range is empty or negative")
        if max(low, high or 0) > MOST_BYTES:
            raise UsageError("E001", f"{option}: size {max(low, high or 0)} exceeds all memory")
        if name in fixed and not low <= fixed[name] <= (fixed[name] if high is None else high):
            raise UsageError("E001", f"{option}: size {name} is {fixed[name]} already")
        graph.bounds[name] = bound
    for name in graph.symbols():
        if name not in fixed and name not in dims and (of_sum := _sum_bound(graph, name, fixed)) is not None:
            low, high = graph.bounds[name] = of_sum
            if low == high:
                fixed[name] = low
    substitution = {symbol(name): value for name, value in fixed.items()}
    for value in graph.inputs:
        if value.shape is not None:
            sizes = tuple(size if isinstance(size, int) else dim(size.subs(substitution)) for size in value.shape)
            value.type = replace(value.type, shape=sizes)
    for name in fixed:
        graph.bounds.pop(name, None)


def _sum_bound(graph: Graph, name: str, fixed: Mapping[str, int]) -> tuple[int, int] | None:
    """The least and largest value of a size whose name says that it is a sum, as exporters call the length of a mask
    "past_sequence_length + sequence_length"; None where it is no sum of sizes that have a largest value."""
    low = high = 0
    terms = [term.strip() for term in name.split("+")]
    if len(terms) < 2:
        return None
    for term in terms:
        if term.isdecimal() or term in fixed:
            least = most = int(term) if term.isdecimal() else fixed[term]
        else:
            least, limit = graph.bounds.get(term, (0, None))
            if not isinstance(limit, int):
                return None
            most = limit
        low, high = low + least, high + most
    return low, high


def open_shape(graph: Graph, value: Value, rank: int) -> tuple[Dim, ...]:
    """``rank`` sizes that nothing is known of, each called after the input and the axis."""
    taken = set(graph.symbols())
    return tuple(symbol(unnamed(value.name, axis, taken)) for axis in range(rank))


def unnamed(tensor: str, axis: int, taken: set[str]) -> str:
    """The name of a size that has none, other than those ``taken``."""
    name = f"{tensor}.{axis}"
    while name in taken:
        name += "_"
    return name
