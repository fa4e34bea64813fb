"""Operators of ai.onnx.ml on numbers, by the ai.onnx operators that they stand for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mcpc.ir import DType, Value
from mcpc.ops.context import attribute, choice, expect_rank, fail, number, unify
from mcpc.ops.contrib import Expansion, stands_for
from mcpc.ops.trees import DOMAIN, TRANSFORMS, listed

Array = np.ndarray[Any, Any]


def _floats(e: Expansion, index: int = 0) -> Value:
    """An operand in float32, which most results are in."""
    x = e.input(index)
    return x if x.dtype is DType.float32 else e("Cast", x, to=DType.float32)


def _constant(e: Expansion, values: Any, dtype: DType) -> Value:
    return e.graph.constant(f"{e.node.name}.values", np.asarray(values, dtype.numpy))


def _listed(e: Expansion, *names: str) -> Array:
    """The one of these attributes that is there and not empty."""
    for name in names:
        values = listed(e.node, name)
        if values.size:
            return values
    fail(e.node, f"{e.node.op} without {' or '.join(names)} is not supported", "E102")


@stands_for("Binarizer", domain=DOMAIN)
def binarizer(e: Expansion) -> Sequence[Value | None]:
    x = e.input(0)
    return [e("Cast", e("Greater", x, e.scalar(number(e.node, "threshold", 0.0), x)), to=x.dtype)]


@stands_for("ArrayFeatureExtractor", domain=DOMAIN)
def array_feature_extractor(e: Expansion) -> Sequence[Value | None]:
    """X [..., F] at the indices Y, whatever their shape is; of a vector a matrix of one row."""
    x, picked = e.input(0), e("Reshape", e.input(1), e.ints(-1))
    result = e("Gather", x, picked, axis=-1)
    return [e("Unsqueeze", result, e.ints(0)) if x.type.rank == 1 else result]


@stands_for("Scaler", domain=DOMAIN)
def scaler(e: Expansion) -> Sequence[Value | None]:
    offset, scale = (_constant(e, _listed(e, name), DType.float32) for name in ("offset", "scale"))
    return [e("Mul", e("Sub", _floats(e), offset), scale)]


@stands_for("Normalizer", domain=DOMAIN)
def normalizer(e: Expansion) -> Sequence[Value | None]:
    """Rows divided by their norms, which are taken for 1e-30 at least."""
    x, axis = _floats(e), e.ints(-1)
    kind = choice(e.node, "norm", "MAX", ("MAX", "L1", "L2"))
    norm = e("ReduceMax", e("Abs", x), axis, keepdims=1) if kind == "MAX" else e(f"Reduce{kind}", x, axis, keepdims=1)
    return [e("Div", x, e("Max", norm, e.scalar(1e-30, norm)))]


_TRANSFORMS: dict[str, Callable[[Expansion, Value], Value]] = {
    "NONE": lambda e, x: x,
    "SOFTMAX": lambda e, x: e("Softmax", x, axis=-1),
    "LOGISTIC": lambda e, x: e("Sigmoid", x),
}


def _scores(e: Expansion, rows: int) -> Value:
    """X [N, F] times the coefficients [rows, F], and the intercepts."""
    coefficients, intercepts = _listed(e, "coefficients").astype(np.float32), listed(e.node, "intercepts")
    if rows < 1 or coefficients.size % rows:
        fail(e.node, f"{coefficients.size} coefficients do not divide among {rows}", "E102")
    result = e("MatMul", _floats(e), _constant(e, coefficients.reshape(rows, -1).T, DType.float32))
    return e("Add", result, _constant(e, intercepts, DType.float32)) if intercepts.size else result


def _transformed(e: Expansion, scores: Value) -> Value:
    name = choice(e.node, "post_transform", "NONE", TRANSFORMS)
    if name not in _TRANSFORMS:
        e.refuse(f"post_transform {name}")
    return _TRANSFORMS[name](e, scores)


@stands_for("LinearRegressor", domain=DOMAIN)
def linear_regressor(e: Expansion) -> Sequence[Value | None]:
    return [_transformed(e, _scores(e, attribute(e.node, "targets", 1)))]


@stands_for("LinearClassifier", domain=DOMAIN)
def linear_classifier(e: Expansion) -> Sequence[Value | None]:
    """The label of the highest score, and all scores; of two classes there may be the second one's only."""
    labels = _listed(e, "classlabels_ints").astype(np.int64)
    count = listed(e.node, "intercepts").size or len(labels)
    if count not in (len(labels), 1) or len(labels) < 2 or (count == 1 and len(labels) > 2):
        e.refuse(f"{count} scores of {len(labels)} classes")
    scores = _scores(e, count)
    if count == 1:
        scores = e("Concat", e("Neg", scores), scores, axis=-1)
    scores = _transformed(e, scores)
    best = e("ArgMax", scores, axis=-1, keepdims=0)
    return [e("Gather", _constant(e, labels, DType.int64), best), scores]


