"""Precision as people read it: tables of what :func:`mcpc.layer_precision.precision_in` has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcpc.layer_precision import ACCUMULATED, ALONE, TIMES
from mcpc.units import duration

FIDELITY_HEADERS = ("SQNR dB", "cosine")

Layer = Mapping[str, Any]


@dataclass(frozen=True)
class Table:
    """``numbers`` are the indices of the columns of numbers."""

    headers: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    numbers: tuple[int, ...]


def layer_table(layers: Sequence[Layer]) -> Table:
    """A row a layer; empty where nothing was measured."""
    times = time_headers(layers)
    headers = ("type", *FIDELITY_HEADERS, "alone dB", "alone cosine", *times, "layer", "reason")
    rows = [
        (
            each["precision"],
            *fidelity_cells(*(each[name] for name in ACCUMULATED)),
            *fidelity_cells(*(each[name] for name in ALONE)),
            *time_cells(each, times),
            each["layer"],
            each["reason"],
        )
        for each in layers
    ]
    return Table(headers, rows, tuple(range(1, len(headers) - 2)))


def output_table(outputs: Sequence[Mapping[str, Any]]) -> Table:
    """A row an output."""
    rows = [(*fidelity_cells(*(each[name] for name in ACCUMULATED)), each["output"]) for each in outputs]
    return Table((*FIDELITY_HEADERS, "output"), rows, (0, 1))


def fidelity_cells(sqnr: float | None, cosine: float | None) -> tuple[str, str]:
    """In dB, and a cosine."""
    return "" if sqnr is None else f"{sqnr:.1f}", "" if cosine is None else f"{cosine:.6f}"


def time_headers(layers: Sequence[Layer]) -> tuple[str, ...]:
    """The precisions that times are predicted for."""
    return tuple(kind for kind, name in TIMES.items() if any(each[name] is not None for each in layers))


def time_cells(layer: Layer, precisions: Sequence[str]) -> tuple[str, ...]:
    """Predicted times in these."""
    times = (layer[TIMES[each]] for each in precisions)
    return tuple("" if us is None else duration(us) for us in times)
