"""Seeded input tensors with values that a network would meet: token ids inside the vocabulary, masks of ones, bytes.

Golden inputs, ``mcpc run --random-inputs`` and ``mcpc verify`` all come from here, so that a reported difference can
be repeated from its seed alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from mcpc import dtypes
from mcpc.draws import Draw, bell, is_float, random_words
from mcpc.errors import UsageError

if TYPE_CHECKING:
    from mcpc.ir import Value
    from mcpc.loader import Session

Array = np.ndarray[Any, Any]

_UNLIMITED = 2**64

#: The smallest and largest value of a symbolic size. The largest may be an expression; None: unbounded.
Bound = tuple[int, Any]


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
    bounds: Mapping[str, Bound] | None = None,
    limits: Mapping[str, int] | None = None,
) -> dict[str, Array]:
    """One tensor an input, by name; the same seed gives the same numbers, on every machine.

    Symbolic sizes take the value in ``sizes``, else a usual one for their place (batch 1, images of 64 or 128 pixels,
    sequences of 16 or 32, which of the two depends on the seed), kept within ``bounds``; one symbol has one value in
    all inputs. Integers of the inputs that ``limits`` names stay below its value. Inputs with a default have that.

    Raises :class:`UsageError` E002 where a rank is unknown, E001 where ``sizes`` names no size or one out of bounds.
    """
    return sample_draws(inputs, seed, sizes, bounds, limits)[0]


def sample_draws(
    inputs: Iterable[Input],
    seed: int,
    sizes: Mapping[str, int] | None = None,
    bounds: Mapping[str, Bound] | None = None,
    limits: Mapping[str, int] | None = None,
) -> tuple[dict[str, Array], dict[str, Draw]]:
    """:func:`sample_inputs`, and of the tensors that are nothing but random numbers, how they were drawn."""
    inputs = list(inputs)
    chosen = _choose_sizes(inputs, seed, sizes or {}, bounds or {})
    arrays: dict[str, Array] = {}
    draws: dict[str, Draw] = {}
    for index, item in enumerate(inputs):
        default = _default(item)
        if default is not None:
            arrays[item.name] = default
            continue
        shape = tuple(_value(size, chosen) for size in item.shape)
        limit = (limits or {}).get(item.name, _UNLIMITED)
        values = _values(item, _dtype(item), shape, (seed << 32) + index, limit)
        if isinstance(values, Draw):
            draws[item.name] = values
            values = values.array()
        arrays[item.name] = values
    return arrays, draws


def usual_sizes(inputs: Iterable[Input], bounds: Mapping[str, Bound]) -> dict[str, int]:
    """The values that :func:`sample_inputs` gives to the symbols of ``inputs``, with seed 0."""
    return _choose_sizes(list(inputs), 0, {}, bounds)


def artifact_inputs(
    path: Path | str, session: Session, seed: int, sizes: Mapping[str, int] | None = None
) -> dict[str, Array]:
    """Inputs for the artifact at ``path``, which ``session`` has open, as :func:`sample_inputs` makes them.

    Integers stay within those of the self-test: it comes from the graph, which showed what they index.
    """
    from mcpc.artifact import Artifact
    from mcpc.golden import elements

    limits: dict[str, int] = {}
    with Artifact.open(path) as artifact:
        for case in artifact.golden():
            for item, tensor in zip(artifact.meta.inputs, case.inputs, strict=True):
                if tensor.dtype.kind in "iu" and 0 not in tensor.shape:
                    limits[item.name] = max(limits.get(item.name, 1), int(elements(tensor).max()) + 1)
    return sample_inputs(session.get_inputs(), seed, sizes, session.bounds, limits)


# ---- sizes


def _names(size: Any) -> list[str]:
    """The symbols of a size: none of a number; a session's is a text, a graph's an expression."""
    if isinstance(size, (int, str)):
        return [size] if isinstance(size, str) else []
    return sorted(str(symbol.name) for symbol in size.free_symbols)


def _value(size: Any, chosen: Mapping[str, int]) -> int:
    if isinstance(size, (int, str)):
        return chosen[size] if isinstance(size, str) else size
    return int(size.subs({symbol: chosen[str(symbol.name)] for symbol in size.free_symbols}))


def _default(item: Input) -> Array | None:
    """What the input of a graph holds where it is left out; None where it must be fed."""
    array: Array | None = getattr(item, "default", None)
    return array


def _choose_sizes(
    inputs: Sequence[Input], seed: int, sizes: Mapping[str, int], bounds: Mapping[str, Bound]
) -> dict[str, int]:
    """A value for every symbolic size of the inputs."""
    places: dict[str, tuple[int, int]] = {}  # name -> axis and rank where it is met first
    fixed: dict[str, int] = {}
    for item in inputs:
        if item.shape is None:
            message = f"input {item.name!r} has no known rank"
            raise UsageError("E002", message, hint="give its shape with --input-shape NAME:1x3x224x224")
        default = _default(item)
        for axis, size in enumerate(item.shape):
            for name in _names(size):
                places.setdefault(name, (axis, len(item.shape)))
                if default is not None:
                    fixed[name] = default.shape[axis]
    for name, value in sizes.items():
        _check_size(name, value, bounds, places)
    fixed.update(sizes)
    chosen: dict[str, int] = {}
    for name, (axis, rank) in places.items():
        low, high = bounds.get(name, (0, None))
        usual = max(low, _usual_size(name, axis, rank, seed))
        chosen[name] = fixed.get(name, usual if high is None else min(high, usual))
    for name in places.keys() - fixed.keys():
        chosen[name] = _sum_of_others(name, chosen)
    return chosen


def _check_size(name: str, value: int, bounds: Mapping[str, Bound], known: Iterable[str]) -> None:
    if name not in known:
        names = ", ".join(known) or "none"
        raise UsageError("E001", f"--dim {name}: there is no such size", hint=f"the symbolic sizes: {names}")
    low, high = bounds.get(name, (0, None))
    if value < low or (high is not None and value > high):
        limit = f"at least {low}" if high is None else f"in {low}..{high}"
        raise UsageError("E001", f"--dim {name}={value}: the size must be {limit}")


def _sum_of_others(name: str, chosen: Mapping[str, int]) -> int:
    """The value of a size, where its name says that it is a sum, that of its parts.

    Exporters call the length of a mask total_sequence_length, beside sequence_length and past_sequence_length, or
    plainly "past_sequence_length + 1".
    """
    words = _words(name)
    if "total" in words and len(words) > 1:
        parts = [value for other, value in chosen.items() if other != name and _words(other) >= words - {"total"}]
        return sum(parts) or chosen[name]
    terms = [term.strip() for term in name.split("+")]
    if len(terms) > 1 and all(term in chosen or term.isdigit() for term in terms):
        return sum(chosen[term] if term in chosen else int(term) for term in terms)
    return chosen[name]


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


def _values(item: Input, dtype: np.dtype[Any], shape: tuple[int, ...], seed: int, limit: int) -> Array | Draw:
    words = _words(item.name)
    if "mask" in words:
        return _mask(dtype, shape, seed)
    if dtype == np.bool_:
        return Draw(dtype, shape, seed, range=2)
    if is_float(dtype):
        deviation = 0.1 if words & {"state", "hidden", "cache", "past", "h0", "c0"} else 1.0
        if dtype.name.startswith("float8_e8m0"):  # which has no sign
            return np.abs(bell(np.dtype(np.float32), shape, seed, deviation).array()).astype(dtype)
        return bell(dtype, shape, seed, deviation)
    if words & {"sr", "rate"}:
        return np.full(shape, 16000, dtype)
    if words & {"position", "positions"}:
        return np.broadcast_to(np.arange(*shape[-1:] or (1,), dtype=dtype).reshape(shape[-1:]), shape).copy()
    if words & {"length", "lengths", "len"}:
        return np.full(shape, max(shape, default=1), dtype)
    return Draw(dtype, shape, seed, range=min(limit, _integer_bound(item, dtype, words)))


def _mask(dtype: np.dtype[Any], shape: tuple[int, ...], seed: int) -> Array:
    """Ones, then zeros over the last quarter or less of the last axis: what padding to a batch leaves."""
    mask = np.ones(shape, dtype)
    if shape and shape[-1] >= 4:
        padding = int(random_words(seed, 1)[0] % np.uint64(shape[-1] // 4 + 1))
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
    bits = next(each.bits for each in dtypes.BY_CODE.values() if each.numpy_name == dtype.name)
    largest: int = 2 ** (bits - (not dtype.name.startswith("u")))
    return max(1, min(largest, guess if indexed is None else min(indexed, max(guess, 30000))))


_KEEP_NUMBERS = ("Cast", "Flatten", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze")


def _indexed_size(item: Any) -> int | None:
    """How many indices each node takes that ``item`` (a graph value) reaches, through ops that keep the numbers: the
    least; None where there is no such node."""
    smallest = math.inf
    pending: list[Value] = [item]
    seen: set[int] = set()
    while pending:
        value = pending.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        for user in value.users:
            places = _places(user, value)
            if isinstance(places, int):
                smallest = min(smallest, places)
            elif user.is_op(*_KEEP_NUMBERS) and user.input(0) is value:
                pending.append(user.output)
    return None if smallest is math.inf else int(smallest)


def _places(node: Any, value: Value) -> Any:
    """How many indices ``node`` takes from ``value``, a number or an expression; None where it takes it for data."""

    def size(index: int, axis: int) -> Any:
        operand = node.input(index)
        return None if operand is None or operand.shape is None else operand.shape[axis]

    if node.is_op("Gather") and node.input(1) is value:
        return size(0, int(node.attrs.get("axis", 0)))
    if node.is_op("RoiAlign") and node.input(2) is value:
        return size(0, 0)
    if node.is_op("MaxUnpool") and node.input(1) is value:
        return size(0, -1)
    if node.is_op("RotaryEmbedding") and node.input(3) is value:
        return size(1, 0)
    if node.is_op("TensorScatter") and node.input(2) is value:
        length, new = (size(index, int(node.attrs.get("axis", -2))) for index in (0, 1))
        return None if length is None or new is None else length - new + 1
    if node.is_op("Attention") and node.input(6) is value:
        length = size(1, -2)
        return None if length is None else length + 1
    return None


def _words(name: str) -> set[str]:
    """The lower-case words of a name: 'encoder.inputIds_0' gives encoder, input, ids, 0."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+\d*|[A-Z]+(?![a-z])\d*|\d+", name)}


def _dtype(item: Input) -> np.dtype[Any]:
    if not isinstance(item.type, str):
        result: np.dtype[Any] = item.type.dtype.numpy
        return result
    name = item.type.removeprefix("tensor(").removesuffix(")")
    return next(each.numpy for each in dtypes.BY_CODE.values() if each.ort_name == name)
