"""Attention, as one operator or as the parts that a pass fuses: one tiled kernel (attention.h)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mcpc.ir import Dim, DType, Node, TensorType, Value, dim, product
from mcpc.kernel_class import KernelClass
from mcpc.ops.attention import AttentionSizes, attention_flops, attention_sizes, rotary_sizes
from mcpc.ops.context import ceil_div

from ..ctext import indent, literal
from ..expression import SUFFIXES, Printer, load
from ..iteration import Steps, steps_of
from ..kernel import SELF, KernelBuilder, scalar, unsupported
from .move import copy, word
from .registry import ATTENTION, emits

#: As in attention.h.
ROWS, KEYS, EDGE, FEW, MOST_DEPTH = 96, 256, 32, 4, 2048

#: Queries that take as long as fewer: keys and values are packed as for a tile of so many.
TILE_ROWS = 6


def split_steps(type: TensorType, size: Dim) -> Steps:
    """The steps of Q, K, V or Y in either form; ``size`` is that of a head."""
    if len(type.dims) == 4:
        return steps_of(type)
    batch, row, column = type.strides
    return batch, size, row, column


class Score:
    """Writes the function that makes a score of a product. ``operand`` gives the text that loads 8 elements."""

    def __init__(self, b: KernelBuilder) -> None:
        self.b = b
        self.steps: list[Steps] = []
        self.lines: list[str] = []

    def place(self, steps: Steps) -> str:
        """The offset of an operand's element for a query and a key."""
        self.steps.append(steps)
        return f"attention_at(at, {len(self.steps) - 1}, m, n)"

    def operand(self, pointer: str, type: TensorType) -> str:
        """Loads from a tensor that broadcasts to the scores."""
        dims = (*[1] * (4 - len(type.dims)), *type.dims)
        strides = (*[0] * (4 - len(type.dims)), *type.strides)
        batch, head, row, column = (0 if size == 1 else step for size, step in zip(dims, strides, strict=True))
        text = f"{pointer} + {self.place((batch, head, row, column))}"
        step = str(column) if column in (0, 1) else f"at->steps[{len(self.steps) - 1}].column"
        return load(type.dtype, text, step, "lanes")

    def define(self, result: str) -> str:
        """The function's name."""
        name = f"{SELF}_score"
        self.b.headers.append("attention.h")
        lines = indent([*self.lines, f"return {result};"])
        self.b.function(
            f"MCP26_INLINE v8f {name}(v8f acc, const void *const *where, int64_t m, int64_t n, int64_t lanes) {{\n"
            "    const attention_place *at = (const void *)where;\n"
            "    const void *const *args = at->args;\n"
            f"    (void)at, (void)args, (void)m, (void)n, (void)lanes;\n{lines}\n}}"
        )
        return name


def call(b: KernelBuilder, s: AttentionSizes, score: Score, result: str, fields: dict[str, str | Dim]) -> None:
    """Add the call of the kernel; ``fields`` of its structure beyond the sizes."""
    if isinstance(s.depth, int) and s.depth > MOST_DEPTH:
        raise unsupported(b.node, f"heads of {s.depth} components")
    name = score.define(result)
    sizes = {
        "batch": s.batch, "heads": s.heads, "group": s.group, "rows": s.rows, "depth": s.depth, "width": s.width,
    }  # fmt: skip
    text = ", ".join(f".{key} = {v if isinstance(v, str) else b.size(v)}" for key, v in {**sizes, **fields}.items())
    steps = ", ".join(steps_text(b, each) for each in score.steps) or "{0}"
    across = EDGE if isinstance(s.rows, int) and s.rows > FEW else 4 * EDGE
    depth = s.depth if isinstance(s.depth, int) else MOST_DEPTH
    b.operations = {KernelClass.ATTENTION: attention_flops(s, dim(ceil_div(s.rows, TILE_ROWS) * TILE_ROWS))}
    b.scratch = 4 * (ROWS * (KEYS + EDGE) + max(KEYS * EDGE, across * depth))
    b.label = "attention"
    b.line(f"const attention_steps steps[] = {{{steps}}};")
    b.line(f"const attention a = {{{text}}};")
    b.units = f"attention_units({', '.join(map(b.size, (s.batch, s.heads, s.group, s.rows)))})"
    b.line(
        f"int32_t status = attention_f32(env, a, {name}, args, steps, {b.worker_scratch}, begin, "
        f"mcp26_min(end, {b.units}));",
        "if (status) return status;",
    )


