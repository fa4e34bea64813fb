"""Ensembles of decision trees: TreeEnsemble of ai.onnx.ml, and TreeEnsembleRegressor, which it replaced."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mcpc.ir import Dim, DType, Node, TensorType, dim
from mcpc.ops.context import InferContext, attribute, choice, expect, expect_rank, fail, type_of
from mcpc.ops.registry import ACCUMULATED, Cost, OpDef, register, traffic

Array = np.ndarray[Any, Any]

DOMAIN = "ai.onnx.ml"

#: What a node asks of its feature x and its number s, and how results of trees become one, both in ONNX's order.
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")

LEAF = "LEAF"


@dataclass(frozen=True)
class Ensemble:
    """Nodes are rows of all arrays about them. ``children`` [nodes, 2], for no and for yes, and ``roots`` are nodes, or
    ~i for leaf i, whose results are ``targets`` and ``weights`` from ``leaves[i]`` to ``leaves[i + 1]``. A node of mode
    BRANCH_MEMBER has in ``splits`` the number of its set, ``members`` from ``sets[i]`` to ``sets[i + 1]``."""

    features: Array
    modes: Array
    missing: Array
    splits: Array
    children: Array
    sets: Array
    members: Array
    roots: Array
    leaves: Array
    targets: Array
    weights: Array
    base: Array
    outputs: int
    aggregate: str
    transform: str


def ensemble_of(node: Node) -> Ensemble:
    """What the attributes say; E102 where an index leads nowhere, or a tree back to itself."""
    dtype = type_of(node, 0).dtype.numpy
    result = _current(node, dtype) if node.op == "TreeEnsemble" else _former(node, dtype)
    count, leaves = len(result.features), len(result.leaves) - 1
    if result.outputs < 1:
        fail(node, f"attribute n_targets is {result.outputs}", "E102")
    for name, array, low, high in (
        ("feature", result.features, 0, 1 << 24),
        ("mode", result.modes, 0, len(MODES)),
        ("child", result.children, -leaves, count),
        ("root", result.roots, -leaves, count),
        ("target", result.targets, 0, result.outputs),
    ):
        if ((array < low) | (array >= high)).any():
            fail(node, f"a tree's {name} is out of range", "E102")
    frontier = result.roots[result.roots >= 0]
    for _ in range(count + 1):
        frontier = np.unique(result.children[frontier])
        frontier = frontier[frontier >= 0]
        if not frontier.size:
            return result
    fail(node, "a tree leads back to itself", "E102")


def listed(node: Node, name: str) -> Array:
    """An attribute of numbers, be it a list or a tensor of rank 1; empty where it is not there. E102 for another."""
    values = node.attrs.get(name)
    result = np.asarray([] if values is None or isinstance(values, str) else values)
    if result.ndim != 1 or (result.size and result.dtype.kind not in "fiu") or isinstance(values, str):
        fail(node, f"attribute {name} is no list of numbers", "E102")
    return result


def _ints(node: Node, name: str, count: int | None = None, default: int | None = None) -> Array:
    """An attribute of integers, as many as ``count``."""
    result = listed(node, name)
    if count is not None and default is not None and not result.size:
        result = np.full(count, default)
    if (result.size and result.dtype.kind not in "iu") or count not in (None, result.size):
        fail(node, f"attribute {name} does not fit: {count} integers are needed", "E102")
    return result.astype(np.int64)


def _numbers(node: Node, name: str, count: int | None, dtype: np.dtype[Any]) -> Array:
    """An attribute of numbers, be it a tensor or a list."""
    result = listed(node, f"{name}_as_tensor" if f"{name}_as_tensor" in node.attrs else name)
    if count not in (None, result.size):
        fail(node, f"attribute {name} does not fit: {count} numbers are needed", "E102")
    return result.astype(dtype)


def _named(node: Node, name: str, default: int, choices: Sequence[str]) -> str:
    index = attribute(node, name, default)
    if not 0 <= index < len(choices):
        fail(node, f"attribute {name} is {index}", "E102")
    return choices[index]


def _current(node: Node, dtype: np.dtype[Any]) -> Ensemble:
    features = _ints(node, "nodes_featureids")
    count = len(features)
    modes = _numbers(node, "nodes_modes", count, np.dtype(np.int64))
    sides = []
    for side in ("false", "true"):
        at, is_leaf = _ints(node, f"nodes_{side}nodeids", count), _ints(node, f"nodes_{side}leafs", count)
        if (at < 0).any():
            fail(node, f"nodes_{side}nodeids holds a negative number", "E102")
        sides.append(np.where(is_leaf != 0, ~at, at))
    members = _numbers(node, "membership_values", None, dtype)
    ends = np.flatnonzero(np.isnan(members))
    splits = _numbers(node, "nodes_splits", count, dtype)
    asks = modes == MODES.index("BRANCH_MEMBER")
    if len(ends) < asks.sum():
        fail(node, f"membership_values holds {len(ends)} sets, {asks.sum()} are needed", "E102")
    splits[asks] = np.arange(asks.sum())
    targets = _ints(node, "leaf_targetids")
    return Ensemble(
        features,
        modes,
        _ints(node, "nodes_missing_value_tracks_true", count, 0),
        splits,
        np.stack(sides, axis=-1),
        np.array([0, *(ends + 1)], np.int64),
        members,
        _ints(node, "tree_roots"),
        np.arange(len(targets) + 1),
        targets,
        _numbers(node, "leaf_weights", len(targets), dtype),
        np.zeros(0, dtype),
        attribute(node, "n_targets", int(targets.max(initial=0)) + 1),
        _named(node, "aggregate_function", 1, AGGREGATES),
        _named(node, "post_transform", 0, TRANSFORMS),
    )


def _former(node: Node, dtype: np.dtype[Any]) -> Ensemble:
    """Nodes, leaves among them, are called by the pairs of a tree's number and their own in it."""
    numbers = _ints(node, "nodes_nodeids")
    count = len(numbers)
    trees = _ints(node, "nodes_treeids", count)
    modes_named = node.attrs.get("nodes_modes", [])
    names = [str(mode) for mode in modes_named] if isinstance(modes_named, list) else []
    if len(names) != count or not set(names) <= {*MODES[:-1], LEAF}:
        fail(node, "attribute nodes_modes does not fit", "E102")
    is_leaf = np.array([name == LEAF for name in names], bool)
    place = {pair: index for index, pair in enumerate(zip(trees.tolist(), numbers.tolist(), strict=True))}
    if len(place) < count:
        fail(node, "two nodes of a tree have one number", "E102")
    inner = np.flatnonzero(~is_leaf)
    codes = np.zeros(count, np.int64)
    codes[inner], codes[is_leaf] = np.arange(len(inner)), ~np.arange(is_leaf.sum())

    def code(tree: int, number: int) -> int:
        if (tree, number) not in place:
            fail(node, f"tree {tree} has no node {number}", "E102")
        return int(codes[place[tree, number]])

    sides = [_ints(node, f"nodes_{side}nodeids", count) for side in ("false", "true")]
    children = [[code(int(trees[i]), int(side[i])) for side in sides] for i in inner]
    targets = _ints(node, "target_ids")
    owner_trees, owners = (_ints(node, f"target_{kind}ids", len(targets)) for kind in ("tree", "node"))
    leaves = np.array([~code(*pair) for pair in zip(owner_trees.tolist(), owners.tolist(), strict=True)], np.int64)
    if (leaves < 0).any():
        fail(node, "a target is at a node that is no leaf", "E102")
    order = np.argsort(leaves, kind="stable")
    modes = np.array([MODES.index(names[i]) for i in inner], np.int64)
    first = {tree: index for index, tree in reversed(list(enumerate(trees.tolist())))}
    return Ensemble(
        _ints(node, "nodes_featureids", count)[inner],
        modes,
        _ints(node, "nodes_missing_value_tracks_true", count, 0)[inner],
        _numbers(node, "nodes_values", count, dtype)[inner],
        np.array(children, np.int64).reshape(-1, 2),
        np.zeros(1, np.int64),
        np.zeros(0, dtype),
        codes[sorted(first.values())],
        np.searchsorted(leaves[order], np.arange(is_leaf.sum() + 1)),
        targets[order],
        _numbers(node, "target_weights", len(targets), dtype)[order],
        _numbers(node, "base_values", None, dtype),
        attribute(node, "n_targets", int(targets.max(initial=0)) + 1),
        choice(node, "aggregate_function", "SUM", AGGREGATES),
        choice(node, "post_transform", "NONE", TRANSFORMS),
    )


