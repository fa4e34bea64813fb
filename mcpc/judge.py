"""Who says what a model computes: ONNX Runtime with its optimisations off, else ONNX's own evaluator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mcpc.dtypes import BY_CODE
from mcpc.errors import ModelError, UsageError
from mcpc.saturation import without_saturation

Array = np.ndarray[Any, Any]

#: The outputs, in the order asked for, that a model has for these feeds.
Judge = Callable[[Mapping[str, Array]], list[Array]]


def judge(model: Path | str | bytes, outputs: Sequence[str]) -> Judge:
    """What gives ``outputs`` for feeds: ONNX Runtime, or ONNX's own evaluator where that lacks an operator or takes no
    numpy array of an element type. ``model`` is a path, or a file's bytes; it is read once.

    Raises ModelError E100 where it is refused; the judge UsageError E002 where names or shapes are not the model's.
    """
    from mcpc.reference import open_session

    name, model = "the model" if isinstance(model, bytes) else model, without_saturation(model)
    try:
        session = open_session(model if isinstance(model, bytes) else str(model))
    except Exception as error:  # its exceptions share no base class
        if type(error).__name__ == "NotImplemented" or "is not a registered function/op" in str(error):
            return _by_definition(model, outputs)
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
