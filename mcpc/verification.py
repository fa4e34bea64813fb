"""Does an artifact compute what its model says? ONNX Runtime, with its optimisations off, is the judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mcpc.comparison import ATOL_OF_RANGE, RTOL, Comparison, compare, compare_samples
from mcpc.errors import UsageError
from mcpc.golden import Samples
from mcpc.judge import judge
from mcpc.sensitivity import coarsest_rounding, shaken, tolerances

if TYPE_CHECKING:
    from mcpc.loader import Session

__all__ = [
    "ATOL_OF_RANGE",
    "RTOL",
    "Comparison",
    "compare",
    "known_inputs",
    "reference",
    "selftest",
    "verify",
]

Array = np.ndarray[Any, Any]


def verify(
    artifact: Path | str,
    model: Path | str,
    *,
    inputs: Mapping[str, Array] | None = None,
    seed: int = 0,
    dims: Mapping[str, int] | None = None,
    rtol: float = RTOL,
    atol: float | None = None,
    threads: int | None = None,
) -> list[Comparison]:
    """Run both on the same inputs and compare every output of the artifact, the worst first.

    Inputs that are not in ``inputs`` are sampled from ``seed``, with symbolic sizes as in ``dims``. ``atol`` None means
    :data:`ATOL_OF_RANGE` of each output's largest magnitude, or where that is missed, what rounding needs:
    :func:`mcpc.sensitivity.tolerances`.
    Raises :class:`UsageError` E002 where model and artifact do not belong together.
    """
    from mcpc.loader import load
    from mcpc.sample_inputs import artifact_inputs

    refuse_chance(artifact)
    with load(artifact, threads=threads) as session:
        names = [output.name for output in session.get_outputs()]
        feeds = {**artifact_inputs(artifact, session, seed, dims), **known_inputs(session, inputs or {})}
        got = session.run(None, feeds)
    run = judge(model, names)
    want = run(feeds)
    comparisons = [compare(*each, rtol, atol) for each in zip(names, got, want, strict=True)]
    if atol is None and not all(each.matches for each in comparisons):
        from mcpc.halves import coarser  # loads what compiles

        rounding = coarser(coarsest_rounding(model), provenance(artifact))
        allowed = tolerances(shaken(model, names) or run, feeds, want, rounding)
        comparisons = [
            compare(name, ours, theirs, rtol, most)
            for name, ours, theirs, most in zip(names, got, want, allowed, strict=True)
        ]
    return sorted(comparisons, key=lambda each: -each.excess)


def provenance(artifact: Path | str) -> dict[str, str]:
    """What ``artifact`` says of how it was made."""
    from mcpc.artifact import Artifact

    with Artifact.open(artifact) as file:
        return {str(each.key): str(each.value) for each in file.meta.provenance or []}


def refuse_chance(artifact: Path | str) -> None:
    """UsageError E002 where ``artifact`` draws random numbers: nobody can say what it must compute."""
    from mcpc.artifact import Artifact
    from mcpc.ops.random import RANDOM

    with Artifact.open(artifact) as file:
        for step in file.meta.steps:
            if step.op in RANDOM:
                message = f"{artifact} draws random numbers ({step.name}, {step.op}): there is nothing to compare with"
                raise UsageError("E002", message)


def known_inputs(session: Session, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
    """``inputs``; UsageError E002 where one is not the artifact's."""
    known = [each.name for each in (*session.get_inputs(), *session.get_overridable_initializers())]
    for name in inputs:
        if name not in known:
            raise UsageError("E002", f"the artifact has no input {name!r}", hint=f"it has {sorted(known)}")
    return inputs


def selftest(artifact: Path | str, *, threads: int | None = None) -> list[Comparison]:
    """Run the golden cases inside the artifact and compare every output, the worst first.

    Raises :class:`UsageError` E002 where there are none.
    """
    from mcpc.artifact import Artifact
    from mcpc.loader import load

    with Artifact.open(artifact) as file:
        cases = file.golden()
        input_names = [each.name for each in file.meta.inputs]
    if not cases:
        raise UsageError("E002", f"{artifact} holds no self-test", hint="compile it with --golden 1")
    comparisons: list[Comparison] = []
    with load(artifact, threads=threads) as session:
        output_names = [each.name for each in session.get_outputs()]
        for case in cases:
            session.reset_state()
            got = session.run(None, dict(zip(input_names, case.feeds(), strict=True)))
            for name, array, want in zip(output_names, got, case.outputs, strict=True):
                if isinstance(want, Samples):
                    comparisons.append(compare_samples(name, array, want, case.rtol, case.atol))
                else:
                    comparisons.append(compare(name, array, want, case.rtol, case.atol))
    return sorted(comparisons, key=lambda each: -each.excess)


def reference(model: Path | str | bytes, feeds: Mapping[str, Array], outputs: Sequence[str]) -> list[Array]:
    """What :func:`judge` says of ``feeds``."""
    return judge(model, outputs)(feeds)