def infer_ensemble(node: Node, context: InferContext) -> list[TensorType]:
    """X [N, F] → Y [N, targets]."""
    x = expect(node, 0, {DType.float32, DType.float64} if node.op == "TreeEnsemble" else {DType.float32})
    expect_rank(node, 0, 2)
    ensemble = ensemble_of(node)
    if x.shape is None:
        return [TensorType(x.dtype, None)]
    most = int(ensemble.features.max(initial=-1))
    if isinstance(x.shape[1], int) and most >= x.shape[1]:
        fail(node, f"feature {most} of {x.shape[1]}")
    return [TensorType(x.dtype, (x.shape[0], ensemble.outputs))]


def cost_ensemble(node: Node) -> Cost:
    """A comparison for every level of a tree, as many as if it were balanced."""
    ensemble = ensemble_of(node)
    rows: Dim = type_of(node, 0).dims[0]
    trees = max(1, len(ensemble.roots))
    return Cost(dim(rows * trees * math.ceil(math.log2(max(2, len(ensemble.features) / trees)))), traffic(node))


register(
    OpDef("TreeEnsemble", infer_ensemble, cost_ensemble, ACCUMULATED, (5, 5), DOMAIN),
    OpDef("TreeEnsembleRegressor", infer_ensemble, cost_ensemble, ACCUMULATED, (1, 4), DOMAIN),
)
