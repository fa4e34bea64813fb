"""LSTM, GRU and RNN: the inputs' product for all time steps, then step by step from packed recurrent weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mcpc.ir import Dim, DType, Value, dim, product
from mcpc.ops.context import ceil_div

from ..ctext import literal
from ..expression import SUFFIXES, VECTORS
from ..kernel import SELF, Array, KernelBuilder, unsupported
from .linear import pack_panels
from .registry import emits


@dataclass(frozen=True)
class Activation:
    """``text`` is C over ``x``, V_f a function of its vector type, with ``alpha`` and ``beta`` where there are such
    parameters and their defaults."""

    text: str
    alpha: float | None = None
    beta: float | None = None


#: By ONNX's names in lower case, which writers do not agree on.
ACTIVATIONS = {
    "sigmoid": Activation("V_sigmoid(x)"),
    "tanh": Activation("V_tanh(x)"),
    "relu": Activation("V_relu(x)"),
    "affine": Activation("alpha * x + beta", 1.0, 0.0),
    "leakyrelu": Activation("V_select(x < 0, alpha * x, x)", 0.01),
    "thresholdedrelu": Activation("V_select(x >= alpha, x, 0)", 1.0),
    "scaledtanh": Activation("alpha * V_tanh(beta * x)", 1.0, 1.0),
    "hardsigmoid": Activation("V_clip(alpha * x + beta, 0, 1)", 0.2, 0.5),
    "elu": Activation("V_select(x < 0, alpha * V_expm1(x), x)", 1.0),
    "softsign": Activation("x / (1 + V_abs(x))"),
    "softplus": Activation("V_max(x, 0) + V_log1p(V_exp(V_neg(V_abs(x))))"),
}

#: Element types of the operands, but for the lengths.
TYPES = {DType.float32: "float", DType.float64: "double"}


def activations(b: KernelBuilder, directions: int, default: list[str], dtype: DType) -> list[list[str]]:
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
        text = f"return {activation.text};".replace("V_", f"{VECTORS[dtype]}_")
        for name, number in (("beta", activation.beta), ("alpha", activation.alpha)):
            if number is not None:  # those that have none take none of the numbers given
                text = f"const {TYPES[dtype]} {name} = {literal(next(given[name], number), dtype)}; {text}"
        bodies.append(text)
    return [bodies[start : start + len(default)] for start in range(0, len(bodies), len(default))]


class Recurrent:
    """What LSTM, GRU and RNN have in common. ``gates`` are those of a step; ``states`` is 2 where there is a cell.

    Operands that are constant are packed now, others by the kernel, in memory that each direction has for itself.
    """

    def __init__(self, b: KernelBuilder, gates: int, states: int, default: list[str]) -> None:
        self.b, self.gates, self.states = b, gates, states
        anchor = b.anchor
        self.x, self.w, self.r = (b.outer(value) for value in anchor.inputs[:3])
        self.dtype = self.x.dtype
        for value in anchor.inputs:
            if value is not None and value is not anchor.input(4) and b.outer(value).dtype not in TYPES:
                raise unsupported(b.node, f"an operand of type {b.outer(value).dtype.name}")
        self.suffix, self.type = SUFFIXES[self.dtype], TYPES[self.dtype]
        self.directions = 2 if anchor.attrs.get("direction") == "bidirectional" else 1
        self.depth = self.w.type.dims[2]
        self.hidden = self.r.type.dims[2]
        self.width = dim(gates * self.hidden)
        self.is_batch_first = bool(anchor.attrs.get("layout", 0))
        first, second = self.x.type.dims[:2]
        self.time, self.batch = (second, first) if self.is_batch_first else (first, second)
        self.functions = activations(b, self.directions, default, self.dtype)
        self.own: Dim = 0
        self.setup: list[str] = []
        b.label = anchor.op.lower()
        b.headers.append("recurrent.h")
        b.units = str(self.directions)

    # ---- operands

    def reserve(self, count: Dim) -> str:
        """``count`` elements of direction d's own memory."""
        place = self.own
        self.own = dim(self.own + count)
        return f"own + {self.b.size(place)}"

    def of_direction(self, value: Value | None) -> str:
        """Where direction d's part of an operand [directions, ...] begins; NULL for none."""
        if value is None:
            return "NULL"
        return f"{self.b.input(value)} + d * {self.b.size(product(self.b.outer(value).type.dims[1:]))}"

    def constant(self, rows: Array) -> str:
        """Constants of which each direction has one."""
        array = np.ascontiguousarray(rows, self.dtype.numpy)
        return f"{self.b.constant(array, self.type)} + d * {array[0].size}"

    def known(self, index: int) -> Array | None:
        """A constant operand of the node."""
        outer = self.b.region.outer(self.b.anchor.input(index))
        return None if outer is None else outer.data

    def packed(self, index: int, first: int = 0, count: int = 0) -> str:
        """The rows of W or R that belong to ``count`` gates from ``first`` on (0: all), packed for a product."""
        b, depth = self.b, self.depth if index == 1 else self.hidden
        start, columns = dim(first * self.hidden), dim((count or self.gates) * self.hidden)
        array = self.known(index)
        if array is not None:
            rows = array[:, int(start) : int(start) + int(columns)]
            if self.dtype is DType.float64:
                return self.constant(rows.transpose(0, 2, 1))
            return self.constant(np.stack([pack_panels(matrix.T, b.nr) for matrix in rows]))
        is_float = self.dtype is DType.float32
        place = self.reserve(dim((ceil_div(columns, b.nr) * b.nr if is_float else columns) * depth))
        source = f"{self.of_direction(b.anchor.input(index))} + {b.size(dim(start * depth))}"
        self.setup.append(f"recurrent_pack_{self.suffix}({b.size(columns)}, {b.size(depth)}, {source}, {place});")
        return place

    def bias(self, joined: int) -> str:
        """What goes into the gates: W's bias and, in the first ``joined`` of them, R's."""
        b, value, array = self.b, self.b.anchor.input(3), self.known(3)
        if value is None:
            return "NULL"
        columns = dim(joined * self.hidden)
        if array is not None:
            sums = array[:, : int(self.width)].copy()
            sums[:, : int(columns)] += array[:, int(self.width) :][:, : int(columns)]
            return self.constant(sums)
        place = self.reserve(self.width)
        sizes = f"{b.size(self.width)}, {b.size(columns)}"
        self.setup.append(f"recurrent_bias_{self.suffix}({sizes}, {self.of_direction(value)}, {place});")
        return place

    def last_bias(self) -> str:
        """R's bias of the last gate."""
        value, array = self.b.anchor.input(3), self.known(3)
        if value is None:
            return "NULL"
        if array is not None:
            return self.constant(array[:, -int(self.hidden) :])
        return f"{self.of_direction(value)} + {self.b.size(dim(2 * self.width - self.hidden))}"

    def state(self, value: Value | None) -> str:
        """Where direction d's part of an initial state begins; NULL for none."""
        return "NULL" if value is None else f"{self.b.input(value)} + {self._part()}"

    def _part(self) -> str:
        step: Dim = self.hidden if self.is_batch_first else dim(self.batch * self.hidden)
        return f"d * {self.b.size(step)}"

    # ---- the kernel

    def run(self, kernel: str, more: list[str], joined: int, fields: str, first_gates: int = 0) -> None:
        """Loop over the directions: the product, then ``kernel``, whose arguments after the operands are ``more``. It
        gets the first gates of R as one matrix, or all. ``joined`` as in :meth:`bias`."""
        b, hidden = self.b, self.hidden
        across = dim(self.directions * hidden)
        rows, state = dim(self.time * self.batch), dim(self.batch * hidden)
        anchor = b.anchor
        outputs = [anchor.outputs[index] if index < len(anchor.outputs) else None for index in range(1 + self.states)]
        whole = across if self.is_batch_first else hidden
        steps = [whole if output is not None else hidden for output in outputs[1:]]
        finals = [
            self.reserve(state) if output is None else f"{b.output(1 + index)} + {self._part()}"
            for index, output in enumerate(outputs[1:])
        ]
        one_step, one_item = (self.width, dim(self.time * self.width)), (dim(self.batch * self.width), self.width)
        gate_time, gate_batch = one_step if self.is_batch_first else one_item
        if self.is_batch_first:
            y_time, y_batch, y_part = across, dim(self.time * across), f"d * {b.size(hidden)}"
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
        clip = literal(float(anchor.attrs.get("clip", 0.0)), self.dtype)
        text += f", .clip = {clip}, .is_reverse = {is_reverse}{fields}"
        names = ("f", "g", "h")[: len(self.functions[0])]
        vector = VECTORS[self.dtype]
        alike = all(functions == self.functions[0] for functions in self.functions)
        for d, functions in enumerate(self.functions[:1] if alike else self.functions):
            for name, body in zip(names, functions, strict=True):
                b.function(f"MCP26_INLINE {vector} {SELF}_{name}{d}({vector} x) {{\n    {body}\n}}")
        w, r, bias = self.packed(1), self.packed(2, 0, first_gates), self.bias(joined)
        gates, work = self.reserve(dim(rows * self.width)), self.reserve(dim(4 * state))
        nbytes = dim(self.dtype.itemsize * self.directions * self.own)
        b.line(
            f"{self.type} *memory = ({self.type} *)(void *){b.workspace(nbytes)};",
            "for (int64_t d = begin; d < end; d++) {",
            f"    {self.type} *own = memory + d * {b.size(self.own)}, *gates = {gates};",
            *(f"    {line}" for line in self.setup),
            f"    recurrent_product_{self.suffix}({b.size(rows)}, {b.size(self.width)}, {b.size(self.depth)}, "
            f"{b.input(anchor.inputs[0])}, {b.size(self.depth)}, {w}, {bias}, gates, {b.size(self.width)});",
            f"    recurrent_operands_{self.suffix} from = {{gates, {r}, {lengths}, {initial[0]}, {initial[1]}}};",
            f"    recurrent_shape_{self.suffix} shape = {{{text}}};",
        )
        for d in range(1 if alike else self.directions):
            chosen = " ".join(f"shape.{name} = {SELF}_{name}{d};" for name in names)
            call = f"{kernel}_{self.suffix}(shape, {', '.join(['from', *more, *finals, y, work])});"
            b.line(f"    {'' if alike else f'if (d == {d}) '}{{ {chosen} {call} }}")
        b.line("}")


@emits("LSTM")
def lstm(b: KernelBuilder) -> None:
    node = Recurrent(b, 4, 2, ["Sigmoid", "Tanh", "Tanh"])
    coupled = f", .is_coupled = {int(bool(b.anchor.attrs.get('input_forget', 0)))}"
    node.run("lstm", [node.of_direction(b.anchor.input(7))], 4, coupled)


@emits("GRU")
def gru(b: KernelBuilder) -> None:
    node = Recurrent(b, 3, 1, ["Sigmoid", "Tanh"])
    if b.anchor.attrs.get("linear_before_reset", 0):
        node.run("gru", ["NULL", node.last_bias()], 2, ", .is_reset_after = 1")
    else:
        node.run("gru", [node.packed(2, 2, 1), "NULL"], 3, ", .is_reset_after = 0", first_gates=2)


@emits("RNN")
def rnn(b: KernelBuilder) -> None:
    Recurrent(b, 1, 1, ["Tanh"]).run("rnn", [], 1, "")
