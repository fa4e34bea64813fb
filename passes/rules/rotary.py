"""RotaryEmbedding out of the parts that exporters write for it."""

from __future__ import annotations

import numpy as np

from mcpc.halves import HALVES
from mcpc.ir import DType, Graph, Node, Value
from mcpc.ops.context import same
from mcpc.rewrite import Patch, constant_of, made_by, rule

from .shapes import constant_scalar, normal_axes, same_dims, same_type
from .slices import ranges


@rule("Add")
def rotate_in_one(node: Node, graph: Graph) -> Patch | None:
    """x c + concat(-x₂, x₁) s is RotaryEmbedding, where both halves of c are the same, and of s."""
    for kept, turned in (node.inputs, node.inputs[::-1]):
        product, other = made_by(kept, "Mul"), made_by(turned, "Mul")
        if product is None or other is None:
            continue
        for rotated, sine in (other.inputs, other.inputs[::-1]):
            x = _rotated(rotated)
            if x is None or x not in product.inputs or x.type.rank != 4 or x.dtype not in (DType.float32, *HALVES):
                continue
            cosine = next((each for each in product.inputs if each is not x), None)
            if cosine is None or sine is None or not same_type(x, node.output):
                continue
            patch = Patch(graph, node)
            caches = [_cache(patch, each, x) for each in (cosine, sine)]
            if any(cache is None for cache in caches):
                continue
            return patch.replace(patch.add("RotaryEmbedding", [x, *caches], {}, node.output.type))
    return None


def _rotated(value: Value | None) -> Value | None:
    """x where ``value`` is concat(-x₂, x₁) of the halves x₁ and x₂ of the last axis."""
    concat = made_by(value, "Concat")
    if concat is None or len(concat.inputs) != 2 or concat.output.type.rank is None:
        return None
    last = concat.output.type.rank - 1
    negated = made_by(concat.inputs[0], "Neg")
    first, second = made_by(concat.inputs[1], "Slice"), made_by(negated.inputs[0] if negated else None, "Slice")
    if normal_axes([concat.attrs["axis"]], last + 1) != [last] or first is None or second is None:
        return None
    x = first.inputs[0]
    size = x.shape[-1] if x is not None and x.shape else None
    if x is None or second.inputs[0] is not x or not isinstance(size, int) or size % 2:
        return None
    for part, span in ((first, (0, size // 2)), (second, (size // 2, size))):
        cut = ranges(part)
        if cut is None or list(cut) != [last]:
            return None
        start, end, step = cut[last]
        picked = range(size)[start:end:step]
        if step != 1 or (picked.start, picked.stop) != span:
            return None
    return x


def _cache(patch: Patch, value: Value, x: Value) -> Value | None:
    """The first half of cosines or sines as [batch, rows, components / 2]; None where the halves may differ."""
    unsqueeze = made_by(value, "Unsqueeze", "Reshape")
    source = unsqueeze.inputs[0] if unsqueeze is not None else None
    batch, _, rows, size = x.type.dims
    is_whole = same_dims(value.shape, (batch, 1, rows, size)) and isinstance(size, int)
    if source is None or not is_whole or not same_dims(source.shape, (batch, rows, size)) or not _is_doubled(source):
        return None
    bounds = (patch.constant(f"{patch.root.output.name}.half", np.array([int(n)], np.int64)) for n in (0, size // 2, 2))
    return patch.add("Slice", [source, *bounds])


def _is_doubled(value: Value | None) -> bool:
    """Whether both halves of the last axis are known to be the same."""
    data = constant_of(value)
    if data is not None:
        half = data.shape[-1] // 2 if data.ndim else 0
        return half > 0 and 2 * half == data.shape[-1] and bool((data[..., :half] == data[..., half:]).all())
    node = value.producer if value is not None else None
    if node is None:
        return False
    if node.is_op("Concat"):
        rank = node.output.type.rank or 0
        is_last = normal_axes([node.attrs["axis"]], rank) == [rank - 1]
        return is_last and len(node.inputs) == 2 and node.inputs[0] is node.inputs[1]
    if node.is_op("Gather"):
        axis, table = node.attrs.get("axis", 0), node.inputs[0]
        return axis == 0 and table is not None and (table.type.rank or 0) > 1 and _is_doubled(table)
    if node.is_op("Mul", "Div"):
        x = next((each for each in node.inputs if constant_scalar(each) is None), None)
        return any(constant_scalar(each) is not None for each in node.inputs) and _is_doubled(x)
    x = node.input(0)
    if node.is_op("Unsqueeze", "Reshape"):
        return x is not None and _same_last(x, node.output) and _is_doubled(x)
    return node.is_op("Cos", "Sin", "Cast", "Identity") and _is_doubled(x)


def _same_last(a: Value, b: Value) -> bool:
    return bool(a.shape) and bool(b.shape) and same(a.type.dims[-1], b.type.dims[-1])
