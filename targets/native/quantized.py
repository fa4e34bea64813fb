"""Rewrites of quantised operators into integer products and elementwise loops; each is ONNX before and after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mcpc import ops
from mcpc.ir import MCPC, DType, Graph, Node, TensorType, Value, product
from mcpc.ops.context import FLOAT8
from mcpc.ops.quantize import block_of, divided_in, limits, spread, stored_type
from mcpc.pipeline import Pass, PassContext
from mcpc.rewrite import control_flow_graphs, made_by, only_user

from .lower import Before
from .region import is_expansion

Array = np.ndarray[Any, Any]

#: Operators that this pass replaces, whatever their form.
REWRITTEN = ("DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul")


@dataclass(frozen=True)
class LowerQuantized(Pass):
    """One walk over the graph; what replaces a node is in final form."""

    name: ClassVar[str] = "lower-quantized"

    def __call__(self, graph: Graph, ctx: PassContext) -> Graph:
        for inner in control_flow_graphs(graph):
            for node in list(inner.nodes):
                _lower(inner, node)
        return graph


def _lower(graph: Graph, node: Node) -> None:
    if node.body is not None:
        for inner in list(node.body.nodes):
            _stay_float(node.body, inner)
    elif node.is_op("DequantizeLinear"):
        _dequantize(graph, node)
    elif node.is_op("QuantizeLinear") and not ops.is_elementwise(node):
        along_axis(graph, node)
    elif node.is_op("DynamicQuantizeLinear"):
        _dynamic_quantize(graph, node)
    elif node.is_op("QLinearConv", "QLinearMatMul"):
        _linear_product(graph, node)
    elif node.is_op("MatMulInteger"):
        _share_batches(graph, node)


class _Loop:
    """A fused elementwise node under construction, which will stand before ``anchor`` and make ``output``."""

    def __init__(self, graph: Graph, anchor: Node, output: Value) -> None:
        self.graph = graph
        self.anchor = anchor
        self.output = output
        self.body = Graph(f"elementwise:{output.name}")
        self.operands: list[Value] = []
        self._inner: dict[int, Value] = {}

    def operand(self, value: Value) -> Value:
        """``value`` inside the body; scalar constants become literals there."""
        if id(value) not in self._inner:
            if value.data is not None and value.data.size == 1:
                inner = self.body.constant(value.name, value.data)
            else:
                inner = self.body.add_input(value.name, value.type.with_layout(None))
                self.operands.append(value)
            self._inner[id(value)] = inner
        return self._inner[id(value)]

    def number(self, number: float, dtype: DType = DType.float32) -> Value:
        return self.body.constant("number", np.array(number, dtype.numpy))

    def __call__(self, op: str, *inputs: Value, **attrs: Any) -> Value:
        out = Value(self.body.fresh(op.lower()), TensorType(DType.float32, None))
        node = Node(op, inputs, [out], attrs, out.name)
        ops.infer_node(node, ops.InferContext())
        self.body.append(node)
        return out

    def real(self, value: Value, wide: DType = DType.float32) -> Value:
        return value if value.dtype is wide else self("Cast", value, to=wide)

    def quantized(self, steps: Value, zero: Value | None, dtype: DType, saturate: int = 1) -> Value:
        """``steps`` of the scale, rounded and limited as :func:`mcpc.ops.quantize.quantized` has it."""
        if dtype.is_float:
            shifts = zero is not None and dtype not in FLOAT8
            steps = self("Add", steps, self.real(zero, steps.dtype)) if zero is not None and shifts else steps
            return self("Cast", steps, to=dtype, saturate=saturate)
        low, high = (self.number(limit, steps.dtype) for limit in limits(dtype))
        steps = self("Round", steps)
        if zero is not None:
            steps = self("Add", steps, self.real(zero, steps.dtype))
        steps = self("Where", self("Greater", steps, low), steps, low)
        steps = self("Where", self("Less", steps, high), steps, high)
        return self("Cast", self("Cast", steps, to=DType.int32), to=dtype)

    def finish(self, result: Value) -> None:
        self.body.outputs = [result]
        attrs = {"kind": "elementwise", "body": self.body}
        node = Node("Fused", self.operands, [self.output], attrs, self.output.name, MCPC)
        self.graph.insert_before(self.anchor, [node])


def _before(graph: Graph, anchor: Node, op: str, *inputs: Value | None, **attrs: Any) -> Value:
    """The output of a new node before ``anchor``."""
    out = Value(graph.fresh(f"{anchor.name or anchor.op}.{op.lower()}"), TensorType(DType.float32, None))
    node = Node(op, inputs, [out], attrs, out.name)
    ops.infer_node(node, ops.InferContext())
    graph.insert_before(anchor, [node])
    return out


def _replace(graph: Graph, node: Node, by: Value) -> None:
    graph.replace_uses(node.output, by)
    graph.remove(node)


# ---- QuantizeLinear, DequantizeLinear


def _dequantize(graph: Graph, node: Node) -> None:
    """Weights wait for what reads them; other constants, biases among them, are computed."""
    if is_expansion(node):
        return
    if all(value is None or value.is_constant for value in node.inputs) and not graph.is_output(node.output):
        graph.replace_uses(node.output, graph.constant(node.output.name, dequantized(node)))
        graph.remove(node)
    elif not ops.is_elementwise(node):
        along_axis(graph, node)


def _stay_float(graph: Graph, node: Node) -> None:
    """A QuantizeLinear to bytes and the DequantizeLinear behind it, which alone reads them, in one loop: rounding and
    bounds, without a change of type."""
    quantize = made_by(node.inputs[0], "QuantizeLinear") if node.is_op("DequantizeLinear") else None
    if quantize is None or not only_user(quantize.output, graph) or quantize.inputs[0] is None:
        return
    zero, same, scale = quantize.input(2), node.input(2), quantize.inputs[1]
    if quantize.output.dtype not in (DType.int8, DType.uint8) or quantize.inputs[0].dtype is not DType.float32:
        return
    if zero is None or same is None or zero.data is None or same.data is None or scale is None:
        return
    if zero.data.size != 1 or (zero.data != same.data).any():
        return
    origin, steps = int(zero.data.reshape(())), quantize.inputs[0]
    low, high = (
        graph.constant("limit", np.array(limit - origin, np.float32)) for limit in limits(quantize.output.dtype)
    )
    if scale.data is None or (scale.data != 1).any():
        steps = _before(graph, node, "Div", steps, scale)
    steps = _before(graph, node, "Round", steps)
    steps = _before(graph, node, "Where", _before(graph, node, "Greater", steps, low), steps, low)
    steps = _before(graph, node, "Where", _before(graph, node, "Less", steps, high), steps, high)
    _replace(graph, node, _before(graph, node, "Mul", steps, node.inputs[1]))
    graph.remove(quantize)


def dequantized(node: Node) -> Array:
    """What a DequantizeLinear or Cast of constants makes."""
    stored, scale, zero = (None if value is None else value.data for value in (node.input(i) for i in range(3)))
    assert stored is not None
    if node.is_op("Cast"):
        return stored.astype(node.output.dtype.numpy)
    assert scale is not None
    steps = stored
    if zero is not None and not DType.of(stored).is_float:
        steps = stored.astype(np.int32) - spread(node, zero.astype(np.int32))
    return (steps.astype(np.float32) * spread(node, scale.astype(np.float32))).astype(node.output.dtype.numpy)


def along_axis(graph: Graph, node: Node) -> None:
    """A scale that does not broadcast as it is gets a shape that does: by itself, or since blocks become an axis of
    their own where they divide the axis; where they do not, a computed scale is repeated. Left as it is where the axis
    has no fixed size."""
    x, scale, zero = node.inputs[0], node.inputs[1], node.input(2)
    assert x is not None and scale is not None
    parameters = [scale, *([] if zero is None else [zero])]
    rank, block = len(x.type.dims), block_of(node)
    axis = int(node.attrs.get("axis", 1)) % rank
    size, rest = x.type.dims[axis], x.type.dims[axis + 1 :]
    if all(value.is_constant for value in parameters) and (not block or isinstance(size, int)):
        shaped = [graph.constant(v.name, spread(node, v.data)) for v in parameters if v.data is not None]
        _replace(graph, node, _loop(graph, node, x, shaped))
    elif not block:
        axes = graph.constant("axes", np.arange(1, rank - axis))
        shaped = [_before(graph, node, "Unsqueeze", value, axes) for value in parameters]
        _replace(graph, node, _loop(graph, node, x, shaped))
    elif isinstance(size, int) and sum(not isinstance(d, int) for d in rest) <= 1:
        kept, after = [0] * axis, [d if isinstance(d, int) else -1 for d in rest]  # 0 keeps a size, -1 follows from it
        if size % block:
            ones, whole = [1] * (axis + 1), -(-size // block) * block
            shaped = [_before(graph, node, "Unsqueeze", value, _ints(graph, axis + 1)) for value in parameters]
            shaped = [_before(graph, node, "Expand", v, _ints(graph, *ones, block, *[1] * len(rest))) for v in shaped]
            shaped = [_before(graph, node, "Reshape", value, _ints(graph, *kept, whole, *after)) for value in shaped]
            cut = [_ints(graph, item) for item in (0, size, axis)]
            shaped = [_before(graph, node, "Slice", value, *cut) for value in shaped]
            _replace(graph, node, _loop(graph, node, x, shaped))
            return
        x = _before(graph, node, "Reshape", x, _ints(graph, *kept, size // block, block, *after))
        shaped = [_before(graph, node, "Unsqueeze", value, _ints(graph, axis + 1)) for value in parameters]
        result = _loop(graph, node, x, shaped)
        _replace(graph, node, _before(graph, node, "Reshape", result, _ints(graph, *kept, size, *after)))


def _ints(graph: Graph, *items: int) -> Value:
    return graph.constant("sizes", np.array(items, np.int64))


def _loop(graph: Graph, node: Node, x: Value, parameters: Sequence[Value]) -> Value:
    """What ``node`` makes of ``x`` with a scale, and a zero point if there is one, that broadcast to it."""
    output = Value(graph.fresh(node.output.name), TensorType(node.output.dtype, x.type.dims))
    loop = _Loop(graph, node, output)
    x, scale, *zeros = map(loop.operand, (x, *parameters))
    zero = zeros[0] if zeros else None
    if node.is_op("QuantizeLinear"):
        wide, saturate = divided_in(node), int(node.attrs.get("saturate", 1))
        steps = loop("Div", loop.real(x, wide), loop.real(scale, wide))
        loop.finish(loop.quantized(steps, zero, stored_type(node), saturate))
        return output
    if zero is not None and not x.dtype.is_float:
        x = loop("Sub", *(loop("Cast", value, to=DType.int32) for value in (x, zero)))
    result = loop("Mul", loop.real(x), loop.real(scale))
    loop.finish(result if result.dtype is output.dtype else loop("Cast", result, to=output.dtype))
    return output


def _dynamic_quantize(graph: Graph, node: Node) -> None:
    """The range of the tensor and 0 sets the scale; a tensor of zeros has the scale 1, as in ONNX Runtime."""
    x = node.inputs[0]
    assert x is not None
    types = ops.get(node).infer(node, ops.InferContext())
    y, scale, zero = (Value(graph.fresh(f"{node.name or node.op}.{i}"), type) for i, type in enumerate(types))
    least = _before(graph, node, "ReduceMin", x, keepdims=0)
    most = _before(graph, node, "ReduceMax", x, keepdims=0)
    loop = _Loop(graph, node, scale)
    low, high = (loop(op, loop.operand(v), loop.number(0)) for op, v in (("Min", least), ("Max", most)))
    steps = loop("Div", loop("Sub", high, low), loop.number(255))
    loop.finish(loop("Where", loop("Equal", low, high), loop.number(1), steps))
    loop = _Loop(graph, node, zero)
    low = loop("Min", loop.operand(least), loop.number(0))
    steps = loop("Div", loop("Sub", loop.number(0), low), loop.operand(scale))
    loop.finish(loop.quantized(steps, None, DType.uint8))
    out = Node("QuantizeLinear", [x, scale, zero], [y], name=node.name)
    graph.insert_before(node, [out])
    for old, new in zip(node.outputs, (y, scale, zero), strict=False):
        if old is not None:
            graph.replace_uses(old, new)
    graph.remove(node)


# ---- products


def _linear_product(graph: Graph, node: Node) -> None:
    """An integer product, whose sums are scaled and quantised in one loop. The scales are joined first, as in ONNX
    Runtime: other orders round differently."""
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = node.inputs[:8]
    assert x_scale is not None and w_scale is not None and y_scale is not None and y_zero is not None
    is_conv = node.is_op("QLinearConv")
    attrs = dict(node.attrs) if is_conv else {}
    zeros = (_shared_zero(graph, x_zero), _shared_zero(graph, w_zero))
    sums = _before(graph, node, "ConvInteger" if is_conv else "MatMulInteger", x, w, *zeros, **attrs)
    if sums.producer is not None:
        _share_batches(graph, sums.producer)
    rank = len(sums.type.dims)
    new = Value(graph.fresh(node.output.name), node.output.type)
    loop = _Loop(graph, node, new)
    total = loop.operand(sums)
    bias = node.input(8)
    if bias is not None:
        total = loop("Add", total, loop.operand(_shaped(graph, node, bias, 1, rank)))
    rows, columns = (1, 1) if is_conv else (rank - 2, rank - 1)
    a, b, c = (
        loop.real(loop.operand(_shaped(graph, node, value, axis, rank)))
        for value, axis in ((x_scale, rows), (w_scale, columns), (y_scale, rows))
    )
    factor = loop("Div", loop("Mul", a, b), c)
    steps = loop("Mul", loop("Cast", total, to=DType.float32), factor)
    zero = loop.operand(_shaped(graph, node, y_zero, rows, rank))
    loop.finish(loop.quantized(steps, zero, new.dtype))
    _replace(graph, node, new)


def _share_batches(graph: Graph, node: Node) -> None:
    """Give both factors of a MatMulInteger one batch, or one of them a single item."""
    factors = [value for value in node.inputs[:2] if value is not None]
    full = node.output.type.dims[: max(0, len(node.output.type.dims) - 2)]
    if not node.is_op("MatMulInteger") or any(value.type.rank == 1 for value in factors):
        return
    wide = list(factors)
    for index, value in enumerate(factors):
        if product(value.type.dims[:-2]) not in (1, product(full)):
            before = Before(graph, node)
            sizes = before.sizes(full, [factors[1 - index], value], value.type.dims[-2:])
            wide[index] = _before(graph, node, "Expand", value, sizes)
    graph.set_inputs(node, [*wide, *node.inputs[2:]])


def _shared_zero(graph: Graph, zero: Value | None) -> Value | None:
    """Equal zero points as one, which more runtimes take; none where it is 0."""
    if zero is None or zero.data is None or zero.data.size == 0 or (zero.data != zero.data.flat[0]).any():
        return zero
    return graph.constant(zero.name, zero.data.reshape(-1)[0]) if zero.data.any() else None


def _shaped(graph: Graph, node: Node, value: Value, axis: int, rank: int) -> Value:
    """A scalar, or one number an index of ``axis``, in a shape that broadcasts to ``rank`` dimensions."""
    elements = value.type.elements
    if value.type.rank != 1 or elements == 1 or axis == rank - 1:
        return value
    if value.data is not None:
        return graph.constant(value.name, value.data.reshape([-1, *[1] * (rank - axis - 1)]))
    axes = graph.constant("axes", np.arange(1, rank - axis))
    return _before(graph, node, "Unsqueeze", value, axes)
