"""Operators that change nothing."""

from __future__ import annotations

import numpy as np

from mcpc.ir import DType, Graph, Node
from mcpc.rewrite import Patch, bypass, constant_of, made_by, rule, uses_first_output_only

from .shapes import add_reshape, constant_ints, reduced_axes, same_type


@rule("Identity")
def drop_identity(node: Node, graph: Graph) -> Patch | None:
    assert node.inputs[0] is not None
    return bypass(node, graph, node.inputs[0])


@rule("Dropout")
def drop_dropout(node: Node, graph: Graph) -> Patch | None:
    training = constant_of(node.input(2))
    if node.inputs[0] is None or not uses_first_output_only(node, graph):
        return None
    is_inference = node.input(2) is None or (training is not None and not training.any())
    return bypass(node, graph, node.inputs[0]) if is_inference else None


@rule("Cast")
def drop_cast_to_same_type(node: Node, graph: Graph) -> Patch | None:
    x = node.inputs[0]
    assert x is not None
    return bypass(node, graph, x) if x.dtype is node.output.dtype else None


@rule("Cast")
def merge_cast_after_widening(node: Node, graph: Graph) -> Patch | None:
    """A Cast to a type that holds every number of the first one leaves no trace."""
    first = made_by(node.inputs[0], "Cast")
    if first is None or first.inputs[0] is None or not _widens(first.inputs[0].dtype, first.output.dtype):
        return None
    patch = Patch(graph, node)
    return patch.replace(patch.add("Cast", [first.inputs[0]], dict(node.attrs), node.output.type))


def _widens(narrow: DType, wide: DType) -> bool:
    if narrow in (DType.float16, DType.bfloat16) and wide in (DType.float32, DType.float64):
        return True
    standard = all(dtype.numpy.kind in "fiub" for dtype in (narrow, wide))
    same_kind = narrow.is_float == wide.is_float or narrow is DType.bool
    return standard and same_kind and wide is not DType.bool and np.can_cast(narrow.numpy, wide.numpy, "safe")


@rule("Transpose", "Expand")
def drop_shape_operator_to_same_type(node: Node, graph: Graph) -> Patch | None:
    x = node.inputs[0]
    if x is None or x.type.rank is None or not same_type(x, node.output):
        return None
    perm = node.attrs.get("perm", list(reversed(range(x.type.rank))))
    if node.is_op("Transpose") and list(perm) != list(range(x.type.rank)):
        return None
    return bypass(node, graph, x)


@rule("Tile")
def drop_tile_by_one(node: Node, graph: Graph) -> Patch | None:
    repeats = constant_ints(node.input(1))
    assert node.inputs[0] is not None
    return bypass(node, graph, node.inputs[0]) if repeats is not None and set(repeats) <= {1} else None


@rule("Pad")
def drop_pad_by_nothing(node: Node, graph: Graph) -> Patch | None:
    pads = constant_ints(node.input(1))
    assert node.inputs[0] is not None
    return bypass(node, graph, node.inputs[0]) if pads is not None and not any(pads) else None


@rule("Slice")
def drop_slice_of_everything(node: Node, graph: Graph) -> Patch | None:
    """As many elements as before, picked forwards, are all elements: also where the end is INT_MAX."""
    x = node.inputs[0]
    steps = [1] if node.input(4) is None else constant_ints(node.input(4))
    if x is None or steps is None or min(steps, default=1) < 1 or not same_type(x, node.output):
        return None
    return bypass(node, graph, x)


@rule("Concat")
def shorten_concat(node: Node, graph: Graph) -> Patch | None:
    """Inputs without elements add nothing to a Concat; one without a partner is the result."""
    axis = node.attrs["axis"]
    parts = [x for x in node.inputs if x is not None and not (x.shape is not None and x.shape[axis] == 0)]
    if len(parts) == 1:
        return bypass(node, graph, parts[0])
    if not parts or len(parts) == len(node.inputs):
        return None
    patch = Patch(graph, node)
    return patch.replace(patch.add("Concat", parts, dict(node.attrs), node.output.type))


@rule("Split", "Sum", "Max", "Min", "Mean")
def drop_operator_of_one(node: Node, graph: Graph) -> Patch | None:
    """A Split into one part; a Sum, Max, Min or Mean of one operand."""
    x = node.inputs[0]
    count = len(node.outputs) if node.is_op("Split") else len(node.inputs)
    return bypass(node, graph, x) if x is not None and count == 1 else None


_NEUTRAL = {"Add": 0.0, "Sub": 0.0, "Mul": 1.0, "Div": 1.0, "Pow": 1.0}


@rule(*_NEUTRAL)
def drop_neutral_operand(node: Node, graph: Graph) -> Patch | None:
    """x + 0, x - 0, x * 1, x / 1, x ** 1, and the first two commuted, where broadcasting does not enlarge x."""
    for x, operand in (node.inputs, node.inputs[::-1]) if node.is_op("Add", "Mul") else (node.inputs,):
        data = constant_of(operand)
        if x is None or data is None or data.size == 0 or not same_type(x, node.output):
            continue
        if (data == _NEUTRAL[node.op]).all():
            return bypass(node, graph, x)
    return None


@rule("Neg", "Not")
def drop_double_inverse(node: Node, graph: Graph) -> Patch | None:
    first = made_by(node.inputs[0], node.op)
    return bypass(node, graph, first.inputs[0]) if first is not None and first.inputs[0] is not None else None


@rule("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd")
def reshape_instead_of_reducing_one(node: Node, graph: Graph) -> Patch | None:
    """A reduction over axes of size 1 only drops or keeps them."""
    axes, x = reduced_axes(node), node.inputs[0]
    if axes is None or x is None or x.shape is None or any(x.shape[axis] != 1 for axis in axes):
        return None
    patch = Patch(graph, node)
    result = add_reshape(patch, x, node.output.type)
    return patch.replace(result) if result is not None else None
