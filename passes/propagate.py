"""DequantizeLinear moves towards what reads the floats, so that all that only moves numbers moves bytes, and products
see what they multiply (Q/DQ propagation of NVIDIA's TensorRT developer guide, "Explicit quantization")."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from mcpc.ir import DType, Graph, Node, Value
from mcpc.ops.quantize import limits
from mcpc.pipeline import Pass, PassContext
from mcpc.rewrite import Patch, apply_rules, bypass, made_by, rule

#: Operators whose results are some of their first operand's numbers: rounded alike, they stay as they are.
MOVES = (
    "DepthToSpace", "Expand", "Flatten", "Gather", "Identity", "MaxPool", "Reshape", "Slice", "SpaceToDepth", "Split",
    "Squeeze", "Tile", "Transpose", "Unsqueeze",
)  # fmt: skip

_BYTES = (DType.int8, DType.uint8)


@dataclass(frozen=True)
class Propagate(Pass):
    """Past operators that move numbers, pad with 0, pick the nearest or bound by 0, past a Concat of tensors that are
    quantised alike, and away with a QuantizeLinear of its own scale. Scales of channels stay where they are."""

    name: ClassVar[str] = "propagate"

    def __call__(self, graph: Graph, ctx: PassContext) -> Graph:
        for name, count in sorted(apply_rules(graph, RULES).items()):
            ctx.decide(name, "apply", "bytes are moved instead of floats", times=count)
        return graph


def picks_nearest(node: Node) -> bool:
    """Whether a Resize gives some of its operand's numbers; what lies outside a crop is a number of its own."""
    is_cropped = node.attrs.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    return node.is_op("Resize") and node.attrs.get("mode", "nearest") == "nearest" and not is_cropped


@rule(*MOVES, "Resize")
def move_bytes(node: Node, graph: Graph) -> Patch | None:
    """f(dequantize(q)) = dequantize(f(q))"""
    if node.is_op("Resize") and not picks_nearest(node):
        return None
    before = _dequantize(node.inputs[0])
    if before is None or None in node.outputs or (node.is_op("MaxPool") and len(node.outputs) > 1):
        return None
    return _behind(graph, node, before, [before.inputs[0], *node.inputs[1:]])


@rule("Pad")
def pad_bytes(node: Node, graph: Graph) -> Patch | None:
    """With the zero point where floats are padded with 0."""
    before, number = _dequantize(node.inputs[0]), node.input(2)
    if before is None or (number is not None and (number.data is None or number.data.any())):
        return None
    stored, zero = before.inputs[0], before.input(2)
    assert stored is not None
    point = np.zeros((), stored.dtype.numpy) if zero is None or zero.data is None else zero.data.reshape(())
    constant = graph.constant(f"{node.output.name}.zero", point)
    return _behind(graph, node, before, [stored, node.inputs[1], constant, *node.inputs[3:]])


@rule("Relu")
def bound_bytes(node: Node, graph: Graph) -> Patch | None:
    """By the zero point."""
    before = _dequantize(node.inputs[0])
    if before is None or before.inputs[0] is None:
        return None
    stored, (_, zero, _) = before.inputs[0], _parameters(before) or (0.0, 0, DType.float32)
    if zero == limits(stored.dtype)[0]:
        return bypass(node, graph, before.output)
    point = graph.constant(f"{node.output.name}.zero", np.array(zero, stored.dtype.numpy))
    patch = Patch(graph, node)
    bounded = patch.add("Max", [stored, point], {}, replace(node.output.type, dtype=stored.dtype))
    return patch.replace(patch.add("DequantizeLinear", [bounded, *_scalars(graph, before)], {}, node.output.type))


@rule("Concat")
def concatenate_bytes(node: Node, graph: Graph) -> Patch | None:
    parts = [_dequantize(value) for value in node.inputs]
    first = parts[0]
    if first is None or not all(each is not None and _alike(first, each) for each in parts):
        return None
    return _behind(graph, node, first, [each.inputs[0] for each in parts if each is not None])


@rule("QuantizeLinear")
def quantize_once(node: Node, graph: Graph) -> Patch | None:
    """What was dequantised by the same scale comes back as it was: (q - z) s, twice rounded, is nearest to (q - z)."""
    before = _dequantize(node.inputs[0])
    if before is None or before.inputs[0] is None or not _alike(before, node):
        return None
    scale, _, dtype = _parameters(node) or (0.0, 0, DType.float32)
    most = np.finfo(np.float32)
    if dtype is not DType.float32 or not most.tiny <= scale <= most.max / 256:  # products would lose bits
        return None
    return bypass(node, graph, before.inputs[0])


RULES = (move_bytes, pad_bytes, bound_bytes, concatenate_bytes, quantize_once)


def _dequantize(value: Value | None) -> Node | None:
    """The DequantizeLinear of bytes, by one constant scale, that makes ``value``."""
    node = made_by(value, "DequantizeLinear")
    if node is None or node.inputs[0] is None or node.inputs[0].is_constant or node.inputs[0].dtype not in _BYTES:
        return None
    parameters = _parameters(node)
    return node if parameters is not None and parameters[0] > 0 else None


def _parameters(node: Node) -> tuple[float, int, DType] | None:
    """Scale, zero point and the scale's type of a DequantizeLinear or QuantizeLinear, where each is one constant."""
    given = [value for value in node.inputs[1:3] if value is not None]
    arrays = [value.data for value in given if value.data is not None and value.data.size == 1]
    if len(arrays) != len(given):
        return None
    scale, *zeros = (array.reshape(()) for array in arrays)
    return float(scale), int(zeros[0]) if zeros else 0, DType.of(scale)


def _alike(one: Node, other: Node) -> bool:
    """Whether two of DequantizeLinear and QuantizeLinear mean the same by the same bytes."""
    stored = [node.output if node.is_op("QuantizeLinear") else node.inputs[0] for node in (one, other)]
    types = {value.dtype for value in stored if value is not None}
    return len(types) == 1 and _parameters(one) is not None and _parameters(one) == _parameters(other)


def _behind(graph: Graph, node: Node, before: Node, inputs: list[Value | None]) -> Patch:
    """``node`` of ``inputs``, bytes, and ``before`` behind each of its outputs."""
    stored = before.inputs[0]
    assert stored is not None
    patch = Patch(graph, node)
    used = [value for value in node.outputs if value is not None]  # all of them
    moved = [Value(graph.fresh(f"{each.name}.stored"), replace(each.type, dtype=stored.dtype)) for each in used]
    patch.nodes.append(Node(node.op, inputs, moved, dict(node.attrs), node.name))
    for old, new in zip(used, moved, strict=True):
        real = patch.add("DequantizeLinear", [new, *_scalars(graph, before)], {}, old.type)
        patch.outputs.append(real)
    return patch


def _scalars(graph: Graph, node: Node) -> list[Value]:
    """Scale and zero point as numbers without axes, which hold for every shape."""
    given = [value for value in node.inputs[1:3] if value is not None]
    return [
        value if value.data is None or value.data.ndim == 0 else graph.constant(value.name, value.data.reshape(()))
        for value in given
    ]
