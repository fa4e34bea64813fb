"""The cases of onnx.backend.test, and which of them are about numbers in tensors."""

from __future__ import annotations

import functools
import hashlib
import os
import pickle
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx.backend.test.loader as onnx_tests
from onnx import ModelProto, TensorProto, TypeProto, numpy_helper

from mcpc.cache import cache_dir
from mcpc.onnx_structure import walk

Array = np.ndarray[Any, Any]

#: What is run. The kind ``real`` fetches nine image networks, or makes up their weights.
KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")

#: What cases outside the tensors of numbers are about, in the order in which one of several counts.
OUTSIDE = {
    "strings": "tensors of strings as inputs or outputs",
    "sequences": "sequences of tensors as inputs or outputs",
    "optionals": "optional tensors as inputs or outputs",
    "maps": "maps as inputs or outputs",
    "training": "operators of ai.onnx.preview.training",
    "images": "ImageDecoder, which reads JPEG, PNG and other files",
    "random": "random numbers, which depend on the generator: tests/operators checks their range and moments instead",
}

_TRAINING = "ai.onnx.preview.training"
_RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)


@dataclass(frozen=True, eq=False)
class Case:
    """A model and what it must compute. ``outside`` is a key of :data:`OUTSIDE`, or empty. ``sets`` are inputs and
    outputs in the model's order; none where these are no tensors of numbers. ``ops`` are the operators of its nodes,
    those of nested graphs included."""

    kind: str
    name: str
    model: bytes
    sets: tuple[tuple[list[Array], list[Array]], ...]
    rtol: float
    atol: float
    outside: str
    ops: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"

    @functools.cached_property
    def proto(self) -> ModelProto:
        model: ModelProto = ModelProto.FromString(self.model)
        return model


@functools.cache
def all_cases() -> list[Case]:
    """Every case in a fixed order. onnx computes the node cases when they are listed, for ten seconds: they are kept in
    the cache by the versions of what computes them and this file's text."""
    own = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]
    versions = "-".join(f"{each.__name__}-{each.__version__}" for each in (onnx, np, ml_dtypes))
    kept = cache_dir("conformance") / f"{versions}-{own}.pickle"
    if not kept.exists():
        partial = kept.with_suffix(f".{os.getpid()}")
        partial.write_bytes(pickle.dumps([case for kind in KINDS for case in _load(kind)]))
        partial.replace(kept)
    result: list[Case] = pickle.loads(kept.read_bytes())
    return result


def _load(kind: str) -> Iterator[Case]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the computations overflow and divide by zero, on purpose
        listed = sorted(onnx_tests.load_model_tests(kind=kind), key=lambda case: case.name)
    for each in listed:
        model = each.model or onnx.load(Path(each.model_dir or "") / "model.onnx")
        raw = each.data_sets if each.data_sets is not None else _stored_sets(Path(each.model_dir or ""))
        outside = _outside(model, raw)
        kept = raw if outside in ("", "random") else []
        sets = tuple(([*map(_array, inputs)], [*map(_array, outputs)]) for inputs, outputs in kept)
        ops = tuple(dict.fromkeys(node.op_type for node in walk(model.graph.node)))
        yield Case(kind, each.name, model.SerializeToString(), sets, each.rtol, each.atol, outside, ops)


def _stored_sets(folder: Path) -> list[tuple[list[Any], list[Any]]]:
    def tensors(data: Path, what: str) -> list[Any]:
        paths = [data / f"{what}_{index}.pb" for index in range(len(list(data.glob(f"{what}_*.pb"))))]
        return [TensorProto.FromString(path.read_bytes()) for path in paths]

    return [(tensors(data, "input"), tensors(data, "output")) for data in sorted(folder.glob("test_data_set_*"))]


def _array(each: Any) -> Array:
    return numpy_helper.to_array(each) if isinstance(each, TensorProto) else np.asarray(each)


def _outside(model: ModelProto, sets: Any) -> str:
    """What else than tensors of numbers a model is about, '' for nothing."""
    nodes = list(walk(model.graph.node))
    found = {_kind_of(value.type) for value in (*model.graph.input, *model.graph.output)}
    if any(node.domain == _TRAINING for node in nodes):
        found.add("training")
    if any(node.op_type == "ImageDecoder" for node in nodes):
        found.add("images")
    if any(node.op_type in _RANDOM for node in nodes) or _drops_at_random(model, sets):
        found.add("random")
    return next((what for what in OUTSIDE if what in found), "")


def _kind_of(type: TypeProto) -> str:
    match type.WhichOneof("value"):
        case "sequence_type":
            return "sequences"
        case "optional_type":
            return "optionals"
        case "map_type":
            return "maps"
    return "strings" if type.tensor_type.elem_type == TensorProto.STRING else ""


def _drops_at_random(model: ModelProto, sets: Any) -> bool:
    """Whether a Dropout is told to train, and to drop anything (its ratio is 0.5 where it is not given)."""
    fed = dict(zip((value.name for value in model.graph.input), sets[0][0], strict=False))
    fed |= {tensor.name: tensor for tensor in model.graph.initializer}
    for node in walk(model.graph.node):
        if node.op_type == "Dropout" and len(node.input) > 2 and _array(fed[node.input[2]]).any():
            ratio = _array(fed[node.input[1]]) if node.input[1] else np.float32(0.5)
            if ratio != 0:
                return True
    return False
