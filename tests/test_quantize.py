"""The pass ``quantize``: scales, errors of whole networks, and what it says of ranges."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from onnx.reference import ReferenceEvaluator

from mcpc import ops, plugins
from mcpc.errors import CalibrationError
from mcpc.graph_check import check_graph
from mcpc.ir import DType, Graph, Node, TensorType, Value
from mcpc.ir_text import parse_graph
from mcpc.judge import judge
from mcpc.onnx_writer import to_model
from mcpc.passes.quantize import Quantize, steps
from mcpc.pipeline import PassContext, parse_pipeline, run_pipeline
from mcpc.plugins import find_target
from mcpc.ranges import Range, RangeTable

Array = np.ndarray[Any, Any]

LARGEST, TINY = float(np.finfo(np.float32).max), float(np.finfo(np.float32).tiny)

PASSES = [Quantize(dtype, symmetric) for dtype in ("uint8", "int8") for symmetric in (False, True)]


# ---- scales


@pytest.mark.parametrize("quantize", PASSES, ids=Quantize.spec)
@given(st.floats(-LARGEST, LARGEST), st.floats(-LARGEST, LARGEST))
@example(0.0, 0.0)
@example(-1e30, 1e30)
@example(-LARGEST, LARGEST)
@example(0.0, 1e-45)
@example(-1e-40, 1e-40)
@example(-3.0, -2.0)
@example(1e-3, 1e3)
def test_steps_reach_both_ends_and_zero(quantize: Quantize, one: float, other: float) -> None:
    low, high = min(one, other), max(one, other)
    scale = steps(Range(low, high), DType[quantize.dtype], bool(quantize.symmetric))
    least, most = (0, 255) if quantize.dtype == "uint8" else (-128, 127)
    assert scale.step == np.float32(scale.step) and scale.step >= TINY and np.isfinite(scale.step)
    assert least <= scale.zero <= most  # so 0 is one of the numbers
    first, last = ((each - scale.zero) * scale.step for each in (least, most))
    assert first <= low + 0.5001 * scale.step and high - 0.5001 * scale.step <= last
    extent = max(high, 0.0) - min(low, 0.0)
    if quantize.symmetric and (low < 0 or quantize.dtype == "int8"):
        assert scale.zero == (128 if quantize.dtype == "uint8" else 0)
        extent = 2 * max(-low, high)
    assert extent == 0 or scale.step <= max(extent / 254 * (1 + 2**-23), TINY)


@pytest.mark.parametrize("symmetric", [False, True])
def test_a_targets_neural_processor_may_want_symmetric_steps(symmetric: bool) -> None:
    ranges = RangeTable({"x": Range(-1, 2), "y": Range(0, 2)})
    target = find_target("host").with_npu(symmetric=symmetric)
    ctx = PassContext(target=target, options={"ranges": lambda graph, tensors: ranges})
    graph = run_pipeline(parse_graph(NETWORK), [Quantize()], ctx)
    (point, *_) = [node.input(2) for node in graph.nodes if node.is_op("QuantizeLinear")]
    assert point is not None and point.data == (128 if symmetric else 85)


def test_ranges_beyond_float32_are_refused() -> None:
    for low, high in ((0.0, 1e39), (-np.inf, 0.0), (0.0, np.nan), (1.0, 0.0)):
        with pytest.raises(CalibrationError, match="no range of float32 numbers"):
            Range(low, high)


# ---- whole networks


class Builder:
    """Grows a network of four channels by one operator at a time."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any], is_image: bool) -> None:
        self.draw, self.is_image = draw, is_image
        self.rng = np.random.default_rng(draw(st.integers(0, 99)))
        self.graph = Graph("generated")
        self.values = [self.graph.add_input("x", TensorType(DType.float32, (2, 4, 5, 5) if is_image else (6, 4)))]

    def constant(self, *shape: int) -> Value:
        """Such that tensors are of like magnitude: those that share a scale would lose their bits otherwise."""
        terms = np.sqrt(np.prod(shape[1:])) if self.is_image else 2.0
        return self.graph.constant("w", (self.rng.standard_normal(shape) / terms).astype(np.float32))

    def add(self, op: str, *inputs: Value, **attrs: Any) -> Value:
        output = Value(self.graph.fresh(op.lower()), TensorType(DType.float32, None))
        node = Node(op, inputs, [output], attrs, output.name)
        ops.infer_node(node, ops.InferContext())
        self.graph.append(node)
        return output

    def layer(self, *kinds: str) -> None:
        x = self.draw(st.sampled_from(self.values))
        kind = self.draw(st.sampled_from(kinds))
        if kind == "product" and self.is_image:
            side = self.draw(st.sampled_from([1, 3]))
            pads = [side // 2] * 4
            y = self.add("Conv", x, self.constant(4, 4, side, side), self.constant(4), pads=pads)
        elif kind == "product":
            y = self.add("Gemm", x, self.constant(4, 4), self.constant(4), transB=self.draw(st.integers(0, 1)))
        elif kind == "Add":
            y = self.add("Add", x, self.draw(st.sampled_from(self.values)))
        elif kind == "Concat":  # and back to four channels
            both = self.add("Concat", x, self.draw(st.sampled_from(self.values)), axis=1)
            weight = self.constant(4, 8, 1, 1) if self.is_image else self.constant(8, 4)
            y = self.add("Conv" if self.is_image else "MatMul", both, weight)
        else:
            y = self.add(kind, x)
        self.values.append(y)


@st.composite
def networks(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Graph:
    builder = Builder(draw, draw(st.booleans()))
    for _ in range(draw(st.integers(0, 4))):
        builder.layer("product", "product", "Relu", "Sigmoid", "Add", "Concat")
    builder.layer("product")  # a Relu may leave next to nothing, of which no error is a small share
    builder.graph.outputs = [builder.values[-1]]
    return builder.graph


def calibrated(samples: Sequence[Mapping[str, Array]]) -> PassContext:
    calibrator = plugins.find_calibrator()
    return PassContext(options={"ranges": lambda graph, tensors: calibrator.collect(graph, tensors, samples, "minmax")})


def difference(got: Array, want: Array) -> float:
    """The root of the mean square of what differs, as a share of what there is."""
    return float(np.sqrt(np.square(got - want).mean()) / max(np.sqrt(np.square(want).mean()), 1e-30))


@pytest.mark.parametrize("quantize", PASSES, ids=Quantize.spec)
@settings(max_examples=25)
@given(networks())
def test_quantised_networks_are_near_the_floats_and_the_same_everywhere(quantize: Quantize, graph: Graph) -> None:
    check_graph(graph)
    rng = np.random.default_rng(1)
    samples = [{"x": rng.standard_normal(graph.inputs[0].type.static_shape, np.float32)} for _ in range(4)]
    names = [value.name for value in graph.outputs]
    (want,) = judge(to_model(graph).SerializeToString(), names)(samples[0])
    graph = run_pipeline(graph, [quantize], calibrated(samples))
    model = to_model(graph)
    (got,) = judge(model.SerializeToString(), names)(samples[0])
    assert difference(got, want) < 0.1
    integer = to_model(run_pipeline(graph, parse_pipeline("integer, dce", plugins.passes()), PassContext()))
    for each in (model, integer):  # as ONNX defines them
        (defined,) = ReferenceEvaluator(each).run(names, samples[0])
        assert (
            difference(np.asarray(defined), got) < 0.02
        )  # a sum in another order may cross the middle between two steps


# ---- what is said


NETWORK = """graph "g" {
  input %x: float32[2, 4]
  const %w: float32[4, 4] = random(1)
  %y: float32[2, 4] = MatMul(%x, %w)
  output %y
}"""


def quantized(table: RangeTable) -> PassContext:
    ctx = PassContext(options={"ranges": lambda graph, tensors: table})
    run_pipeline(parse_graph(NETWORK), [Quantize()], ctx)
    return ctx


def test_outliers_are_told_with_a_remedy() -> None:
    decisions = quantized(RangeTable({"x": Range(0, 1e4)}, usual={"x": 2.0})).decisions
    (decision,) = [each for each in decisions if each.action == "outliers"]
    assert decision.subject == "x"
    assert decision.numbers == {"most": 1e4, "usual": 2.0} and "percentile" in decision.reason


def test_ranges_of_another_network_are_refused() -> None:
    with pytest.raises(CalibrationError, match=r"table\.json has ranges of none of the 1 tensors, 'x' among them"):
        quantized(RangeTable({"other": Range(0, 1)}, data="table.json"))


def test_there_have_to_be_ranges() -> None:
    with pytest.raises(CalibrationError, match="no ranges"):
        run_pipeline(parse_graph(NETWORK), [Quantize()], PassContext())


def test_a_network_of_which_nothing_was_seen_stays_as_it_is() -> None:
    source, decision = quantized(RangeTable({}, "minmax", 3, "x.npz", "onnxruntime")).decisions
    assert source.action == "calibrate" and source.reason == "minmax of 3 samples of x.npz, run by onnxruntime"
    assert decision.action == "keep" and decision.reason == "float32: there is no range of x"


def test_layers_with_the_same_weights_share_their_bytes() -> None:
    text = NETWORK.replace("output", "%z: float32[2, 4] = MatMul(%y, %w)\n  output %z\n  output")
    ctx = PassContext(options={"ranges": lambda graph, tensors: RangeTable({"x": Range(0, 1), "y": Range(0, 2)})})
    graph = run_pipeline(parse_graph(text), [Quantize()], ctx)
    assert [value.name for value in graph.constants() if value.dtype is DType.int8] == ["w.quantized"]


def test_weights_that_are_stored_as_integers_stay_as_they_are() -> None:
    text = """graph "g" {
      input %x: float32[2, 4]
      const %w: int8[4, 3] = [-127, 2, 3, 4, 127, 6, 7, 8, -127, 1, 2, 3]
      const %scale: float32[3] = [0.5, 0.25, 2]
      const %b: float32[3] = [1, 2, 3]
      %v: float32[4, 3] = DequantizeLinear(%w, %scale) {axis = 1}
      %y: float32[2, 3] = Gemm(%x, %v, %b)
      output %y
    }"""
    ctx = PassContext(options={"ranges": lambda graph, tensors: RangeTable({"x": Range(0, 255)})})
    graph = run_pipeline(parse_graph(text), [Quantize()], ctx)
    (product,) = [node for node in graph.nodes if node.is_op("Gemm")]
    left, right, bias = (value.producer for value in product.inputs if value is not None)
    assert left is not None and left.is_op("DequantizeLinear")
    assert right is not None and right.inputs[0] is not None and right.inputs[0].name == "w"
    assert bias is not None and bias.inputs[0] is not None and bias.inputs[0].data is not None
    assert bias.inputs[0].data.tolist() == [2, 8, 2]  # in steps of 1 times the weights'; 1.5 goes to the even


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("%w: float32[4, 4] = random(1)", "%w: float32[2, 4, 4] = random(1)"), "its weights have 3 axes"),
        (("MatMul(%x, %w)", "MatMul(%w, %x)"), "its left operand is constant"),
    ],
)
def test_products_that_stay_floats_are_told_with_the_reason(change: tuple[str, str], reason: str) -> None:
    text = NETWORK.replace("float32[2, 4]", "float32[4, 4]").replace(*change)
    text = text if "2, 4, 4" not in text else text.replace("%y: float32[4, 4]", "%y: float32[2, 4, 4]")
    ctx = PassContext(options={"ranges": lambda graph, tensors: RangeTable({"x": Range(0, 1)})})
    run_pipeline(parse_graph(text), [Quantize()], ctx)
    assert [(each.action, each.reason) for each in ctx.decisions] == [("keep", f"float32: {reason}")]
