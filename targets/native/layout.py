"""Storage layouts: which tensors lie channels-last, and where data must be moved between layouts.

Shapes and meaning stay as in ONNX; only ``TensorType.layout`` changes. An Identity whose input and output have
different layouts is the one place where data move, so the graph still exports as plain ONNX.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mcpc import ops
from mcpc.ir import DType, Graph, Node, TensorType, Value
from mcpc.ops.context import same, type_of
from mcpc.ops.linear import convolution_of
from mcpc.ops.reduce import REDUCTIONS, reduction_axes
from mcpc.pipeline import Pass, PassContext
from mcpc.rewrite import control_flow_graphs

from .region import Region
from .strided import (
    IMAGE,
    PLANAR_CHANNELS,
    SPATIAL,
    Layout,
    channels_last,
    reads_strided,
    transposed_layout,
    weight_layout,
    written_layout,
)

#: What conv_few.h has stack for, in floats, and the output pixels of its widest tile on any ISA.
PLANAR_PATCH, PLANAR_TILE = 2048, 8


def same_memory(a: TensorType, b: TensorType) -> bool:
    """Whether two types of equal shape lie in memory alike: their strides differ on dimensions of size 1 at most."""
    return all(size == 1 or x == y for size, x, y in zip(a.dims, a.strides, b.strides, strict=True))


@dataclass(frozen=True)
class Wish:
    """The layouts a node wants: one entry an input (``KEEP`` takes any), and that of its outputs."""

    inputs: tuple[Layout | str, ...]
    outputs: Layout


KEEP = "keep"


def _spatial_wish(region: Region, node: Node) -> Wish:
    rank = len(node.output.type.dims)
    wanted = channels_last(rank)
    anchor = region.anchor
    assert anchor is not None
    data = region.outer(anchor.inputs[0])
    inputs: list[Layout | str] = []
    stored = [value for expansion in region.expansions for value in expansion.inputs]
    weights = [region.outer(value) for value in (*anchor.inputs[1:], *stored)]
    for value in node.inputs:
        full = value is not None and len(value.type.dims) == rank
        if value is not None and value is region.outer(anchor.input(1)) and region.is_computed(anchor.input(1)):
            inputs.append(weight_layout(anchor, rank))
        else:
            inputs.append(wanted if full and not any(value is weight for weight in weights) else KEEP)
    read_again = any(region.outer(value) is data for inner in region.chain for value in inner.inputs)
    is_packed = anchor.op == "Conv" and not region.is_computed(anchor.input(1))
    if is_packed and data is not None and not read_again and reads_planar(anchor, data.type):
        inputs[node.inputs.index(data)] = KEEP
    return Wish(tuple(inputs), wanted)


def reads_planar(conv: Node, x: TensorType) -> bool:
    """Whether a convolution reads ``x`` as it is: row-major with few channels, one group, and so small a window that
    what a tile at the image's edge reads fits on the stack (conv_few.h)."""
    convolution = convolution_of(conv)
    channels, window = x.dims[1], convolution.window
    is_image = len(x.dims) == 4 and x.layout is None and x.dtype is DType.float32
    if not is_image or convolution.groups != 1 or not isinstance(channels, int) or channels > PLANAR_CHANNELS:
        return False
    span = (PLANAR_TILE - 1) * window.strides[1] + window.extent(1)
    return channels * window.kernel[0] * span <= PLANAR_PATCH


def _agnostic_wish(node: Node) -> Wish:
    rank = len(node.output.type.dims)
    candidates = [
        value.type
        for value in node.inputs
        if value is not None and not value.is_constant and len(value.type.dims) == rank
    ]
    chosen: Layout = next((t.layout for t in candidates if t.layout is not None), None)
    # Broadcast operands are read through strides, so only operands as large as the result must follow.
    inputs = tuple(chosen if value is not None and value.shape == node.output.shape else KEEP for value in node.inputs)
    return Wish(inputs, chosen)


def _along_axis_wish(node: Node) -> Wish:
    """Concat, Slice, Pad, Split: every operand of the result's rank shares one layout."""
    rank = len(node.output.type.dims)
    data = [v for v in node.inputs if v is not None and len(v.type.dims) == rank and v.dtype == node.output.dtype]
    if not node.is_op("Concat"):
        data = data[:1]
    chosen = next((v.type.layout for v in data if v.type.layout is not None), None)
    return Wish(tuple(chosen if any(v is d for d in data) else KEEP for v in node.inputs), chosen)


def _reduce_wish(node: Node) -> Wish:
    """The reduced axes must be neighbours in memory, and what remains in order; else they are moved innermost. Those
    that are not constant need all axes in order."""
    data = node.inputs[0]
    assert data is not None
    axes = reduction_axes(node, ops.InferContext())
    if axes is None:
        return _row_major(node)
    order = data.type.order
    where = [i for i, axis in enumerate(order) if axis in axes]
    remaining = [axis for axis in order if axis not in axes]
    keepdims = bool(node.attrs.get("keepdims", 1))
    adjacent = not where or where == list(range(where[0], where[-1] + 1))
    if adjacent and (keepdims or remaining == sorted(remaining)):
        chosen: Layout = order
    else:
        chosen = (*(axis for axis in range(len(order)) if axis not in axes), *axes)
    return Wish((chosen, *(KEEP for _ in node.inputs[1:])), chosen if keepdims else None)


