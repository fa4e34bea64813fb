"""LinearAttention and CausalConvWithState."""

from __future__ import annotations

from mcpc.ir import Dim, DType, Value, dim
from mcpc.ops.state import linear_attention_sizes

from ..kernel import KernelBuilder, unsupported
from .attention import float32
from .registry import emits

#: As in linear_attention.h.
COLUMNS = 64


def _operand(b: KernelBuilder, index: int) -> str:
    value = b.anchor.input(index)
    return "0" if value is None else b.input(value)


def _expect_floats(b: KernelBuilder) -> None:
    for value in b.anchor.inputs:
        if value is not None and b.outer(value).dtype is not DType.float32:
            raise unsupported(b.node, f"an operand of type {b.outer(value).dtype.name}")


def _second(b: KernelBuilder) -> Value | None:
    """The state that is made, where somebody asks for it."""
    return b.node.outputs[1] if len(b.node.outputs) > 1 else None


def _fields(b: KernelBuilder, fields: dict[str, str | Dim]) -> str:
    return ", ".join(f".{key} = {v if isinstance(v, str) else b.size(v)}" for key, v in fields.items())


@emits("LinearAttention")
def linear_attention(b: KernelBuilder) -> None:
    _expect_floats(b)
    s = linear_attention_sizes(b.anchor)
    scale = float(b.anchor.attrs.get("scale", 0.0))
    if b.node.outputs[0] is None:
        raise unsupported(b.node, "a node whose first output nobody asks for")
    state = dim(4 * s.batch * s.heads * s.depth * s.width)
    b.label = "linear attention"
    b.headers.append("linear_attention.h")
    fields: dict[str, str | Dim] = {
        "time": s.time, "heads": s.heads, "group": s.group, "depth": s.depth, "width": s.width, "decays": s.decays,
        "rates": s.rates,
        **{name: _operand(b, index) for index, name in enumerate(("q", "k", "v", "past", "decay", "beta"))},
        "scale": float32(scale) if scale else f"1.0f / v8f_sqrt(v8f_splat((float)({b.size(s.depth)})))[0]",
        "state": f"(float *)(void *){b.workspace(state)}" if _second(b) is None else b.output(1),
        "y": b.output(),
    }  # fmt: skip
    if isinstance(s.depth, int) and s.time != 1:
        b.scratch = 4 * s.depth * COLUMNS
    work = b.worker_scratch if b.scratch else "0"
    b.line(f"linear_attention_f32((linear_attention){{{_fields(b, fields)}}}, {work}, begin, end);")
    b.units = f"linear_attention_units({', '.join(map(b.size, (s.batch, s.heads, s.width)))})"


@emits("CausalConvWithState")
def causal_conv(b: KernelBuilder) -> None:
    _expect_floats(b)
    x, weight = (b.outer(value) for value in b.anchor.inputs[:2])
    batch, channels, time = x.type.dims
    if b.node.outputs[0] is None:
        raise unsupported(b.node, "a node whose first output nobody asks for")
    b.label = "causal convolution"
    b.headers.append("causal_conv.h")
    fields: dict[str, str | Dim] = {
        "channels": channels, "time": time, "taps": weight.type.dims[2],
        **{name: _operand(b, index) for index, name in enumerate(("x", "w", "bias", "past"))},
        "is_silu": int(b.anchor.attrs.get("activation", "none") != "none"),
        "y": b.output(), "present": "0" if _second(b) is None else b.output(1),
    }  # fmt: skip
    b.line(f"causal_conv_f32((causal_conv){{{_fields(b, fields)}}}, begin, end);")
    b.units = b.size(batch) + f" * causal_conv_groups({b.size(channels)})"
