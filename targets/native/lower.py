"""Rewrites of operators into the forms that the native kernels take; each is ONNX before and after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mcpc import ops
from mcpc.ir import Dim, DType, Graph, Node, TensorType, Value, is_static
from mcpc.ops.move import split_sizes
from mcpc.pipeline import Pass, PassContext
from mcpc.rewrite import control_flow_graphs

from . import expression
from .doubles import in_doubles
from .iteration import rows_and_columns
from .region import Region, is_weight
from .strided import SPATIAL, channels_last


@dataclass(frozen=True)
class Lower(Pass):
    """One walk over the graph; a rewrite's new nodes are in final form."""

    name: ClassVar[str] = "lower-native"

    def __call__(self, graph: Graph, ctx: PassContext) -> Graph:
        for inner in control_flow_graphs(graph):
            for node in list(inner.nodes):
                _node(inner, node, ctx)
        return graph


def _node(graph: Graph, node: Node, ctx: PassContext) -> None:
    if node.body is None:
        _operator(graph, node)
        return
    reason = unsuitable_anchor(node) or unsuitable_epilogue(node)
    if reason is not None:
        ctx.decide(node, "split", reason)
        for each in inline(graph, node):
            _operator(graph, each)


def _operator(graph: Graph, node: Node) -> None:
    for each in in_doubles(graph, node) or ():
        _operator(graph, each)
    if node.is_op("Split") and graph.owns(node):
        _split(graph, node)
    if not graph.owns(node) or obstacle(node, node.inputs) is None:
        return
    if node.is_op("Gemm"):
        _gemm(graph, node)
    elif node.is_op("MatMul"):
        _matmul(graph, node)
    elif node.is_op("Conv", "ConvTranspose"):
        _conv_bias(graph, node)


def obstacle(node: Node, operands: Sequence[Value | None]) -> str | None:
    """Why no kernel takes a product in the form that ``node`` has, None where one does. ``operands`` are the node's
    inputs, or what they stand for outside a fused node's body."""
    a, b = (operands[0], operands[1]) if node.is_op("Gemm", "MatMul", "Conv", "ConvTranspose") else (None, None)
    c = operands[2] if len(operands) > 2 else None
    if a is None or b is None:
        return None
    if node.is_op("Conv", "ConvTranspose"):
        if c is not None and a.dtype is DType.float64:
            return "its bias is of float64"
        return "its bias is computed" if c is not None and not c.is_constant else None
    if node.is_op("Gemm"):
        if a.dtype is not DType.float32:
            return f"it is of {a.dtype.name}"
        if node.attrs.get("transA", 0):
            return "A is transposed"
        if not is_weight(b):
            return "B is computed"
        per_column = c is None or (c.is_constant and (c.type.rank in (0, 1) or c.type.dims[0] == 1))
        return None if per_column else "C is not one constant per column"
    if a.type.rank == 1 or b.type.rank == 1:
        return "an operand is a vector"
    is_one_matrix = is_weight(b) and b.type.rank == 2
    is_broadcast = not is_one_matrix and any(_broadcast_batches(node.output.type.dims[:-2], a, b))
    return "batches are broadcast" if is_broadcast else None


def _broadcast_batches(full: tuple[Dim, ...], *operands: Value) -> list[bool]:
    """Which operands of a MatMul (rank 2 or more) have a batch that is neither the result's nor one."""
    batches = [value.type.dims[:-2] for value in operands]
    return [batch != full and any(size != 1 for size in batch) for batch in batches]


