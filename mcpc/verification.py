"""Does an artifact compute what its model says? ONNX Runtime, with its optimisations off, is the judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mcpc.comparison import ATOL_OF_RANGE, RTOL, Comparison, compare
from mcpc.errors import ModelError, UsageError

__all__ = ["ATOL_OF_RANGE", "RTOL", "Comparison", "compare", "reference", "selftest", "verify"]

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
    :data:`ATOL_OF_RANGE` of each output's largest magnitude.
    Raises :class:`UsageError` E002 where model and artifact do not belong together.
    """
    from mcpc.loader import load
    from mcpc.sample_inputs import artifact_inputs

    with load(artifact, threads=threads) as session:
        names = [output.name for output in session.get_outputs()]
        known = [*session.get_inputs(), *session.get_overridable_initializers()]
        expected_inputs = {each.name for each in known}
        for name in inputs or {}:
            if name not in expected_inputs:
                raise UsageError(
                    "E002", f"the artifact has no input {name!r}", hint=f"it has {sorted(expected_inputs)}"
                )
        feeds = {**artifact_inputs(artifact, session, seed, dims), **(inputs or {})}
        got = session.run(None, feeds)
    want = reference(model, feeds, names)
    comparisons = [compare(*each, rtol, atol) for each in zip(names, got, want, strict=True)]
    return sorted(comparisons, key=lambda each: -each.excess)


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
            got = session.run(None, dict(zip(input_names, case.inputs, strict=True)))
            comparisons += [
                compare(*each, case.rtol, case.atol) for each in zip(output_names, got, case.outputs, strict=True)
            ]
    return sorted(comparisons, key=lambda each: -each.excess)


def reference(model: Path | str | bytes, feeds: Mapping[str, Array], outputs: Sequence[str]) -> list[Array]:
    """What ONNX Runtime computes from ``feeds``; ``model`` is a path, or a file's bytes.

    Raises ModelError E100 where it refuses the model, UsageError E002 where names or shapes are not the model's.
    """
    from mcpc.reference import open_session

    try:
        session = open_session(model if isinstance(model, bytes) else str(model))
    except Exception as error:  # its exceptions share no base class
        name = "the model" if isinstance(model, bytes) else model
        raise ModelError("E100", f"ONNX Runtime refuses {name}: {error}") from error
    inputs = [*session.get_inputs(), *session.get_overridable_initializers()]
    known = {"input": inputs, "output": session.get_outputs()}
    for kind, wanted in (("input", feeds), ("output", outputs)):
        if missing := sorted(set(wanted) - {each.name for each in known[kind]}):
            message = f"the model has no {kind} {missing[0]!r}"
            raise UsageError("E002", message, hint="is the artifact compiled from this model?")
    try:
        return [np.asarray(array) for array in session.run(list(outputs), dict(feeds))]
    except Exception as error:
        raise UsageError("E002", f"ONNX Runtime refuses the inputs: {error}") from error