def steps_text(b: KernelBuilder, steps: Steps) -> str:
    return f"{{{', '.join(map(b.size, steps))}}}"


def keys_text(b: KernelBuilder, k: tuple[str, Steps], v: tuple[str, Steps], count: Dim) -> str:
    return f"{{{k[0]}, {v[0]}, {steps_text(b, k[1])}, {steps_text(b, v[1])}, {b.size(count)}}}"


def float32(value: float) -> str:
    return literal(float(np.float32(value)), DType.float32)


#: Every query sees every key.
UNBOUNDED: dict[str, str | Dim] = {"before": "ATTENTION_ALL", "after": "ATTENTION_ALL", "limit": "ATTENTION_ALL"}


# ---- the parts


@emits(ATTENTION)
def fused_attention(b: KernelBuilder) -> None:
    """A body as passes/attention.py makes it."""
    body = b.node.body
    assert body is not None
    first, *_, last = [node for node in body.nodes if node.is_op("MatMul")]
    sources = [source_of(value) for value in (*first.inputs, last.inputs[1])]
    q, k, v = (source.value for source in sources)
    q_type, k_type, v_type = (b.outer(value).type for value in (q, k, v))
    factor = math.prod(source.factor for source in sources)
    out = b.node.output.type
    batch = (*[1] * (4 - len(out.dims)), *out.dims[:-2])
    assert first.inputs[1] is not None
    total, kv_heads = first.inputs[1].type.dims[-1], batch[1] if sources[1].group == 1 else k_type.dims[1]
    s = AttentionSizes(batch[0], batch[1], kv_heads, out.dims[-2], 0, total, q_type.dims[-1], out.dims[-1])
    score = Score(b)

    def operand(value: Value) -> str:
        outer = b.outer(value)
        if outer.data is not None and outer.data.size == 1:
            return scalar(outer)
        return score.operand(b.input(value, "" if outer.dtype is not DType.bool else "uint8_t"), outer.type)

    printer = Printer(operand)
    printer.define(first.output, "acc")
    for node in b.region.chain:
        printer.node(node)
    score.lines = [f"acc = acc * {float32(factor)};"] * (factor != 1.0) + printer.statements
    result = printer.text(softmax_of(body.nodes).inputs[0] or first.output)
    b.headers.append("vmath.h")
    batch_k, head_k, component, key = steps_of(k_type)
    if sources[1].is_transposed:
        component, key = key, component
    keys = keys_text(b, (b.input(k), (batch_k, head_k, key, component)), (b.input(v), steps_of(v_type)), total)
    call(b, s, score, result, {
        "q": b.input(q), "q_step": steps_text(b, steps_of(q_type)),
        "y": b.output(), "y_step": steps_text(b, steps_of(out)),
        "keys": f"{{{keys}}}", **UNBOUNDED, "is_guarded": int(any(node.is_op("IsNaN") for node in body.nodes)),
    })  # fmt: skip


@dataclass(frozen=True)
class Source:
    """What an operand of a body's product is made of inside the body: a value from outside, times ``factor``, its last
    two dimensions exchanged, its heads repeated ``group`` times each."""

    value: Value
    factor: float = 1.0
    is_transposed: bool = False
    group: Dim = 1


def source_of(value: Value | None) -> Source:
    assert value is not None
    node = value.producer
    if node is None:
        return Source(value)
    if node.is_op("Mul", "Div"):
        x, other = node.inputs if node.inputs[1] is not None and node.inputs[1].is_constant else node.inputs[::-1]
        assert other is not None and other.data is not None
        inner, number = source_of(x), float(other.data.reshape(-1)[0])
        return replace(inner, factor=inner.factor / number if node.is_op("Div") else inner.factor * number)
    inner = source_of(node.inputs[0])
    if node.is_op("Transpose"):
        return replace(inner, is_transposed=not inner.is_transposed)
    return replace(inner, group=node.output.type.dims[2]) if node.is_op("Expand") else inner


def softmax_of(nodes: Sequence[Node]) -> Node:
    return next(node for node in nodes if node.is_op("Softmax"))


