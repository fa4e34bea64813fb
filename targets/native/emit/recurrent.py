"""LSTM, GRU and RNN: the inputs' product for all time steps, then step by step from packed recurrent weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mcpc.ir import Dim, DType, Value, dim

from ..ctext import float_literal
from ..kernel import SELF, Array, KernelBuilder, unsupported
from .linear import optional_weights, pack_panels, weights
from .registry import emits


@dataclass(frozen=True)
class Activation:
    """``text`` is C over ``x``, with ``alpha`` and ``beta`` where there are such parameters and their defaults."""

    text: str
    alpha: float | None = None
    beta: float | None = None


#: By ONNX's names in lower case, which writers do not agree on.
ACTIVATIONS = {
    "sigmoid": Activation("v8f_sigmoid(x)"),
    "tanh": Activation("v8f_tanh(x)"),
    "relu": Activation("v8f_relu(x)"),
    "affine": Activation("alpha * x + beta", 1.0, 0.0),
    "leakyrelu": Activation("v8f_select(x < 0.0f, alpha * x, x)", 0.01),
    "thresholdedrelu": Activation("v8f_select(x >= alpha, x, 0.0f)", 1.0),
    "scaledtanh": Activation("alpha * v8f_tanh(beta * x)", 1.0, 1.0),
    "hardsigmoid": Activation("v8f_clip(alpha * x + beta, 0.0f, 1.0f)", 0.2, 0.5),
    "elu": Activation("v8f_select(x < 0.0f, alpha * v8f_expm1(x), x)", 1.0),
    "softsign": Activation("x / (1.0f + v8f_abs(x))"),
    "softplus": Activation("v8f_max(x, 0.0f) + v8f_log1p(v8f_exp(v8f_neg(v8f_abs(x))))"),
}


def activations(b: KernelBuilder, directions: int, default: list[str]) -> list[list[str]]:
    """The bodies of each direction's C functions f, g, h (as many as ``default`` names)."""
    attrs = b.anchor.attrs
    names = [str(name).lower() for name in attrs.get("activations") or default * directions]
    unknown = [name for name in names if name not in ACTIVATIONS]
    if unknown or len(names) != len(default) * directions:
        raise unsupported(b.node, f"the activations {', '.join(names)}")
    given: dict[str, Iterator[float]] = {
        name: iter([float(number) for number in attrs.get(f"activation_{name}") or []]) for name in ("alpha", "beta")
    }
    bodies = []
    for activation in (ACTIVATIONS[name] for name in names):
        text = f"return {activation.text};"
        for name, number in (("beta", activation.beta), ("alpha", activation.alpha)):
            if number is not None:  # those that have none take none of the numbers given
                text = f"const float {name} = {float_literal(next(given[name], number))}; {text}"
        bodies.append(text)
    return [bodies[start : start + len(default)] for start in range(0, len(bodies), len(default))]


