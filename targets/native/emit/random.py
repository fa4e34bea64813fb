"""Random numbers: one unit a node, so that its stream's state has one writer."""

from __future__ import annotations

import numpy as np

from mcpc.ir import DType, dim

from ..ctext import literal
from ..expression import convert, load, store
from ..kernel import KernelBuilder
from .registry import emits

#: Digits of a type's numbers between 1/2 and 1.
DIGITS = {DType.float64: 53, DType.float32: 24, DType.float16: 11, DType.bfloat16: 8}


def _open(b: KernelBuilder) -> None:
    """Define ``stream``, the node's."""
    b.headers.append("random.h")
    b.line(f"random_state *stream = (random_state *)(void *){b.state(16)};")
    seed = b.anchor.attrs.get("seed")
    if seed is None:
        b.line("random_seed_by_chance(stream);")
    else:
        b.line(f"random_seed(stream, {int(np.array(seed, np.float64).view(np.uint64))}u);")


@emits("RandomUniform", "RandomUniformLike", "RandomNormal", "RandomNormalLike")
def random(b: KernelBuilder) -> None:
    attrs, y = b.anchor.attrs, b.node.output
    _open(b)
    if b.anchor.op.startswith("RandomNormal"):
        mean, scale = (literal(float(attrs.get(*item)), DType.float64) for item in (("mean", 0.0), ("scale", 1.0)))
        draw, number = "random_normal(random_next(stream))", f"v8d_fma(drawn.part[j], {scale}, {mean})"
    else:
        low, high = float(attrs.get("low", 0.0)), float(attrs.get("high", 1.0))
        factor, steps = literal(high - low, DType.float64), literal(2.0 ** DIGITS[y.dtype], DType.float64)
        draw = "random_next(stream)"
        number = f"v8d_fma(random_uniform(drawn.part[j], {steps}), {factor}, {literal(low, DType.float64)})"
    count = b.size(y.type.elements)
    b.line(
        f"for (int64_t i = 0; i < {count}; i += RANDOM_NUMBERS) {{",
        f"    random_numbers drawn = {draw};",
        "    for (int64_t j = 0; j < 2; j++) {",
        f"        int64_t at = i + 8 * j, lanes = mcp26_min(8, {count} - at);",
        "        if (lanes <= 0) break;",
        f"        v8d number = {number};",
        f"        {store(y.dtype, f'{b.output()} + at', convert('number', DType.float64, y.dtype), 'lanes')}",
        "    }",
        "}",
    )


@emits("Multinomial")
def multinomial(b: KernelBuilder) -> None:
    x, y = b.outer(b.anchor.inputs[0]), b.node.output
    rows, classes = x.type.dims
    samples = b.size(y.type.dims[1])
    count = b.size(classes)
    _open(b)
    row = load(x.dtype, f"{b.input(x)} + row * {count} + i", "1", "lanes")
    b.line(
        f"double *sums = (double *)(void *){b.workspace(dim(8 * classes))};",
        "random_numbers drawn;",
        f"for (int64_t row = 0; row < {b.size(rows)}; row++) {{",
        f"    for (int64_t i = 0, lanes; i < {count}; i += 8) {{",
        f"        lanes = mcp26_min(8, {count} - i);",
        f"        v8d_store(sums + i, {convert(row, x.dtype, DType.float64)}, lanes);",
        "    }",
        f"    random_cumulate({count}, sums);",
        f"    for (int64_t i = 0; i < {samples}; i++) {{",
        "        if (i % RANDOM_NUMBERS == 0) drawn = random_next(stream);",
        f"        int64_t chosen = random_class({count}, sums, drawn.part[i / 8 % 2][i % 8]);",
        f"        {b.output()}[row * {samples} + i] = ({'int32_t' if y.dtype is DType.int32 else 'int64_t'})chosen;",
        "    }",
        "}",
    )
