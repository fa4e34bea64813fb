"""Parts of larger tensors: what a Concat joins, or a Pad surrounds, is written where it belongs, what a Slice cuts is
read where it lies.

Along the innermost dimension in memory a part is no run but a piece of every row. Kernels that go from row to row (of
an image: from pixel to pixel) by a step of its own write and read such pieces: their types get a ``pitch``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from mcpc import ops
from mcpc.ir import DType, Graph, Node, TensorType, Value, is_static, names_of
from mcpc.ops.context import same
from mcpc.ops.generate import pad_amounts
from mcpc.pipeline import Pass, PassContext
from mcpc.rewrite import control_flow_graphs, remove_dead, substitute

from .convolution import PackedConvolution
from .region import Region
from .strided import channels_last
from .views import concat_steps, view_offset

#: Operators that copy with any steps.
COPIES = ("Expand", "Identity", "Transpose")


@dataclass(frozen=True)
class PlaceParts(Pass):
    """Runs when nodes are what kernels are made of. A part of a Concat that no kernel can write in place is copied
    there by an Identity, if others are written there."""

    name: ClassVar[str] = "place-parts"

    def __call__(self, graph: Graph, ctx: PassContext) -> Graph:
        context, late = ops.infer_graph(graph), set(graph.data_symbols())
        for inner in control_flow_graphs(graph):
            for node in [node for node in inner.nodes if node.is_op("Pad")]:
                _surround(inner, node, context, ctx)
            for node in [node for node in inner.nodes if node.is_op("Concat")]:
                # The whole is placed when its first part is written: its size has to be known by then.
                if late.isdisjoint(names_of(node.output.type.dims)):
                    _place(inner, node, context, ctx)
            for node in inner.nodes:
                if node.is_op("Slice"):
                    _cut(inner, node, context, ctx)
        return graph


def _surround(graph: Graph, node: Node, context: ops.InferContext, ctx: PassContext) -> None:
    """Where a Pad's operand need not move for it, the Pad becomes a Concat of the operand and the number around it."""
    x, out, number = node.inputs[0], node.output, node.input(2)
    assert x is not None
    amounts = pad_amounts(node, context)
    axes = [axis for axis, sides in enumerate(amounts or ()) if sides != (0, 0)]
    if amounts is None or len(axes) != 1 or node.attrs.get("mode", "constant") != "constant":
        return
    if not is_static(out.type.dims) or out.type.elements == 0 or x.type.layout != out.type.layout:
        return
    axis, sides = axes[0], [side for side in amounts[axes[0]] if isinstance(side, int) and side >= 0]
    if len(sides) != 2 or not _is_surrounded_in_place(x, node, axis, context, graph):
        return
    if number is None:
        number = graph.constant(f"{out.name}.number", np.zeros((), out.dtype.numpy))
    parts: list[Value] = [x]
    for is_behind, side in enumerate(sides):
        if side == 0:
            continue
        dims = tuple(side if each == axis else size for each, size in enumerate(out.type.dims))
        sizes = graph.constant(f"{out.name}.sizes", np.array(dims, np.int64))
        filled = Value(graph.fresh(f"{out.name}.around"), replace(out.type, shape=dims))
        graph.insert_before(node, [Node("Expand", [number, sizes], [filled], name=filled.name)])
        parts = [*parts, filled] if is_behind else [filled, *parts]
    joined = Value(graph.fresh(out.name), out.type)
    graph.insert_before(node, [Node("Concat", parts, [joined], {"axis": axis}, name=node.name)])
    ctx.decide(node, "in place", "what it surrounds is written where it belongs")
    substitute(graph, out, joined, rename=True)
    remove_dead(graph, [node])


def _is_surrounded_in_place(x: Value, pad: Node, axis: int, context: ops.InferContext, graph: Graph) -> bool:
    """Whether x, a run or a piece of every row of the result of ``pad``, can be written there."""
    out, maker = pad.output.type, x.producer
    if axis == out.order[-1]:
        return _is_placeable(x, pad, graph, context)
    is_run = all(out.dims[outer] == 1 for outer in out.order[: out.order.index(axis)])
    if not is_run or maker is None or not graph.owns(maker) or graph.is_output(x) or x.type.pitch is not None:
        return False
    return view_offset(maker, context) is None