def _image_wish(node: Node) -> Wish:
    """The first input and the results channels-last, what describes them row-major."""
    wanted = channels_last(len(node.output.type.dims))
    return Wish((wanted, *(None for _ in node.inputs[1:])), wanted)


def _resize_wish(node: Node) -> Wish:
    """Channels-last where an image's rows and columns change, so that neighbours in memory share their weights; as the
    model has it where few channels come, or the result goes, row-major anyway."""
    x, y = type_of(node, 0), node.output.type
    is_image = len(y.dims) > 2 and all(map(same, x.dims[:2], y.dims[:2]))
    few = is_image and isinstance(x.dims[1], int) and x.dims[1] <= PLANAR_CHANNELS
    is_plain = not node.output.users or (few and x.layout is None)
    chosen = channels_last(len(y.dims)) if is_image and not is_plain else None
    return Wish((chosen, *(KEEP for _ in node.inputs[1:])), chosen)


def _row_major(node: Node) -> Wish:
    return Wish(tuple(None for _ in node.inputs), None)


def wish(node: Node) -> Wish:
    if any(value is not None and value.shape is None for value in (*node.inputs, *node.outputs)):
        return Wish(tuple(KEEP for _ in node.inputs), None)  # an unknown rank is declined when the code is made
    region = Region.of(node)
    anchor = region.anchor
    if region.is_attention or (anchor is not None and anchor.is_op("Attention", "MatMul")):
        reads = [value is not None and reads_strided(node, value, value.type.layout) for value in node.inputs]
        return Wish(tuple(KEEP if strided else None for strided in reads), written_layout(node))
    if anchor is not None and anchor.is_op("RotaryEmbedding"):
        x = node.inputs[0]
        chosen = x.type.layout if x is not None and reads_strided(node, x, x.type.layout) else None
        return Wish((chosen, *(None for _ in node.inputs[1:])), chosen)
    if anchor is not None and anchor.is_op(*SPATIAL):
        return _spatial_wish(region, node)
    if anchor is None:
        return _agnostic_wish(node)
    if anchor.is_op("Concat", "Slice", "Pad", "Split") and node is anchor:
        return _along_axis_wish(node)
    if anchor.domain == "" and anchor.op in REDUCTIONS and node is anchor:
        return _reduce_wish(node)
    if anchor.is_op("Transpose") and node is anchor:
        return Wish((KEEP,), transposed_layout(node))
    if anchor.is_op(*IMAGE) and node is anchor:
        return _image_wish(node)
    if anchor.is_op("BatchNormalization") and node is anchor:
        return _agnostic_wish(node)
    if anchor.is_op("Resize") and node is anchor:
        return _resize_wish(node)
    return _row_major(node)


@dataclass(frozen=True)
class AssignLayouts(Pass):
    """Walk the graph once; every node states the layouts it wants, and Identity nodes are put where a value has
    another. Inputs and outputs of the model and of control-flow bodies stay row-major."""

    name: ClassVar[str] = "assign-layouts"

    def __call__(self, graph: Graph, ctx: PassContext) -> Graph:
        for inner in control_flow_graphs(graph):
            self._assign(inner, ctx)
        return graph

    def _assign(self, graph: Graph, ctx: PassContext) -> None:
        moved: dict[tuple[int, Layout], Value] = {}
        new_nodes: list[Node] = []

        def in_layout(value: Value, layout: Layout) -> Value:
            wanted = value.type.with_layout(layout)
            if wanted.layout == value.type.layout:
                return value
            key = (id(value), wanted.layout)
            if key not in moved:
                if value.is_constant:
                    copy = Value(graph.fresh(value.name), wanted, value.data)
                else:
                    copy = Value(graph.fresh(value.name), wanted)
                    new_nodes.append(Node("Identity", [value], [copy], name=f"{value.name} to {layout or 'row-major'}"))
                    if not same_memory(value.type, wanted):
                        ctx.decide(value.name, "move", f"stored {value.type.order}, wanted {wanted.order}")
                moved[key] = copy
            return moved[key]

        for node in list(graph.nodes):
            wanted = wish(node)
            inputs: list[Value | None] = []
            for value, layout in zip(node.inputs, wanted.inputs, strict=True):
                inputs.append(value if value is None or isinstance(layout, str) else in_layout(value, layout))
            if any(new is not old for new, old in zip(inputs, node.inputs, strict=True)):
                graph.set_inputs(node, inputs)
            for output in node.outputs:
                if output is not None and output.shape is not None:
                    fits = wanted.outputs is not None and len(wanted.outputs) == len(output.shape)
                    output.type = output.type.with_layout(wanted.outputs if fits else None)
            if new_nodes:
                graph.insert_before(node, new_nodes)
                new_nodes.clear()
        for output in dict.fromkeys(graph.outputs):
            if output.type.layout is not None:
                self._make_row_major(graph, output)

    @staticmethod
    def _make_row_major(graph: Graph, output: Value) -> None:
        """Keep the output's name on a row-major copy."""
        name = output.name
        plain = Value(name, output.type.with_layout(None))
        output.name = graph.fresh(f"{name}.channels_last")
        graph.append(Node("Identity", [output], [plain], name=f"{name} as output"))
        graph.outputs = [plain if value is output else value for value in graph.outputs]
