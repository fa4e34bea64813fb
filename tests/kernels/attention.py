"""Cases of attention, of products with strided operands, and of normalisation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .case import ALL, Array, Case, normal, untouched

#: attention.h: rows of a block, keys of a block, columns of a tile; a bound that bounds nothing.
ROWS, KEYS, EDGE, UNBOUNDED = 96, 256, 32, 1 << 40

# batch, heads, group, rows, depth, width, old keys, new keys, before, after, offset, guarded, keys transposed
ATTENTION = [
    (1, 1, 1, 1, 1, 1, 0, 1, UNBOUNDED, UNBOUNDED, 0, 0, 0),
    (2, 4, 2, 5, 12, 7, 0, 9, UNBOUNDED, UNBOUNDED, 0, 0, 0),
    (1, 2, 1, 101, 16, 40, 260, 101, UNBOUNDED, 0, 260, 1, 0),
    (1, 1, 1, 1, 64, 130, 0, 300, UNBOUNDED, UNBOUNDED, 0, 0, 0),
    (1, 1, 1, 2, 20, 66, 0, 70, UNBOUNDED, UNBOUNDED, 0, 0, 1),
    (1, 2, 2, 3, 9, 17, 5, 300, 40, 2, 290, 1, 0),
    (1, 1, 1, 7, 300, 8, 0, 150, UNBOUNDED, UNBOUNDED, 0, 0, 0),
    (2, 2, 1, 70, 8, 16, 0, 140, 3, 3, -4, 1, 1),
    # Few queries: keys are read as they lie, and the heads of a group meet them together.
    (2, 9, 3, 1, 16, 24, 0, 270, UNBOUNDED, UNBOUNDED, 0, 0, 0),
    (1, 16, 8, 1, 64, 64, 259, 1, UNBOUNDED, 0, 259, 1, 0),
    (2, 5, 5, 1, 13, 9, 3, 17, 12, 2, 10, 1, 0),
    (1, 4, 4, 1, 20, 12, 0, 33, UNBOUNDED, UNBOUNDED, 0, 0, 1),
    (1, 1, 1, 2, 8, 8, 0, 3, UNBOUNDED, UNBOUNDED, 0, 0, 0),
    (2, 4, 2, 3, 10, 6, 1, 20, UNBOUNDED, 0, 18, 1, 0),
    (1, 2, 1, 4, 24, 16, 0, 257, 30, 0, 253, 0, 0),
]


def softmax(s: Array, seen: Array, guarded: bool) -> Array:
    e = np.where(seen, np.exp(s - np.max(s, axis=-1, keepdims=True, where=seen, initial=-np.inf)), 0)
    total = e.sum(-1, keepdims=True)
    return np.where(total == 0, 0 if guarded else np.nan, e / np.where(total == 0, 1, total))


def attentions(rng: np.random.Generator) -> Iterator[Case]:
    for batch, heads, group, rows, depth, width, old, new, before, after, offset, guarded, transposed in ATTENTION:
        total, kv_heads = old + new, heads // group
        q, mask = normal(rng, batch, heads, rows, depth), normal(rng, rows, total)
        k, v = normal(rng, batch, kv_heads, total, depth), normal(rng, batch, kv_heads, total, width)
        at = np.arange(rows)[:, None] + offset
        seen = (np.arange(total) >= at - before) & (np.arange(total) <= at + after)
        s = q.astype(float) @ np.repeat(k, group, 1).swapaxes(2, 3) * 0.25 + mask
        y = (softmax(s, seen, bool(guarded)) @ np.repeat(v, group, 1)).swapaxes(1, 2)
        stored = [part.swapaxes(2, 3) if transposed else part for part in (k[:, :, :old], k[:, :, old:])]
        buffers = [q, stored[0], v[:, :, :old], stored[1], v[:, :, old:], mask, untouched(*y.shape)]
        scratch = untouched(ROWS * (KEYS + EDGE) + max(KEYS * EDGE, (4 if rows <= 4 else 1) * EDGE * depth))
        sizes = [batch, heads, group, rows, depth, width, old, new]
        name = f"attention {'x'.join(map(str, sizes))}"
        chunk = 1 if heads > 1 else ALL
        numbers = [*sizes, before, after, offset, guarded, transposed, chunk]
        yield Case(name, "attention", numbers, [*buffers, scratch], {6: y}, 1e-5, is_static=old > 0)


def strided_products(rng: np.random.Generator) -> Iterator[Case]:
    for index, (outer, inner, m, n, k) in enumerate([(2, 3, 5, 9, 4), (1, 1, 1, 1, 1), (1, 2, 66, 70, 17)]):
        for transposed in (0, 1):
            a, b = (
                normal(rng, outer, m, inner, k),
                normal(rng, *((outer, n, inner, k) if transposed else (outer, k, inner, n))),
            )
            right = "onik" if transposed else "okin"
            want = np.einsum(f"omik,{right}->omin", a.astype(float), b.astype(float))
            numbers = [outer, inner, m, n, k, transposed, 1 if index else ALL]
            buffers = [a, b, untouched(*want.shape), untouched(64 * k)]
            name = f"matmul strided {outer}x{inner}x{m}x{k}x{n} {transposed}"
            yield Case(name, "matmul_strided", numbers, buffers, {2: want}, 1e-5, is_static=index == 0)


def normalizations(rng: np.random.Generator) -> Iterator[Case]:
    for index, (rows, length) in enumerate([(1, 1), (3, 8), (5, 33), (2, 384), (4, 71)]):
        for without_mean in (0, 1):
            x, scale, bias = normal(rng, rows, length) + 3, normal(rng, length), normal(rng, length)
            wide = x.astype(float)
            mean = np.zeros((rows, 1)) if without_mean else wide.mean(1, keepdims=True)
            factor = 1 / np.sqrt(np.square(wide - mean).mean(1, keepdims=True) + np.float32(1e-5))
            y = (wide - mean) * factor * scale + (bias if index % 2 else 0)
            numbers = [without_mean, rows, length, index % 2, 1 if index else ALL]
            buffers = [x, scale, bias, untouched(rows, length), untouched(rows, 1), untouched(rows, 1)]
            results = {3: y, 4: mean, 5: factor}
            name = f"normalize {rows}x{length} {without_mean}"
            yield Case(name, "normalize", numbers, buffers, results, 1e-5, is_static=index == 2)
