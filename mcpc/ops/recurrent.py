"""LSTM, GRU and RNN."""

from __future__ import annotations

from collections.abc import Callable

from mcpc.ir import DType, Node, TensorType, dim, product
from mcpc.ops.context import (
    FLOATS,
    InferContext,
    attribute,
    choice,
    expect,
    expect_rank,
    fail,
    optional_type,
    same_dtype,
    type_of,
    unify,
)
from mcpc.ops.registry import ACCUMULATED, Cost, OpDef, register, traffic


def directions(node: Node) -> int:
    """Passes over the sequence: 2 for a bidirectional node."""
    direction = choice(node, "direction", "forward", ("forward", "reverse", "bidirectional"))
    return 2 if direction == "bidirectional" else 1


def infer_recurrent(gates: int, states: int) -> Callable[[Node, InferContext], list[TensorType]]:
    """X [T, B, I], W [D, gates·H, I], R [D, gates·H, H], B [D, 2·gates·H], lengths [B], states [D, B, H] →
    Y [T, D, B, H] and the last states; layout 1 puts B first everywhere in X, Y and the states."""

    def infer(node: Node, context: InferContext) -> list[TensorType]:
        x = expect(node, 0, FLOATS)
        same_dtype(node, 0, 1, 2, 3, 5, 6, 7)
        for index, rank in ((0, 3), (1, 3), (2, 3), (3, 2), (4, 1), (5, 3), (6, 3), (7, 2)):
            expect_rank(node, index, rank)
        if node.input(4) is not None:
            expect(node, 4, {DType.int32})
        w, r = type_of(node, 1), type_of(node, 2)
        d, batch_first = directions(node), attribute(node, "layout", 0)
        if batch_first not in (0, 1):
            fail(node, f"attribute layout is {batch_first}", "E102")
        if x.shape is None or r.shape is None:
            return [TensorType(x.dtype, None)] * (states + 1)
        batch, time = (x.dims[0], x.dims[1]) if batch_first else (x.dims[1], x.dims[0])
        hidden = r.dims[2]
        if "hidden_size" in node.attrs:
            hidden = unify(node, attribute(node, "hidden_size", 0), hidden, "hidden_size and R")

        def check(index: int, *sizes: object) -> None:
            type = optional_type(node, index)
            if type is not None and type.shape is not None:
                for given, wanted in zip(type.shape, sizes, strict=True):
                    unify(node, given, wanted, f"input {index} has shape {list(type.shape)}, {list(sizes)} is needed")

        check(1, d, dim(gates * hidden), x.dims[2])
        check(2, d, dim(gates * hidden), hidden)
        check(3, d, dim(2 * gates * hidden))
        check(4, batch)
        state = (batch, d, hidden) if batch_first else (d, batch, hidden)
        for index in range(5, 5 + states):
            check(index, *state)
        if states == 2:
            check(7, d, dim(3 * hidden))
        if w.shape is None:
            fail(node, "the shape of W is not known", "E108")
        sequence = (batch, time, d, hidden) if batch_first else (time, d, batch, hidden)
        return [TensorType(x.dtype, sequence), *[TensorType(x.dtype, state)] * states]

    return infer


def cost_recurrent(node: Node) -> Cost:
    """The products of every step; gates' activations are small beside them."""
    x, w, r = (type_of(node, index) for index in range(3))
    steps = product(x.dims[:2])
    return Cost(dim(2 * steps * w.elements + 2 * steps * r.elements), traffic(node))


register(
    OpDef("LSTM", infer_recurrent(gates=4, states=2), cost_recurrent, ACCUMULATED),
    OpDef("GRU", infer_recurrent(gates=3, states=1), cost_recurrent, ACCUMULATED),
    OpDef("RNN", infer_recurrent(gates=1, states=1), cost_recurrent, ACCUMULATED),
)