# ---- the operator


@emits("Attention")
def attention(b: KernelBuilder) -> None:
    node = b.anchor
    for index in (0, 1, 2, 4, 5):
        value = node.input(index)
        if value is not None and value.dtype is not DType.float32:
            raise unsupported(b.node, f"an operand of type {value.dtype.name}")
    s = attention_sizes(node)
    q, k, v = (b.outer(value) for value in node.inputs[:3])
    mask, past_k, past_v, lengths = (node.input(index) for index in range(3, 7))
    mode = int(node.attrs.get("qk_matmul_output_mode", 0))
    wants_scores = len(node.outputs) > 3 and node.outputs[3] is not None
    if mode not in range(4):
        raise unsupported(b.node, f"qk_matmul_output_mode {mode}")
    score = Score(b)
    out = b.node.outputs[0]
    if out is None:
        raise unsupported(b.node, "a node whose first output nobody asks for")

    def stage(number: int) -> None:
        if wants_scores and mode == number:
            at = score.place((dim(s.heads * s.rows * s.total), dim(s.rows * s.total), s.total, 1))
            score.lines.append(f"v8f_store({b.output(3)} + {at}, acc, lanes);")

    scale = f"1.0f / v8f_sqrt(v8f_splat((float)({b.size(s.depth)})))[0]"
    if "scale" in node.attrs:
        scale = float32(float(node.attrs["scale"]))
    score.lines.append("acc = acc * at->scale;")
    stage(0)
    softcap = float(node.attrs.get("softcap", 0.0))
    if softcap != 0.0:
        cap = float32(softcap)
        score.lines.append(f"acc = v8f_tanh(acc / {cap}) * {cap};")
    stage(1)
    limit: str | Dim = "ATTENTION_ALL"
    if mask is not None:
        outer = b.outer(mask)
        if outer.dtype not in (DType.bool, DType.float32):
            raise unsupported(b.node, f"a mask of type {outer.dtype.name}")
        loaded = score.operand(b.input(mask), outer.type)
        added = f"v8f_select({loaded}, acc, -MCP26_INFINITY)" if outer.dtype is DType.bool else f"acc + {loaded}"
        score.lines.append(f"acc = {added};")
        if outer.type.dims[-1] not in (1, s.total):
            limit = outer.type.dims[-1]
            if wants_scores:
                raise unsupported(b.node, "qk_matmul_output with a mask that is shorter than the keys")
    stage(2)
    stage(3)
    b.headers.append("vmath.h")

    is_causal = bool(node.attrs.get("is_causal", 0))
    left, right = (int(node.attrs.get(f"{side}_window_size", -1)) for side in ("left", "right"))
    after = min([0] * is_causal + [right] * (right >= 0), default=-1)
    from_length = lengths is not None and past_k is None
    new = keys_text(b, (b.input(k), split_steps(k.type, s.depth)), (b.input(v), split_steps(v.type, s.width)), s.keys)
    if past_k is None or past_v is None:
        keys = new
    else:
        old_k, old_v = b.outer(past_k), b.outer(past_v)
        keys = keys_text(b, (b.input(past_k), steps_of(old_k.type)), (b.input(past_v), steps_of(old_v.type)), s.past)
        keys += f", {new}"
    call(b, s, score, "acc", {
        "q": b.input(q), "q_step": steps_text(b, split_steps(q.type, s.depth)),
        "y": b.output(), "y_step": steps_text(b, split_steps(out.type, s.width)),
        "keys": f"{{{keys}}}",
        "before": left if left >= 0 else "ATTENTION_ALL", "after": after if after >= 0 else "ATTENTION_ALL",
        "limit": limit, "offset": dim(-s.rows) if from_length else s.past, "is_offset_from_length": int(from_length),
        "lengths": b.input(lengths) if lengths is not None else "0", "is_guarded": 1, "scale": scale,
        "scores": b.output(3) if wants_scores else "0",
        "scores_kind": ("ATTENTION_RAW", "ATTENTION_RAW", "ATTENTION_BIASED", "ATTENTION_SOFTMAX")[mode],
    })  # fmt: skip
    present(b, s)


