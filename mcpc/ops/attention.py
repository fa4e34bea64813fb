"""Attention, RotaryEmbedding and TensorScatter: the operators of transformers and their caches."""

from __future__ import annotations

from dataclasses import dataclass

from mcpc.ir import OPSET, Dim, DType, Node, TensorType, dim
from mcpc.ops.context import (
    ALL,
    FLOATS,
    InferContext,
    attribute,
    axis_of,
    broadcast,
    choice,
    differ,
    expect,
    expect_rank,
    fail,
    number,
    optional_type,
    same_dtype,
    show,
    type_of,
    unify,
)
from mcpc.ops.registry import ACCUMULATED, EXACT, ROUNDED, Cost, OpDef, moves, register, traffic


@dataclass(frozen=True)
class AttentionSizes:
    """The sizes of an Attention: ``heads`` of queries, ``kv_heads`` of keys, ``rows`` queries, ``past`` and ``keys``
    (old and new), ``depth`` components of a key and ``width`` of a value."""

    batch: Dim
    heads: Dim
    kv_heads: Dim
    rows: Dim
    past: Dim
    keys: Dim
    depth: Dim
    width: Dim

    @property
    def total(self) -> Dim:
        return dim(self.past + self.keys)

    @property
    def group(self) -> Dim:
        """Heads of queries that share a head of keys."""
        if isinstance(self.heads, int) and isinstance(self.kv_heads, int):
            return self.heads // self.kv_heads
        return dim(self.heads / self.kv_heads)


def _split(node: Node, index: int, heads: str) -> tuple[Dim, Dim, Dim, Dim]:
    """(batch, heads, rows, components) of Q, K or V in either form."""
    dims = type_of(node, index).dims
    if len(dims) == 4:
        return dims[0], dims[1], dims[2], dims[3]
    count = attribute(node, heads, 0)
    if count < 1:
        fail(node, f"attribute {heads} is {count}: inputs of rank 3 need it", "E102")
    size = dims[2]
    if isinstance(size, int) and size % count:
        fail(node, f"input {index} does not divide into {count} heads: {show(type_of(node, index))}")
    return dims[0], count, dims[1], size // count if isinstance(size, int) else dim(size / count)


def attention_sizes(node: Node) -> AttentionSizes:
    """The sizes of an Attention whose ranks are known; E104 where they do not fit."""
    batch, heads, rows, depth = _split(node, 0, "q_num_heads")
    batch_k, kv_heads, keys, depth_k = _split(node, 1, "kv_num_heads")
    batch_v, heads_v, keys_v, width = _split(node, 2, "kv_num_heads")
    batch = unify(node, unify(node, batch, batch_k, "the batches of Q and K"), batch_v, "the batches of K and V")
    unify(node, kv_heads, heads_v, "the heads of K and V")
    unify(node, depth, depth_k, "the head sizes of Q and K")
    if isinstance(heads, int) and isinstance(kv_heads, int) and (kv_heads == 0 or heads % kv_heads):
        fail(node, f"{heads} heads of Q do not divide into {kv_heads} of K")
    past: Dim = 0
    past_key, past_value = optional_type(node, 4), optional_type(node, 5)
    if past_key is not None and past_value is not None and past_key.shape is not None and past_value.shape is not None:
        past = past_key.dims[2]
        for type, size, what in ((past_key, depth, "past_key"), (past_value, width, "past_value")):
            for axis, wanted in enumerate((batch, kv_heads, past, size)):
                unify(node, type.dims[axis], wanted, what)
    keys = unify(node, keys, keys_v, "the lengths of K and V")
    return AttentionSizes(batch, heads, kv_heads, rows, past, keys, depth, width)


def infer_attention(node: Node, context: InferContext) -> list[TensorType]:
    """Q, K, V [B, heads, length, size] or [B, length, heads·size], mask (bool, or added), past_key and past_value
    [B, heads, past, size], number of valid keys [B] → Y as Q, present_key, present_value, scores [B, heads, Q's length,
    past + K's length]."""
    q = expect(node, 0, FLOATS)
    for name in ("is_causal", "qk_matmul_output_mode", "left_window_size", "right_window_size"):
        attribute(node, name, 0)
    for name in ("scale", "softcap"):
        number(node, name, 0.0)
    same_dtype(node, 0, 1, 4)
    same_dtype(node, 2, 5)
    mask = optional_type(node, 3)
    if mask is not None:
        expect(node, 3, FLOATS | {DType.bool})
    if node.input(6) is not None:
        expect(node, 6, {DType.int64})
        expect_rank(node, 6, 1)
    if (node.input(4) is None) != (node.input(5) is None):
        fail(node, "past_key and past_value go together")
    for index in range(3):
        expect_rank(node, index, 3, 4)
    for index in (4, 5):
        expect_rank(node, index, 4)
    types = [type_of(node, index) for index in range(3)]
    if any(type.shape is None for type in types):
        return [TensorType(q.dtype, None)] * 4
    if len({len(type.dims) for type in types}) > 1:
        fail(node, f"Q, K and V differ in rank: {', '.join(map(show, types))}")
    s = attention_sizes(node)
    if mask is not None and mask.shape is not None:
        if not 1 <= len(mask.shape) <= 4:
            fail(node, f"the mask has rank {len(mask.shape)}, 1 to 4 is needed")
        last = mask.shape[-1]
        is_short = isinstance(last, int) and isinstance(s.total, int) and 1 < last < s.total
        full = (s.batch, s.heads, s.rows, last if is_short else s.total)
        result = broadcast(node, [full, mask.shape])
        if result is None or len(result) != 4 or any(map(differ, result, full)):
            fail(node, f"the mask does not broadcast to [{', '.join(map(str, full))}]: {show(mask)}")
    if len(q.dims) == 4:
        y: tuple[Dim, ...] = (s.batch, s.heads, s.rows, s.width)
    else:
        y = (s.batch, s.rows, dim(s.heads * s.width))
    return [
        TensorType(q.dtype, y),
        TensorType(types[1].dtype, (s.batch, s.kv_heads, s.total, s.depth)),
        TensorType(types[2].dtype, (s.batch, s.kv_heads, s.total, s.width)),
        TensorType(q.dtype, (s.batch, s.heads, s.rows, s.total)),
    ]


