"""Cases of GEMM, matrix multiplication and LSTM."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mcpc.targets.native.emit.integer import gemm_scratch, word_panels, words_scratch
from mcpc.targets.native.pairs import in_steps

from .case import ALL, Array, Case, Packable, Packed, PackedBytes, normal, untouched

GEMM = [
    (1, 1, 1), (1, 100, 37), (1, 64, 16), (2, 70, 9), (3, 33, 12), (4, 16, 3), (5, 8, 300), (6, 16, 0), (7, 24, 5),
    (49, 17, 8), (13, 31, 30), (100, 40, 7), (200, 5, 33), (12, 129, 4), (8, 40, 5), (9, 24, 9), (10, 65, 6),
    (11, 130, 3), (23, 56, 2), (36, 72, 64), (49, 24, 40),
]  # fmt: skip


def gemms(rng: np.random.Generator) -> Iterator[Case]:
    for index, (m, n, k) in enumerate(GEMM):
        gap = index % 3
        a, b, bias = normal(rng, m, k + gap), normal(rng, k, n), normal(rng, n)
        addend, c = normal(rng, m, n + gap), untouched(m, n + gap)
        want = c.copy()
        want[:, :n] = a[:, :k].astype(float) @ b + bias + addend[:, :n]
        numbers = [m, n, k, k + gap, n + gap, 1 if index % 2 else ALL]
        yield Case(f"gemm {m}x{k}x{n}", "gemm", numbers, [a, Packed([b]), bias, addend, c], {4: want}, 1e-5, True)


# Rows of B that are shorter than a tile: what a whole tile would read beyond the last ones is not there.
MATMUL = [
    (3, 5, 19, 7), (2, 13, 8, 16), (1, 1, 33, 5), (4, 2, 3, 1), (2, 12, 40, 9), (1, 9, 3, 20), (1, 4, 130, 2),
    (1, 7, 1, 40),
]  # fmt: skip


def matmuls(rng: np.random.Generator) -> Iterator[Case]:
    for index, (batch, m, n, k) in enumerate(MATMUL):
        is_shared = index % 2
        a, b = normal(rng, batch, m, k), normal(rng, 1 if is_shared else batch, k, n)
        bias, addend = normal(rng, n), normal(rng, batch, m, n)
        numbers = [batch, m, n, k, k, m * k, n, 0 if is_shared else k * n, n, m * n, 1 if index else ALL]
        want = a.astype(float) @ b + bias + addend
        buffers = [a, b, bias, addend, untouched(batch, m, n)]
        yield Case(f"matmul {batch}x{m}x{k}x{n}", "matmul", numbers, buffers, {4: want}, 1e-5, is_static=index < 2)


def bytes_products(rng: np.random.Generator) -> Iterator[Case]:
    sizes = [(1, 7, 5), (5, 40, 12), (13, 33, 3), (25, 70, 65), (2, 16, 0), (61, 48, 64), (7, 24, 999)]
    for index, (m, n, k) in enumerate(sizes):
        dtype, zero = (np.int8, -3) if index % 2 else (np.uint8, 130)
        a = rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, (m, k), dtype, endpoint=True)
        w = rng.integers(-128, 127, (k, n), np.int8, endpoint=True)
        if index == 3:  # as large as they may be: what saturates in 16 bits would be wrong
            a[:], w[:] = np.iinfo(dtype).max, 127
        want = (a.astype(np.int32) - zero) @ w.astype(np.int32)
        sums = np.zeros(n + 16, np.int32)
        sums[:n] = w.sum(0, dtype=np.int32)
        scratch = np.zeros(gemm_scratch(k), np.int8)
        packed = PackedBytes([w])
        steps = in_steps(packed.array(16))
        buffers: list[Array | Packable] = [a, packed, sums, np.full((m, n), 12345, np.int32), scratch, *steps]
        for is_listed in (0, 1):
            numbers = [m, n, k, index % 2, zero, 1 if index else ALL, is_listed]
            name = f"gemm_i8 {m}x{k}x{n}{', in steps' * is_listed}"
            yield Case(name, "gemm_i8", numbers, buffers, {3: want}, is_static=index == 1 and not is_listed)
        addends = rng.integers(-(2**20), 2**20, -(-n // 16) * 16).astype(np.int32)
        for is_biased in (0, 1):
            numbers = [m, n, k, index % 2, zero, 1 if index else ALL, is_biased]
            out = np.full((m, n), 12345, np.int32)
            words: list[Array | Packable] = [a, word_panels(w), addends, out, np.zeros(words_scratch(k), np.int8)]
            sums = want + addends[:n] * is_biased
            name = f"gemm_words {m}x{k}x{n}{', with addends' * is_biased}"
            yield Case(name, "gemm_words", numbers, words, {3: sums}, is_static=index == 1 and not is_biased)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


LSTM = [
    (4, 1, 16, 0, 0, 0, 0), (5, 2, 11, 1, 0, 0, 7), (3, 3, 8, 0, 1, 500, 1), (6, 4, 5, 0, 0, 0, 6),
    (2, 1, 128, 1, 0, 0, 4),
]  # fmt: skip


def lstms(rng: np.random.Generator) -> Iterator[Case]:
    for time, batch, hidden, reverse, coupled, clip, has in LSTM:
        gates, r = normal(rng, time, batch, 4 * hidden), normal(rng, hidden, 4 * hidden) / 4
        peephole, h0, c0 = normal(rng, 3, hidden), normal(rng, batch, hidden), normal(rng, batch, hidden)
        lengths = rng.integers(0, time + 1, batch).astype(np.int32)
        h, c = (np.zeros((batch, hidden)) + (start if has & 4 else 0) for start in (h0, c0))
        p = peephole if has & 1 else np.zeros_like(peephole)
        y = np.zeros((time, batch, hidden))
        bound = clip / 1000 if clip else np.inf
        for b in range(batch):
            length = int(lengths[b]) if has & 2 else time
            if length == 0:
                h[b] = c[b] = 0
            for t in range(length)[:: -1 if reverse else 1]:
                i, o, f, g = np.split(gates[t, b] + h[b] @ r.astype(float), 4)
                i = _sigmoid(np.clip(i + p[0] * c[b], -bound, bound))
                f = 1 - i if coupled else _sigmoid(np.clip(f + p[2] * c[b], -bound, bound))
                c[b] = f * c[b] + i * np.tanh(np.clip(g, -bound, bound))
                h[b] = _sigmoid(np.clip(o + p[1] * c[b], -bound, bound)) * np.tanh(c[b])
                y[t, b] = h[b]
        state = untouched(batch, hidden)
        work = untouched(batch, 4 * hidden)
        buffers: list[Array | Packed] = [
            gates,
            Packed([r]),
            peephole,
            lengths,
            h0,
            c0,
            state,
            state,
            untouched(*y.shape),
            work,
        ]
        yield Case(
            f"lstm {time}x{batch}x{hidden} {reverse}{coupled} {clip} {has}",
            "lstm",
            [time, batch, hidden, reverse, coupled, clip, has],
            buffers,
            {6: h, 7: c, 8: y},
            1e-5,
            is_static=hidden in (16, 128),
        )
