"""Passes keep what a graph computes: generated graphs, and cases that text cannot show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcpc import ops, plugins
from mcpc.comparison import compare
from mcpc.graph_check import check_graph
from mcpc.ir import DType, Graph, Node, TensorType, Value, symbol
from mcpc.ir_text import format_graph, parse_graph
from mcpc.pipeline import PassContext, parse_pipeline, run_pipeline
from mcpc.reference import run_graph
from mcpc.sample_inputs import sample_inputs

PIPELINE = "fold, simplify, cse, dce, fold, simplify, fuse, dce"


def optimize(graph: Graph, text: str = PIPELINE, ctx: PassContext | None = None) -> Graph:
    return run_pipeline(graph, parse_pipeline(text, plugins.passes()), ctx or PassContext())


# ---- generated graphs


class Builder:
    """Grows a graph by one operator at a time; ``draw`` picks what the operators leave open."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self.draw = draw
        self.graph = Graph("generated")
        shape = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 4]), min_size=4, max_size=4)))
        self.values = [self.graph.add_input("x", TensorType(DType.float32, shape))]

    def pick(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def data(self, *shape: int) -> Value:
        seed = self.draw(st.integers(0, 99))
        return self.graph.constant("w", np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32))

    def ints(self, *numbers: int) -> Value:
        return self.graph.constant("i", np.array(numbers, np.int64))

    def scalar(self, number: float) -> Value:
        return self.graph.constant("s", np.array(number, np.float32))

    def add(self, op: str, *inputs: Value | None, **attrs: Any) -> None:
        output = Value(self.graph.fresh(op.lower()), TensorType(DType.float32, None))
        node = Node(op, inputs, [output], attrs, output.name)
        ops.infer_node(node, ops.InferContext())
        self.graph.append(node)
        self.values.append(output)

    def step(self) -> None:
        x = self.pick(*self.values[-3:])
        shape = x.type.static_shape
        fitting = [name for name, least in STEPS.items() if len(shape) >= least]
        getattr(self, self.pick(*fitting))(x, shape)

    def unary(self, x: Value, shape: tuple[int, ...]) -> None:
        self.add(self.pick("Relu", "Sigmoid", "Neg", "Identity", "Tanh", "Abs", "Dropout"), x)

    def bound(self, x: Value, shape: tuple[int, ...]) -> None:
        kind = self.pick("Clip", "Max", "Min")
        limits = [self.scalar(-0.5), self.scalar(0.75)] if kind == "Clip" else [self.scalar(self.pick(0.0, 0.5))]
        self.add(kind, x, *limits)

    def power(self, x: Value, shape: tuple[int, ...]) -> None:
        self.add("Pow", x, self.scalar(self.pick(1.0, 2.0, 3.0)))

    def affine(self, x: Value, shape: tuple[int, ...]) -> None:
        kept = [size if self.pick(True, False) else 1 for size in shape]
        same = [value for value in self.values if value.shape == x.shape]
        other = self.pick(self.data(*kept), self.scalar(self.pick(0.0, 1.0, 0.5)), *same)
        first, second = self.pick((x, other), (other, x))
        self.add(self.pick("Add", "Mul", "Sub"), first, second)

    def divide(self, x: Value, shape: tuple[int, ...]) -> None:
        self.add("Div", x, self.scalar(self.pick(1.0, 2.0, -0.7)))

    def transpose(self, x: Value, shape: tuple[int, ...]) -> None:
        self.add("Transpose", x, perm=self.draw(st.permutations(range(len(shape)))))

    def reshape(self, x: Value, shape: tuple[int, ...]) -> None:
        kind = self.pick("Flatten", "merge", "Unsqueeze", "Squeeze")
        if kind == "Flatten":
            self.add(kind, x, axis=self.draw(st.integers(0, len(shape))))
        elif kind == "Unsqueeze" and len(shape) < 5:
            self.add(kind, x, self.ints(self.draw(st.integers(0, len(shape)))))
        elif kind == "Squeeze" and 1 in shape and len(shape) > 1:
            self.add(kind, x, self.ints(shape.index(1)))
        else:
            self.add("Reshape", x, self.ints(*shape[:-2], -1) if len(shape) > 1 else self.ints(1, -1))

    def slice(self, x: Value, shape: tuple[int, ...]) -> None:
        axis = self.draw(st.integers(0, len(shape) - 1))
        start, end, step = self.pick((0, 2**63 - 1, 1), (0, 1, 1), (-1, -(2**63), -1), (0, 3, 2), (-2, 9, 1))
        self.add("Slice", x, *(self.ints(number) for number in (start, end, axis, step)))

    def gather(self, x: Value, shape: tuple[int, ...]) -> None:
        axis = self.draw(st.integers(0, len(shape) - 1))
        index = self.pick(np.array(0), np.array(-1), np.array([0]), np.arange(shape[axis]), np.array([0, 0]))
        self.add("Gather", x, self.graph.constant("i", index.astype(np.int64)), axis=axis)

    def reduce(self, x: Value, shape: tuple[int, ...]) -> None:
        axes = self.pick(range(2, len(shape)), [len(shape) - 1], [0])
        self.add(self.pick("ReduceMean", "ReduceMax"), x, self.ints(*axes), keepdims=self.pick(0, 1))

    def concat(self, x: Value, shape: tuple[int, ...]) -> None:
        self.add("Concat", *self.pick([x], [x, x]), axis=0)

    def matmul(self, x: Value, shape: tuple[int, ...]) -> None:
        self.add("MatMul", x, self.data(shape[-1], 3))

    def gemm(self, x: Value, shape: tuple[int, ...]) -> None:
        if len(shape) == 2:
            bias = self.pick(None, self.data(2), self.data(1, 2), self.scalar(0.5))
            self.add(
                "Gemm", x, self.data(2, shape[1]), bias, transB=1, alpha=self.pick(1.0, 0.5), beta=self.pick(1.0, 2.0)
            )

    def normalize(self, x: Value, shape: tuple[int, ...]) -> None:
        variance = self.graph.constant("v", np.linspace(0.5, 2, shape[1], dtype=np.float32))
        self.add("BatchNormalization", x, *(self.data(shape[1]) for _ in range(3)), variance)

    def pad(self, x: Value, shape: tuple[int, ...]) -> None:
        spatial = [0, 0] + [self.pick(0, 1, 2) for _ in shape[2:]]
        self.add("Pad", x, self.ints(*spatial * 2))

    def convolve(self, x: Value, shape: tuple[int, ...]) -> None:
        group = self.pick(1, shape[1])
        channels = group * self.pick(1, 2)
        bias = self.pick(None, self.data(channels))
        self.add("Conv", x, self.data(channels, shape[1] // group, *[1] * (len(shape) - 2)), bias, group=group)

    def deconvolve(self, x: Value, shape: tuple[int, ...]) -> None:
        group = self.pick(1, shape[1])
        weights = self.data(shape[1], 2, *[2] * (len(shape) - 2))
        self.add("ConvTranspose", x, weights, self.pick(None, self.data(2 * group)), group=group)

    def pool(self, x: Value, shape: tuple[int, ...]) -> None:
        kernel = [min(2, size) for size in shape[2:]] if self.pick(True, False) else list(shape[2:])
        self.add(self.pick("AveragePool", "MaxPool"), x, kernel_shape=kernel)


#: Step -> least rank of the tensor it takes.
STEPS = {
    **dict.fromkeys(("unary", "bound", "power", "affine", "divide", "transpose", "reshape"), 0),
    **dict.fromkeys(("slice", "gather", "reduce", "concat", "matmul"), 1),
    **dict.fromkeys(("gemm", "normalize"), 2),
    **dict.fromkeys(("pad", "convolve", "deconvolve", "pool"), 3),
}


@st.composite
def graphs(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Graph:
    builder = Builder(draw)
    for _ in range(draw(st.integers(1, 12))):
        builder.step()
    made = [value for value in builder.values if value.producer is not None]
    builder.graph.outputs = [*dict.fromkeys([made[-1], draw(st.sampled_from(made))])] if made else []
    return builder.graph


@settings(max_examples=80, suppress_health_check=list(HealthCheck))
@given(graphs())
def test_the_default_pipeline_keeps_results(graph: Graph) -> None:
    if not graph.outputs or any(0 in value.type.static_shape for value in graph.values()):
        return
    check_graph(graph)
    feeds = sample_inputs(graph.inputs, 0)
    before, want = format_graph(graph), run_graph(graph, feeds)
    names = [value.name for value in graph.outputs]
    result = optimize(graph)
    assert [value.name for value in result.outputs] == names
    for name, a, b in zip(names, run_graph(result, feeds), want, strict=True):
        comparison = compare(name, a, b)
        assert comparison.matches, f"{comparison.describe()}\n{before}\n{format_graph(result)}"


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(graphs())
def test_generated_graphs_survive_as_text(graph: Graph) -> None:
    text = format_graph(graph, inline=10**6)
    assert format_graph(parse_graph(text), inline=10**6) == text


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(graphs())
def test_a_second_run_finds_nothing_to_do(graph: Graph) -> None:
    once = optimize(graph)
    text = format_graph(once)
    assert format_graph(optimize(once)) == text


# ---- cases


def chain(length: int, *operators: str) -> Graph:
    graph = Graph("chain")
    value = graph.add_input("x", TensorType(DType.float32, (2, 3)))
    for index in range(length):
        (value,) = graph.emit(operators[index % len(operators)], [value], [value.type], name=f"n{index}")
    graph.outputs = [value]
    return graph


def test_chains_of_thousands_of_nodes_are_no_problem() -> None:
    graph = optimize(chain(3000, "Neg", "Tanh"), "simplify, cse, fuse, dce")
    check_graph(graph)
    assert 3000 / 33 <= len(graph.nodes) <= 3000 / 30
    assert all(node.body is not None for node in graph.nodes)


def test_a_chain_that_cancels_leaves_an_identity() -> None:
    graph = optimize(chain(3000, "Neg"), "simplify")
    assert [node.op for node in graph.nodes] == ["Identity"]


def test_symbolic_sizes_stay_symbolic() -> None:
    graph = parse_graph("""graph "g" {
      dim N in 1..8
      input %x: float32[N, 3, 4, 4]
      const %zero: int64[] = 0
      const %axes: int64[1] = [0]
      const %rest: int64[1] = [-1]
      %shape: int64[4] = Shape(%x)
      %batch: int64[] = Gather(%shape, %zero)
      %first: int64[1] = Unsqueeze(%batch, %axes)
      %target: int64[2] = Concat(%first, %rest) {axis = 0}
      %y: float32[N, 48] = Reshape(%x, %target)
      output %y
    }""")
    result = optimize(graph)
    assert [node.op for node in result.nodes] == ["Reshape"]
    assert result.outputs[0].shape == (symbol("N"), 48)
    assert result.bounds == {"N": (1, 8)}


def test_what_onnx_runtime_cannot_compute_is_kept_and_the_rest_is_folded() -> None:
    # Mod of bfloat16 has no kernel in ONNX Runtime.
    graph = parse_graph("""graph "g" {
      input %x: float32[2]
      const %a: float32[2] = [1.0, 2.0]
      const %b: bfloat16[2] = [5.0, 7.0]
      const %c: bfloat16[2] = [3.0, 3.0]
      %n: float32[2] = Neg(%a)
      %m: bfloat16[2] = Mod(%b, %c) {fmod = 1}
      %f: float32[2] = Cast(%m) {to = float32}
      %s: float32[2] = Add(%n, %x)
      %y: float32[2] = Mul(%s, %f)
      output %y
    }""")
    ctx = PassContext()
    result = optimize(graph, "fold", ctx)
    assert [node.op for node in result.nodes] == ["Mod", "Cast", "Add", "Mul"]
    assert [d.subject for d in ctx.decisions if d.action == "keep" and "ONNX Runtime" in d.reason] == ["m"]


def test_no_tensor_larger_than_memory_is_computed() -> None:
    graph = parse_graph("""graph "g" {
      input %x: float32[]
      const %shape: int64[2] = [1000000, 1000000]
      %m: float32[1000000, 1000000] = ConstantOfShape(%shape)
      %s: float32[] = ReduceSum(%m) {keepdims = 0}
      %y: float32[] = Add(%x, %s)
      output %y
    }""")
    assert [node.op for node in optimize(graph, "fold").nodes] == ["ConstantOfShape", "ReduceSum", "Add"]


class PickyTarget:
    """Cannot fuse Erf."""

    @staticmethod
    def can_fuse(node: Node) -> bool:
        return node.op != "Erf"


@pytest.mark.parametrize(("target", "kinds"), [(None, ["epilogue"]), (PickyTarget(), ["epilogue", None, None])])
def test_the_target_has_a_say_in_fusion(target: object, kinds: list[str | None]) -> None:
    graph = parse_graph("""graph "g" {
      input %x: float32[4, 4]
      %a: float32[4, 4] = MatMul(%x, %x)
      %b: float32[4, 4] = Neg(%a)
      %c: float32[4, 4] = Erf(%b)
      %y: float32[4, 4] = Relu(%c)
      output %y
    }""")
    ctx = PassContext(target=target)
    result = optimize(graph, "fuse", ctx)
    assert [node.attrs.get("kind") for node in result.nodes] == kinds
    refused = [d.subject for d in ctx.decisions if d.reason == "the target cannot fuse it"]
    assert refused == ([] if target is None else ["c"])
