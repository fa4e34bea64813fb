"""LSTM: the inputs' product for all time steps, then step by step from packed recurrent weights."""

from __future__ import annotations

import numpy as np

from mcpc.ir import Dim, Value, dim

from ..ctext import float_literal
from ..kernel import SELF, KernelBuilder, unsupported
from .linear import optional_weights, pack_panels, weights
from .registry import emits

ACTIVATIONS = {"Sigmoid": "v8f_sigmoid", "Tanh": "v8f_tanh", "Relu": "v8f_relu"}


def activations(b: KernelBuilder, directions: int) -> list[list[str]]:
    """The C functions f, g, h of each direction."""
    names = [str(name) for name in b.anchor.attrs.get("activations") or ["Sigmoid", "Tanh", "Tanh"] * directions]
    if b.anchor.attrs.get("activation_alpha") or b.anchor.attrs.get("activation_beta"):
        raise unsupported(b.node, "activation_alpha or activation_beta")
    unknown = [name for name in names if name not in ACTIVATIONS]
    if unknown or len(names) != 3 * directions:
        raise unsupported(b.node, f"the activations {', '.join(names)}")
    functions = [ACTIVATIONS[name] for name in names]
    return [functions[3 * d : 3 * d + 3] for d in range(directions)]


@emits("LSTM")
def lstm(b: KernelBuilder) -> None:
    """X [T, B, I], layout 0: the lowering transposes the other layout. Runs on one worker, since steps follow each
    other."""
    anchor = b.anchor
    x = b.outer(anchor.inputs[0])
    w, r = weights(b, anchor.input(1)), weights(b, anchor.input(2))
    bias, peepholes = optional_weights(b, anchor.input(3)), optional_weights(b, anchor.input(7))
    directions, _, hidden = r.shape
    depth = w.shape[2]
    time, batch = x.type.dims[:2]
    direction = str(anchor.attrs.get("direction", "forward"))
    if anchor.attrs.get("layout", 0):
        raise unsupported(b.node, "layout 1")
    lengths = b.input(anchor.input(4)) if anchor.input(4) is not None else "0"
    for value in (anchor.inputs[0], anchor.input(5), anchor.input(6)):
        if value is not None and b.outer(value).dtype != x.dtype:
            raise unsupported(b.node, "states of another type")
    functions = activations(b, directions)
    b.label = "lstm"
    b.headers.append("lstm.h")
    rows = dim(time * batch)
    width = 4 * hidden
    state = dim(batch * hidden)
    gates, work = dim(rows * width), dim(batch * width)
    outputs = [anchor.outputs[index] if index < len(anchor.outputs) else None for index in range(3)]
    b.scratch = 4 * int(dim(gates + work + 2 * state))
    b.line(
        f"float *gates = {b.worker_scratch}, *work = gates + {b.size(gates)};",
        f"float *spare_h = work + {b.size(work)}, *spare_c = spare_h + {b.size(state)};",
    )
    for d in range(directions):
        b.line("{")
        both = np.zeros(width, np.float32) if bias is None else bias[d, :width] + bias[d, width:]
        epilogue = f"{SELF}_bias{d}"
        b.function(
            f"MCP26_INLINE v8f {epilogue}(v8f acc, const void *const *args, int64_t m, int64_t n, int64_t lanes) {{\n"
            f"    (void)m;\n    return acc + v8f_load({b.constant(both)} + n, lanes);\n}}"
        )
        packed_w, packed_r = b.constant(pack_panels(w[d].T, b.nr)), b.constant(pack_panels(r[d].T, b.nr))
        sizes = f"{b.size(rows)}, {width}, {depth}"
        first = b.input(anchor.inputs[0])
        b.line(
            f"    gemm_f32({sizes}, {first}, {depth}, {packed_w}, gates, {width}, {epilogue}, args, 0, "
            f"gemm_f32_units({sizes}));"
        )
        offset = dim(d * state)
        initial = [_at(b, anchor.input(5 + i), offset) for i in range(2)]
        final = [
            f"{spare}" if outputs[1 + i] is None else f"{b.output(1 + i)} + {b.size(offset)}"
            for i, spare in enumerate(("spare_h", "spare_c"))
        ]
        y = "0" if outputs[0] is None else f"{b.output(0)} + {b.size(offset)}"
        peephole = "0" if peepholes is None else b.constant(np.ascontiguousarray(peepholes[d]))
        f, g, h = functions[d]
        is_reverse = direction == "reverse" or d == 1
        shape = (
            f".time = {b.size(time)}, .batch = {b.size(batch)}, .hidden = {hidden}, .is_reverse = {int(is_reverse)}, "
            f".is_coupled = {int(anchor.attrs.get('input_forget', 0))}, "
            f".clip = {float_literal(float(anchor.attrs.get('clip', 0.0)))}, .f = {f}, .g = {g}, .h = {h}, "
            f".y_time = {b.size(dim(directions * state))}, .y_batch = {hidden}"
        )
        b.line(f"    const lstm_shape shape = {{{shape}}};")
        states = ", ".join([*initial, *final])
        b.line(f"    lstm_f32(shape, gates, {packed_r}, {peephole}, {lengths}, {states}, {y}, work);", "}")


def _at(b: KernelBuilder, value: Value | None, offset: Dim) -> str:
    return "0" if value is None else f"{b.input(value)} + {b.size(offset)}"
