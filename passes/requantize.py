"""Requantisation: what lies between quantised tensors is computed in steps of the result's scale.

A QuantizeLinear divides by its scale. What leads to it from products and DequantizeLinears by sums, bounds at 0 and the
like is homogeneous: the reciprocal of the scale moves up to where numbers are multiplied anyway, into the scales of the
weights, biases and addends (Jacob et al., "Quantization and Training of Neural Networks for Efficient
Integer-Arithmetic-Only Inference", 2018, joins the scales of a product so). No division is left. Constants are computed
in float64 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mcpc import ops
from mcpc.ir import DType, Graph, Node, TensorType, Value
from mcpc.ops.quantize import limits, stored_type
from mcpc.pipeline import Pass, PassContext
from mcpc.rewrite import control_flow_graphs, made_by, only_user, remove_dead

from .integer import PRODUCTS, integer_factors

Array = np.ndarray[Any, Any]

#: Makes a value in steps, its nodes before the QuantizeLinear.
Build = Callable[[], Value]

#: f(s x) = s f(x) for s > 0, of the first input; other inputs stay as they are.
HOMOGENEOUS = ("Relu", "LeakyRelu", "PRelu", "Neg", "Abs", "Identity")

TINY, LARGEST = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Requantize(Pass):
    """Every QuantizeLinear to integers of 8 bits with one constant scale, where all that makes its operand can take the
    scale. A Relu or Clip before it goes where its bounds are those of the integers, which saturate there."""

    name: ClassVar[str] = "requantize"

    def __call__(self, graph: Graph, ctx: PassContext) -> Graph:
        for inner in control_flow_graphs(graph):
            with inner.edit():
                for node in list(inner.nodes):
                    if node.is_op("QuantizeLinear") and inner.owns(node):
                        _rewrite(inner, node, ctx)
        return graph


def _rewrite(graph: Graph, node: Node, ctx: PassContext) -> None:
    x, scale, zero = node.inputs[0], node.inputs[1], node.input(2)
    dtype = stored_type(node)
    if x is None or x.dtype is not DType.float32 or dtype not in (DType.int8, DType.uint8):
        return
    if scale is None or scale.data is None or scale.data.size != 1 or scale.dtype is not DType.float32:
        return
    if zero is not None and (zero.data is None or zero.data.size != 1):
        return
    step, origin = float(scale.data.reshape(())), 0 if zero is None else int(zero.data.reshape(()))  # type: ignore[union-attr]
    if not step > 0:
        return
    low, high = ((limit - origin) for limit in limits(dtype))
    unbounded = _unbounded(graph, x, low, high, step)
    build = _Steps(graph, node, 1 / step).of(unbounded) if step != 1 else None
    if unbounded is not x:
        ctx.decide(node, "saturate", f"%{x.name} is bounded by {dtype.name} itself")
    if build is not None:
        ctx.decide(node, "requantize", f"%{x.name} is computed in steps of {step:.6g}")
        one = graph.constant(f"{node.output.name}.scale", np.ones(scale.data.shape, np.float32))
        graph.set_inputs(node, [build(), one, *node.inputs[2:]])
    elif unbounded is not x:
        graph.set_inputs(node, [unbounded, *node.inputs[1:]])
    if x.producer is not None:
        remove_dead(graph, [x.producer])


def _unbounded(graph: Graph, x: Value, low: int, high: int, step: float) -> Value:
    """``x`` before the bounds that integers of ``low`` to ``high`` steps have themselves."""
    node = made_by(x, "Relu", "Clip")
    if node is None or not only_user(x, graph) or node.inputs[0] is None:
        return x
    bounds = _bounds(node)
    if bounds is None or np.rint(bounds[0] / step) > low or np.rint(bounds[1] / step) < high:
        return x
    return _unbounded(graph, node.inputs[0], low, high, step)


def _bounds(node: Node) -> tuple[float, float] | None:
    """The least and largest result of a Relu or Clip; None where they are computed."""
    if node.is_op("Relu"):
        return 0.0, np.inf
    least, most = node.input(1), node.input(2)
    if any(each is not None and each.data is None for each in (least, most)):
        return None
    low = -np.inf if least is None or least.data is None else float(least.data.reshape(()))
    high = np.inf if most is None or most.data is None else float(most.data.reshape(()))
    return low, high


class _Steps:
    """Multiplies what one node reads by a number, without a node that does."""

    def __init__(self, graph: Graph, anchor: Node, factor: float) -> None:
        self.graph = graph
        self.anchor = anchor
        self.factor = factor

    def of(self, value: Value) -> Build | None:
        """How ``value`` times the factor comes about; None where it would take a multiplication."""
        if value.data is not None:
            return self._constant(value)
        node = value.producer
        if node is None or value.dtype is not DType.float32:
            return None
        if node.is_op("DequantizeLinear"):
            return self._dequantize(node)
        if not only_user(value, self.graph):
            return None
        if node.is_op(*HOMOGENEOUS):
            return self._with(node, 0)
        if node.is_op("Add", "Sub", "Max", "Min", "Clip"):
            return self._with(node, *range(len(node.inputs)))
        if node.is_op("Mul"):
            return self._with(node, 0) or self._with(node, 1)
        if node.is_op("Div"):
            return self._with(node, 0)
        return self._product(node) if node.is_op(*PRODUCTS) else None

    def _with(self, node: Node, *indices: int) -> Build | None:
        """``node`` again, with the factor in these inputs."""
        builds = {index: self.of(value) for index in indices if (value := node.inputs[index]) is not None}
        if any(build is None for build in builds.values()):
            return None
        made = {index: build for index, build in builds.items() if build is not None}
        return lambda: self._add(node, [made[i]() if i in made else value for i, value in enumerate(node.inputs)])

    def _constant(self, value: Value, factor: Array | float = 1.0) -> Build | None:
        assert value.data is not None
        scaled = value.data.astype(np.float64) * (self.factor * factor)
        small = (np.abs(scaled) < TINY) & (scaled != 0)
        if value.dtype is not DType.float32 or (np.abs(scaled) > LARGEST).any() or small.any():
            return None
        return lambda: self.graph.constant(f"{value.name}.steps", scaled.astype(np.float32))

    def _dequantize(self, node: Node, factor: Array | float = 1.0) -> Build | None:
        """A DequantizeLinear whose scale has the factor, times another one."""
        scale = node.inputs[1]
        build = None if scale is None or scale.data is None else self._constant(scale, factor)
        return None if build is None else lambda: self._add(node, [node.inputs[0], build(), *node.inputs[2:]])

    def _product(self, node: Node) -> Build | None:
        """The factor goes into the weights' scales. Of a product of integers the left scale does too: then there is one
        rounding."""
        bias = node.input(2)
        rest = None if bias is None else self.of(bias)
        if bias is not None and (rest is None or float(node.attrs.get("beta", 1.0)) != 1.0):
            return None
        factors = integer_factors(node)
        if factors is None:
            left, weights = None, None if node.inputs[1] is None else self.of(node.inputs[1])
        else:
            one = self.graph.constant(f"{node.output.name}.one", np.ones((), np.float32))
            left, scale = factors[0], factors[0].inputs[1]
            assert scale is not None and scale.data is not None
            weights = self._dequantize(factors[1], float(scale.data.reshape(())))
        if weights is None:
            return None

        def build() -> Value:
            a = node.inputs[0] if left is None else self._add(left, [left.inputs[0], one, *left.inputs[2:]])
            return self._add(node, [a, weights(), *([] if rest is None else [rest()])])

        return build

    def _add(self, node: Node, inputs: list[Value | None]) -> Value:
        """The output of ``node`` with other inputs, which are in other steps. What was read by nobody else passes its
        name on; a DequantizeLinear may stay, and names are unique."""
        output = Value(self.graph.fresh(f"{node.output.name}.steps"), TensorType(DType.float32, None))
        name = output.name if node.is_op("DequantizeLinear") else node.name
        new = Node(node.op, inputs, [output], node.attrs, name)
        ops.infer_node(new, ops.InferContext())
        self.graph.insert_before(self.anchor, [new])
        return output
