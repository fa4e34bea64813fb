"""TfIdfVectorizer of integers: how often n-grams of a pool occur in each row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mcpc.ir import OPSET, Dim, DType, Node, TensorType
from mcpc.ops.context import InferContext, attribute, choice, expect, expect_rank, fail, integers, type_of
from mcpc.ops.registry import EXACT, Cost, OpDef, register, traffic


@dataclass(frozen=True)
class Pool:
    """``grams[i]`` holds the n-grams of length ``shortest + i``, int64 [count, length], ``slots[i]`` where each is
    counted. ``skips``: items of a gram of two and more may have up to so many others between them. ``weights`` are
    those of the slots, None for 1 each; ``is_binary``: a slot counts whether there are any."""

    grams: tuple[np.ndarray, ...]
    slots: tuple[np.ndarray, ...]
    shortest: int
    skips: int
    size: int
    weights: np.ndarray | None
    is_binary: bool

    @classmethod
    def of(cls, node: Node) -> Pool:
        if "pool_strings" in node.attrs:
            fail(node, "a pool of strings is not supported", "E109")
        items = np.array(integers(node, "pool_int64s"), np.int64)
        slots = np.array(integers(node, "ngram_indexes"), np.int64)
        shortest, longest = (attribute(node, f"{name}_gram_length", 0) for name in ("min", "max"))
        starts = integers(node, "ngram_counts")
        mode = choice(node, "mode", "", ["TF", "IDF", "TFIDF"])
        skips = attribute(node, "max_skip_count", 0)
        if not 1 <= shortest <= longest or len(starts) < longest or skips < 0 or slots.size == 0 or slots.min() < 0:
            fail(node, "ngram_counts, ngram_indexes and the lengths of n-grams do not fit together", "E102")
        ends = [*starts[1:], len(items)]
        grams, places, taken = [], [], 0
        for length, start, end in zip(range(1, len(starts) + 1), starts, ends, strict=True):
            if not 0 <= start <= end <= len(items) or (end - start) % length:
                fail(node, f"pool_int64s holds no whole n-grams of length {length}", "E102")
            count = (end - start) // length
            if shortest <= length <= longest:
                grams.append(items[start:end].reshape(count, length))
                places.append(slots[taken : taken + count])
            taken += count
        size = int(slots.max()) + 1
        weights = node.attrs.get("weights")
        if taken != len(slots) or (weights and len(weights) != taken):
            fail(node, f"there are {taken} n-grams, {len(slots)} indices and {len(weights or slots)} weights", "E102")
        counted = None
        if mode != "TF" and weights:
            counted = np.ones(size, np.float32)
            counted[slots] = weights
        return cls(tuple(grams), tuple(places), shortest, skips, size, counted, mode == "IDF")


def infer_tf_idf(node: Node, context: InferContext) -> list[TensorType]:
    expect(node, 0, {DType.int32, DType.int64})
    expect_rank(node, 0, 1, 2)
    shape, pool = type_of(node, 0).shape, Pool.of(node)
    return [TensorType(DType.float32, None if shape is None else (*shape[:-1], pool.size))]


def cost_tf_idf(node: Node) -> Cost:
    pool, work = Pool.of(node), 0
    for grams in pool.grams:
        work += len(grams) * (pool.skips + 1 if grams.shape[1] > 1 else 1)
    compared: Dim = type_of(node, 0).elements * work
    return Cost(compared, traffic(node))


register(OpDef("TfIdfVectorizer", infer_tf_idf, cost_tf_idf, EXACT, versions=(9, OPSET)))
