"""Depthwise convolutions take pointwise ones into their kernel, where that pays."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import mcpc
from mcpc import plugins
from mcpc.ir import OPSET, Graph
from mcpc.onnx_reader import read
from mcpc.pipeline import PassContext, parse_pipeline, run_pipeline
from mcpc.targets.native.region import SEPARABLE, Region

from .operators.families import separable
from .operators.graphs import serialize_untyped

CASES = {case.name: case for case in separable.FAMILY}
CONV, DEPTHWISE = "pointwise", "depthwise"
PARTS = {
    "projected only": [DEPTHWISE, CONV],
    "expanded only": [CONV, DEPTHWISE],
    "expanded, filtered and scaled": [CONV, DEPTHWISE],
}


def lowered(model: bytes, target: str) -> tuple[Graph, PassContext]:
    """``model`` behind all passes, each of which ONNX Runtime checks."""
    ctx = PassContext(target=plugins.find_target(target), verify_passes=True)
    series = parse_pipeline(ctx.target.pipeline, plugins.passes())
    return run_pipeline(read(model), [*series, *plugins.find_family("native").passes(ctx.target)], ctx), ctx


def parts(graph: Graph) -> list[str]:
    """What the only node with several products consists of; empty where there is none."""
    fused = [node for node in graph.nodes if node.body is not None and node.attrs["kind"] == SEPARABLE]
    assert len(fused) <= 1
    anchors = [stage.anchor for node in fused for stage in Region.of(node).stages]
    return [DEPTHWISE if anchor is not None and anchor.attrs.get("group", 1) > 1 else CONV for anchor in anchors]


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4", "rock5b"])
@pytest.mark.parametrize("name", CASES)
def test_cases_become_one_kernel(name: str, target: str) -> None:
    graph, ctx = lowered(serialize_untyped(CASES[name].graph), target)
    expected = PARTS.get(name, [CONV, DEPTHWISE, CONV])
    assert parts(graph) in (expected, expected[1:])  # a large first cache may hold what one of the products makes
    decision = next(each for each in ctx.decisions if each.pass_name == "fuse-separable")
    assert decision.action == "fuse"
    assert decision.numbers["fused_us"] < decision.numbers["split_us"]


def block(outputs: Sequence[str] = ("y",), size: int = 64, *, is_read_twice: bool = False) -> bytes:
    """x, expanded to e, filtered to f, projected to y."""
    rng = np.random.default_rng(1)
    shapes = {"expand": (96, 8, 1, 1), "filter": (96, 1, 3, 3), "project": (24, 96, 1, 1)}
    weights = [numpy_helper.from_array(rng.standard_normal(s, np.float32), n) for n, s in shapes.items()]
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Conv", ["r", "expand"], ["e.sum"]),
        helper.make_node("Relu", ["e.sum"], ["e"]),
        helper.make_node("Conv", ["e", "filter"], ["f.sum"], group=96, pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["f.sum", "e"], ["f"]) if is_read_twice else helper.make_node("Relu", ["f.sum"], ["f"]),
        helper.make_node("Conv", ["f", "project"], ["y"]),
    ]
    channels = {"e": 96, "f": 96, "y": 24}
    results = [helper.make_tensor_value_info(n, TensorProto.FLOAT, (1, channels[n], size, size)) for n in outputs]
    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 8, size, size))
    graph = helper.make_graph(nodes, "block", [image], results, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=12)
    return bytes(model.SerializeToString())


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (block(), [CONV, DEPTHWISE, CONV]),
        (block(("y", "e")), [DEPTHWISE, CONV]),
        (block(("y", "f")), [CONV, DEPTHWISE]),
        (block(("y", "e", "f")), []),
        (block(is_read_twice=True), [DEPTHWISE, CONV]),
        (block(size=7), []),  # too few rows for workers to share
    ],
    ids=["all", "expanded is an output", "filtered is an output", "both are", "expanded is read twice", "small"],
)
def test_only_what_nobody_else_reads(model: bytes, expected: list[str]) -> None:
    graph, _ = lowered(model, "x86-64-v3")
    assert parts(graph) == expected


def test_same_bits_apart_and_on_any_number_of_threads(tmp_path: Path) -> None:
    x = np.random.default_rng(2).standard_normal((1, 8, 64, 64), np.float32)
    together = mcpc.compile(block(), "host", tmp_path / "together.mcp26bin")
    apart = mcpc.compile(block(("y", "e", "f")), "host", tmp_path / "apart.mcp26bin")
    with mcpc.load(apart, threads=1) as session:
        want = session.run(["y"], {"x": x})[0]
    for threads in (1, 2, 3):
        with mcpc.load(together, threads=threads) as session:
            np.testing.assert_array_equal(session.run(None, {"x": x})[0], want)
