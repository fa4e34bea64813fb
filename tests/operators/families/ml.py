"""Operators of ai.onnx.ml on numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper

from ..case import ONNX, ORT, Family
from ..graphs import Array
from ..graphs import Weight as W

FAMILY = Family("ml")


def op(name: str, kind: str, *operands: Any, **options: Any) -> None:
    FAMILY.op(name, kind, *operands, domain="ai.onnx.ml", **options)


ORT_ONLY = {"judges": (ORT,), "because": "onnx.reference knows no such form"}
ONNX_ONLY = {"judges": (ONNX,), "because": "ONNX Runtime knows no such form"}
COUNT = np.arange(24).reshape(2, 3, 4)
NAN = np.array([[1, np.nan, 3], [4, 5, np.nan], [0, 1, 2]], np.float32)

op("Binarizer", "Binarizer", (3, 11), threshold=0.4)
op("Binarizer of int64", "Binarizer", np.arange(6), threshold=2.0, case=ONNX_ONLY)
op("ArrayFeatureExtractor", "ArrayFeatureExtractor", (3, 7), np.array([[0, 6, 2]]))
op("ArrayFeatureExtractor of a vector", "ArrayFeatureExtractor", np.arange(7), np.array([3, 1]))
op("ArrayFeatureExtractor of rank 3", "ArrayFeatureExtractor", COUNT, W(np.array([[3], [0]])))
op("Scaler", "Scaler", (4, 3), offset=[0.5, -1.0, 2.0], scale=[2.0, 0.1, -3.0])
op("Scaler, one number", "Scaler", (4, 3), offset=[0.5], scale=[2.0])
op("Scaler of int64", "Scaler", COUNT[0], offset=[0.5], scale=[2.0], case=ORT_ONLY)
for norm in ("MAX", "L1", "L2"):
    op(f"Normalizer, {norm}", "Normalizer", np.abs(np.sin(COUNT[0] + 1)).astype(np.float32), norm=norm)
op("Imputer, NaN", "Imputer", NAN, imputed_value_floats=[7.0, 8.0, 9.0], replaced_value_float=float("nan"))
op("Imputer, a number", "Imputer", NAN, imputed_value_floats=[7.0], replaced_value_float=1.0)
op("Imputer of int64", "Imputer", COUNT[1], imputed_value_int64s=[-1], replaced_value_int64=14)
op("FeatureVectorizer", "FeatureVectorizer", (3, 2), (3, 1), (3, 4), inputdimensions=[2, 1, 4])
op("OneHotEncoder", "OneHotEncoder", np.array([[4, 2, 9]]), cats_int64s=[2, 4, 8])

regressor = {"coefficients": np.linspace(-1, 1, 15).tolist(), "intercepts": [0.5, 0.0, -0.5]}
op("LinearRegressor", "LinearRegressor", (4, 5), targets=3, **regressor)
op("LinearRegressor, one target", "LinearRegressor", (4, 5), coefficients=[1.0, -1.0, 0.5, 2.0, 3.0], intercepts=[1.0])
for transform in ("NONE", "SOFTMAX", "LOGISTIC"):
    op(f"LinearClassifier, {transform}", "LinearClassifier", (9, 5), outputs=2, classlabels_ints=[4, -2, 7],
       post_transform=transform, **regressor)  # fmt: skip
op("LinearClassifier of two", "LinearClassifier", (9, 2), outputs=2, classlabels_ints=[4, 7], post_transform="LOGISTIC",
   coefficients=[1.0, -1.0], intercepts=[0.2])  # fmt: skip

#: Of a key that is there twice, the last one counts.
FIRST = {"judges": (ONNX,), "because": "ONNX Runtime takes the first one"}
KEYS = {"keys_int64s": [3, 1, 3, 8], "values_floats": [0.5, 1.5, 2.5, 3.5]}
op("LabelEncoder, int64 to float32", "LabelEncoder", np.array([[1, 3], [8, 4]]), default_float=9.0, case=FIRST, **KEYS)
op("LabelEncoder, float32 to int64", "LabelEncoder", NAN, keys_floats=[1.0, 5.0], values_int64s=[10, 20])
op("LabelEncoder, NaN", "LabelEncoder", NAN, keys_floats=[1.0, float("nan")], values_int64s=[10, 20], case=ORT_ONLY)


def tensor(values: Any, dtype: type = np.float32) -> TensorProto:
    return numpy_helper.from_array(np.asarray(values, dtype))


op("LabelEncoder, tensors", "LabelEncoder", np.array([1, 2, 3], np.int16), keys_tensor=tensor([2, 3], np.int16),
   values_tensor=tensor([5, 6], np.int16), default_tensor=tensor([-7], np.int16), case=ONNX_ONLY)  # fmt: skip


# ---- trees
def forest(seed: int, trees: int, features: int, modes: list[int], targets: int, dtype: type) -> dict[str, Any]:
    """Random trees of up to six levels, in the attributes of TreeEnsemble."""
    rng = np.random.default_rng(seed)
    nodes: list[list[Any]] = []
    members: list[float] = []
    roots: list[int] = []
    leaves: list[tuple[float, int]] = []

    def grow(level: int) -> tuple[int, int]:
        """The place of a new node or leaf, and whether it is a leaf."""
        if level > 0 and (level == 6 or rng.random() < 0.2):
            leaves.append((float(rng.standard_normal()), int(rng.integers(targets))))
            return len(leaves) - 1, 1
        place = len(nodes)
        mode = int(rng.choice(modes))
        if mode == 6:
            members.extend([*rng.integers(1, 4, 2).tolist(), np.nan])
        nodes.append([int(rng.integers(features)), mode, float(rng.integers(4)), int(rng.integers(2))])
        nodes[place] += [*grow(level + 1), *grow(level + 1)]
        return place, 0

    for _ in range(trees):
        roots.append(grow(0)[0])
    feature, mode, split, missing, yes, yes_leaf, no, no_leaf = (list(column) for column in zip(*nodes, strict=True))
    weights, ids = (list(column) for column in zip(*leaves, strict=True))
    return {
        "n_targets": targets, "tree_roots": roots, "nodes_featureids": feature, "nodes_modes": tensor(mode, np.uint8),
        "nodes_splits": tensor(split, dtype), "nodes_missing_value_tracks_true": missing, "nodes_truenodeids": yes,
        "nodes_trueleafs": yes_leaf, "nodes_falsenodeids": no, "nodes_falseleafs": no_leaf, "leaf_targetids": ids,
        "leaf_weights": tensor(weights, dtype), **({"membership_values": tensor(members, dtype)} if members else {}),
    }  # fmt: skip


def rows(dtype: type = np.float32) -> Array:
    """Whole numbers, so that they meet the trees' own, and some that are missing."""
    x: Array = np.random.default_rng(0).integers(0, 4, (13, 5)).astype(dtype)
    x[2, 1] = x[5, 3] = x[7] = np.nan
    return x


SHARED = dict(enumerate(("AVERAGE", "SUM", "MIN", "MAX")))
for mode in range(6):
    trees = forest(mode, 5, 5, [mode], 2, np.float32)
    op(f"TreeEnsemble, mode {mode}", "TreeEnsemble", rows(), case={"tolerance": 1e-6}, **trees)
for number, text in SHARED.items():
    trees = forest(number, 40, 5, [0, 1, 4], 1, np.float32)
    op(f"TreeEnsemble, {text}", "TreeEnsemble", rows(), aggregate_function=number, **trees)
op("TreeEnsemble, all modes", "TreeEnsemble", rows(), **forest(7, 9, 5, list(range(6)), 3, np.float32))
op("TreeEnsemble, members", "TreeEnsemble", rows(), **forest(8, 1, 5, [6, 0], 2, np.float32))
op("TreeEnsemble of float64", "TreeEnsemble", rows(np.float64), **forest(9, 6, 5, [0, 2], 3, np.float64))
