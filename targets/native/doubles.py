"""Operators of float64 by others: those that have no kernels of their own in this precision."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mcpc.contrib import put_in_place
from mcpc.ir import DType, Graph, Node, Value
from mcpc.ops import InferContext
from mcpc.ops.attention import attention_sizes
from mcpc.ops.context import attribute, fail
from mcpc.ops.contrib import Build, Expansion
from mcpc.rewrite import remove_dead


def in_doubles(graph: Graph, node: Node) -> list[Node] | None:
    """Replaces an operator of float64 by others; the new nodes, None where it stays."""
    build = BUILDS.get(node.op) if node.domain == "" else None
    if build is None or node.inputs[0] is None or node.inputs[0].dtype is not DType.float64:
        return None
    expansion = Expansion(node, InferContext(), graph)
    put_in_place(graph, node, expansion.nodes, build(expansion))
    remove_dead(graph, expansion.nodes)  # what only outputs that nobody asks for need
    return [each for each in expansion.nodes if graph.owns(each)]


def _rank(e: Expansion) -> int:
    rank = e.input(0).type.rank
    if rank is None:
        fail(e.node, f"the rank of %{e.input(0).name} is not known", "E108")
    return rank


# ---- normalisation


def _inverse(e: Expansion, centred: Value, axes: Value) -> Value:
    """1 / sqrt(mean square + epsilon)."""
    mean = e("ReduceMean", e("Mul", centred, centred), axes, keepdims=1)
    return e("Reciprocal", e("Sqrt", e("Add", mean, e.scalar(e.number("epsilon", 1e-5), mean))))


def _standard(e: Expansion, x: Value, axes: Value) -> Value:
    """``x`` with mean 0 and variance 1 along ``axes``."""
    centred = e("Sub", x, e("ReduceMean", x, axes, keepdims=1))
    return e("Mul", centred, _inverse(e, centred, axes))


def _channels(e: Expansion, value: Value) -> Value:
    """A number per channel, for an image of the rank of the node's."""
    rank = _rank(e)
    return e("Unsqueeze", value, e.ints(*range(1, rank - 1))) if rank > 2 else value


def _affine(e: Expansion, x: Value, scale: Value, bias: Value | None) -> Value:
    scaled = e("Mul", x, scale)
    return scaled if bias is None else e("Add", scaled, bias)


def _axes(e: Expansion) -> Value:
    rank = _rank(e)
    return e.ints(*range(attribute(e.node, "axis", -1) % rank, rank))


def layer_normalization(e: Expansion) -> Sequence[Value | None]:
    x, axes = e.input(0), _axes(e)
    mean = e("ReduceMean", x, axes, keepdims=1)
    centred = e("Sub", x, mean)
    inverse = _inverse(e, centred, axes)
    statistics: list[Value | None] = [mean, inverse]
    if attribute(e.node, "stash_type", 1) == 1:
        statistics = [
            e("Cast", value, to=DType.float32) if e.is_asked(i) else None for i, value in ((1, mean), (2, inverse))
        ]
    return [_affine(e, e("Mul", centred, inverse), e.input(1), e.node.input(2)), *statistics]


def rms_normalization(e: Expansion) -> Sequence[Value | None]:
    x = e.input(0)
    return [_affine(e, e("Mul", x, _inverse(e, x, _axes(e))), e.input(1), None)]


def instance_normalization(e: Expansion) -> Sequence[Value | None]:
    standard = _standard(e, e.input(0), e.ints(*range(2, _rank(e))))
    return [_affine(e, standard, _channels(e, e.input(1)), _channels(e, e.input(2)))]


def group_normalization(e: Expansion) -> Sequence[Value | None]:
    x = e.input(0)
    grouped = e("Reshape", x, e.ints(0, attribute(e.node, "num_groups", 1), -1))
    standard = e("Reshape", _standard(e, grouped, e.ints(2)), e("Shape", x))
    return [_affine(e, standard, _channels(e, e.input(1)), _channels(e, e.input(2)))]


def batch_normalization(e: Expansion) -> Sequence[Value | None]:
    scale, bias, mean, variance = (_channels(e, e.input(index)) for index in range(1, 5))
    deviation = e("Sqrt", e("Add", variance, e.scalar(e.number("epsilon", 1e-5), variance)))
    return [_affine(e, e("Sub", e.input(0), mean), e("Div", scale, deviation), bias)]