class Before:
    """Puts new nodes before ``anchor``, with inferred types."""

    def __init__(self, graph: Graph, anchor: Node) -> None:
        self.graph = graph
        self.anchor = anchor

    def __call__(self, op: str, inputs: Sequence[Value | None], attrs: dict[str, Any] | None = None) -> Value:
        stem = self.anchor.name or self.anchor.op
        out = Value(self.graph.fresh(f"{stem}.{op.lower()}"), TensorType(DType.float32, None))
        node = Node(op, inputs, [out], attrs, name=out.name)
        ops.infer_node(node, ops.InferContext())
        self.graph.insert_before(self.anchor, [node])
        return out

    def ints(self, *items: int) -> Value:
        return self.graph.constant(f"{self.anchor.name or self.anchor.op}.sizes", np.array(items, np.int64))

    def sizes(self, batch: Sequence[Dim], operands: Sequence[Value], matrix: Sequence[Dim]) -> Value:
        """A shape tensor: the sizes ``batch``, each taken from an operand's batch, and those of a ``matrix``, which is
        the last operand's."""
        if is_static((*batch, *matrix)):
            return self.ints(*map(int, (*batch, *matrix)))
        parts = []
        for axis, size in enumerate(batch, -len(batch) - 2):
            value = next(v for v in operands if -axis <= len(v.type.dims) and v.type.dims[axis] == size)
            start = len(value.type.dims) + axis
            parts.append(self("Shape", [value], {"start": start, "end": start + 1}))
        rank = len(operands[-1].type.dims)
        parts.append(self("Shape", [operands[-1]], {"start": rank - 2, "end": rank}))
        return self("Concat", parts, {"axis": 0})

    def replace(self, value: Value) -> None:
        self.graph.replace_uses(self.anchor.output, value)
        self.graph.remove(self.anchor)


def _gemm(graph: Graph, node: Node) -> None:
    """Leave A as it is, B constant and C one constant per column; all else becomes MatMul, Mul and Add."""
    a, b, c = node.inputs[0], node.inputs[1], node.input(2)
    assert a is not None and b is not None
    before = Before(graph, node)
    attrs = dict(node.attrs)
    if attrs.pop("transA", 0):
        a = before("Transpose", [a], {"perm": [1, 0]})
    if obstacle(Node("Gemm", [a, b, c], [], attrs), [a, b, c]) is None:
        before.replace(before("Gemm", [a, b, c], attrs))
        return
    alpha, beta = float(attrs.get("alpha", 1.0)), float(attrs.get("beta", 1.0))
    if attrs.get("transB", 0):
        b = before("Transpose", [b], {"perm": [1, 0]})
    result = before("MatMul", [a, b])
    if alpha != 1.0:
        result = before("Mul", [result, graph.constant("alpha", np.array(alpha, a.dtype.numpy))])
    if c is not None and beta != 1.0:
        c = before("Mul", [c, graph.constant("beta", np.array(beta, a.dtype.numpy))])
    before.replace(result if c is None else before("Add", [result, c]))


def _matmul(graph: Graph, node: Node) -> None:
    """Give both operands rank 2 or more, and batches that are equal or one."""
    a, b = node.inputs
    assert a is not None and b is not None
    before = Before(graph, node)
    squeezed: list[int] = []
    if a.type.rank == 1:
        a = before("Unsqueeze", [a, before.ints(0)])
        squeezed.append(-2)
    if b.type.rank == 1:
        b = before("Unsqueeze", [b, before.ints(1)])
        squeezed.append(-1)
    full = node.output.type.dims[: len(node.output.type.dims) + len(squeezed) - 2]

    def expanded(value: Value, other: Value) -> Value:
        return before("Expand", [value, before.sizes(full, [other, value], value.type.dims[-2:])])

    if not (is_weight(b) and b.type.rank == 2):
        left, right = _broadcast_batches(full, a, b)
        a, b = expanded(a, b) if left else a, expanded(b, a) if right else b
    result = before("MatMul", [a, b])
    before.replace(before("Squeeze", [result, before.ints(*squeezed)]) if squeezed else result)


def _conv_bias(graph: Graph, node: Node) -> None:
    """A bias that is no constant is added behind."""
    bias = node.input(2)
    assert bias is not None
    before = Before(graph, node)
    result = before(node.op, node.inputs[:2], dict(node.attrs))
    rank = len(result.type.dims)
    column = before("Unsqueeze", [bias, before.ints(*range(1, rank - 1))])
    before.replace(before("Add", [result, column]))


