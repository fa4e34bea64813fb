"""TfIdfVectorizer: counts of n-grams."""

from __future__ import annotations

import numpy as np

from mcpc.ops.ngrams import Pool

from ..kernel import KernelBuilder
from .registry import emits


@emits("TfIdfVectorizer")
def tf_idf(b: KernelBuilder) -> None:
    """Units: rows."""
    x, pool = b.outer(b.anchor.inputs[0]), Pool.of(b.anchor)
    *rows, length = x.type.dims
    size = b.size(length)
    b.label = "ngrams"
    b.headers.append("ngrams.h")
    b.units = b.size(rows[0]) if rows else "1"
    b.line(
        "for (int64_t row = begin; row < end; row++) {",
        f"    float *y = {b.output()} + row * {pool.size};",
        f"    for (int64_t i = 0; i < {pool.size}; i++) y[i] = 0.0f;",
    )
    for grams, slots in zip(pool.grams, pool.slots, strict=True):
        count, n = grams.shape
        if count:
            steps = pool.skips + 1 if n > 1 else 1
            b.line(
                f"    ngrams_count_{x.dtype.bits}({b.input(b.anchor.inputs[0])} + row * {size}, {size},"
                f" {b.constant(grams, 'int64_t')}, {count}, {n}, {b.constant(slots, 'int64_t')}, {steps}, y);"
            )
    if pool.is_binary:
        b.line(f"    for (int64_t i = 0; i < {pool.size}; i++) y[i] = y[i] > 0.0f ? 1.0f : 0.0f;")
    if pool.weights is not None:
        weights = b.constant(np.ascontiguousarray(pool.weights))
        b.line(f"    for (int64_t i = 0; i < {pool.size}; i++) y[i] *= {weights}[i];")
    b.line("}")
