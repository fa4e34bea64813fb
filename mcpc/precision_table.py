"""Precision as people read it: the rows of what :func:`mcpc.layer_precision.precision_in` has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcpc.layer_precision import ACCUMULATED, ALONE, TIMES
from mcpc.units import duration

FIDELITY_HEADERS, TIME_HEADERS = ("SQNR dB", "cosine"), tuple(TIMES)
LAYER_HEADERS = ("type", *FIDELITY_HEADERS, "alone dB", "alone cosine", *TIME_HEADERS, "layer", "reason")
OUTPUT_HEADERS = (*FIDELITY_HEADERS, "output")

#: The columns of numbers.
LAYER_NUMBERS, OUTPUT_NUMBERS = (1, 2, 3, 4, 5, 6, 7), (0, 1)


def layer_cells(layer: Mapping[str, Any]) -> tuple[str, ...]:
    """A row under :data:`LAYER_HEADERS`; empty where nothing was measured."""
    fidelity = [cell for names in (ACCUMULATED, ALONE) for cell in fidelity_cells(*(layer[name] for name in names))]
    return (layer["precision"], *fidelity, *time_cells(layer), layer["layer"], layer["reason"])


def output_cells(output: Mapping[str, Any]) -> tuple[str, ...]:
    """A row under :data:`OUTPUT_HEADERS`."""
    return (*fidelity_cells(*(output[name] for name in ACCUMULATED)), output["output"])


def fidelity_cells(sqnr: float | None, cosine: float | None) -> tuple[str, str]:
    """In dB, and a cosine."""
    return "" if sqnr is None else f"{sqnr:.1f}", "" if cosine is None else f"{cosine:.6f}"


def time_cells(layer: Mapping[str, Any]) -> tuple[str, ...]:
    """Predicted times in each precision."""
    times = (layer[name] for name in TIMES.values())
    return tuple("" if us is None else duration(us) for us in times)
