"""ONNX Runtime's attention operators and rotary embeddings (domain com.microsoft), see :mod:`mcpc.ops.contrib`: all are
ONNX's Attention, RotaryEmbedding and TensorScatter, which read heads where they lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mcpc.ir import DType, Graph, Value, dim
from mcpc.ops.context import attribute, fail, same, show, type_of
from mcpc.ops.contrib import Expansion, stands_for


def _count(e: Expansion, name: str = "num_heads") -> int:
    count = attribute(e.node, name, 0)
    if count < 1:
        fail(e.node, f"attribute {name} is {count}", "E102")
    return count


def _fixed(e: Expansion, value: Value, axis: int = -1) -> int:
    """A size that must be known: it says where a tensor ends that lies beside others."""
    size = value.type.dims[axis]
    if not isinstance(size, int):
        fail(e.node, f"the size of %{value.name} along axis {axis} is not known: {show(value.type)}", "E108")
    return size


def _apart(e: Expansion, x: Value, heads: int) -> Value:
    """[B, S, heads * size] as [B, heads, S, size]."""
    size = x.type.dims[-1]
    each = size // heads if isinstance(size, int) else -1
    return e("Transpose", e("Reshape", x, e.ints(0, 0, heads, each)), perm=[0, 2, 1, 3])


def _side_by_side(e: Expansion, x: Value) -> Value:
    """[B, heads, S, size] as [B, S, heads * size]."""
    width = dim(x.type.dims[1] * x.type.dims[3])
    return e("Reshape", e("Transpose", x, perm=[0, 2, 1, 3]), e.ints(0, 0, width if isinstance(width, int) else -1))


def _part(e: Expansion, x: Value, axis: int, start: int, stop: int) -> Value:
    return e("Slice", x, e.ints(start), e.ints(stop), e.ints(axis))


def _row(e: Expansion, x: Value, axis: int, index: int) -> Value:
    """What lies at ``index`` of an axis that goes."""
    return e("Squeeze", _part(e, x, axis, index, index + 1), e.ints(axis))


def _range(e: Expansion, count: Value) -> Value:
    """0, 1, … for a count [1]."""
    zero, one = (e.graph.constant("step", np.array(step, np.int64)) for step in (0, 1))
    return e("Range", zero, e("Squeeze", count, e.ints(0)), one)


def _attrs(e: Expansion, heads: int = 0) -> dict[str, Any]:
    """Attributes of ONNX's Attention, of ``heads`` that lie side by side; ONNX Runtime takes a scale of 0 for none."""
    scale = e.number("scale", 0.0)
    attrs: dict[str, Any] = {"scale": scale} if scale != 0.0 else {}
    return {**attrs, "q_num_heads": heads, "kv_num_heads": heads} if heads else attrs


# ---- masks


def _mask(e: Expansion, mask: Value | None, total: Value, like: Value) -> Value | None:
    """What is added to the scores [B, heads, S, T] for the keys that ``mask`` leaves out. It holds ones and zeros,
    [B, T], [B, S, T] or [B, 1, M, M] (whose last S of the first T rows are meant), or numbers of keys [B], perhaps with
    the first keys behind, [2 B]. ``total`` is T, [1]."""
    if mask is None or _is_dummy(mask):
        return None
    axes = {1: (1, 2), 2: (1, 2), 3: (1,), 4: ()}.get(mask.type.rank or 0)
    if axes is None:
        fail(e.node, f"a mask of {show(mask.type)} is not supported", "E102")
    if mask.type.rank == 1:
        mask = _within(e, mask, total)
    elif mask.type.rank == 4:
        rows = e("Sub", total, e.size(e.input(0), 1))
        mask = e("Slice", mask, e("Concat", rows, e.ints(0), axis=0), e("Concat", total, total, axis=0), e.ints(2, 3))
    seen = mask if mask.dtype is DType.bool else e("Greater", mask, e.scalar(0, mask))
    filler = e.number("mask_filter_value", -10000.0)
    added = e("Where", seen, e.scalar(0.0, like), e.scalar(filler, like))
    return e("Unsqueeze", added, e.ints(*axes)) if axes else added