def _place(graph: Graph, node: Node, context: ops.InferContext, ctx: PassContext) -> None:
    out = node.output.type
    axis = int(node.attrs["axis"]) % len(out.dims)
    if axis != out.order[-1] or out.elements == 0 or concat_steps(node) is not None:
        return
    placed = [value for value in node.inputs if value is not None and _is_placeable(value, node, graph, context)]
    if not placed:
        return
    inputs: list[Value | None] = []
    for value in node.inputs:
        assert value is not None
        type = replace(value.type, layout=out.layout, pitch=out.dims[axis])
        if any(value is each for each in placed):
            value.type = type
            inputs.append(value)
            continue
        copy = Value(graph.fresh(value.name), type)
        graph.insert_before(node, [Node("Identity", [value], [copy], name=f"{copy.name} into {node.name}")])
        inputs.append(copy)
    graph.set_inputs(node, inputs)
    ctx.decide(node, "in place", f"{len(placed)} of {len(inputs)} parts are written where they belong")


def _is_placeable(value: Value, concat: Node, graph: Graph, context: ops.InferContext) -> bool:
    """Whether a kernel writes ``value`` as a part of ``concat``'s result, and whoever reads it takes it from there."""
    maker = value.producer
    if maker is None or not graph.owns(maker) or graph.is_output(value) or value.type.elements == 0:
        return False
    if value.type.pitch is not None or value.type.layout != concat.output.type.layout:
        return False
    if sum(value is each for each in concat.inputs) != 1 or len([out for out in maker.outputs if out is not None]) != 1:
        return False
    return _writes(maker, context) and all(user is concat or _reads(user, value) for user in value.users)


def _cut(graph: Graph, node: Node, context: ops.InferContext, ctx: PassContext) -> None:
    data, out = node.inputs[0], node.output
    assert data is not None
    if view_offset(node, context) is not None or data.type.layout != out.type.layout or out.type.pitch is not None:
        return
    if graph.is_output(out) or out.type.elements == 0 or not all(_reads(user, out) for user in out.users):
        return
    alone, row = out.type, data.type.pitch if data.type.pitch is not None else data.type.dims[data.type.order[-1]]
    out.type = replace(alone, pitch=row)
    if view_offset(node, context) is None:
        out.type = alone
    else:
        ctx.decide(node, "in place", "its readers step over what is cut away")


def _writes(node: Node, context: ops.InferContext) -> bool:
    """Whether the kernel of ``node`` steps from row to row of its result as the type says."""
    region = Region.of(node)
    if node.is_op(*COPIES):
        return view_offset(node, context) is None
    if _is_loop(region):  # vectors are stored as runs
        return node.output.type.dims[node.output.type.order[-1]] != 1
    return _is_image_kernel(region) or _is_convolution(region)


def _reads(node: Node, value: Value) -> bool:
    """Whether the kernel of ``node`` steps from row to row of ``value`` as its type says."""
    region = Region.of(node)
    if node.is_op(*COPIES, "Concat", "Slice") or _is_loop(region):
        return True
    if _is_image_kernel(region):
        return value is node.inputs[0]
    if not _is_convolution(region) or region.anchor is None:
        return False
    if value is not region.outer(region.anchor.inputs[0]):
        return value.shape == node.output.shape
    form = PackedConvolution.of(region)
    is_image = value.type.layout == channels_last(len(value.type.dims)) and len(value.type.dims) == 4
    return form is not None and is_image and not form.reads_planar


def _is_loop(region: Region) -> bool:
    return region.anchor is None and not region.is_attention and not region.stages


def _is_image_kernel(region: Region) -> bool:
    """Pools, and enlarging by whole pixels."""
    anchor = region.anchor
    if anchor is None or region.node is not anchor or region.node.output.type.layout is None:
        return False
    if anchor.is_op("Resize"):
        x, y = anchor.inputs[0], anchor.output
        assert x is not None
        is_nearest = anchor.attrs.get("mode", "nearest") == "nearest"
        return is_nearest and len(y.type.dims) == 4 and _is_resized_whole(x.type, y.type)
    return anchor.is_op("MaxPool", "AveragePool", "LpPool")


def _is_resized_whole(x: TensorType, y: TensorType) -> bool:
    """Whether batch and channels stay, so that runs of channels move."""
    return all(map(same, x.dims[:2], y.dims[:2]))


def _is_convolution(region: Region) -> bool:
    """One with packed float32 weights and sums, over an image."""
    form = PackedConvolution.of(region)
    if form is None or region.expansions or region.anchor is None or region.anchor.output.dtype is not DType.float32:
        return False
    return form.weight_dtype is DType.float32 and region.node.output.dtype is DType.float32 and len(form.y.dims) == 4