def _split(graph: Graph, node: Node) -> None:
    """Each part is a Slice, which may be a view; sizes that only data show stay with the Split."""
    data = node.inputs[0]
    sizes = split_sizes(node, ops.InferContext()) if _is_known(node.input(1)) else []
    if data is None or data.shape is None or not sizes or not is_static(sizes):
        return
    before = Before(graph, node)
    axis = int(node.attrs.get("axis", 0)) % len(data.shape)
    starts = np.cumsum([0, *map(int, sizes)])
    for output, start, end in zip(node.outputs, starts, starts[1:], strict=False):
        if output is None:
            continue
        part = Value(graph.fresh(output.name), output.type)
        bounds = [before.ints(int(number)) for number in (start, end, axis)]
        graph.insert_before(node, [Node("Slice", [data, *bounds], [part], name=output.name)])
        graph.replace_uses(output, part)
    graph.remove(node)


def _is_known(sizes: Value | None) -> bool:
    return sizes is None or sizes.is_constant


# ---- fused nodes


def unsuitable_anchor(node: Node) -> str | None:
    """Why a fused node's anchor must be rewritten first, None where it need not."""
    region = Region.of(node)
    anchor = region.anchor
    return None if anchor is None else obstacle(anchor, [region.outer(value) for value in anchor.inputs])


def unsuitable_epilogue(node: Node) -> str | None:
    """Why a fused node cannot be one kernel, None where it can."""
    region = Region.of(node)
    for inner in region.chain:
        reason = expression.supported(inner)
        if reason is not None:
            return reason
    if region.anchor is None or region.anchor.is_op("TensorScatter"):
        return None
    result = node.output.type
    dtype = region.anchor.output.dtype
    is_float = not region.anchor.is_op("ConvInteger", "MatMulInteger")  # those end in any type
    if dtype is DType.float64 or (region.anchor.is_op("Gemm", "MatMul") and dtype is not DType.float32):
        return f"a result of {dtype.name} has no epilogue"
    if region.anchor.is_op(*SPATIAL):
        result = result.with_layout(channels_last(len(result.dims)))
    if region.anchor.output.type.dims != result.dims:
        return "the chain changes the shape"
    if is_float and result.dtype is not DType.float32:
        return f"an epilogue gives float32, not {result.dtype.name}"
    own = {id(value) for value in region.anchor.inputs if value is not None}
    for inner in region.chain:
        for value in inner.inputs:
            if value is None or value.producer is not None or id(value) in own:
                continue
            outer = region.outer(value)
            assert outer is not None
            full = outer.shape == result.shape
            type = outer.type.with_layout(result.layout) if full else outer.type
            if rows_and_columns(result, type) is None:
                return f"%{outer.name} is not broadcast over rows or columns"
    return None


def inline(graph: Graph, node: Node) -> list[Node]:
    """Put a fused node's body in its place; its nodes."""
    body = node.body
    assert body is not None
    outer: dict[int, Value | None] = {id(inner): value for inner, value in zip(body.inputs, node.inputs, strict=True)}
    outer |= {id(v): graph.constant(v.name, v.data) for v in body.constants() if v.data is not None}
    result: list[Node] = []
    for inner in body.nodes:
        outputs: list[Value | None] = []
        for value in inner.outputs:
            copy = None if value is None else Value(graph.fresh(value.name), value.type)
            if value is not None:
                outer[id(value)] = copy
            outputs.append(copy)
        inputs = [None if value is None else outer.get(id(value), value) for value in inner.inputs]
        result.append(Node(inner.op, inputs, outputs, dict(inner.attrs), inner.name, inner.domain))
    graph.insert_before(node, result)
    for value, result_value in zip(node.outputs, body.outputs, strict=True):
        replacement = outer[id(result_value)]
        if value is not None and replacement is not None:
            graph.replace_uses(value, replacement)
    graph.remove(node)
    return result
