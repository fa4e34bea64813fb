"""Ensembles of trees: the operator that TreeEnsemble replaced, and attributes that describe no trees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mcpc
from mcpc.errors import ModelError, RuntimeFault
from mcpc.reference import run_model

X = np.array([[1, 2, 3], [2, 1, 0], [0, 9, 2], [np.nan, 1.5, np.nan], [1, np.nan, 1]], np.float32)


def model(op: str, version: int, attrs: dict[str, Any], features: int | str = 3) -> bytes:
    node = helper.make_node(op, ["x"], ["y"], name="trees", domain="ai.onnx.ml", **attrs)
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size])
        for name, size in (("x", features), ("y", None))
    )
    graph = helper.make_graph([node], "trees", [x], [y])
    opsets = [helper.make_opsetid("", 25), helper.make_opsetid("ai.onnx.ml", version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=12).SerializeToString()


#: Two trees, of which the second's nodes come first; a leaf may have several targets, or none.
REGRESSOR: dict[str, Any] = {
    "nodes_treeids": [1, 1, 1, 0, 0, 0, 0, 0], "nodes_nodeids": [0, 1, 2, 0, 1, 2, 3, 4],
    "nodes_modes": ["BRANCH_LT", "LEAF", "LEAF", "BRANCH_LEQ", "BRANCH_GT", "LEAF", "LEAF", "LEAF"],
    "nodes_featureids": [2, 0, 0, 0, 1, 0, 0, 0], "nodes_values": [2.0, 0.0, 0.0, 1.0, 1.5, 0.0, 0.0, 0.0],
    "nodes_truenodeids": [1, 0, 0, 1, 3, 0, 0, 0], "nodes_falsenodeids": [2, 0, 0, 2, 4, 0, 0, 0],
    "nodes_missing_value_tracks_true": [0, 0, 0, 1, 0, 0, 0, 0],
    "target_treeids": [0, 0, 0, 1, 1, 1, 1], "target_nodeids": [2, 3, 2, 1, 2, 1, 2],
    "target_ids": [0, 1, 1, 1, 0, 0, 1], "target_weights": [1.5, -2.0, 0.25, 3.0, 4.0, -1.0, 0.5], "n_targets": 2,
}  # fmt: skip


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_regressor(aggregate: str, transform: str, tmp_path: Path) -> None:
    attrs = {**REGRESSOR, "aggregate_function": aggregate, "post_transform": transform, "base_values": [0.5, -0.5]}
    data = model("TreeEnsembleRegressor", 3, attrs)
    path = mcpc.compile(data, "host", tmp_path / "trees.mcp26bin", verify_passes=True)
    with mcpc.load(path) as session:
        (got,) = session.run(None, {"x": X})
    (want,) = run_model(data, {"x": X}, ["y"])
    np.testing.assert_allclose(got, want, rtol=1e-5)


def tensor(values: Any, dtype: type = np.float32) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(values, dtype))


ONE: dict[str, Any] = {
    "n_targets": 2, "tree_roots": [0], "nodes_featureids": [0, 1], "nodes_modes": tensor([0, 1], np.uint8),
    "nodes_splits": tensor([1, 2]), "nodes_truenodeids": [1, 0], "nodes_trueleafs": [0, 1],
    "nodes_falsenodeids": [0, 1], "nodes_falseleafs": [1, 1], "leaf_targetids": [0, 1], "leaf_weights": tensor([1, 2]),
}  # fmt: skip


@pytest.mark.parametrize("number", [1, 2, 3])
def test_transform(number: int, tmp_path: Path) -> None:
    """By number, which ONNX's evaluator ignores and ONNX Runtime takes in another order."""
    results = []
    for kind in (0, number):
        data = model("TreeEnsemble", 5, {**ONE, "post_transform": kind})
        with mcpc.load(mcpc.compile(data, "host", tmp_path / f"{kind}.mcp26bin", golden=0)) as session:
            results += session.run(None, {"x": X})
    plain, got = results
    if number == 2:
        want = 1 / (1 + np.exp(-plain))
    else:
        top = plain.max(axis=1, keepdims=True)
        powers = np.where((plain == 0) & (number == 3), 0, np.exp(plain - top))
        want = powers / powers.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize(
    ("changes", "code", "what"),
    [
        ({"nodes_truenodeids": [0, 0]}, "E102", "leads back"),
        ({"nodes_truenodeids": [2, 0]}, "E102", "child is out of range"),
        ({"nodes_falsenodeids": [2, 1]}, "E102", "child is out of range"),
        ({"nodes_falsenodeids": [-1, 1]}, "E102", "negative"),
        ({"tree_roots": [2]}, "E102", "root is out of range"),
        ({"tree_roots": [-3]}, "E102", "root is out of range"),
        ({"leaf_targetids": [0, 2]}, "E102", "target is out of range"),
        ({"leaf_targetids": [0, -1]}, "E102", "target is out of range"),
        ({"nodes_modes": tensor([0, 7], np.uint8)}, "E102", "mode is out of range"),
        ({"nodes_modes": tensor([0, 6], np.uint8)}, "E102", "0 sets, 1 are needed"),
        ({"nodes_featureids": [0, -1]}, "E102", "feature is out of range"),
        ({"nodes_featureids": [0, 3]}, "E104", "feature 3 of 3"),
        ({"nodes_splits": tensor([1])}, "E102", "nodes_splits"),
        ({"nodes_trueleafs": [0]}, "E102", "nodes_trueleafs"),
        ({"leaf_weights": tensor([1])}, "E102", "leaf_weights"),
        ({"n_targets": 0}, "E102", "n_targets"),
        ({"post_transform": 4}, "E102", "PROBIT"),
        ({"aggregate_function": 4}, "E102", "aggregate_function"),
    ],
    ids=str,
)
def test_no_trees(changes: dict[str, Any], code: str, what: str, tmp_path: Path) -> None:
    mcpc.compile(model("TreeEnsemble", 5, ONE), "host", tmp_path / "good.mcp26bin")
    with pytest.raises(ModelError, match=what) as error:
        mcpc.compile(model("TreeEnsemble", 5, {**ONE, **changes}), "host", tmp_path / "bad.mcp26bin")
    assert error.value.code == code


def test_too_few_features_in_a_run(tmp_path: Path) -> None:
    path = mcpc.compile(model("TreeEnsemble", 5, ONE, "f"), "host", tmp_path / "m.mcp26bin", golden=0)
    with mcpc.load(path) as session:
        for count in (0, 1):
            with pytest.raises(RuntimeFault) as fault:
                session.run(None, {"x": np.ones((2, count), np.float32)})
            assert fault.value.code == "E603"
        assert session.run(None, {"x": np.ones((2, 2), np.float32)})[0].shape == (2, 2)
