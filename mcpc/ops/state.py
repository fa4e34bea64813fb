"""Operators of networks that carry a state of fixed size from token to token: LinearAttention, CausalConvWithState."""

from __future__ import annotations

from dataclasses import dataclass

from mcpc.ir import Dim, DType, Node, TensorType, dim
from mcpc.ops.context import (
    FLOATS,
    InferContext,
    attribute,
    choice,
    expect,
    expect_rank,
    fail,
    number,
    optional_type,
    same_dtype,
    type_of,
    unify,
)
from mcpc.ops.registry import ACCUMULATED, NEWEST, Cost, OpDef, register, traffic
from mcpc.ops.shape import divide_exactly

_TYPES = FLOATS - {DType.float64}

# ---- LinearAttention

#: What makes the state of the next token: whether it decays, whether what it holds for a key is corrected.
_RULES = {"linear": (False, False), "gated": (True, False), "delta": (False, True), "gated_delta": (True, True)}


@dataclass(frozen=True)
class LinearAttentionSizes:
    """``group`` heads of queries share one of ``heads`` of keys; ``depth`` components of a key, ``width`` of a value;
    ``decays`` of a head, one or one a component; ``rates`` of a token, one or one a head."""

    batch: Dim
    time: Dim
    heads: int
    group: int
    depth: Dim
    width: Dim
    decays: Dim
    rates: Dim


def linear_attention_sizes(node: Node) -> LinearAttentionSizes:
    """The sizes of a LinearAttention whose ranks are known; E104 where they do not fit."""
    heads, queries = (attribute(node, f"{name}_num_heads", 0) for name in ("kv", "q"))
    if heads < 1 or queries < 1 or queries % heads:
        fail(node, f"q_num_heads is {queries}, a multiple of kv_num_heads, {heads}, is needed", "E102")
    q, k, v = (type_of(node, index).dims for index in range(3))
    batch, time = q[0], q[1]
    for index, what in ((1, "key"), (2, "value"), (4, "decay"), (5, "beta")):
        other = optional_type(node, index)
        if other is not None and other.shape is not None:
            batch = unify(node, batch, other.dims[0], f"the batches of query and {what}")
            time = unify(node, time, other.dims[1], f"the lengths of query and {what}")
    depth, width = _head(node, q[2], queries), _head(node, v[2], heads)
    unify(node, depth, _head(node, k[2], heads), "the head sizes of query and key")
    past = optional_type(node, 3)
    if past is not None and past.shape is not None:
        for size, wanted in zip(past.shape, (batch, heads, depth, width), strict=True):
            unify(node, size, wanted, "past_state")
    decays: Dim = 1
    if (decay := optional_type(node, 4)) is not None and decay.shape is not None and decay.shape[2] != heads:
        decays = unify(node, _head(node, decay.shape[2], heads), depth, "the head sizes of key and decay")
    rates: Dim = 1
    if (beta := optional_type(node, 5)) is not None and beta.shape is not None and beta.shape[2] != 1:
        rates = unify(node, beta.shape[2], heads, "the heads of key and beta")
    return LinearAttentionSizes(batch, time, heads, queries // heads, depth, width, decays, rates)


def _head(node: Node, size: Dim, heads: int) -> Dim:
    if isinstance(size, int) and size % heads:
        fail(node, f"{size} components do not divide into {heads} heads")
    return divide_exactly(size, heads)


def infer_linear_attention(node: Node, context: InferContext) -> list[TensorType]:
    """query [B, T, heads·depth], key [B, T, heads·depth], value [B, T, heads·width],
    past_state [B, heads, depth, width], decay [B, T, heads] or [B, T, heads·depth], beta [B, T, heads] or [B, T, 1] →
    output [B, T, heads·width] and present_state."""
    query, past = expect(node, 0, _TYPES), optional_type(node, 3)
    same_dtype(node, 0, 1, 2, 4, 5)
    number(node, "scale", 0.0)
    for index in (0, 1, 2, 4, 5):
        expect_rank(node, index, 3)
    if past is not None:
        expect(node, 3, _TYPES)
        expect_rank(node, 3, 4)
    rule = choice(node, "update_rule", "gated_delta", tuple(_RULES))
    for index, name, wanted in zip((4, 5), ("decay", "beta"), _RULES[rule], strict=True):
        if (node.input(index) is not None) != wanted:
            fail(node, f"rule {rule} {'needs' if wanted else 'takes no'} {name}")
    state = query.dtype if past is None else past.dtype
    if any(type_of(node, index).shape is None for index in range(3)):
        return [TensorType(query.dtype, None), TensorType(state, None)]
    s = linear_attention_sizes(node)
    output = (s.batch, s.time, dim(s.heads * s.group * s.width))
    return [TensorType(query.dtype, output), TensorType(state, (s.batch, s.heads, s.depth, s.width))]


def cost_linear_attention(node: Node) -> Cost:
    """For every token, the state is read (twice with a correction) and written."""
    s = linear_attention_sizes(node)
    passes = 3 + 2 * s.group + 2 * (node.input(5) is not None)
    return Cost(dim(s.batch * s.time * s.heads * s.depth * s.width * passes), traffic(node))


# ---- CausalConvWithState


def infer_causal_conv(node: Node, context: InferContext) -> list[TensorType]:
    """input [B, C, T], weight [C, 1, k], bias [C], past_state [B, C, k - 1] → output as input, present_state."""
    x, past = expect(node, 0, _TYPES), optional_type(node, 3)
    same_dtype(node, 0, 1, 2, 3)
    choice(node, "activation", "none", ("none", "silu", "swish"))
    for index, rank in enumerate((3, 3, 1, 3)):
        expect_rank(node, index, rank)
    weight, bias = type_of(node, 1), optional_type(node, 2)
    if x.shape is None or weight.shape is None:
        return [TensorType(x.dtype, None)] * 2
    batch, channels, time = x.shape
    channels = unify(node, channels, weight.shape[0], "the channels of input and weight")
    unify(node, weight.shape[1], 1, "the weight's second dimension")
    taps = weight.shape[2]
    if isinstance(taps, int) and taps < 1:
        fail(node, "the kernel is empty")
    if bias is not None and bias.shape is not None:
        unify(node, bias.shape[0], channels, "the channels of input and bias")
    if past is not None and past.shape is not None:
        for size, wanted in zip(past.shape, (batch, channels, dim(taps - 1)), strict=True):
            unify(node, size, wanted, "past_state")
    return [TensorType(x.dtype, (batch, channels, time)), TensorType(x.dtype, (batch, channels, dim(taps - 1)))]


def cost_causal_conv(node: Node) -> Cost:
    x, weight = type_of(node, 0), type_of(node, 1)
    activation = 0 if node.attrs.get("activation", "none") == "none" else 20
    return Cost(dim(x.elements * (2 * weight.dims[2] + activation)), traffic(node))


register(
    OpDef("LinearAttention", infer_linear_attention, cost_linear_attention, ACCUMULATED, (27, NEWEST)),
    OpDef("CausalConvWithState", infer_causal_conv, cost_causal_conv, ACCUMULATED, (27, NEWEST)),
)
