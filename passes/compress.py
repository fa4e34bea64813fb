"""Weights that are computed from a smaller constant stay small: their computation becomes one operator that kernels do
while they read.

Exporters spell (stored - zero) * scale in many ways, with transposes and reshapes between. The one form that code
generation looks for is DequantizeLinear of a constant, or Cast of a 16-bit float, right before the operator that reads
the weight. A Gather of such a weight picks stored rows first and expands these alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from mcpc import ops
from mcpc.ir import DType, Graph, Node, TensorType, Value, is_static
from mcpc.ops.quantize import limits, spread
from mcpc.ops.shape import permutation
from mcpc.pipeline import Pass, PassContext
from mcpc.rewrite import control_flow_graphs, remove_dead, substitute

Array = np.ndarray[Any, Any]

#: Operators, and which of their inputs is a weight.
READERS = {"MatMul": 1, "Gemm": 1, "Conv": 1, "ConvTranspose": 1, "Gather": 0}

#: The longest chain of operators that is looked through.
REACH = 16

_SMALL = tuple(t for t in DType if t.bits <= 8 and t not in (DType.bool, DType.float8e8m0))
_INTEGERS = tuple(t for t in _SMALL if not t.is_float)
_HALVES = (DType.float16, DType.bfloat16)
_RESHAPES = ("Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity")


@dataclass(frozen=True)
class Compress(Pass):
    """Rewrites what computes a weight; the weight's numbers stay as they are but for the rounding of joined scales."""

    name: ClassVar[str] = "compress"

    def __call__(self, graph: Graph, ctx: PassContext) -> Graph:
        for inner in control_flow_graphs(graph):
            with inner.edit():
                for node in list(inner.nodes):
                    if node.domain == "" and node.op in READERS:
                        _compress(inner, node, ctx)
        return graph


def _compress(graph: Graph, node: Node, ctx: PassContext) -> None:
    weight = node.inputs[READERS[node.op]]
    stored = _stored(weight) if weight is not None and weight.producer is not None else None
    if weight is None or stored is None or weight.dtype is not DType.float32:
        return
    writer = _Writer(graph, node)
    result = writer.gathered(stored) if node.op == "Gather" else writer.expanded(weight, stored)
    if result is None:
        return
    small, full = float(stored.data.nbytes), float(weight.type.nbytes)
    ctx.decide(node, "compress", f"%{weight.name} stays {stored.data.dtype.name}", bytes=small, expanded=full)
    old = node.output if node.op == "Gather" else weight
    producer = old.producer
    substitute(graph, old, result, rename=True)
    if producer is not None:
        remove_dead(graph, [producer])


# ---- what is stored


@dataclass(frozen=True)
class _Stored:
    """(``data`` - ``zero``) * ``scale``: all have one rank, scale and zero may be broadcast, None is 1 and 0.
    ``is_real``: converted to float already."""

    data: Array
    scale: Array | None = None
    zero: Array | None = None
    is_real: bool = False

    def moved(self, change: Callable[[Array], Array]) -> _Stored:
        """All rearranged alike."""

        def moved(parameter: Array | None) -> Array | None:
            return None if parameter is None else change(np.broadcast_to(parameter, self.data.shape))

        return _Stored(change(self.data), moved(self.scale), moved(self.zero), self.is_real)

    def narrowed(self) -> _Stored:
        """Parameters with size 1 along the axes on which they do not change."""

        def narrow(parameter: Array | None) -> Array | None:
            for axis in range(self.data.ndim):
                if parameter is not None and parameter.shape[axis] > 1:
                    first = parameter[(slice(None),) * axis + (slice(0, 1),)]
                    parameter = first if (parameter == first).all() else parameter
            return parameter

        return replace(self, scale=narrow(self.scale), zero=narrow(self.zero))


