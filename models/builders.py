"""The networks that are built here, by name: real architectures with seeded weights, the same bytes every time."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from mcpc.errors import UsageError

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True)
class Builder:
    """``function`` of the module ``module`` of this package makes the model; its keyword parameters are the options."""

    module: str
    about: str
    function: str = "build"


BUILDERS = {
    "digits": Builder("digits", "a small trained network for scikit-learn's digits, in the package", "build_trained"),
    "mobilenetv2": Builder("mobilenetv2", "image classifier, 3.5 M parameters, BatchNormalization kept"),
    "resnet50": Builder("resnet50", "image classifier, 25.6 M parameters"),
    "efficientnet-b0": Builder("efficientnet_b0", "image classifier, 5.3 M parameters, squeeze-and-excitation"),
    "yolov8n": Builder("yolov8n", "object detector, 3.2 M parameters, decodes its boxes"),
    "deit-tiny": Builder("deit_tiny", "vision transformer, 5.7 M parameters"),
    "bert-mini": Builder("bert_mini", "text encoder, 11.2 M parameters, batch and sequence symbolic"),
    "llama-mini": Builder("llama", "text decoder, 2.4 M parameters, keys and values of the past in and out"),
    "smollm2": Builder("smollm2", "a real chat model, 135 M parameters, from the file that fetch brings"),
    "ds-cnn": Builder("ds_cnn", "keyword spotting, 23 thousand parameters"),
    "gru": Builder("recurrent", "two GRU layers, batch and time symbolic, state in and out", "gru"),
    "lstm": Builder("recurrent", "two bidirectional LSTM layers, batch and time symbolic, state in and out", "lstm"),
}


def build(name: str, **options: Any) -> onnx.ModelProto:
    """The model called ``name``. Options are the parameters of its function: ``seed``, ``batch``, ``size``, …

    Raises :class:`UsageError` E002 for an unknown name, or an option that this model does not have.
    """
    if name not in BUILDERS:
        raise UsageError("E002", f"no model is called {name!r}", hint=f"one of: {', '.join(BUILDERS)}")
    builder = BUILDERS[name]
    function = getattr(import_module(f"mcpc.models.{builder.module}"), builder.function)
    known = inspect.signature(function).parameters
    if unknown := sorted(options.keys() - known.keys()):
        raise UsageError("E002", f"{name} has no option {unknown[0]!r}", hint=f"it has: {', '.join(known)}")
    model: onnx.ModelProto = function(**options)
    return model
