"""Seeded input tensors with values that a network would meet: token ids inside the vocabulary, masks of ones, bytes.

Golden inputs, ``mcpc run --random-inputs`` and ``mcpc verify`` all come from here, so that a reported difference can
be repeated from its seed alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from mcpc import dtypes
from mcpc.errors import UsageError

if TYPE_CHECKING:
    from mcpc.ir import Value

Array = np.ndarray[Any, Any]

_UNLIMITED = 2**64


class Input(Protocol):
    """A graph's :class:`mcpc.ir.Value` or a session's input description (``type`` such as ``tensor(float)``)."""

    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> Any: ...
    @property
    def type(self) -> Any: ...


def sample_inputs(
    inputs: Iterable[Input],
    seed: int,
    sizes: Mapping[str, int] | None = None,
    bounds: Mapping[str, tuple[int, int | None]] | None = None,
    limits: Mapping[str, int] | None = None,
) -> dict[str, Array]:
    """One tensor an input, by name; the same seed gives the same numbers.

    Symbolic sizes take the value in ``sizes``, else a usual one for their place (batch 1, images of 64 or 128 pixels,
    sequences of 16 or 32, which of the two depends on the seed), kept within ``bounds``; one symbol has one value in
    all inputs. Integers of the inputs that ``limits`` names stay below its value.

    Raises :class:`UsageError` E002 where a rank is unknown.
    """
    chosen: dict[str, int] = dict(sizes or {})
    result: dict[str, Array] = {}
    for index, item in enumerate(inputs):
        shape = _resolve_shape(item, seed, chosen, bounds or {})
        rng = np.random.default_rng([seed, index])
        result[item.name] = _values(item, _dtype(item), shape, rng, (limits or {}).get(item.name, _UNLIMITED))
    return result


def artifact_inputs(path: Path | str, inputs: Iterable[Input], seed: int) -> dict[str, Array]:
    """Inputs for the artifact at ``path``, whose ``inputs`` a session describes, as :func:`sample_inputs` makes them.

    Integers stay within those of the self-test: it comes from the graph, which showed what they index.
    """
    from mcpc.artifact import Artifact

    inputs = list(inputs)
    limits: dict[str, int] = {}
    with Artifact.open(path) as artifact:
        for case in artifact.golden():
            for item, array in zip(inputs, case.inputs, strict=True):
                if array.dtype.kind in "iu" and array.size:
                    limits[item.name] = max(limits.get(item.name, 1), int(array.max()) + 1)
    return sample_inputs(inputs, seed, limits=limits)


# ---- sizes


def _resolve_shape(
    item: Input, seed: int, chosen: dict[str, int], bounds: Mapping[str, tuple[int, int | None]]
) -> tuple[int, ...]:
    if item.shape is None:
        raise UsageError(
            "E002", f"input {item.name!r} has no known rank", hint="give its shape with --input-shape NAME:1x3x224x224"
        )

    def value_of(name: str, axis: int) -> int:
        if name not in chosen:
            low, high = bounds.get(name, (0, None))
            usual = max(low, _usual_size(name, axis, len(item.shape), seed))
            chosen[name] = usual if high is None else min(high, usual)
        return chosen[name]

    sizes: list[int] = []
    for axis, size in enumerate(item.shape):
        if isinstance(size, int):
            sizes.append(size)
        elif isinstance(size, str):
            sizes.append(value_of(size, axis))
        else:  # a sympy expression
            symbols = sorted(size.free_symbols, key=lambda symbol: str(symbol.name))
            sizes.append(int(size.subs({symbol: value_of(str(symbol.name), axis) for symbol in symbols})))
    return tuple(sizes)


def _usual_size(name: str, axis: int, rank: int, seed: int) -> int:
    words = _words(name)
    if words & {"batch", "n", "bs"} or (axis == 0 and not words & {"seq", "sequence", "length", "len", "time"}):
        return 1
    double = 1 + seed % 2
    if words & {"height", "width", "h", "w"} or (rank == 4 and axis >= 2):
        return 64 * double
    if words & {"channel", "channels"} or (rank == 4 and axis == 1):
        return 3
    return 16 * double


# ---- values


def _values(item: Input, dtype: np.dtype[Any], shape: tuple[int, ...], rng: np.random.Generator, limit: int) -> Array:
    words = _words(item.name)
    if "mask" in words:
        return _mask(dtype, shape, rng)
    if dtype == np.bool_:
        return rng.random(shape) < 0.5
    if dtype.kind not in "iu":  # also ml_dtypes' floats, whose kind is 'V'
        scale = 0.1 if words & {"state", "hidden", "cache", "past", "h0", "c0"} else 1.0
        return np.asarray(rng.standard_normal(shape, np.float32) * np.float32(scale)).astype(dtype)
    if words & {"sr", "rate"}:
        return np.full(shape, 16000, dtype)
    if words & {"position", "positions"}:
        return np.broadcast_to(np.arange(*shape[-1:] or (1,), dtype=dtype).reshape(shape[-1:]), shape).copy()
    if words & {"length", "lengths", "len"}:
        return np.full(shape, max(shape, default=1), dtype)
    return rng.integers(0, min(limit, _integer_bound(item, dtype, words)), shape).astype(dtype)


def _mask(dtype: np.dtype[Any], shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Ones, then zeros over the last quarter or less of the last axis: what padding to a batch leaves."""
    mask = np.ones(shape, dtype)
    if shape and shape[-1] >= 4:
        padding = int(rng.integers(0, shape[-1] // 4 + 1))
        mask[..., shape[-1] - padding :] = 0
    return mask


def _integer_bound(item: Input, dtype: np.dtype[Any], words: set[str]) -> int:
    """Values stay below this: the table they index where the graph shows one, else what the name suggests."""
    if words & {"segment", "segments"} or {"token", "type"} <= words:
        guess = 2
    elif "bytes" in words or dtype.itemsize == 1:
        guess = 256
    else:
        guess = 100
    indexed = _indexed_size(item) if hasattr(item, "users") else None
    largest: int = 2 ** (8 * dtype.itemsize - (dtype.kind == "i"))
    return max(1, min(largest, guess if indexed is None else min(indexed, max(guess, 30000))))


_KEEP_NUMBERS = ("Cast", "Flatten", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze")


def _indexed_size(item: Any) -> int | None:
    """The smallest table that ``item`` (a graph value) indexes through a Gather, through ops that keep the numbers."""
    smallest = math.inf
    pending: list[Value] = [item]
    seen: set[int] = set()
    while pending:
        value = pending.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        for user in value.users:
            if user.is_op("Gather") and user.input(1) is value:
                table = user.input(0)
                axis = int(user.attrs.get("axis", 0))
                if table is not None and table.shape is not None and isinstance(table.shape[axis], int):
                    smallest = min(smallest, int(table.shape[axis]))
            elif user.is_op(*_KEEP_NUMBERS) and user.input(0) is value:
                pending.append(user.output)
    return None if smallest is math.inf else int(smallest)


def _words(name: str) -> set[str]:
    """The lower-case words of a name: 'encoder.inputIds_0' gives encoder, input, ids, 0."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+\d*|[A-Z]+(?![a-z])\d*|\d+", name)}


def _dtype(item: Input) -> np.dtype[Any]:
    if not isinstance(item.type, str):
        result: np.dtype[Any] = item.type.dtype.numpy
        return result
    name = item.type.removeprefix("tensor(").removesuffix(")")
    return next(each.numpy for each in dtypes.BY_CODE.values() if each.ort_name == name)