@stands_for("Imputer", domain=DOMAIN)
def imputer(e: Expansion) -> Sequence[Value | None]:
    x = e.input(0)
    kind = "float" if x.dtype.is_float else "int64"
    values = _constant(e, _listed(e, f"imputed_value_{kind}s"), x.dtype)
    replaced = number(e.node, f"replaced_value_{kind}", 0.0)
    missing = e("IsNaN", x) if np.isnan(replaced) else e("Equal", x, e.scalar(replaced, x))
    return [e("Where", missing, values, x)]


@stands_for("FeatureVectorizer", domain=DOMAIN)
def feature_vectorizer(e: Expansion) -> Sequence[Value | None]:
    """Matrices of the widths ``inputdimensions`` side by side."""
    widths = [int(width) for width in _listed(e, "inputdimensions")]
    parts = [_floats(e, index) for index in range(len(e.node.inputs))]
    if len(widths) != len(parts):
        fail(e.node, f"{len(widths)} inputdimensions of {len(parts)} inputs", "E102")
    for index, (part, width) in enumerate(zip(parts, widths, strict=True)):
        expect_rank(e.node, index, 2)
        if part.shape is not None:
            unify(e.node, part.shape[1], width, f"input {index} and inputdimensions")
    return [e("Concat", *parts, axis=1)]


def _matches(e: Expansion, x: Value, keys: Array) -> Value:
    """[..., keys]: which of the keys an element is; a NaN is one."""
    column = e("Unsqueeze", x, e.ints(-1))
    equal = e("Equal", column, _constant(e, keys, x.dtype))
    if not x.dtype.is_float or not np.isnan(keys).any():
        return equal
    return e("Or", equal, e("And", e("IsNaN", column), _constant(e, np.isnan(keys), DType.bool)))


@stands_for("OneHotEncoder", domain=DOMAIN)
def one_hot_encoder(e: Expansion) -> Sequence[Value | None]:
    if not attribute(e.node, "zeros", 1):
        e.refuse("zeros 0")
    keys = _listed(e, "cats_int64s")
    return [e("Cast", _matches(e, e.input(0), keys), to=DType.float32)]


@stands_for("LabelEncoder", domain=DOMAIN, versions=(2, 5))
def label_encoder(e: Expansion) -> Sequence[Value | None]:
    """The value behind the last key that an element is, or the default."""
    keys = _listed(e, "keys_tensor", "keys_int64s", "keys_floats")
    values = _listed(e, "values_tensor", "values_int64s", "values_floats")
    if keys.size != values.size:
        fail(e.node, f"{keys.size} keys, {values.size} values", "E102")
    if "values_tensor" in e.node.attrs:
        given = listed(e.node, "default_tensor")
        default = given[0] if given.size else -0.0 if values.dtype.kind == "f" else -1
    elif "values_floats" in e.node.attrs:
        values, default = values.astype(np.float32), number(e.node, "default_float", -0.0)
    else:
        default = attribute(e.node, "default_int64", -1)
    table = np.append(np.array([default], values.dtype), values)
    matches = e("Cast", _matches(e, e.input(0), keys), to=DType.int32)
    place = e("Mul", matches, _constant(e, np.arange(1, len(keys) + 1), DType.int32))
    last = e("ReduceMax", place, e.ints(-1), keepdims=0)
    return [e("Gather", _constant(e, table, DType.of(table)), last)]
