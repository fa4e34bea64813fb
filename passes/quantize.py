"""Eight-bit integers for what products read and write, stated as pairs of QuantizeLinear and DequantizeLinear.

The graph stays one of floats that ONNX Runtime runs; the pass ``integer`` makes integer operators of it, as it does of
networks that come quantised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from networkx.utils import UnionFind

from mcpc.errors import CalibrationError
from mcpc.halves import PRECISION
from mcpc.ir import DType, Graph, Node, TensorType, Value
from mcpc.pipeline import Pass, PassContext
from mcpc.ranges import Range, RangeTable
from mcpc.target import Target
from mcpc.tensor_scales import STORED, TensorScale

from .bias_correction import mean_error
from .integer import PRODUCTS, float_reason, stored_steps, weight_axis
from .propagate import MOVES, picks_nearest
from .smooth import PREDICTED

Array = np.ndarray[Any, Any]

#: The ranges of functions that have one whatever their operand is.
FIXED = {"Sigmoid": Range(0.0, 1.0), "HardSigmoid": Range(0.0, 1.0), "Softmax": Range(0.0, 1.0)}

#: The largest integer of a bias.
_MOST = 2.0**31 - 1

#: The least float32 with all its bits.
_TINY = float(np.finfo(np.float32).tiny)


#: Weights by their value and the axis of their columns: what is read instead, and the steps of the columns.
Weights = dict[tuple[Value, int], tuple[Value, Array]]


@dataclass(frozen=True)
class Quantize(Pass):
    """Quantises the operands of Conv, Gemm and MatMul with constant weights: activations by one scale and zero point a
    tensor, weights by one scale an output channel around 0, biases as int32 by the product of both scales.

    The ranges of activations come from ``ctx.options["ranges"]``, which is called with the graph and the tensors that
    are asked for, and gives a RangeTable. Tensors of which one is some of another's numbers share a range, that of all.
    ``dtype`` is uint8 or int8. ``symmetric`` puts zero points in the middle of the type, or at 0 where numbers of uint8
    have no sign, as it is wherever the target's neural processor wants that. Raises CalibrationError E400 where there
    are no ranges, or those of another network.

    ``ctx.options["layer_precisions"]`` has, by the names of nodes, what they are to compute in, where that is not
    "int8". Control flow's bodies stay as they are, and so does a product whose activation was never seen with a finite
    number, whose weights are not finite, or of which rounding is predicted (:mod:`.smooth`) to leave less than
    ``least_sqnr`` dB; a bias that is too large for its int32 stays float. All of this is recorded, as are ranges of few
    outliers and the scales. The graph's metadata say ``precision: int8``.
    """

    name: ClassVar[str] = "quantize"
    tolerance: ClassVar[float | None] = None

    dtype: Literal["uint8", "int8"] = "uint8"
    symmetric: bool = False
    least_sqnr: float = 30.0
    correct_bias: bool = False

    def __call__(self, graph: Graph, ctx: PassContext) -> Graph:
        graph.metadata[PRECISION] = "int8"
        symmetric = self.symmetric or (isinstance(ctx.target, Target) and ctx.target.npu.symmetric)
        wanted = ctx.options.get("layer_precisions", {})
        layers = [n for n in graph.nodes if self._is_layer(n, ctx) and wanted.get(n.name, "int8") == "int8"]
        groups = _groups([node.inputs[0] for node in layers if node.inputs[0] is not None])
        table = _ranges(graph, [value for group in groups for value in group if _fixed(value) is None], ctx)
        scales: dict[Value, Scale] = {}
        for group in groups:
            found = [each for value in group if (each := _fixed(value) or table.ranges.get(value.name)) is not None]
            if found:
                widest = Range(min(each.low for each in found), max(each.high for each in found))
                scale = steps(widest, DType[self.dtype], symmetric)
                scales.update(dict.fromkeys(group, scale))
                for value in group:
                    TensorScale(widest, scale.step, scale.zero).record(ctx, value)
        weights: Weights = {}
        places = {node: place for place, node in enumerate(graph.nodes)}
        with graph.edit():
            for node in layers:
                assert node.inputs[0] is not None
                if node.inputs[0] in scales:
                    _quantize_constants(graph, node, scales[node.inputs[0]], weights, self.correct_bias, ctx)
                else:
                    ctx.decide(node, "keep", f"float32: there is no range of {node.inputs[0].name}")
            for value, scale in scales.items():
                _quantize_value(graph, value, scale, min(value.users, key=places.__getitem__))
        return graph

    def _is_layer(self, node: Node, ctx: PassContext) -> bool:
        """Whether a node is a product whose operands are quantised; says of other products why they are not."""
        if not node.is_op(*PRODUCTS):
            return False
        reason, predicted = float_reason(node), ctx.options.get(PREDICTED, {}).get(node.name)
        if not reason and not all(v is None or v.data is None or np.isfinite(v.data).all() for v in node.inputs):
            reason = "its weights are not finite"
        if not reason and predicted is not None and predicted.sqnr < self.least_sqnr:
            reason = f"rounding is predicted to leave {predicted.sqnr:.1f} dB, less than {self.least_sqnr:g}"
        if reason:
            ctx.decide(node, "keep", f"float32: {reason}")
        return not reason


@dataclass(frozen=True)
class Scale:
    """What the integers of a tensor mean: ``(q - zero) * step``."""

    step: float  # a float32
    zero: int
    dtype: DType


def steps(range: Range, dtype: DType, symmetric: bool) -> Scale:
    """Steps that reach both ends of ``range`` and 0, which is one of them."""
    low, high = min(range.low, 0.0), max(range.high, 0.0)
    least, most = (0, 255) if dtype is DType.uint8 else (-128, 127)
    if symmetric and (low < 0 or dtype is DType.int8):
        return Scale(_step(max(-low, high), 127), 128 + least, dtype)
    step = _step(high - low, 255)
    return Scale(step, int(np.clip(least + round(-low / step), least, most)), dtype)


def _step(extent: float, steps: int) -> float:
    """One of ``steps`` over ``extent``, as a float32 with all its bits; 1 where there is nothing to cut."""
    return float(np.float32(max(extent / steps, _TINY))) if extent > 0 else 1.0


def _fixed(value: Value) -> Range | None:
    producer = value.producer
    return FIXED.get(producer.op) if producer is not None and producer.domain == "" else None


def _ranges(graph: Graph, tensors: Sequence[Value], ctx: PassContext) -> RangeTable:
    if not tensors:
        return RangeTable({})
    find = ctx.options.get("ranges")
    if find is None:
        raise CalibrationError("E400", "there are no ranges to quantise by", hint="give calib_data or calib_table")
    table: RangeTable = find(graph, tensors)
    if table.ranges and not any(value.name in table.ranges for value in tensors):
        message = f"{table.data} has ranges of none of the {len(tensors)} tensors, {tensors[0].name!r} among them"
        raise CalibrationError("E400", message, hint="it was made for another network, or before other passes")
    if table.samples:
        source = f"{table.method} of {table.samples} samples of {table.data}"
        ctx.decide("ranges", "calibrate", source + (f", run by {table.runner}" if table.runner else ""))
    for value in tensors:
        if value.name in table.usual and value.name in table.ranges:
            most, usual = table.ranges[value.name].magnitude, table.usual[value.name]
            reason = (
                f"its range reaches {most:g}, and nearly all of it stays below {usual:g}: few steps are left for that"
            )
            ctx.decide(
                value, "outliers", f"{reason}; calib_method percentile leaves outliers out", most=most, usual=usual
            )
    return table


def _groups(wanted: Sequence[Value]) -> list[list[Value]]:
    """``wanted`` and the float32 tensors out of which numbers are moved to them, in sets that are quantised alike."""
    alike: UnionFind = UnionFind()
    order = dict.fromkeys(wanted)
    pending = list(order)
    while pending:
        value = pending.pop()
        alike[value]
        for each in _same_numbers(value):
            alike.union(value, each)
            if each not in order:
                order[each] = None
                pending.append(each)
    groups: dict[Value, list[Value]] = {}
    for value in order:
        groups.setdefault(alike[value], []).append(value)
    return list(groups.values())


def _same_numbers(value: Value) -> list[Value]:
    """The operands of what moves ``value`` into its place."""
    producer = value.producer
    if producer is None or not (producer.is_op("Concat", *MOVES) or picks_nearest(producer)):
        return []
    operands = [each for each in (producer.inputs if producer.is_op("Concat") else producer.inputs[:1]) if each]
    return operands if all(not each.is_constant and each.dtype is DType.float32 for each in operands) else []


def _quantize_value(graph: Graph, value: Value, scale: Scale, first: Node) -> None:
    """Let what reads ``value``, its ``first`` reader before all others, read it rounded to the scale; outputs of the
    graph stay as they are."""
    step = graph.constant(f"{value.name}.scale", np.array(scale.step, np.float32))
    zero = graph.constant(f"{value.name}.zero", np.array(scale.zero, scale.dtype.numpy))
    stored = Value(graph.fresh(f"{value.name}{STORED}"), replace(value.type, dtype=scale.dtype))
    rounded = Value(graph.fresh(f"{value.name}.rounded"), value.type)
    users = list(dict.fromkeys(value.users))
    quantize = Node("QuantizeLinear", [value, step, zero], [stored], name=stored.name)
    graph.insert_before(first, [quantize, Node("DequantizeLinear", [stored, step, zero], [rounded], name=rounded.name)])
    for user in users:
        graph.set_inputs(user, [rounded if each is value else each for each in user.inputs])


def _quantize_constants(
    graph: Graph, node: Node, scale: Scale, weights: Weights, corrects: bool, ctx: PassContext
) -> None:
    """The weights of a layer, those of an earlier one if they are the same, and its bias where that fits."""
    weight, bias, axis = node.inputs[1], node.input(2), weight_axis(node)
    assert weight is not None
    if (weight, axis) not in weights:
        weights[weight, axis] = _quantize_weight(graph, node, weight, axis)
    rounded, steps = weights[weight, axis]
    known = ctx.options.get(PREDICTED, {}).get(node.name) if corrects else None
    bias = _corrected(graph, node, rounded, known.mean) if known is not None else node.input(2)
    inputs = [node.inputs[0], rounded, *([] if bias is None else [bias])]
    if bias is not None and bias.data is not None:
        products = steps * np.float32(scale.step)
        if (whole := _whole(bias.data, products)) is not None:
            inputs[2] = _dequantized(graph, node, bias, whole, products, 0)
        else:
            ctx.decide(bias, "keep", "float32: it is no vector, or too large for int32 at its scale")
    graph.set_inputs(node, inputs)
    ctx.decide(node, "int8", f"operands are rounded to steps of {scale.step:g}")


def _corrected(graph: Graph, node: Node, rounded: Value, mean: Array) -> Value | None:
    """The bias of a Conv or Gemm, less what the rounding of its weights adds where its input has this ``mean``."""
    weight, bias, expand = node.inputs[1], node.input(2), rounded.producer
    if weight is None or weight.data is None or expand is None or node.is_op("MatMul"):
        return bias
    axis, is_turned = weight_axis(node), node.is_op("Gemm") and weight_axis(node) == 0
    stored, steps = (value.data for value in expand.inputs[:2] if value is not None)
    assert stored is not None and steps is not None
    others = tuple(each for each in range(stored.ndim) if each != axis)
    error = stored * np.expand_dims(steps.astype(np.float64), others) - weight.data
    added = mean_error(node, error.T if is_turned else error, mean)
    before = np.zeros(len(steps)) if bias is None or bias.data is None else bias.data
    return graph.constant(f"{node.output.name}.bias", (before - added).astype(np.float32))


def _quantize_weight(graph: Graph, node: Node, weight: Value, axis: int) -> tuple[Value, Array]:
    if weight.data is None:  # stored as integers already
        return weight, stored_steps(node)
    others = tuple(each for each in range(weight.data.ndim) if each != axis)
    largest = np.abs(weight.data).max(axis=others, initial=0.0)
    steps = np.array([_step(float(each), 127) for each in largest], np.float32)
    whole = np.clip(np.rint(weight.data / np.expand_dims(steps, others)), -127, 127)
    return _dequantized(graph, node, weight, whole.astype(np.int8), steps, axis), steps


def _whole(bias: Array, steps: Array) -> Array | None:
    """``bias`` in ``steps``, as int32; None where it is not one number a column, or one is too large."""
    numbers = bias.astype(np.float64).reshape(-1)
    if bias.shape[-1:] != steps.shape or numbers.shape != steps.shape or not (steps >= _TINY).all():
        return None
    whole = np.rint(numbers / steps)
    return whole.astype(np.int32) if (np.abs(whole) <= _MOST).all() else None


def _dequantized(graph: Graph, node: Node, value: Value, stored: Array, steps: Array, axis: int) -> Value:
    """``value`` as integers and the steps they count, in front of ``node``."""
    result = Value(graph.fresh(f"{value.name}.rounded"), TensorType(DType.float32, stored.shape))
    operands = [graph.constant(f"{value.name}.quantized", stored), graph.constant(f"{value.name}.scale", steps)]
    graph.insert_before(node, [Node("DequantizeLinear", operands, [result], {"axis": axis}, result.name)])
    return result