def _stored(value: Value | None, reach: int = REACH) -> _Stored | None:
    """How ``value`` is computed from one smaller constant by at most ``reach`` operators; None where it is not."""
    if value is None or reach < 0:
        return None
    if value.data is not None:
        is_small = value.dtype in (*_SMALL, *_HALVES) and value.data.size > 1
        return _Stored(value.data) if is_small else None
    node = value.producer
    if node is None:
        return None
    if node.is_op("DequantizeLinear"):
        return _dequantized(node)
    if node.is_op("Mul", "Div", "Sub", "Add"):
        return _combined(node, reach - 1)
    if not node.is_op("Cast", "Transpose", *_RESHAPES):
        return None
    source = _stored(node.inputs[0], reach - 1)
    if source is None:
        return None
    if node.is_op("Cast"):
        return replace(source, is_real=True) if value.dtype is DType.float32 and not source.is_real else None
    if node.is_op("Transpose"):
        return source.moved(lambda a: a.transpose(permutation(node)))
    return source.moved(lambda a: a.reshape(value.type.static_shape)) if is_static(value.shape) else None


def _dequantized(node: Node) -> _Stored | None:
    data, scale, zero = (None if (v := node.input(index)) is None else v.data for index in range(3))
    if data is None or scale is None or (node.input(2) is not None and zero is None):
        return None
    if DType.of(data) not in _SMALL or data.size <= 1:
        return None
    shifts = None if zero is None or DType.of(data).is_float else spread(node, zero.astype(np.float32))
    return _Stored(data, spread(node, scale.astype(np.float32)), shifts, True)


def _combined(node: Node, reach: int) -> _Stored | None:
    """A scale or a shift by a constant."""
    left, right = node.inputs[0], node.inputs[1]
    if left is None or right is None:
        return None
    if left.is_constant and node.is_op("Mul", "Add"):
        left, right = right, left
    number = right.data
    if number is None or number.dtype != np.float32:
        return None
    source = _stored(left, reach)
    if source is None or not source.is_real:
        return None
    rank = source.data.ndim
    if number.ndim > rank or np.broadcast_shapes(number.shape, source.data.shape) != source.data.shape:
        return None
    number = number.reshape((1,) * (rank - number.ndim) + number.shape)
    if node.is_op("Mul", "Div"):
        factor = number if node.is_op("Mul") else np.float32(1) / number
        return replace(source, scale=factor if source.scale is None else source.scale * factor)
    if source.scale is not None or DType.of(source.data).is_float:
        return None
    shift = number if node.is_op("Sub") else -number
    return replace(source, zero=shift if source.zero is None else source.zero + shift)


# ---- what it becomes


