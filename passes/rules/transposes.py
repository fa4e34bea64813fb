"""Transposes that cancel, compose, or move nothing."""

from __future__ import annotations

from mcpc import ops
from mcpc.ir import Graph, Node, TensorType, Value
from mcpc.ops.context import same
from mcpc.rewrite import Patch, bypass, made_by, only_user, rule

from .shapes import add_reshape, same_dims


def permutation(node: Node) -> list[int]:
    rank = node.output.type.rank
    return list(node.attrs.get("perm", reversed(range(rank or 0))))


@rule("Transpose")
def merge_transposes(node: Node, graph: Graph) -> Patch | None:
    first = made_by(node.inputs[0], "Transpose")
    if first is None or first.inputs[0] is None or node.output.type.rank is None:
        return None
    before = permutation(first)
    perm = [before[axis] for axis in permutation(node)]
    if perm == sorted(perm):
        return bypass(node, graph, first.inputs[0])
    patch = Patch(graph, node)
    return patch.replace(patch.add("Transpose", [first.inputs[0]], {"perm": perm}, node.output.type))


@rule("Transpose")
def reshape_instead_of_moving_ones(node: Node, graph: Graph) -> Patch | None:
    """A Transpose that keeps the order of all axes longer than 1 leaves memory as it is."""
    x = node.inputs[0]
    if x is None or x.shape is None:
        return None
    moved = [axis for axis in permutation(node) if x.shape[axis] != 1]
    if moved != sorted(moved):
        return None
    patch = Patch(graph, node)
    result = add_reshape(patch, x, node.output.type)
    return patch.replace(result) if result is not None else None


@rule("Transpose")
def cancel_transposes_around_elementwise(node: Node, graph: Graph) -> Patch | None:
    """Two Transposes that undo each other vanish, though elementwise operators of one tensor stand between them."""
    chain: list[Node] = []
    value = node.inputs[0]
    while (
        value is not None and value.producer is not None and only_user(value, graph) and _is_pointwise(value.producer)
    ):
        chain.append(value.producer)
        value = value.producer.inputs[0]
    first = made_by(value, "Transpose")
    if not chain or first is None or first.inputs[0] is None:
        return None
    before = permutation(first)
    if [before[axis] for axis in permutation(node)] != sorted(before):
        return None
    patch = Patch(graph, node)
    result: Value = first.inputs[0]
    for step in reversed(chain):
        type = TensorType(step.output.dtype, first.inputs[0].shape)
        result = patch.add(step.op, [result, *step.inputs[1:]], dict(step.attrs), type)
    return patch.replace(result)


def _is_pointwise(node: Node) -> bool:
    """Elementwise in its first operand; the others are scalars."""
    if not ops.is_elementwise(node) or node.inputs[0] is None:
        return False
    scalars = all(x is None or (x.data is not None and x.data.ndim == 0) for x in node.inputs[1:])
    return scalars and not node.inputs[0].is_constant


@rule("Gemm")
def read_transposed_operand(node: Node, graph: Graph) -> Patch | None:
    """Gemm reads either matrix transposed for nothing."""
    for index, attribute in enumerate(("transA", "transB")):
        first = made_by(node.inputs[index], "Transpose")
        if first is not None and permutation(first) == [1, 0]:
            patch = Patch(graph, node)
            inputs = [*node.inputs[:index], first.inputs[0], *node.inputs[index + 1 :]]
            attrs = {**node.attrs, attribute: 1 - node.attrs.get(attribute, 0)}
            return patch.replace(patch.add("Gemm", inputs, attrs, node.output.type))
    return None


@rule("Reshape")
def transpose_without_merging_batches(node: Node, graph: Graph) -> Patch | None:
    """Matrices that are transposed while their batches are one dimension can be transposed as they are."""
    transpose = made_by(node.inputs[0], "Transpose")
    merge = made_by(transpose.inputs[0], "Reshape") if transpose is not None else None
    x = merge.inputs[0] if merge is not None else None
    if transpose is None or merge is None or x is None or permutation(transpose) != [0, 2, 1]:
        return None
    if x.shape is None or node.output.shape is None or merge.output.shape is None:
        return None
    *batches, rows, columns = x.shape
    is_same = same_dims(merge.output.shape[1:], (rows, columns))
    if not is_same or not same_dims(node.output.shape, (*batches, columns, rows)):
        return None
    perm = [*range(len(batches)), len(batches) + 1, len(batches)]
    patch = Patch(graph, node)
    return patch.replace(patch.add("Transpose", [x], {"perm": perm}, node.output.type))


@rule("Reshape", "Squeeze")
def drop_ones_before_transposing(node: Node, graph: Graph) -> Patch | None:
    """Axes of size 1 that vanish behind a Transpose may as well vanish before it."""
    transpose = made_by(node.inputs[0], "Transpose")
    x = transpose.inputs[0] if transpose is not None else None
    if transpose is None or x is None or x.shape is None or node.output.shape is None:
        return None
    kept: list[int] = []  # axes of x, in the order of the result
    wanted = list(node.output.shape)
    for axis in permutation(transpose):
        if len(kept) < len(wanted) and same(x.shape[axis], wanted[len(kept)]):
            kept.append(axis)
        elif x.shape[axis] != 1:
            return None
    if len(kept) != len(wanted) or len(kept) == len(x.shape):
        return None
    patch = Patch(graph, node)
    shape = tuple(x.shape[axis] for axis in sorted(kept))
    squeezed = add_reshape(patch, x, TensorType(x.dtype, shape))
    if squeezed is None:
        return None
    perm = [sorted(kept).index(axis) for axis in kept]
    return patch.replace(patch.add("Transpose", [squeezed], {"perm": perm}, node.output.type))