def _is_dummy(mask: Value) -> bool:
    """One number for all keys, as ONNX Runtime reads a mask [B, 1]: without effect."""
    return mask.type.rank == 2 and mask.shape is not None and mask.shape[1] == 1


def _within(e: Expansion, bounds: Value, total: Value) -> Value:
    """[B, T]: keys before the end, and from the start on where ``bounds`` has both."""
    batch, count = type_of(e.node, 0).dims[0], bounds.type.dims[0]
    key, ends = _range(e, total), e("Unsqueeze", e("Cast", bounds, to=DType.int64), e.ints(1))
    if same(count, batch):
        return e("Less", key, ends)
    if not same(count, dim(2 * batch)):
        fail(e.node, f"a mask of {show(bounds.type)} is not supported for {batch} sequences", "E102")
    size = e.size(e.input(0), 0)
    end = e("Slice", ends, e.ints(0), size, e.ints(0))
    start = e("Slice", ends, size, e.size(ends, 0), e.ints(0))
    return e("And", e("Less", key, end), e("GreaterOrEqual", key, start))


def _bias(e: Expansion, keys: Value) -> Value | None:
    """attention_bias, as long as the keys: a cache may have more than that has."""
    bias = e.node.input(10)
    if bias is None or same(bias.type.dims[-1], keys.type.dims[2]):
        return bias
    more = e("Sub", e.size(keys, 2), e.size(bias, 3))
    shape = e("Concat", e.size(bias, 0), e.size(bias, 1), e.size(bias, 2), more, axis=0)
    return e("Concat", bias, e("Expand", e.scalar(0.0, bias), shape), axis=-1)


def _added(e: Expansion, *masks: Value | None) -> Value | None:
    given = [mask for mask in masks if mask is not None]
    return None if not given else given[0] if len(given) == 1 else e("Add", *given)


# ---- one projection


@stands_for("Attention")
def attention(e: Expansion) -> Sequence[Value | None]:
    """Self-attention of input [B, S, C] with the weights [C, 3 C'] of queries, keys and values side by side; past and
    present [2, B, heads, P, size]."""
    total, bias = e("MatMul", e.input(0), e.input(1)), e.node.input(2)
    return projected_attention(e, total if bias is None else e("Add", total, bias), e.node.input(3), e.node.input(4))