class _Writer:
    """Adds nodes before ``anchor``."""

    def __init__(self, graph: Graph, anchor: Node) -> None:
        self.graph = graph
        self.anchor = anchor

    def __call__(self, op: str, *inputs: Value | None, **attrs: Any) -> Value:
        out = Value(self.graph.fresh(f"{self.anchor.output.name}.{op}"), TensorType(DType.float32, None))
        node = Node(op, inputs, [out], attrs, out.name)
        ops.infer_node(node, ops.InferContext())
        self.graph.insert_before(self.anchor, [node])
        return out

    def constant(self, data: Array) -> Value:
        return self.graph.constant(f"{self.anchor.output.name}.stored", np.ascontiguousarray(data))

    def expanded(self, weight: Value, stored: _Stored) -> Value | None:
        """The weight made by one operator; None where it is, or where none can."""
        is_half = DType.of(stored.data) in _HALVES
        producer = weight.producer
        is_one = producer is not None and producer.is_op("Cast" if is_half else "DequantizeLinear")
        if is_one and producer is not None and producer.inputs[0] is not None and producer.inputs[0].is_constant:
            return None
        if is_half:
            plain = stored.scale is None and stored.zero is None
            return self("Cast", self.constant(stored.data), to=DType.float32) if plain else None
        form = _linear(stored)
        if form is None:
            return None
        scale, zero, attrs = form
        parameters = [self.constant(each) for each in (scale, zero) if each is not None]
        return self("DequantizeLinear", self.constant(stored.data), *parameters, **attrs)

    def gathered(self, stored: _Stored) -> Value | None:
        """The Gather that the writer stands before, of what is stored."""
        indices = self.anchor.inputs[1]
        assert indices is not None
        if indices.type.rank is None:
            return None
        axis = int(self.anchor.attrs.get("axis", 0)) % stored.data.ndim
        if DType.of(stored.data) not in (*_INTEGERS, *_HALVES):
            return None
        stored = stored.narrowed()
        form = _linear(stored) if DType.of(stored.data) not in _HALVES else None
        block = 0 if form is None else int(form[2].get("block_size", 0))
        block_axis = -1 if form is None or not block else int(form[2]["axis"])
        if block_axis == axis or (block and stored.data.shape[block_axis] % block):
            return None
        rows = self("Gather", self.constant(_in_bytes(stored.data)), indices, axis=axis)
        if form is not None and block_axis >= 0:
            scale, zero, attrs = form
            parameters = [
                self("Gather", self.constant(_in_bytes(each)), indices, axis=axis)
                for each in (scale, zero)
                if each is not None
            ]
            moved = block_axis if block_axis < axis else block_axis + indices.type.rank - 1
            return self("DequantizeLinear", rows, *parameters, **{**attrs, "axis": moved})
        result = self("Cast", rows, to=DType.float32)
        for op, parameter in (("Sub", stored.zero), ("Mul", stored.scale)):
            if parameter is not None:
                result = self(op, result, self._picked(parameter.astype(np.float32), indices, axis))
        return result

    def _picked(self, parameter: Array, indices: Value, axis: int) -> Value:
        """What belongs to the rows that are gathered, in a shape that broadcasts to them."""
        if parameter.size == 1:
            return self.constant(parameter.reshape(()))
        if parameter.shape[axis] > 1:
            return self("Gather", self.constant(parameter), indices, axis=axis)
        before, after = parameter.shape[:axis], parameter.shape[axis + 1 :]
        return self.constant(parameter.reshape(*before, *[1] * (indices.type.rank or 0), *after))


def _in_bytes(numbers: Array) -> Array:
    """Integers of few bits in bytes of the same sign, since ONNX gathers no others; all else as it is."""
    dtype = DType.of(numbers)
    return numbers.astype(np.uint8 if dtype.name.startswith("u") else np.int8) if dtype.bits < 8 else numbers


def _linear(stored: _Stored) -> tuple[Array, Array | None, dict[str, Any]] | None:
    """Scale, zero point and attributes of the DequantizeLinear that expands ``stored``; None where none does."""
    stored = stored.narrowed()
    scale = np.ones((1,) * stored.data.ndim, np.float32) if stored.scale is None else stored.scale
    zero = None
    if stored.zero is not None and stored.zero.any():
        low, high = limits(DType.of(stored.data))
        whole = (stored.zero == np.rint(stored.zero)).all() and low <= stored.zero.min() and stored.zero.max() <= high
        if not whole:
            return None
        scale, zero = np.broadcast_arrays(scale, stored.zero.astype(stored.data.dtype))
    scale = scale.astype(np.float32)
    along = [axis for axis, size in enumerate(scale.shape) if size > 1]
    attrs: dict[str, Any] = {}
    if len(along) == 1:
        attrs["axis"] = along[0]
    if len(along) <= 1:
        shape = (-1,) if along else ()
        return scale.reshape(shape), None if zero is None else zero.reshape(shape), attrs
    if scale.shape != stored.data.shape:
        scale = np.broadcast_to(scale, stored.data.shape)
        zero = None if zero is None else np.broadcast_to(zero, stored.data.shape)
    for axis in range(scale.ndim):
        block = math.gcd(*(change for each in (scale, zero) if each is not None for change in _changes(each, axis)))
        block = block or scale.shape[axis]
        if block > 1:
            thin = (slice(None),) * axis + (slice(None, None, block),)
            return scale[thin], None if zero is None else zero[thin], {"axis": axis, "block_size": block}
    return None


def _changes(parameter: Array, axis: int) -> list[int]:
    """The indices along ``axis`` at which ``parameter`` differs from what is before."""
    turned = np.moveaxis(parameter, axis, 0)
    flat = turned.reshape(len(turned), -1)
    return [int(index) + 1 for index in np.flatnonzero((flat[1:] != flat[:-1]).any(axis=1))]