def present(b: KernelBuilder, s: AttentionSizes) -> None:
    """The updated caches: copies in addition to the units of the attention, each a unit more."""
    node = b.anchor
    for index, past, size in ((1, node.input(4), s.depth), (2, node.input(5), s.width)):
        out = node.outputs[index] if len(node.outputs) > index else None
        new = b.outer(node.inputs[index])
        if out is None:
            continue
        type, bits = word(new.dtype)
        to, units = out.type.strides, b.units
        b.line(f"if (begin <= {units} && {units} < end) {{")
        if past is not None:
            old = b.outer(past)
            copy(b, old.type.dims, b.output(index, type), to, b.input(past, type), old.type.strides, bits, whole=True)
        batch, head, row, column = split_steps(new.type, size)
        sizes = (s.batch, s.kv_heads, s.keys, size)
        start = f"{b.output(index, type)} + {b.size(dim(s.past * size))}"
        copy(b, sizes, start, to, b.input(new, type), (batch, head, row, column), bits, whole=True)
        b.line("}")
        b.units = f"{units} + 1"


# ---- RotaryEmbedding and TensorScatter


@emits("RotaryEmbedding")
def rotary_embedding(b: KernelBuilder) -> None:
    node = b.anchor
    x, positions = b.outer(node.inputs[0]), node.input(3)
    if x.dtype not in (DType.float32, DType.float64):
        raise unsupported(b.node, f"an operand of type {x.dtype.name}")
    s = rotary_sizes(node)
    batch, head, row, _ = split_steps(x.type, s.size)
    fields: dict[str, str | Dim] = {
        "batch": s.batch, "heads": s.heads, "rows": s.rows, "size": s.size, "rotated": s.rotated,
        "interleaved": int(bool(node.attrs.get("interleaved", 0))),
        "batch_step": batch, "head_step": head, "row_step": row,
        "positions": "0" if positions is None else b.input(positions),
        "table": b.outer(node.inputs[1]).type.dims[0],
    }  # fmt: skip
    text = ", ".join(f".{key} = {v if isinstance(v, str) else b.size(v)}" for key, v in fields.items())
    pointers = ", ".join(b.input(value) for value in node.inputs[:3])
    b.label = "rotary embedding"
    b.headers.append("rotary.h")
    b.line(f"return rotary_{SUFFIXES[x.dtype]}(env, (rotary){{{text}}}, {pointers}, {b.output()}, begin, end);")
    b.units = b.size(dim(s.batch * s.rows))


@emits("TensorScatter")
def tensor_scatter(b: KernelBuilder) -> None:
    if b.node.body is not None:
        appended_rows(b)
        return
    node = b.anchor
    cache, update, starts = b.outer(node.inputs[0]), b.outer(node.inputs[1]), node.input(2)
    dims = cache.type.dims
    axis = int(node.attrs.get("axis", -2)) % len(dims)
    prefix = product(dims[1:axis])
    sizes = (prefix, dims[axis], update.type.dims[axis], dim(product(dims[axis + 1 :]) * cache.dtype.itemsize))
    is_circular = node.attrs.get("mode", "linear") == "circular"
    b.label = "tensor scatter"
    b.headers.append("cache.h")
    b.line(
        f"return cache_write(env, {', '.join(map(b.size, sizes))}, {b.input(cache, 'uint8_t')}, "
        f"{b.input(update, 'uint8_t')}, {'0' if starts is None else b.input(starts)}, {int(is_circular)}, "
        f"{b.output(type='uint8_t')}, begin, end);"
    )
    b.units = b.size(dim(dims[0] * prefix))


def appended_rows(b: KernelBuilder) -> None:
    """A body of kind "cache" as mcpc/ops/contrib_attention.py makes it."""
    past, more, new, start = b.node.inputs
    assert past is not None and more is not None and new is not None and start is not None
    batch, prefix, old, row = past.type.dims
    sizes = (prefix, old, more.type.dims[2], new.type.dims[2], dim(row * past.dtype.itemsize))
    pointers = (*(b.input(value, "uint8_t") for value in (past, more, new)), b.input(start), b.output(type="uint8_t"))
    b.label = "cache"
    b.headers.append("cache.h")
    b.line(f"return cache_append(env, {', '.join((*map(b.size, sizes), *pointers))}, begin, end);")
    b.units = b.size(dim(batch * prefix))
