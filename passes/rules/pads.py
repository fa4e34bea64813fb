"""A Pad before a convolution or pooling becomes that operator's own padding."""

from __future__ import annotations

import math

from mcpc.ir import Graph, Node, Value
from mcpc.rewrite import Patch, constant_of, made_by, rule, uses_first_output_only

from .shapes import constant_ints, constant_scalar, normal_axes


@rule("Conv")
def merge_pad_into_conv(node: Node, graph: Graph) -> Patch | None:
    pad = made_by(node.inputs[0], "Pad")
    return _merged(node, graph, pad) if pad is not None and _pad_value(pad) == 0 else None


@rule("AveragePool")
def merge_pad_into_average_pool(node: Node, graph: Graph) -> Patch | None:
    """The zeros count in the average, as the pool must be told; its own padding may not do otherwise."""
    pad = made_by(node.inputs[0], "Pad")
    counts_padding = node.attrs.get("count_include_pad", 0) or not any(node.attrs.get("pads", []))
    if pad is None or _pad_value(pad) != 0 or not counts_padding or node.attrs.get("ceil_mode", 0):
        return None
    return _fitting(_merged(node, graph, pad, count_include_pad=1))


@rule("MaxPool")
def merge_pad_into_max_pool(node: Node, graph: Graph) -> Patch | None:
    """A pool's own padding never wins, like -infinity; nor does 0 against numbers that are not negative."""
    pad = made_by(node.inputs[0], "Pad")
    if pad is None or node.attrs.get("ceil_mode", 0) or not uses_first_output_only(node, graph):
        return None
    value = _pad_value(pad)
    if value != -math.inf and not (value == 0 and _is_nonnegative(pad.inputs[0])):
        return None
    return _fitting(_merged(node, graph, pad))


def _fitting(patch: Patch | None) -> Patch | None:
    """``patch``, if every window of its pool holds an element of the tensor itself: ONNX asks for that."""
    if patch is None:
        return None
    attrs = patch.nodes[-1].attrs
    kernel = attrs["kernel_shape"]
    is_dense = all(step == 1 for step in attrs.get("dilations", []))
    fits = all(size < kernel[index % len(kernel)] for index, size in enumerate(attrs["pads"]))
    return patch if is_dense and fits else None


def _merged(node: Node, graph: Graph, pad: Node, **attrs: int) -> Patch | None:
    """``node`` reading the tensor before ``pad``, with that padding added to its own."""
    spatial = _spatial_pads(pad)
    auto_pad = node.attrs.get("auto_pad", "NOTSET")
    if spatial is None or auto_pad not in ("NOTSET", "VALID", b"NOTSET", b"VALID"):
        return None
    own = node.attrs.get("pads") or [0] * len(spatial)
    kept = {key: value for key, value in node.attrs.items() if key != "auto_pad"}
    kept |= {"pads": [a + b for a, b in zip(own, spatial, strict=True)], **attrs}
    patch = Patch(graph, node)
    return patch.replace(patch.add(node.op, [pad.inputs[0], *node.inputs[1:]], kept, node.output.type))


def _spatial_pads(pad: Node) -> list[int] | None:
    """Begins, then ends, of the axes from 2 on; None where others are padded, or a size is negative or not known."""
    x, pads = pad.inputs[0], constant_ints(pad.input(1))
    if (
        x is None
        or x.type.rank is None
        or pads is None
        or pad.attrs.get("mode", "constant") not in ("constant", b"constant")
    ):
        return None
    rank = x.type.rank
    axes = list(range(rank)) if pad.input(3) is None else constant_ints(pad.input(3))
    if axes is None:
        return None
    begins, ends = [0] * rank, [0] * rank
    for index, axis in enumerate(normal_axes(axes, rank)):
        begins[axis], ends[axis] = pads[index], pads[index + len(axes)]
    if any(begins[:2] + ends[:2]) or min(begins + ends) < 0:
        return None
    return begins[2:] + ends[2:]


def _pad_value(pad: Node) -> float | None:
    return 0.0 if pad.input(2) is None else constant_scalar(pad.input(2))


def _is_nonnegative(value: Value | None) -> bool:
    node = made_by(value, "Relu", "Sigmoid", "HardSigmoid", "Softmax", "Abs", "Sqrt", "Exp", "Clip")
    if node is None or not node.is_op("Clip"):
        return node is not None
    low = constant_of(node.input(1))
    return low is not None and bool((low >= 0).all())
