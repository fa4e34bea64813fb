"""Attention out of its parts, as exporters write it, and as an operator; rotary embeddings and caches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..case import ORT, Family
from ..graphs import Array, Graph
from ..graphs import Weight as W

FAMILY = Family("attention")
op = FAMILY.op
case = FAMILY.graph

LOWEST = float(np.finfo(np.float32).min)


def scalar(number: float) -> W:
    return W(np.array(number, np.float32))


def parts(
    g: Graph,
    q: Any,
    k: Any,
    v: Any,
    score: Callable[[str], str] | None = None,
    perm: tuple[int, ...] = (0, 1, 3, 2),
) -> str:
    """softmax(score(q kᵀ)) v; ``score`` may scale and mask."""
    s = g("MatMul", q, g("Transpose", k, perm=list(perm)))
    p = g("Softmax", g("Mul", s, scalar(0.35)) if score is None else score(s), axis=-1)
    return str(g("MatMul", p, v))


def qkv(b: int = 2, h: int = 3, s: int = 5, t: int = 5, d: int = 4, w: int = 4) -> tuple[Any, ...]:
    return (b, h, s, d), (b, h, t, d), (b, h, t, w)


# ---- sizes: single rows and keys, several blocks of both, partial vectors
for sizes in (
    (1, 1, 1, 1, 1, 1),
    (1, 2, 1, 7, 8, 8),
    (2, 1, 7, 1, 3, 5),
    (1, 2, 70, 130, 16, 24),
    (1, 1, 3, 300, 9, 17),
):
    case(f"parts, {'x'.join(map(str, sizes))}", lambda g, sizes=sizes: parts(g, *qkv(*sizes)))
case("parts of rank 3", lambda g: parts(g, (3, 5, 4), (3, 6, 4), (3, 6, 9), perm=(0, 2, 1)))
case("parts of rank 2", lambda g: parts(g, (5, 4), (6, 4), (6, 9), perm=(1, 0)))
case("parts, one head of keys", lambda g: parts(g, (2, 3, 5, 4), (2, 1, 6, 4), (1, 1, 6, 9)))
case("parts, rank of keys below that of queries", lambda g: parts(g, (2, 3, 5, 4), (3, 6, 4), (6, 9), perm=(0, 2, 1)))

# ---- scores
MASK = np.tril(np.ones((5, 5), bool))
PADDING = np.array([[1, 1, 0, 0, 0], [1, 1, 1, 1, 0]], np.float32).reshape(2, 1, 1, 5)
DEAD = np.array([[1, 1, 1, 0, 1], [0, 0, 0, 0, 0], [0, 1, 0, 0, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0]], bool)


def added(mask: Array, value: float) -> Array:
    return np.where(mask, np.float32(0), np.float32(value)).astype(np.float32)


SCORES: dict[str, Callable[[Graph, str], str]] = {
    "nothing": lambda g, s: s,
    "divided": lambda g, s: g("Div", s, scalar(2.0)),
    "constant mask": lambda g, s: g("Add", g("Mul", s, scalar(0.5)), W(added(MASK, -np.inf))),
    "mask at the left": lambda g, s: g("Add", (1, 3, 5, 5), s),
    "padding": lambda g, s: g("Add", s, g("Mul", g("Sub", scalar(1), PADDING), scalar(-1e4))),
    "mask by head": lambda g, s: g("Add", s, (3, 1, 5)),
    "bias and mask": lambda g, s: g("Add", g("Add", s, W((3, 5, 5))), added(MASK, LOWEST)),
    "Where, lowest": lambda g, s: g("Where", MASK, s, scalar(LOWEST)),
    "Where, the other way": lambda g, s: g("Where", ~MASK, scalar(-1e9), s),
    "Where, infinity": lambda g, s: g("Where", MASK, g("Mul", s, scalar(0.5)), scalar(-np.inf)),
    "dead rows, lowest added": lambda g, s: g("Add", s, added(DEAD, LOWEST)),
    "dead rows, Where lowest": lambda g, s: g("Where", DEAD, s, scalar(LOWEST)),
    "dead rows, -1e9": lambda g, s: g("Where", DEAD, s, scalar(-1e9)),
    "dead rows, infinity": lambda g, s: g("Add", s, added(DEAD, -np.inf)),
    "softcap": lambda g, s: g("Mul", g("Tanh", g("Div", s, scalar(3))), scalar(3)),
    "capped from below": lambda g, s: g("Max", g("Add", s, added(MASK, LOWEST)), scalar(LOWEST)),
}
for name, function in SCORES.items():
    case(f"parts, {name}", lambda g, f=function: parts(g, *qkv(w=9), score=lambda s: f(g, s)))


def guarded(g: Graph) -> str:
    """NaN of rows without keys becomes 0, as PyTorch exports scaled_dot_product_attention."""
    q, k, v = qkv()
    s = g("Add", g("MatMul", q, g("Transpose", k, perm=[0, 1, 3, 2])), added(DEAD, -np.inf))
    p = g("Softmax", s, axis=-1)
    return str(g("MatMul", g("Where", g("IsNaN", p), scalar(0), p), v))


case("parts, NaN replaced", guarded)
NAN = np.array([[[[1, 2], [np.nan, 0], [np.inf, 1], [-np.inf, 1]]]], np.float32)
case("parts, NaN and infinities", lambda g: parts(g, NAN, (1, 1, 5, 2), (1, 1, 5, 3)))


# ---- heads as columns: Reshape and Transpose before, Transpose and Reshape behind
def layer(g: Graph, b: int, s: int, h: int, d: int, both: bool = False) -> str:
    x = g.input((b, s, h * d))
    heads = g.constant([0, 0, h, d])

    def projected(perm: tuple[int, ...]) -> str:
        return str(g("Transpose", g("Reshape", g("MatMul", x, W((h * d, h * d))), heads), perm=list(perm)))

    k = projected((0, 2, 3, 1)) if both else g("Transpose", projected((0, 2, 1, 3)), perm=[0, 1, 3, 2])
    q = g("Mul", projected((0, 2, 1, 3)), scalar(0.5)) if both else projected((0, 2, 1, 3))
    y = g("MatMul", g("Softmax", g("MatMul", q, k), axis=-1), projected((0, 2, 1, 3)))
    return str(g("Reshape", g("Transpose", y, perm=[0, 2, 1, 3]), g.constant([0, 0, h * d])))


case("layer", lambda g: layer(g, 2, 7, 3, 8))
case("layer, scaled queries", lambda g: layer(g, 1, 66, 2, 12, both=True))


# ---- a head of keys for several of queries
def grouped(g: Graph, scaled: bool, values_too: bool = True) -> str:
    def repeated(x: Any) -> str:
        wide = g("Expand", g("Unsqueeze", x, W(np.array([2]))), W(np.array([2, 2, 3, 5, 4])))
        return str(g("Reshape", wide, g.constant([2, 6, 5, 4])))

    k = g("Transpose", repeated((2, 2, 5, 4)), perm=[0, 1, 3, 2])
    s = g("MatMul", (2, 6, 7, 4), g("Mul", k, scalar(0.3)) if scaled else k)
    v = repeated((2, 2, 5, 4)) if values_too else g.input((2, 6, 5, 4))
    return str(g("MatMul", g("Softmax", g("Add", s, (6, 7, 5)), axis=-1), v))


case("grouped", lambda g: grouped(g, scaled=False))
case("grouped, scaled keys", lambda g: grouped(g, scaled=True))
case("grouped, keys only", lambda g: grouped(g, scaled=False, values_too=False))


# ---- not attention after all
def shared(g: Graph) -> list[str]:
    q, k, v = qkv()
    p = g("Softmax", g("MatMul", q, g("Transpose", k, perm=[0, 1, 3, 2])), axis=-1)
    return [g("MatMul", p, v), p]


case("parts whose weights are an output", shared)
case("parts, softmax over rows", lambda g: g("MatMul", g("Softmax", g(
    "MatMul", (2, 5, 4), (2, 4, 5)), axis=1), (2, 5, 3)))  # fmt: skip
case("parts of rank 5", lambda g: parts(g, (1, 2, 3, 5, 4), (1, 2, 3, 5, 4), (1, 2, 3, 5, 4), perm=(0, 1, 2, 4, 3)))

# ---- the operator
attend = "Attention"
op("operator", attend, *qkv(t=7, w=6))
op("operator, scale and softcap", attend, *qkv(), scale=0.3, softcap=2.0)
op("operator, causal", attend, *qkv(t=7), is_causal=1)
op("operator, more queries than keys, causal", attend, *qkv(s=7, t=3), is_causal=1)
op("operator, causal over blocks", attend, *qkv(1, 1, 150, 150, 8, 8), is_causal=1)
op("operator, grouped heads", attend, (2, 6, 5, 4), (2, 2, 7, 4), (2, 2, 7, 5))
op("operator of rank 3", attend, (2, 5, 12), (2, 7, 12), (2, 7, 15), q_num_heads=3, kv_num_heads=3)
op("operator of rank 3, grouped", attend, (2, 5, 24), (2, 7, 8), (2, 7, 8), q_num_heads=6, kv_num_heads=2)
op("operator, bool mask", attend, *qkv(), DEAD)
op("operator, added mask", attend, *qkv(), (2, 1, 5, 5), is_causal=1)
op("operator, mask by head", attend, *qkv(), (3, 1, 5))
op("operator, dead rows", attend, *qkv(), added(DEAD, -np.inf))
op("operator, dead rows, lowest", attend, *qkv(), added(DEAD, LOWEST))
op("operator, short mask", attend, *qkv(t=7), (5, 4))
op("operator, bool mask and causal", attend, *qkv(), DEAD, is_causal=1)
PAST = ((2, 3, 5, 4), (2, 3, 5, 4), (2, 3, 5, 6), None, (2, 3, 8, 4), (2, 3, 8, 6))
op("operator, past", attend, *PAST, outputs=3)
op("operator, past, causal", attend, *PAST, outputs=3, is_causal=1)
op("operator of rank 3, past", attend, (2, 5, 12), (2, 5, 12), (2, 5, 18), (5, 13), *PAST[4:], outputs=3, q_num_heads=3,
   kv_num_heads=3)  # fmt: skip
op("operator, long past", attend, (1, 2, 3, 8), (1, 2, 3, 8), (1, 2, 3, 8), None, (1, 2, 200, 8), (1, 2, 200, 8),
   outputs=3, is_causal=1)  # fmt: skip
LENGTHS = np.array([3, 7], np.int64)
op("operator, valid lengths", attend, *qkv(t=7), None, None, None, LENGTHS)
op("operator, valid lengths, causal", attend, *qkv(s=4, t=7), None, None, None, LENGTHS, is_causal=1)
for left, right in ((0, 0), (1, -1), (-1, 2), (2, 1)):
    op(f"operator, window {left} to {right}", attend, *qkv(t=9), left_window_size=left, right_window_size=right)
CAPPED = {"judges": (ORT,), "because": "onnx.reference gives capped scores for raw ones"}
for mode in range(4):
    asked = [True, False, False, True]
    op(f"operator, scores {mode}", attend, *qkv(), added(DEAD, -np.inf), outputs=asked, softcap=2.0,
       qk_matmul_output_mode=mode, case=None if mode else CAPPED)  # fmt: skip
    op(f"operator, scores {mode}, causal", attend, *qkv(t=7), outputs=[True, False, False, True], is_causal=1,
       qk_matmul_output_mode=mode)  # fmt: skip

# ---- rotary embeddings
rope = "RotaryEmbedding"
IDS = np.array([[3, 0, 4, 4, 1], [2, 5, 0, 1, 3]], np.int64)
for interleaved in (0, 1):
    text = ", interleaved" if interleaved else ""
    op(f"rotary{text}", rope, (2, 3, 5, 8), (6, 4), (6, 4), IDS, interleaved=interleaved)
    op(f"rotary{text}, long", rope, (2, 3, 5, 44), W((6, 22)), W((6, 22)), IDS, interleaved=interleaved)
    op(
        f"rotary{text}, in part",
        rope,
        (2, 3, 5, 9),
        (6, 3),
        (6, 3),
        IDS,
        interleaved=interleaved,
        rotary_embedding_dim=6,
    )
    op(f"rotary{text}, rank 3", rope, (2, 5, 24), (2, 5, 4), (2, 5, 4), interleaved=interleaved, num_heads=3)


def rotated_heads(g: Graph) -> str:
    """Queries and keys of heads that lie side by side, turned and multiplied."""
    cos, sin = W((6, 4)), W((6, 4))
    q, k = (
        g("RotaryEmbedding", g("Transpose", g.input((2, 5, 3, 8)), perm=[0, 2, 1, 3]), cos, sin, IDS) for _ in range(2)
    )
    s = g("MatMul", q, g("Transpose", k, perm=[0, 1, 3, 2]))
    return str(g("MatMul", g("Softmax", s, axis=-1), (2, 3, 5, 8)))


case("rotary of heads, attention", rotated_heads)

# ---- caches
scatter = "TensorScatter"
STARTS = np.array([3, 0], np.int64)
op("cache", scatter, (2, 3, 6, 4), (2, 3, 2, 4), STARTS)
op("cache, circular", scatter, (2, 3, 6, 4), (2, 3, 4, 4), np.array([5, 9], np.int64), mode="circular")
op("cache, axis 1", scatter, (2, 6, 3), (2, 1, 3), STARTS, axis=1)
op("cache, last axis", scatter, np.arange(12).reshape(2, 6), np.arange(4).reshape(2, 2) + 50, STARTS, axis=-1)
op("cache without indices", scatter, (2, 3, 6, 4), (2, 3, 2, 4))