def cost_attention(node: Node) -> Cost:
    """Two products, and a softmax between them."""
    s = attention_sizes(node)
    return Cost(attention_flops(s, s.rows), traffic(node))


def attention_flops(s: AttentionSizes, rows: Dim) -> Dim:
    """Floating-point operations of so many queries a head."""
    return dim(s.batch * s.heads * rows * s.total * (2 * s.depth + 2 * s.width + 20))


# ---- RotaryEmbedding


@dataclass(frozen=True)
class RotarySizes:
    """``rotated`` of the ``size`` components of every head are."""

    batch: Dim
    heads: Dim
    rows: Dim
    size: Dim
    rotated: Dim


def rotary_sizes(node: Node) -> RotarySizes:
    attribute(node, "interleaved", 0)
    batch, heads, rows, size = _split(node, 0, "num_heads")
    return RotarySizes(batch, heads, rows, size, attribute(node, "rotary_embedding_dim", 0) or size)


def infer_rotary_embedding(node: Node, context: InferContext) -> list[TensorType]:
    """X [B, heads, length, size] or [B, length, heads·size]; cos and sin [positions, rotated / 2] with position ids
    [B, length], or [B, length, rotated / 2] without."""
    x = expect(node, 0, FLOATS)
    same_dtype(node, 0, 1, 2)
    expect_rank(node, 0, 3, 4)
    positions = optional_type(node, 3)
    for index in (1, 2):
        expect_rank(node, index, 3 if positions is None else 2)
    if x.shape is None:
        return [TensorType(x.dtype, None)]
    s = rotary_sizes(node)
    if isinstance(s.rotated, int) and (s.rotated % 2 or (isinstance(s.size, int) and s.rotated > s.size)):
        fail(node, f"{s.rotated} of {s.size} components cannot be rotated")
    if positions is not None:
        expect(node, 3, {DType.int64})
        expect_rank(node, 3, 2)
        if positions.shape is not None:
            unify(node, positions.dims[0], s.batch, "the batches of X and the positions")
            unify(node, positions.dims[1], s.rows, "the lengths of X and the positions")
    for index in (1, 2):
        cache = type_of(node, index)
        if cache.shape is not None and differ(dim(2 * cache.dims[-1]), s.rotated):
            fail(node, f"input {index} must have {s.rotated} / 2 columns, it is {show(cache)}")
    return [TensorType(x.dtype, x.shape)]


def cost_rotary_embedding(node: Node) -> Cost:
    return Cost(dim(3 * node.output.type.elements), traffic(node))


# ---- TensorScatter


def infer_tensor_scatter(node: Node, context: InferContext) -> list[TensorType]:
    """A cache [B, …, length, …] and what is written to it from write_indices [B] on along ``axis``."""
    cache, update = expect(node, 0, ALL), type_of(node, 1)
    same_dtype(node, 0, 1)
    choice(node, "mode", "linear", ("linear", "circular"))
    if node.input(2) is not None:
        expect(node, 2, {DType.int64})
        expect_rank(node, 2, 1)
    if cache.shape is None:
        return [TensorType(cache.dtype, None)]
    axis = axis_of(node, attribute(node, "axis", -2), len(cache.shape))
    if axis == 0:
        fail(node, "axis 0 is the batch", "E102")
    if update.shape is not None:
        if len(update.shape) != len(cache.shape):
            fail(node, f"ranks of cache and update differ: {show(cache)} and {show(update)}")
        for position, (a, b) in enumerate(zip(cache.shape, update.shape, strict=True)):
            if position != axis:
                unify(node, a, b, f"dimension {position} of cache and update")
    return [TensorType(cache.dtype, cache.shape)]


register(
    OpDef("Attention", infer_attention, cost_attention, ACCUMULATED, (23, OPSET)),
    OpDef("RotaryEmbedding", infer_rotary_embedding, cost_rotary_embedding, ROUNDED, (23, OPSET)),
    OpDef("TensorScatter", infer_tensor_scatter, moves, EXACT, (24, OPSET)),
)
