"""Does an artifact compute what its model says? ONNX Runtime, with its optimisations off, is the judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mcpc.comparison import ATOL_OF_RANGE, RTOL, Comparison, compare
from mcpc.dtypes import BY_CODE
from mcpc.errors import ModelError, UsageError
from mcpc.sensitivity import coarsest_rounding, tolerances

if TYPE_CHECKING:
    from mcpc.loader import Session

__all__ = [
    "ATOL_OF_RANGE",
    "RTOL",
    "Comparison",
    "compare",
    "judge",
    "known_inputs",
    "reference",
    "selftest",
    "verify",
]

Array = np.ndarray[Any, Any]

#: The outputs, in the order asked for, that a model has for these feeds.
Judge = Callable[[Mapping[str, Array]], list[Array]]


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
        allowed = tolerances(run, feeds, want, coarsest_rounding(model))
        comparisons = [
            compare(name, ours, theirs, rtol, most)
            for name, ours, theirs, most in zip(names, got, want, allowed, strict=True)
        ]
    return sorted(comparisons, key=lambda each: -each.excess)


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
            got = session.run(None, dict(zip(input_names, case.inputs, strict=True)))
            comparisons += [
                compare(*each, case.rtol, case.atol) for each in zip(output_names, got, case.outputs, strict=True)
            ]
    return sorted(comparisons, key=lambda each: -each.excess)


def reference(model: Path | str | bytes, feeds: Mapping[str, Array], outputs: Sequence[str]) -> list[Array]:
    """What :func:`judge` says of ``feeds``."""
    return judge(model, outputs)(feeds)


def judge(model: Path | str | bytes, outputs: Sequence[str]) -> Judge:
    """What gives ``outputs`` for feeds: ONNX Runtime, or ONNX's own evaluator where that lacks an operator or takes no
    numpy array of an element type. ``model`` is a path, or a file's bytes; it is read once.

    Raises ModelError E100 where it is refused; the judge UsageError E002 where names or shapes are not the model's.
    """
    from mcpc.reference import open_session

    try:
        session = open_session(model if isinstance(model, bytes) else str(model))
    except Exception as error:  # its exceptions share no base class
        if type(error).__name__ == "NotImplemented" or "is not a registered function/op" in str(error):
            return _by_definition(model, outputs)
        name = "the model" if isinstance(model, bytes) else model
        raise ModelError("E100", f"ONNX Runtime refuses {name}: {error}") from error
    inputs = [*session.get_inputs(), *session.get_overridable_initializers()]
    known = {"input": inputs, "output": session.get_outputs()}
    native = {f"tensor({each.ort_name})" for each in BY_CODE.values() if each.is_native}
    if any(each.type not in native for each in (*inputs, *known["output"]) if each.type.startswith("tensor(")):
        return _by_definition(model, outputs)

    def run(feeds: Mapping[str, Array]) -> list[Array]:
        for kind, wanted in (("input", feeds), ("output", outputs)):
            if missing := sorted(set(wanted) - {each.name for each in known[kind]}):
                message = f"the model has no {kind} {missing[0]!r}"
                raise UsageError("E002", message, hint="is the artifact compiled from this model?")
        try:
            return [np.asarray(array) for array in session.run(list(outputs), dict(feeds))]
        except Exception as error:
            raise UsageError("E002", f"ONNX Runtime refuses the inputs: {error}") from error

    return run


def _by_definition(model: Path | str | bytes, outputs: Sequence[str]) -> Judge:
    """ONNX's own evaluator, for operators that ONNX Runtime lacks in the model's opset. Raises as :func:`judge`."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    loaded = onnx.load_from_string(model) if isinstance(model, bytes) else onnx.load(model)
    try:
        evaluator = ReferenceEvaluator(loaded)
    except Exception as error:  # an operator that it lacks too
        raise ModelError("E100", f"neither ONNX Runtime nor ONNX's reference runs the model: {error}") from error

    def run(feeds: Mapping[str, Array]) -> list[Array]:
        try:
            with np.errstate(all="ignore"):
                return [np.asarray(array) for array in evaluator.run(list(outputs), dict(feeds))]
        except Exception as error:
            raise UsageError("E002", f"ONNX's reference refuses the inputs: {error}") from error

    return run