class Recurrent:
    """What LSTM, GRU and RNN have in common. ``gates`` are those of a step; ``states`` is 2 where there is a cell."""

    def __init__(self, b: KernelBuilder, gates: int, states: int, default: list[str]) -> None:
        self.b, self.states = b, states
        anchor = b.anchor
        self.x = b.outer(anchor.inputs[0])
        for value in anchor.inputs:
            if value is not None and value is not anchor.input(4) and b.outer(value).dtype is not DType.float32:
                raise unsupported(b.node, f"an operand of type {b.outer(value).dtype.name}")
        self.w, self.r = weights(b, anchor.input(1)), weights(b, anchor.input(2))
        self.bias = optional_weights(b, anchor.input(3))
        self.directions, self.width, self.depth = self.w.shape
        self.hidden = self.r.shape[2]
        self.is_batch_first = bool(anchor.attrs.get("layout", 0))
        first, second = self.x.type.dims[:2]
        self.time, self.batch = (second, first) if self.is_batch_first else (first, second)
        self.functions = activations(b, self.directions, default)
        b.label = anchor.op.lower()
        b.headers.append("recurrent.h")
        b.units = str(self.directions)
        if self.bias is None:
            self.bias = np.zeros((self.directions, 2 * gates * self.hidden), np.float32)

    def packed(self, matrices: Array) -> str:
        """`base + d * stride` of the packed matrices [directions][N][K]."""
        panels = np.stack([pack_panels(matrix.T, self.b.nr) for matrix in matrices])
        return self.by_direction(panels)

    def by_direction(self, rows: Array) -> str:
        """Constants of which each direction has one."""
        array = np.ascontiguousarray(rows, np.float32)
        return f"{self.b.constant(array)} + d * {array[0].size}"

    def state(self, value: Value | None) -> str:
        """Where direction d's part of an initial state begins; NULL for none."""
        return "NULL" if value is None else f"{self.b.input(value)} + {self._part()}"

    def _part(self) -> str:
        step: Dim = self.hidden if self.is_batch_first else dim(self.batch * self.hidden)
        return f"d * {self.b.size(step)}"

    def run(self, kernel: str, r: str, more: list[str], bias: Array, fields: str) -> None:
        """Loop over the directions: the product, then ``kernel``, whose arguments after the operands are ``more``."""
        b, hidden = self.b, self.hidden
        across = dim(self.directions * hidden)
        rows, state = dim(self.time * self.batch), dim(self.batch * hidden)
        work = dim(self.batch * max(self.width, 4 * hidden))
        own = dim(rows * self.width + work + 2 * state)
        anchor = b.anchor
        outputs = [anchor.outputs[index] if index < len(anchor.outputs) else None for index in range(1 + self.states)]
        whole = across if self.is_batch_first else hidden
        steps = [whole if output is not None else hidden for output in outputs[1:]]
        finals = []
        for index, output in enumerate(outputs[1:]):
            spare = f"work + {b.size(dim(work + index * state))}"
            finals.append(spare if output is None else f"{b.output(1 + index)} + {self._part()}")
        one_step, one_item = (self.width, dim(self.time * self.width)), (dim(self.batch * self.width), self.width)
        gate_time, gate_batch = one_step if self.is_batch_first else one_item
        if self.is_batch_first:
            y_time, y_batch, y_part = across, dim(self.time * across), f"d * {hidden}"
        else:
            y_time, y_batch, y_part = dim(self.directions * state), hidden, self._part()
        y = "NULL" if outputs[0] is None else f"{b.output(0)} + {y_part}"
        initial = [self.state(anchor.input(5 + index)) for index in range(self.states)] + ["NULL"]
        lengths = "NULL" if anchor.input(4) is None else b.input(anchor.input(4))
        is_reverse = "1" if anchor.attrs.get("direction") == "reverse" else "d"
        sizes: dict[str, Dim] = {
            "time": self.time, "batch": self.batch, "hidden": hidden, "gate_time": gate_time, "gate_batch": gate_batch,
            "y_time": y_time, "y_batch": y_batch, "first_batch": whole, "h_batch": steps[0], "c_batch": steps[-1],
        }  # fmt: skip
        text = ", ".join(f".{name} = {b.size(value)}" for name, value in sizes.items())
        text += f", .clip = {float_literal(float(anchor.attrs.get('clip', 0.0)))}, .is_reverse = {is_reverse}{fields}"
        names = ("f", "g", "h")[: len(self.functions[0])]
        alike = all(functions == self.functions[0] for functions in self.functions)
        for d, functions in enumerate(self.functions[:1] if alike else self.functions):
            for name, body in zip(names, functions, strict=True):
                b.function(f"MCP26_INLINE v8f {SELF}_{name}{d}(v8f x) {{\n    {body}\n}}")
        b.line(
            f"float *memory = (float *)(void *){b.workspace(dim(4 * self.directions * own))};",
            "for (int64_t d = begin; d < end; d++) {",
            f"    float *gates = memory + d * {b.size(own)}, *work = gates + {b.size(dim(rows * self.width))};",
            f"    recurrent_input({b.size(rows)}, {self.width}, {self.depth}, {b.input(anchor.inputs[0])}, "
            f"{self.packed(self.w)}, {self.by_direction(bias)}, gates);",
            f"    recurrent_operands from = {{gates, {r}, {lengths}, {initial[0]}, {initial[1]}}};",
            f"    recurrent_shape shape = {{{text}}};",
        )
        for d in range(1 if alike else self.directions):
            chosen = " ".join(f"shape.{name} = {SELF}_{name}{d};" for name in names)
            call = f"{kernel}(shape, {', '.join(['from', *more, *finals, y, 'work'])});"
            b.line(f"    {'' if alike else f'if (d == {d}) '}{{ {chosen} {call} }}")
        b.line("}")


@emits("LSTM")
def lstm(b: KernelBuilder) -> None:
    node = Recurrent(b, 4, 2, ["Sigmoid", "Tanh", "Tanh"])
    peepholes = optional_weights(b, b.anchor.input(7))
    assert node.bias is not None
    bias = node.bias[:, : node.width] + node.bias[:, node.width :]
    coupled = f", .is_coupled = {int(bool(b.anchor.attrs.get('input_forget', 0)))}"
    node.run(
        "lstm_f32", node.packed(node.r), ["NULL" if peepholes is None else node.by_direction(peepholes)], bias, coupled
    )


@emits("GRU")
def gru(b: KernelBuilder) -> None:
    node = Recurrent(b, 3, 1, ["Sigmoid", "Tanh"])
    assert node.bias is not None
    both = 2 * node.hidden
    bias, recurrent = node.bias[:, : node.width].copy(), node.bias[:, node.width :]
    bias[:, :both] += recurrent[:, :both]
    if b.anchor.attrs.get("linear_before_reset", 0):
        more = ["NULL", node.by_direction(recurrent[:, both:])]
        node.run("gru_f32", node.packed(node.r), more, bias, ", .is_reset_after = 1")
    else:
        bias[:, both:] += recurrent[:, both:]
        more = [node.packed(node.r[:, both:]), "NULL"]
        node.run("gru_f32", node.packed(node.r[:, :both]), more, bias, ", .is_reset_after = 0")


@emits("RNN")
def rnn(b: KernelBuilder) -> None:
    node = Recurrent(b, 1, 1, ["Tanh"])
    assert node.bias is not None
    bias = node.bias[:, : node.width] + node.bias[:, node.width :]
    node.run("rnn_f32", node.packed(node.r), [], bias, "")
