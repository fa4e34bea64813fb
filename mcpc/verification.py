"""Does an artifact compute what its model says? ONNX Runtime, with its optimisations off, is the judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mcpc.errors import ModelError, UsageError

Array = np.ndarray[Any, Any]

#: Default tolerances for float32: relative, and absolute as a part of the output's largest magnitude.
RTOL = 1e-3
ATOL_OF_RANGE = 1e-4


@dataclass(frozen=True)
class Comparison:
    """How an output compares with the reference. ``excess`` is the largest |got - want| / (atol + rtol |want|): at
    most 1 where it matches, infinite where shape, type or NaNs differ. ``worst_index`` is where that is."""

    name: str
    shape: tuple[int, ...]
    elements: int
    mismatches: int
    excess: float
    max_abs_difference: float
    worst_index: tuple[int, ...]
    worst_got: float
    worst_want: float
    rtol: float
    atol: float
    note: str = ""

    @property
    def matches(self) -> bool:
        return self.mismatches == 0 and not self.note

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "matches": self.matches}

    def describe(self) -> str:
        """What differs, in one line."""
        if self.note:
            return f"output {self.name!r} {self.note}"
        return (
            f"output {self.name!r} differs in {self.mismatches} of {self.elements} elements, most at "
            f"{list(self.worst_index)}: {self.worst_got:.6g} instead of {self.worst_want:.6g}"
        )


def verify(
    artifact: Path | str,
    model: Path | str,
    *,
    inputs: Mapping[str, Array] | None = None,
    seed: int = 0,
    rtol: float = RTOL,
    atol: float | None = None,
    threads: int | None = None,
) -> list[Comparison]:
    """Run both on the same inputs and compare every output of the artifact, the worst first.

    Inputs that are not in ``inputs`` are sampled from ``seed``. ``atol`` None means :data:`ATOL_OF_RANGE` of each
    output's largest magnitude. Raises :class:`UsageError` E002 where model and artifact do not belong together.
    """
    from mcpc.loader import load
    from mcpc.sample_inputs import sample_inputs

    with load(artifact, threads=threads) as session:
        names = [output.name for output in session.get_outputs()]
        expected_inputs = {each.name for each in session.get_inputs()}
        for name in inputs or {}:
            if name not in expected_inputs:
                raise UsageError(
                    "E002", f"the artifact has no input {name!r}", hint=f"it has {sorted(expected_inputs)}"
                )
        feeds = {**sample_inputs(session.get_inputs(), seed), **(inputs or {})}
        got = session.run(None, feeds)
    want = reference(model, feeds, names)
    comparisons = [compare(*each, rtol, atol) for each in zip(names, got, want, strict=True)]
    return sorted(comparisons, key=lambda each: -each.excess)


def reference(model: Path | str, feeds: Mapping[str, Array], outputs: list[str]) -> list[Array]:
    """What ONNX Runtime, optimisations off, computes from ``feeds``. Raises ModelError E100 where it refuses the model,
    UsageError E002 where names or shapes are not the model's."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its exceptions share no base class
        raise ModelError("E100", f"ONNX Runtime refuses {model}: {error}") from error
    names = {
        "input": {each.name for each in session.get_inputs()},
        "output": {each.name for each in session.get_outputs()},
    }
    for kind, wanted in (("input", set(feeds)), ("output", set(outputs))):
        if missing := sorted(wanted - names[kind]):
            raise UsageError(
                "E002",
                f"the model has no {kind} {missing[0]!r}",
                hint="is the artifact compiled from this model?",
            )
    try:
        return [np.asarray(array) for array in session.run(outputs, dict(feeds))]
    except Exception as error:
        raise UsageError("E002", f"ONNX Runtime refuses the inputs: {error}") from error


def compare(name: str, got: Array, want: Array, rtol: float = RTOL, atol: float | None = None) -> Comparison:
    """Floats by |got - want| <= atol + rtol |want| (NaN equals NaN, an infinity itself), all else exactly."""
    if got.shape != want.shape or got.dtype != want.dtype:
        note = f"is {got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
        return Comparison(
            name, got.shape, want.size, want.size, np.inf, np.inf, (), np.nan, np.nan, rtol, atol or 0.0, note
        )
    is_float = want.dtype.kind == "f" or "float" in want.dtype.name
    a, b = got.astype(np.float64), want.astype(np.float64)
    if not is_float:
        rtol, atol = 0.0, 0.0
    finite = b[np.isfinite(b)]
    if atol is None:
        atol = ATOL_OF_RANGE * float(np.abs(finite).max(initial=0.0))
    with np.errstate(invalid="ignore", divide="ignore"):
        difference = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
        difference = np.where(np.isnan(difference), np.inf, difference)
        excess = np.where(difference == 0, 0.0, difference / (atol + rtol * np.abs(np.where(np.isfinite(b), b, 0.0))))
    worst = int(excess.argmax()) if excess.size else 0
    index = tuple(int(i) for i in np.unravel_index(worst, want.shape)) if want.size else ()
    return Comparison(
        name=name,
        shape=tuple(want.shape),
        elements=want.size,
        mismatches=int((excess > 1).sum()),
        excess=float(excess.max(initial=0.0)),
        max_abs_difference=float(difference.max(initial=0.0)),
        worst_index=index,
        worst_got=float(a[index]) if want.size else 0.0,
        worst_want=float(b[index]) if want.size else 0.0,
        rtol=rtol,
        atol=atol,
    )
