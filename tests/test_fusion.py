"""Fusion: partitions are legal and no slower than others by the cost model, whatever the graph."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpc.graph_check import check_graph
from mcpc.ir import DType, Graph, Node, TensorType
from mcpc.ir_text import parse_graph
from mcpc.ops import infer_graph, is_elementwise
from mcpc.passes.boundary import MAX_NODES, Boundaries, Group, Limits
from mcpc.passes.fused_node import is_anchor
from mcpc.passes.kernel_time import KernelTimes
from mcpc.passes.partition import Partition, greedy, least_time
from mcpc.pipeline import Decision, PassContext, PipelineError, parse_pipeline, run_pipeline
from mcpc.plugins import find_target, passes
from mcpc.reference import run_graph
from mcpc.sample_inputs import sample_inputs
from mcpc.target import Target

UNARY, BINARY = ("Relu", "Sigmoid", "Neg", "Tanh"), ("Add", "Mul", "Sub")


def draw_graph(draw: Callable[[st.SearchStrategy[Any]], Any], most: int) -> Graph:
    """A random DAG of elementwise operators and products of square matrices, with results that are read many times."""
    size = draw(st.sampled_from([2, 48]))
    graph = Graph("random")
    type = TensorType(DType.float32, (size, size))
    values = [graph.add_input("x", type), graph.add_input("z", type)]
    weight = graph.constant("w", np.eye(size, dtype=np.float32))
    for _ in range(draw(st.integers(1, most))):
        op = draw(st.sampled_from([*UNARY, *BINARY, "MatMul"]))
        arity = 2 if op in BINARY else 1
        inputs = [values[-1 - draw(st.integers(0, min(3, len(values) - 1)))] for _ in range(arity)]
        values += graph.emit(op, [*inputs, weight] if op == "MatMul" else inputs, [type])
    made = values[2:]
    unread = [value for value in made if not value.users]
    more = draw(st.lists(st.sampled_from(made), max_size=2))
    graph.outputs = list(dict.fromkeys((*unread, *more)))
    infer_graph(graph)
    return graph


@st.composite
def graphs(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Graph:
    return draw_graph(draw, 16)


@st.composite
def small_graphs(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Graph:
    return draw_graph(draw, 7)


def prepared(graph: Graph, target: Target) -> tuple[Boundaries, KernelTimes]:
    return Boundaries(graph, Limits.of(target), lambda node: True), KernelTimes(graph, target)


TARGETS = [find_target(name) for name in ("x86-64-v3", "rock5b")]


def require_legal(graph: Graph, partition: Partition) -> None:
    """Groups are disjoint, have one result and one anchor at most, and contracting them leaves no cycles."""
    home: dict[Node, Node] = {}
    for sink, group in partition.groups.items():
        assert group[0] is sink and len(set(group)) == len(group) <= MAX_NODES
        assert sum(map(is_anchor, group)) <= 1 and is_elementwise(sink)
        for node in group:
            assert node not in home
            home[node] = sink
            if node is not sink:
                assert not graph.is_output(node.output) and all(user in group for user in node.output.users)
            if is_anchor(node):
                assert all(value is None or value.producer not in group for value in node.inputs)
    contracted = nx.DiGraph()
    for node in graph.nodes:
        for user in node.output.users:
            ends = home.get(node, node), home.get(user, user)
            if ends[0] is not ends[1]:
                contracted.add_edge(*ends)
    assert nx.is_directed_acyclic_graph(contracted)


@settings(max_examples=150)
@given(graphs(), st.sampled_from(TARGETS))
def test_the_partition_is_legal_and_no_slower_than_others(graph: Graph, target: Target) -> None:
    boundaries, times = prepared(graph, target)
    partition = least_time(boundaries, times)
    require_legal(graph, partition)
    time = partition.time(graph, times)
    assert time <= Partition().time(graph, times) * (1 + 1e-6)
    others = greedy(boundaries, lambda node, group: True)
    require_legal(graph, others)
    assert time <= others.time(graph, times) * (1 + 1e-6)


def partitions(graph: Graph, boundaries: Boundaries) -> list[Partition]:
    """Every legal one, by trying every set of boundaries."""
    inner = [node for node in graph.nodes if node.output.users]
    found = []
    for joins in itertools.product([False, True], repeat=len(inner)):
        chosen = {node for node, is_joined in zip(inner, joins, strict=True) if is_joined}
        taken = greedy(boundaries, lambda node, group, chosen=chosen: node in chosen)  # type: ignore[misc]
        found.append(taken)
    return found


@settings(max_examples=40)
@given(small_graphs(), st.sampled_from(TARGETS))
def test_no_partition_of_a_small_graph_is_faster(graph: Graph, target: Target) -> None:
    boundaries, times = prepared(graph, target)
    least = min(each.time(graph, times) for each in partitions(graph, boundaries))
    assert least_time(boundaries, times).time(graph, times) == pytest.approx(least, rel=1e-6)


@settings(max_examples=40)
@given(graphs(), st.sampled_from(["roofline", "threshold", "none"]), st.sampled_from([None, *TARGETS]))
def test_results_stay(graph: Graph, policy: str, target: Target | None) -> None:
    feeds = sample_inputs(graph.inputs, 0)
    want = run_graph(graph, feeds)
    fused, _ = fuse(graph, policy, target)
    for got, expected in zip(run_graph(fused, feeds), want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def fuse(graph: Graph, policy: str = "roofline", target: Target | None = TARGETS[0]) -> tuple[Graph, list[Decision]]:
    ctx = PassContext(target=target)
    graph = run_pipeline(graph, parse_pipeline(f"fuse{{policy={policy}}}", passes()), ctx)
    check_graph(graph)
    return graph, ctx.decisions


def chain(size: int) -> Graph:
    return parse_graph(f"""graph "g" {{
      input %x: float32[{size}, {size}]
      %a: float32[{size}, {size}] = MatMul(%x, %x)
      %b: float32[{size}, {size}] = Neg(%a)
      %y: float32[{size}, {size}] = Tanh(%b)
      output %y
    }}""")


@pytest.mark.parametrize(
    ("size", "policy", "steps"),
    [(16, "roofline", 1), (512, "roofline", 1), (16, "threshold", 3), (512, "threshold", 1), (512, "none", 3)],
)
def test_policies(size: int, policy: str, steps: int) -> None:
    """Little traffic is worth fusing for the start of a kernel, which the threshold does not see."""
    graph, _ = fuse(chain(size), policy, TARGETS[1])
    assert len(graph.nodes) == steps


def test_the_roofline_is_no_slower_than_the_threshold() -> None:
    for size in (4, 64, 300, 1000):
        graph = chain(size)
        boundaries, times = prepared(graph, TARGETS[0])
        _, decisions = fuse(chain(size), "threshold")
        kept = {each.subject for each in decisions if each.action == "keep"}
        other = greedy(boundaries, lambda node, group, kept=kept: node.output.name not in kept)  # type: ignore[misc]
        assert least_time(boundaries, times).time(graph, times) <= other.time(graph, times)


@pytest.mark.parametrize(("columns", "groups"), [(1, 0), (8, 1), (32, 1)])
def test_an_epilogue_of_few_columns_fills_no_vector(columns: int, groups: int) -> None:
    """A sigmoid costs eight times as much behind a product with one column, and what stays apart is one launch."""
    graph = Graph("few")
    x = graph.add_input("x", TensorType(DType.float32, (4096, 64)))
    weight = graph.constant("w", np.ones((64, columns), np.float32))
    (product,) = graph.emit("MatMul", [x, weight], [TensorType(DType.float32, (4096, columns))])
    graph.outputs = list(graph.emit("Sigmoid", [product], [product.type]))
    assert len(least_time(*prepared(graph, find_target("x86-64-v3"))).groups) == groups


def test_what_waits_for_its_weights_computes_what_others_need() -> None:
    """Two products end in one sum: the one that computes less than it loads has time for the activations too."""
    graph = parse_graph("""graph "g" {
      input %x: float32[2, 1024]
      input %z: float32[2, 8]
      const %v: float32[1024, 512] = iota
      const %w: float32[8, 512] = iota
      %a: float32[2, 512] = MatMul(%x, %v)
      %b: float32[2, 512] = MatMul(%z, %w)
      %s: float32[2, 512] = Tanh(%b)
      %t: float32[2, 512] = Exp(%s)
      %y: float32[2, 512] = Add(%a, %t)
      output %y
    }""")
    boundaries, times = prepared(graph, TARGETS[0])
    partition = least_time(boundaries, times)
    assert partition.time(graph, times) < greedy(boundaries, lambda node, group: True).time(graph, times)


def test_every_boundary_has_both_times() -> None:
    _, decisions = fuse(chain(512))
    assert [(each.subject, each.action) for each in decisions] == [("b", "fuse"), ("a", "fuse")]
    for each in decisions:
        assert each.numbers["fused_us"] < each.numbers["split_us"]
        assert each.numbers["bytes_saved"] == 2 * 4 * 512 * 512
    _, refused = fuse(chain(512), "none")
    assert {each.action for each in refused} == {"keep"} and all("split_us" in each.numbers for each in refused)


SHARED = """graph "g" {
  input %x: float32[3000, 3000]
  %t: float32[3000, 3000] = Transpose(%x) {perm = [1, 0]}
  %r: float32[3000, 3000] = RELU(%t)
  %a: float32[3000, 3000] = Neg(%r)
  %b: float32[3000, 3000] = Abs(%r)
  output %a
  output %b
}"""


@pytest.mark.parametrize(("op", "nodes"), [("Relu", 3), ("Erf", 4)])
def test_what_is_cheap_is_computed_by_each_reader(op: str, nodes: int) -> None:
    target = dataclasses.replace(TARGETS[0], cores=(slow_math(TARGETS[0]),))
    graph, decisions = fuse(parse_graph(SHARED.replace("RELU", op)), target=target)
    assert len(graph.nodes) == nodes
    (looked_at,) = [each for each in decisions if "kernels read it" in each.reason]
    assert looked_at.subject == "r" and looked_at.action == ("recompute" if nodes == 3 else "keep")
    assert (looked_at.numbers["fused_us"] < looked_at.numbers["split_us"]) == (nodes == 3)


def slow_math(target: Target) -> Any:
    """A core on which an operation costs about as much as moving an element."""
    from mcpc.kernel_class import KernelClass

    core = target.big_core
    return dataclasses.replace(core, rates={**core.rates, KernelClass.ELEMENTWISE: 4.0})


def test_limits_are_those_of_the_target() -> None:
    limits = Limits(registers=8, l1d_bytes=32 << 10)
    assert not limits.exceeded(4, 6, 1)
    assert limits.exceeded(4, 6, 2) == "registers do not hold its values"
    assert Limits(16, 16 << 10).exceeded(2, 6, 0) == "the first cache does not hold its tiles"
    assert limits.exceeded(33, 1, 0) == Limits(32, 1 << 20).exceeded(4, 13, 0) == "the group is large enough"
    assert Limits.of(find_target("x86-64-v4")).registers == 32


def test_a_group_knows_what_it_reads() -> None:
    graph = parse_graph("""graph "g" {
      input %x: float32[4]
      %a: float32[4] = Relu(%x)
      %s: float32[4] = Sigmoid(%a)
      %y: float32[4] = Mul(%a, %s)
      output %y
    }""")
    relu, sigmoid, mul = graph.nodes
    group = Group(mul)

    def state() -> tuple[list[str], int]:
        return sorted(value.name for value in group.operands.values()), group.shared

    assert state() == (["a", "s"], 0)
    group.add(sigmoid)
    assert state() == (["a"], 0)
    group.add(relu)
    assert state() == (["x"], 1)
    group.remove_last()
    assert state() == (["a"], 0)
    group.remove_last()
    assert state() == (["a", "s"], 0) and list(group.nodes) == [mul]


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(PipelineError, match="policy cannot be rooflines"):
        parse_pipeline("fuse{policy=rooflines}", passes())
