"""ONNX Runtime's own attention operators and rotary embeddings."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..case import ORT, Family
from ..graphs import Array
from ..graphs import Weight as W

FAMILY = Family("contrib attention")


def op(name: str, op: str, *operands: Any, tolerance: float = 1e-4, **options: Any) -> None:
    case = {"judges": (ORT,), "because": "onnx.reference knows ONNX's operators only", "tolerance": tolerance}
    FAMILY.op(name, op, *operands, case=case, domain="com.microsoft", **options)


def int32(*items: Any) -> Array:
    return np.array(items, np.int32)


# ---- Attention: queries, keys and values of one projection; B 2, S 4
attend = "Attention"
X, QKV = (2, 4, 8), (W((8, 24)), W((24,)))
PADDING = int32([1, 1, 1, 0], [1, 1, 0, 0])
PAIRS = np.array([[[1, 0, 1, 0], [0, 1, 1, 0], [1, 1, 1, 1], [1, 0, 0, 1]], np.tril(np.ones((4, 4)))], np.int32)
PAST = (2, 2, 2, 3, 4)
op(attend, attend, X, *QKV, num_heads=2)
op(f"{attend} without bias", attend, X, QKV[0], None, num_heads=2)
op(f"{attend}, mask", attend, X, *QKV, PADDING, num_heads=4)
op(f"{attend}, mask of nobody", attend, X, *QKV, int32([0, 0, 0, 0], [1, 0, 0, 0]), num_heads=4)
op(f"{attend}, mask that is one", attend, X, *QKV, int32([1], [1]), num_heads=4)
op(f"{attend}, mask by query", attend, X, *QKV, PAIRS, num_heads=2, mask_filter_value=-20.0)
op(f"{attend}, lengths", attend, X, *QKV, int32(2, 4), num_heads=2)
op(f"{attend}, ends and starts", attend, X, *QKV, int32(3, 4, 1, 2), num_heads=2)
op(f"{attend}, scale", attend, X, *QKV, num_heads=2, scale=0.3)
op(f"{attend}, one direction", attend, X, *QKV, num_heads=2, unidirectional=1)
op(f"{attend}, one direction and mask", attend, X, *QKV, PADDING, num_heads=2, unidirectional=1)
op(f"{attend}, one direction and lengths", attend, X, *QKV, int32(1, 3), num_heads=2, unidirectional=1)
op(f"{attend}, one direction and bias", attend, X, *QKV, None, None, (2, 2, 4, 4), num_heads=2, unidirectional=1)
op(f"{attend}, bias and mask", attend, X, *QKV, PADDING, None, (1, 1, 4, 4), num_heads=2)
op(f"{attend}, wide values", attend, X, W((8, 28)), W((28,)), num_heads=2, qkv_hidden_sizes=[8, 8, 12])
op(f"{attend}, present", attend, X, *QKV, num_heads=2, outputs=2)
op(f"{attend}, past", attend, X, *QKV, None, PAST, num_heads=2, unidirectional=1, outputs=2)
op(f"{attend}, past and mask", attend, X, *QKV, int32([1, 0, 1, 1, 1, 1, 0], [1] * 7), PAST, num_heads=2, outputs=2)
op(f"{attend}, past and lengths", attend, X, *QKV, int32(5, 7), PAST, num_heads=2, unidirectional=1, outputs=2)
op(f"{attend}, one token", attend, (2, 1, 8), *QKV, None, PAST, num_heads=2, unidirectional=1, outputs=2)
op(f"{attend}, computed weights", attend, X, (8, 24), (24,), num_heads=2)

# ---- MultiHeadAttention
multi = "MultiHeadAttention"
THREE = (2, 4, 8), (2, 4, 8), (2, 4, 8)
CACHE = (2, 2, 3, 4), (2, 2, 3, 4)
op(multi, multi, (2, 3, 8), (2, 5, 8), (2, 5, 12), num_heads=2)
op(f"{multi}, bias, mask and scale", multi, *THREE, W((24,)), PADDING, (1, 2, 4, 4), num_heads=2, scale=0.5)
op(f"{multi}, lengths", multi, *THREE, None, int32(2, 4), num_heads=2)
op(f"{multi}, mask by query", multi, *THREE, None, PAIRS, num_heads=2)
op(f"{multi}, bias of values", multi, (2, 3, 8), (2, 5, 8), (2, 5, 12), W((28,)), num_heads=2)
op(f"{multi}, added bias", multi, (2, 3, 8), (2, 5, 8), (2, 5, 12), None, None, (2, 2, 3, 5), num_heads=2)
op(f"{multi}, added bias of all", multi, (2, 3, 8), (2, 5, 8), (2, 5, 12), None, None, (1, 1, 3, 5), num_heads=2)
op(f"{multi}, one direction", multi, *THREE, num_heads=2, unidirectional=1)
op(f"{multi}, one direction and mask", multi, *THREE, None, PADDING, num_heads=2, unidirectional=1)
op(f"{multi}, present", multi, *THREE, num_heads=2, outputs=3)
op(f"{multi}, past", multi, *[(2, 2, 8)] * 3, None, None, None, *CACHE, num_heads=2, outputs=3)
op(f"{multi}, past, bias and one direction", multi, *[(2, 2, 8)] * 3, W((24,)), None, None, *CACHE, num_heads=2,
   unidirectional=1, outputs=3)  # fmt: skip
op(f"{multi}, past and mask", multi, *[(2, 2, 8)] * 3, None, int32([0, 1, 1, 1, 1], [1] * 5), None, *CACHE,
   num_heads=2, outputs=3)  # fmt: skip
op(f"{multi}, past and added bias", multi, *[(2, 2, 8)] * 3, None, None, (1, 2, 2, 5), *CACHE, num_heads=2, outputs=3)
op(f"{multi}, keys of heads", multi, (2, 3, 8), (2, 2, 5, 4), (2, 2, 5, 4), num_heads=2)
op(f"{multi}, keys of heads and bias", multi, (2, 3, 8), (2, 2, 5, 4), (2, 2, 5, 4), W((24,)), num_heads=2)
op(f"{multi}, keys of heads and mask", multi, (2, 3, 8), (2, 2, 5, 4), (2, 2, 5, 4), None,
   int32([1, 1, 1, 1, 0], [1, 1, 0, 0, 0]), num_heads=2)  # fmt: skip

op(f"{attend}, one direction, ends and starts", attend, X, *QKV, int32(3, 4, 1, 2), num_heads=2, unidirectional=1)

# ---- GroupQueryAttention: 4 heads of 16 that share 2 of keys
group = "GroupQueryAttention"
HEADS = {"num_heads": 4, "kv_num_heads": 2}


def grouped(
    name: str,
    rows: int,
    lengths: tuple[int, ...],
    *more: Any,
    past: int | None = None,
    total: int = 0,
    packed: bool = False,
    outputs: Any = 3,
    size: int = 16,
    **attrs: Any,
) -> None:
    """``lengths`` count each sequence's keys, old and new; ``past`` is the caches' length."""
    b = len(lengths)
    new: tuple[Any, ...] = ((b, rows, 4 * size), (b, rows, 2 * size), (b, rows, 2 * size))
    if packed:
        new = (b, rows, 8 * size), None, None
    caches = (None, None) if past is None else ((b, 2, past, size), (b, 2, past, size))
    counts = int32(*[length - 1 for length in lengths]), np.array(total or max(lengths), np.int32)
    op(f"{group}, {name}", group, *new, *caches, *counts, *more, outputs=outputs, **HEADS, **attrs)


def table(rows: int, half: int = 8) -> tuple[W, W]:
    angles = np.arange(rows)[:, None] / 10.0 ** (np.arange(half) / half)
    return W(np.cos(angles).astype(np.float32)), W(np.sin(angles).astype(np.float32))


grouped("prompt", 5, (5, 5))
grouped("prompt into an empty cache", 5, (5, 5), past=0)
grouped("prompt into a cache", 5, (5, 5), past=9)
grouped("token", 1, (4, 4), past=3)
grouped("tokens of sequences of several lengths", 1, (4, 2), past=3)
grouped("token into a cache", 1, (4, 6), past=9)
grouped("several tokens", 3, (7,), past=4)
grouped("several tokens into a cache", 3, (7,), past=12)
grouped("packed", 5, (5, 5), packed=True)
grouped("packed token", 1, (4, 4), past=3, packed=True)
grouped("rotary prompt", 5, (5, 5), *table(9), do_rotary=1)
grouped("rotary token", 1, (4, 3), *table(9), past=3, do_rotary=1)
grouped("rotary tokens", 3, (7,), *table(9), past=4, do_rotary=1)
grouped("packed rotary token", 1, (4, 4), *table(9), past=3, packed=True, do_rotary=1)
grouped("rotary, interleaved", 5, (5, 5), *table(9), do_rotary=1, rotary_interleaved=1)
grouped("rotary of a part", 3, (7,), *table(9, 8), past=4, size=32, do_rotary=1)
grouped("rotary positions", 3, (7,), *table(12), np.array([[6, 7, 8]]), past=4, do_rotary=1)
grouped("rotary positions of a prompt", 3, (3, 3), *table(12), np.array([[2, 3, 4], [2, 3, 4]]), do_rotary=1)
grouped("rotary positions of tokens", 1, (4, 3), *table(12), np.array([[6], [1]]), past=3, do_rotary=1)
grouped("window", 7, (7, 7), local_window_size=3)
grouped("window and token", 1, (8, 6), past=7, local_window_size=3)
grouped("window and tokens", 3, (7,), past=4, local_window_size=2)
grouped("softcap and scale", 5, (5, 5), softcap=2.0, scale=0.7)
grouped("smooth softmax", 5, (5, 5), smooth_softmax=1)
grouped("smooth softmax of tokens", 1, (4, 3), past=3, smooth_softmax=1, softcap=3.0, local_window_size=2)
grouped("sinks", 5, (5, 5), None, None, None, None, W((4,)))
grouped("sinks of tokens", 3, (7,), *table(9), None, None, W((4,)), past=4, do_rotary=1, local_window_size=3)
grouped("bias", 5, (5, 5), None, None, None, (1, 4, 5, 5))
grouped("bias and tokens", 3, (7,), None, None, None, (1, 1, 3, 7), past=4, local_window_size=3)
grouped("bias and a cache", 3, (7,), None, None, None, (1, 1, 3, 7), past=12)
grouped("bias and sinks", 3, (7,), None, None, None, (1, 4, 3, 7), W((4,)), past=4)
grouped("both directions", 5, (5, 5), causal=0)
grouped("scores", 5, (5, 5), outputs=4, qk_output=1)
grouped("weights", 3, (7,), past=4, outputs=4, qk_output=2)

# ---- RotaryEmbedding
rope = "RotaryEmbedding"
IDS = np.array([[3, 1, 4, 1], [5, 2, 6, 0]], np.int64)
TABLES = (7, 4), (7, 4)
op(rope, rope, (2, 3, 4, 8), IDS, *TABLES)
op(f"{rope}, rank 3", rope, (2, 4, 16), IDS, *TABLES, interleaved=1)
op(f"{rope}, interleaved", rope, (2, 3, 4, 8), IDS, *TABLES, interleaved=1)
op(f"{rope}, rank 3, heads", rope, (2, 4, 16), IDS, *TABLES, num_heads=2, rotary_embedding_dim=8)
op(f"{rope} in part", rope, (2, 3, 4, 12), IDS, *TABLES, num_heads=3, rotary_embedding_dim=8)
op(f"{rope} in part, rank 3", rope, (2, 4, 24), IDS, *TABLES, num_heads=2, rotary_embedding_dim=8)
op(f"{rope}, offset", rope, (2, 3, 4, 8), np.array([2]), *TABLES)
op(f"{rope}, offset, rank 3", rope, (2, 4, 16), np.array([3]), *TABLES)
op(f"{rope}, scale", rope, (2, 3, 4, 8), IDS, *TABLES, scale=0.5)

# ---- 16-bit floats


def half(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float16)


RNG = np.random.default_rng(16)
op(f"{attend}, float16", attend, half(2, 4, 8), W(half(8, 24)), W(half(24)), PADDING, num_heads=2, tolerance=2e-3)
op(f"{multi}, float16", multi, half(2, 3, 8), half(2, 5, 8), half(2, 5, 8), num_heads=2, tolerance=2e-3)
op(f"{group}, float16", group, half(1, 1, 64), half(1, 1, 32), half(1, 1, 32), half(1, 2, 3, 16), half(1, 2, 3, 16),
   int32(3), np.array(4, np.int32), outputs=3, **HEADS, tolerance=2e-3)  # fmt: skip
op(f"{rope}, float16", rope, half(2, 3, 4, 8), IDS, half(7, 4), half(7, 4), tolerance=2e-3)