def projected_attention(e: Expansion, qkv: Value, mask: Value | None, past: Value | None) -> Sequence[Value | None]:
    """Attention of queries, keys and values [B, S, 3 C'] side by side, and present."""
    heads, columns = _count(e), _fixed(e, qkv)
    for name, what in (("do_rotary", "rotary embeddings"), ("past_present_share_buffer", "a shared buffer")):
        if attribute(e.node, name, 0):
            e.refuse(what)
    sizes = [int(size) for size in e.node.attrs.get("qkv_hidden_sizes", [columns // 3] * 3)]
    if len(sizes) != 3 or sum(sizes) != columns or any(size < 1 or size % heads for size in sizes):
        fail(e.node, f"{columns} columns of weights do not divide into {sizes} for {heads} heads", "E102")
    q, k, v = e.several("Split", 3, qkv, e.ints(*sizes), axis=-1)
    length, bias = e.size(e.input(0), 1), e.node.input(5) if e.node.op == "Attention" else None
    total, caches = length, list[Value]()
    if past is not None:
        total, caches = e("Add", length, e.size(past, 3)), [_row(e, past, 0, index) for index in range(2)]
    added = _added(e, _mask(e, mask, total, qkv), bias)
    is_causal = attribute(e.node, "unidirectional", 0)
    y = e("Attention", q, k, v, added, *caches, **_attrs(e, heads), is_causal=is_causal)
    if not e.is_asked(1):
        return [y]
    new = e("Concat", *(e("Unsqueeze", _apart(e, each, heads), e.ints(0)) for each in (k, v)), axis=0)
    return [y, new if past is None else e("Concat", past, new, axis=3)]


# ---- three inputs


@stands_for("MultiHeadAttention")
def multi_head_attention(e: Expansion) -> Sequence[Value | None]:
    """Queries [B, S, C]; keys and values [B, T, C], or [B, heads, T, size]; past and present [B, heads, P, size]. All
    three in one [B, S, heads, 3, size], or keys and values in one [B, T, heads, 2, size]."""
    heads, k, v = _count(e), e.node.input(1), e.node.input(2)
    for index, what in ((8, "a shared buffer"), (9, "beams (cache_indirection)")):
        if e.node.input(index) is not None:
            e.refuse(what)
    q, k, v = _unpacked(e, e.input(0), k, v)
    if q.type.rank != 3 or k.type.rank not in (3, 4) or k.type.rank != v.type.rank:
        fail(e.node, f"ranks {q.type.rank}, {k.type.rank}, {v.type.rank} of queries, keys and values", "E102")
    are_heads = k.type.rank == 4
    q, k, v = _biased(e, q, k, v)
    past_k, past_v = e.node.input(6), e.node.input(7)
    total = e.size(k, 2 if are_heads else 1)
    if past_k is not None:
        total = e("Add", total, e.size(past_k, 2))
    mask = _added(e, _mask(e, e.node.input(4), total, q), e.node.input(5))
    attrs = {**_attrs(e, 0 if are_heads else heads), "is_causal": attribute(e.node, "unidirectional", 0)}
    count = 4 if e.is_asked(3) else 3 if e.is_asked(1) or e.is_asked(2) else 1
    y, *more = e.several(
        "Attention", count, _apart(e, q, heads) if are_heads else q, k, v, mask, past_k, past_v, **attrs,
        qk_matmul_output_mode=3,
    )  # fmt: skip
    return [_side_by_side(e, y) if are_heads else y, *more]


def _unpacked(e: Expansion, q: Value, k: Value | None, v: Value | None) -> tuple[Value, Value, Value]:
    """Queries, keys and values that share a tensor, each by itself."""

    def parts(packed: Value, count: int) -> list[Value]:
        _, _, heads, held, size = packed.type.dims
        if held != count or not isinstance(heads, int) or not isinstance(size, int):
            fail(e.node, f"{show(packed.type)} does not hold {count} tensors of known heads", "E102")
        return [e("Reshape", _part(e, packed, 3, i, i + 1), e.ints(0, 0, heads * size)) for i in range(count)]

    if k is None and v is None and q.type.rank == 5:
        q, k, v = parts(q, 3)
    elif k is not None and v is None and k.type.rank == 5:
        k, v = parts(k, 2)
    if k is None or v is None:
        e.refuse("queries alone")
    return q, k, v


def _biased(e: Expansion, q: Value, k: Value, v: Value) -> tuple[Value, Value, Value]:
    """All plus their parts of the bias; keys and values that are heads already have theirs."""
    bias, start = e.node.input(3), e.ints(0)
    if bias is None:
        return q, k, v
    sums = []
    for value in (q, k, v):
        if value.type.rank == 3:
            end = e("Add", start, e.size(value, 2))
            value = e("Add", value, e("Slice", bias, start, end, e.ints(0)))
            start = end
        sums.append(value)
    return sums[0], sums[1], sums[2]


# ---- groups of heads, and a cache


@stands_for("GroupQueryAttention")
def group_query_attention(e: Expansion) -> Sequence[Value | None]:
    """Queries [B, S, heads * size], keys and values [B, S, kv_heads * size], or all side by side; caches and their
    updated copies [B, kv_heads, P, size]. seqlens_k [B] counts old and new keys, less one; the present caches have the
    larger of total_sequence_length and P rows."""
    heads, kv_heads = _count(e), _count(e, "kv_num_heads")
    _refuse_forms(e)
    q, k, v = _split(e, heads, kv_heads)
    q, k = _normalised(e, q, 14, heads, "q_norm_epsilon"), _normalised(e, k, 15, kv_heads, "k_norm_epsilon")
    rows = e.size(q, 1)
    length = e("Add", e("Cast", e.input(5), to=DType.int64), e.ints(1))
    start = e("Max", e("Sub", length, rows), e.ints(0))
    if attribute(e.node, "do_rotary", 0):
        q, k = _rotated(e, q, start, heads), _rotated(e, k, start, kv_heads)
    q, k, v = _apart(e, q, heads), _apart(e, k, kv_heads), _apart(e, v, kv_heads)
    if e.node.input(3) is not None:
        k, v = (_cached(e, e.input(3 + index), new, start) for index, new in enumerate((k, v)))
    is_causal, window = attribute(e.node, "causal", 1), attribute(e.node, "local_window_size", -1)
    # Queries of a prompt that is padded behind see padding: the others, whose keys end before, are counted from 0.
    seen = e("Max", length, rows) if is_causal else length
    bias, sink, attrs = _bias(e, k), _sink(e, q), {"softcap": e.number("softcap", 0.0), **_attrs(e)}
    if sink is not None:
        mask = _seen(e, k, start, seen, rows, window)
        mask = mask if bias is None else e("Add", mask, bias)
        return [_side_by_side(e, _with_sink(e, q, k, v, mask, sink, **attrs)), k, v]
    attrs |= {"is_causal": is_causal, **({"left_window_size": window - 1} if window > 0 else {})}
    if not e.is_asked(3):
        return [_side_by_side(e, e("Attention", q, k, v, bias, None, None, seen, **attrs)), k, v]
    mode = {1: 2, 2: 3}.get(attribute(e.node, "qk_output", 0), 0)
    operands, asked = (q, k, v, bias, None, None, seen), (True, False, False, True)
    y, scores = e.several("Attention", asked, *operands, **attrs, qk_matmul_output_mode=mode)
    return [_side_by_side(e, y), k, v, e("Where", e("IsInf", scores), e.scalar(0.0, scores), scores)]


def _refuse_forms(e: Expansion) -> None:
    if attribute(e.node, "sliding_window_cache", 0):
        e.refuse("a cache of the window only")
    for index, what in ((12, "quantised caches"), (13, "quantised caches"), (16, "padded chunks (query_seqlens)")):
        if e.node.input(index) is not None:
            e.refuse(what)


def _split(e: Expansion, heads: int, kv_heads: int) -> tuple[Value, Value, Value]:
    q, k, v = e.input(0), e.node.input(1), e.node.input(2)
    if heads % kv_heads:
        fail(e.node, f"{heads} heads of queries do not divide into {kv_heads} of keys", "E102")
    if (k is None) != (v is None):
        e.refuse("keys without values")
    if k is None or v is None:
        size = _fixed(e, q) // (heads + 2 * kv_heads)
        q, k, v = e.several("Split", 3, q, e.ints(*(size * count for count in (heads, kv_heads, kv_heads))), axis=-1)
    return q, k, v


def _normalised(e: Expansion, x: Value, index: int, heads: int, name: str) -> Value:
    """[B, S, heads * size] with RMSNormalization of every head, where input ``index`` has weights for it."""
    scale = e.node.input(index)
    if scale is None:
        return x
    apart = e("Reshape", x, e.ints(0, 0, heads, _fixed(e, scale)))
    epsilon = e.number(name, e.number("qk_norm_epsilon", 1e-6))
    return e("Reshape", e("RMSNormalization", apart, scale, epsilon=epsilon), e.ints(0, 0, heads * _fixed(e, scale)))


def _rotated(e: Expansion, x: Value, start: Value, heads: int) -> Value:
    """Turned by the positions that are given, or by those in the cache."""
    cos, sin, positions = e.input(7), e.input(8), e.node.input(9)
    if positions is None:
        positions = e("Add", e("Unsqueeze", start, e.ints(1)), _range(e, e.size(x, 1)))
    attrs = {"num_heads": heads, "interleaved": attribute(e.node, "rotary_interleaved", 0)}
    if not same(dim(2 * heads * cos.type.dims[-1]), x.type.dims[-1]):
        attrs["rotary_embedding_dim"] = 2 * _fixed(e, cos)
    return e("RotaryEmbedding", x, cos, sin, positions, **attrs)


def _cached(e: Expansion, past: Value, new: Value, start: Value) -> Value:
    """The cache with new rows [B, heads, S, size] from ``start`` [B] on, as long as it must be."""
    total = e("Reshape", e("Cast", e.input(6), to=DType.int64), e.ints(1))
    more = e("Max", e("Sub", total, e.size(past, 2)), e.ints(0))
    shape = e("Concat", e.size(past, 0), e.size(past, 1), more, e.size(past, 3), axis=0)
    return _appended(e, past, e("Expand", e.scalar(0.0, past), shape), new, start)


def _appended(e: Expansion, *operands: Value) -> Value:
    """One node of kind "cache", which copies what is kept once: the rows before ``start`` of ``past`` and ``more``
    behind it, the new ones from there on, then zeros."""
    body = Graph("cache")
    past, more, new, start = (body.add_input(body.fresh(value.name), value.type) for value in operands)
    inner = Expansion(e.node, e.context, body)
    joined = inner("Concat", past, more, axis=2)
    key = inner("Unsqueeze", _range(inner, inner.size(joined, 2)), inner.ints(1))
    is_kept = inner("Less", key, inner("Unsqueeze", start, inner.ints(1, 2, 3)))
    kept = inner("Where", is_kept, joined, inner.scalar(0.0, joined))
    body.outputs = [inner("TensorScatter", kept, new, start)]
    for node in inner.nodes:
        body.append(node)
    return e.fused("cache", body, *operands)


def _sink(e: Expansion, q: Value) -> Value | None:
    """The score [1, heads or 1, 1, 1] that takes part in each softmax without a value."""
    sink = e.node.input(11)
    if sink is not None:
        return e("Reshape", sink, e.ints(1, -1, 1, 1))
    if attribute(e.node, "smooth_softmax", 0) == 1:
        return e.graph.constant("sink", np.zeros((1, 1, 1, 1), q.dtype.numpy))
    return None


def _seen(e: Expansion, keys: Value, start: Value, length: Value, rows: Value, window: int) -> Value:
    """Zero for the keys that a query sees and -infinity for others, [B, 1, S, T]."""
    key = _range(e, e.size(keys, 2))
    query = e("Unsqueeze", e("Add", e("Unsqueeze", start, e.ints(1)), _range(e, rows)), e.ints(1, 3))
    is_seen = e("Less", key, e("Unsqueeze", length, e.ints(1, 2, 3)))
    if attribute(e.node, "causal", 1):
        is_seen = e("And", is_seen, e("LessOrEqual", key, query))
    if window > 0:
        is_seen = e("And", is_seen, e("Greater", key, e("Sub", query, e.ints(window))))
    return e("Where", is_seen, e.scalar(0.0, keys), e.scalar(-np.inf, keys))


def _with_sink(e: Expansion, q: Value, k: Value, v: Value, mask: Value, sink: Value, **attrs: Any) -> Value:
    """The sink is the score of one more key of zeros, whose value is zero too."""
    heads = e.size(sink, 1)
    mask = e("Expand", mask, e("Concat", e.ints(1), heads, e.ints(1, 1), axis=0))
    column = e("Expand", sink, e("Concat", e.size(mask, 0), heads, e.size(mask, 2), e.ints(1), axis=0))
    mask = e("Concat", mask, column, axis=-1)
    none = e("Expand", e.scalar(0.0, k), e("Concat", e.size(k, 0), e.size(k, 1), e.ints(1), e.size(k, 3), axis=0))
    return e("Attention", q, none, none, mask, k, v, **attrs)


# ---- rotary embeddings


@stands_for("RotaryEmbedding")
def rotary_embedding(e: Expansion) -> Sequence[Value | None]:
    """X [B, heads, S, size] or [B, S, heads * size], turned by positions [B, S], or from one position on, [1].
    ONNX Runtime leaves the attribute scale out."""
    x, positions = e.input(0), e.input(1)
    if attribute(e.node, "is_packed_batching", 0):
        e.refuse("packed batches")
    if positions.type.rank == 1:
        batch, rows = e.size(x, 0), e.size(x, 2 if x.type.rank == 4 else 1)
        positions = e("Expand", e("Add", positions, _range(e, rows)), e("Concat", batch, rows, axis=0))
    names = ("interleaved", "num_heads", "rotary_embedding_dim")
    attrs = {name: number for name in names if (number := attribute(e.node, name, 0))}
    if x.type.rank == 3 and "num_heads" not in attrs:
        attrs["num_heads"] = _fixed(e, x) // (2 * max(1, _fixed(e, e.input(2))))
    return [e("RotaryEmbedding", x, e.input(2), e.input(3), positions, **attrs)]
