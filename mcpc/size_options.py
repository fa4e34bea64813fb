"""Sizes that the user fixes: ``--input-shape`` and ``--dim``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mcpc.errors import UsageError
from mcpc.ir import Graph, dim, symbol

#: A symbolic size's value, or its least and largest one (None: unbounded).
Bound = int | tuple[int, int | None]


def fix_sizes(graph: Graph, dims: Mapping[str, Bound], shapes: Mapping[str, Sequence[int]]) -> None:
    """Put sizes into the types of the graph's inputs, and bounds into the graph; types must be inferred afterwards.

    A symbol that ``shapes`` or ``dims`` fixes has this value wherever it occurs. Raises :class:`UsageError` E001 where
    an option does not fit the model or another option.
    """
    fixed: dict[str, int] = {}

    def fix(name: str, value: int, option: str) -> None:
        if value < 0:
            raise UsageError("E001", f"{option}: size {value} is negative")
        if fixed.setdefault(name, value) != value:
            raise UsageError("E001", f"{option}: size {name} is {fixed[name]} already")

    for name, bound in dims.items():
        if name not in graph.symbols():
            known = ", ".join(graph.symbols()) or "none"
            raise UsageError("E001", f"--dim {name}: the model has no such size", hint=f"its symbolic sizes: {known}")
        if isinstance(bound, int):
            fix(name, bound, f"--dim {name}={bound}")
            continue
        low, high = bound
        if low < 0 or (high is not None and high < low):
            raise UsageError("E001", f"--dim {name}={low}..{high}: the range is empty or negative")
        graph.bounds[name] = bound
    inputs = {value.name: value for value in graph.inputs}
    for name, shape in shapes.items():
        option = f"--input-shape {name}:{'x'.join(map(str, shape))}"
        if name not in inputs:
            raise UsageError("E001", f"{option}: the model has no such input", hint=f"its inputs: {', '.join(inputs)}")
        value = inputs[name]
        if value.shape is None:
            value.type = replace(value.type, shape=tuple(shape))
            continue
        if len(value.shape) != len(shape):
            raise UsageError("E001", f"{option}: the input has rank {len(value.shape)}: {value.type}")
        for size, wanted in zip(value.shape, shape, strict=True):
            if not isinstance(size, int):
                fix(str(size), wanted, option)
            elif size != wanted:
                raise UsageError("E001", f"{option}: the model fixes {value.type}")
    substitution = {symbol(name): value for name, value in fixed.items()}
    for value in graph.inputs:
        if value.shape is not None:
            sizes = tuple(size if isinstance(size, int) else dim(size.subs(substitution)) for size in value.shape)
            value.type = replace(value.type, shape=sizes)