def lrn(e: Expansion) -> Sequence[Value | None]:
    """The mean of the squares of neighbouring channels is an average pool along them."""
    x, size = e.input(0), attribute(e.node, "size", 1)
    planes = e("Unsqueeze", e("Reshape", e("Mul", x, x), e.ints(0, 0, -1)), e.ints(1))
    pads = [(size - 1) // 2, 0, size // 2, 0]
    means = e("AveragePool", planes, kernel_shape=[size, 1], pads=pads, count_include_pad=1)
    mean = e("Reshape", e("Squeeze", means, e.ints(1)), e("Shape", x))
    base = _affine(e, mean, e.scalar(e.number("alpha", 1e-4), x), e.scalar(e.number("bias", 1.0), x))
    return [e("Mul", x, e("Pow", base, e.scalar(-e.number("beta", 0.75), x)))]


# ---- attention


def _scores_seen(e: Expansion, scores: Value, q: Value, k: Value) -> Value:
    """``scores`` with -infinity for the keys that a query does not see by its place."""
    node, past, lengths = e.node, e.node.input(4), e.node.input(6)
    left, right = (attribute(node, f"{side}_window_size", -1) for side in ("left", "right"))
    after = min([0] * bool(attribute(node, "is_causal", 0)) + [right] * (right >= 0), default=None)
    zero, one = (e.graph.constant("step", np.array(step, np.int64)) for step in (0, 1))

    def places(value: Value) -> Value:
        return e("Range", zero, e("Squeeze", e.size(value, 2), e.ints(0)), one)

    keys, seen = places(k), []
    column = None if lengths is None else e("Unsqueeze", lengths, e.ints(1, 2, 3))
    if column is not None:
        seen.append(e("Less", keys, column))
    if after is not None or left >= 0:
        apart = e("Sub", keys, e("Unsqueeze", places(q), e.ints(1)))
        if past is not None:
            apart = e("Sub", apart, e.size(past, 2))
        elif column is not None:
            apart = e("Sub", apart, e("Sub", column, e.size(q, 2)))
        if after is not None:
            seen.append(e("LessOrEqual", apart, e.ints(after)))
        if left >= 0:
            seen.append(e("GreaterOrEqual", apart, e.ints(-left)))
    for each in seen:
        scores = e("Where", each, scores, e.scalar(-np.inf, scores))
    return scores


def _masked(e: Expansion, scores: Value, k: Value) -> Value:
    """``scores`` with the mask, beyond whose last column no key is seen."""
    mask = e.node.input(3)
    if mask is None:
        return scores
    if mask.dtype not in (DType.bool, DType.float64):
        mask = e("Cast", mask, to=DType.float64)
    rank, total = len(mask.type.dims), k.type.dims[2]
    if mask.type.dims[-1] not in (1, total):
        missing = e("Sub", e.size(k, 2), e.size(mask, rank - 1))
        nothing = np.array(False if mask.dtype is DType.bool else -np.inf, mask.dtype.numpy)
        pads = e("Concat", e.ints(*[0] * (2 * rank - 1)), missing, axis=0)
        mask = e("Pad", mask, pads, e.graph.constant("nothing", nothing))
    if mask.dtype is DType.bool:
        return e("Where", mask, scores, e.scalar(-np.inf, scores))
    return e("Add", scores, mask)


def _softmax(e: Expansion, scores: Value) -> Value:
    """Along the last axis; zeros where no key is seen."""
    axes = e.ints(-1)
    peak = e("ReduceMax", scores, axes, keepdims=1)
    base = e("Where", e("Equal", peak, e.scalar(-np.inf, peak)), e.scalar(0.0, peak), peak)
    powers = e("Exp", e("Sub", scores, base))
    total = e("ReduceSum", powers, axes, keepdims=1)
    empty = e("Equal", total, e.scalar(0.0, total))
    return e("Where", empty, e.scalar(0.0, total), e("Div", powers, total))


def attention(e: Expansion) -> Sequence[Value | None]:
    """softmax(Q K' scale, capped and masked) V; the present keys and values; the scores as they are after a step."""
    node, s = e.node, attention_sizes(e.node)
    is_flat = len(e.input(0).type.dims) == 3
    mode, cap = attribute(node, "qk_matmul_output_mode", 0), e.number("softcap", 0.0)
    if mode not in range(4):
        e.refuse(f"qk_matmul_output_mode {mode}")

    def by_heads(value: Value, name: str) -> Value:
        if not is_flat:
            return value
        return e("Transpose", e("Reshape", value, e.ints(0, 0, attribute(node, name, 1), -1)), perm=[0, 2, 1, 3])

    def repeated(value: Value) -> Value:
        """A head of keys or values for each head of the queries."""
        if s.group == 1:
            return value
        heads = e.size(q, 1)
        group = e("Concat", e.ints(1, 1), e("Div", heads, e.size(value, 1)), e.ints(1, 1), axis=0)
        wide = e("Expand", e("Unsqueeze", value, e.ints(2)), group)
        return e("Reshape", wide, e("Concat", e.size(value, 0), heads, e("Shape", value, start=2, end=4), axis=0))

    q = by_heads(e.input(0), "q_num_heads")
    k, v = (by_heads(e.input(index), "kv_num_heads") for index in (1, 2))
    past_k, past_v = node.input(4), node.input(5)
    if past_k is not None and past_v is not None:
        k, v = e("Concat", past_k, k, axis=2), e("Concat", past_v, v, axis=2)
    present = [e("Identity", value) if e.is_asked(index) else None for index, value in ((1, k), (2, v))]
    root = e("Sqrt", e("Cast", e.size(q, 3), to=DType.float64))
    scale = e.scalar(e.number("scale", 0.0), q) if "scale" in node.attrs else e("Reciprocal", root)
    scores = [e("Mul", e("MatMul", q, e("Transpose", repeated(k), perm=[0, 1, 3, 2])), scale)]
    capped = scores[-1]
    if cap != 0.0:
        limit = e.scalar(cap, q)
        capped = e("Mul", e("Tanh", e("Div", capped, limit)), limit)
    scores.append(capped)
    scores.append(_scores_seen(e, _masked(e, capped, k), q, k))
    scores.append(_softmax(e, scores[-1]))
    values = repeated(v if v.dtype is q.dtype else e("Cast", v, to=q.dtype))
    y = e("MatMul", scores[-1], values)
    if is_flat:
        y = e("Reshape", e("Transpose", y, perm=[0, 2, 1, 3]), e.ints(0, 0, -1))
    return [y, *present, e("Identity", scores[mode]) if e.is_asked(3) else None]


BUILDS: dict[str, Build] = {
    "Attention": attention,
    "BatchNormalization": batch_normalization,
    "GroupNormalization": group_normalization,
    "InstanceNormalization": instance_normalization,
    "LRN": lrn,
    "LayerNormalization": layer_normalization,
    "RMSNormalization": rms_normalization,
}
