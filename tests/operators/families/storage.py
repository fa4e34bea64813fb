"""Graphs whose tensors share memory: views, results written in place, parts written into a whole, equal outputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..case import Family
from ..graphs import Graph
from ..graphs import Weight as W

FAMILY = Family("storage")
case = FAMILY.graph
X = (4, 9)


def ints(*numbers: int) -> W:
    return W(np.array(numbers, np.int64))


def value(g: Graph, shape: tuple[int, ...] = X) -> str:
    """A tensor in the arena: computed, no output. It is not fused with what follows, and neither is barrier()'s."""
    return str(g("Softmax", shape))


def barrier(g: Graph, x: Any) -> str:
    return str(g("Softmax", x))


# ---- outputs that are something else too
case("an output that is an input", lambda g: [x := g.input(X), g("Relu", x)])
case("an output that is a constant", lambda g: [g.constant(X), g("Relu", X)])
case("an output that is an input reshaped", lambda g: [g("Reshape", x := g.input(X), ints(9, 4)), g("Relu", x)])
case("an output that is a constant reshaped", lambda g: g("Reshape", W(X), ints(9, 4)))
case("an output that is read again", lambda g: [a := g("Relu", X), g("Tanh", a)])
case(
    "an output and its view",
    lambda g: [a := value(g), g("Reshape", a, ints(-1)), g("Squeeze", g("Unsqueeze", a, ints(0)), ints(0))],
)
case("two views of one tensor", lambda g: [g("Reshape", a := value(g), ints(6, 6)), g("Reshape", a, ints(36))])
case("an output and a part of it", lambda g: [a := value(g), g("Slice", a, ints(1), ints(3))])
case("only a part of a tensor", lambda g: g("Slice", value(g), ints(1), ints(3)))
case("both parts of a tensor", lambda g: g("Split", value(g), outputs=2, num_outputs=2))
case("an Identity of an input, twice", lambda g: [g("Identity", x := g.input(X)), g("Identity", x)])
case("two equal results", lambda g: [g("Tanh", x := g.input(X)), g("Tanh", x)])
case(
    "an output in the other layout, read again",
    lambda g: [a := g("Conv", (1, 8, 4, 4), W((8, 8, 1, 1))), g("Conv", a, W((3, 8, 1, 1)))],
)
case(
    "the same in two layouts",
    lambda g: [g("Relu", a := g("Conv", (1, 8, 4, 4), W((8, 8, 1, 1)))), g("Transpose", a, perm=[0, 2, 3, 1])],
)

case(
    "an output in both layouts, read again in rows",
    lambda g: [
        a := g("MaxPool", (1, 8, 4, 4), kernel_shape=[2, 2]),
        g("MatMul", g("Reshape", a, ints(8, 9)), W((9, 3))),
    ],
)
case("one output twice", lambda g: [a := g("MaxPool", (1, 8, 4, 4), kernel_shape=[2, 2]), a])

# ---- in place
case("in place", lambda g: barrier(g, g("Tanh", value(g))))
case("a value read after it could have been overwritten", lambda g: g("Add", barrier(g, g("Tanh", a := value(g))), a))
case(
    "a view read after its tensor could have been overwritten",
    lambda g: g("MatMul", barrier(g, g("Tanh", a := value(g))), g("Reshape", a, ints(9, 4))),
)
case(
    "a part read after its tensor could have been overwritten",
    lambda g: g("Add", barrier(g, g("Tanh", a := value(g))), g("Slice", a, ints(1), ints(2))),
)
case("an operand read beside its transpose", lambda g: barrier(g, g("Add", a := value(g, (6, 6)), g("Transpose", a))))
case(
    "an operand read beside its broadcast row",
    lambda g: barrier(g, g("Add", a := value(g), g("Slice", a, ints(2), ints(3)))),
)
case("an operand read beside itself", lambda g: barrier(g, g("Mul", a := value(g), a)))
case("both operands could be overwritten", lambda g: barrier(g, g("Sub", value(g), value(g))))
case("a broadcast operand of the same bytes", lambda g: barrier(g, g("Add", value(g, (1, 9)), value(g, (9, 1)))))
case(
    "a result of other bytes",
    lambda g: g("Cast", barrier(g, g("Cast", g("Greater", value(g), W(np.array(0.1, np.float32))), to=1)), to=7),
)
case(
    "a result of another type of the same bytes",
    lambda g: g("Cast", g("ReduceSum", g("Cast", value(g), to=6), ints(1)), to=1),
)
case(
    "a chain in place through views",
    lambda g: barrier(g, g("Tanh", g("Reshape", g("Tanh", g("Reshape", value(g), ints(36))), ints(4, 9)))),
)
case("a product's residual in place", lambda g: barrier(g, g("Add", g("MatMul", value(g), W((9, 9))), value(g))))
case("a product of its own residual", lambda g: barrier(g, g("Add", g("MatMul", a := value(g), W((9, 9))), a)))
case("a convolution's residual read again", lambda g: residual_read_again(g))
case("an output overwritten by nobody", lambda g: [a := g("Softmax", X), barrier(g, g("Tanh", a))])


def residual_read_again(g: Graph) -> Any:
    a = g("Conv", (1, 8, 4, 4), W((8, 8, 1, 1)))
    b = g("Add", g("Conv", a, W((8, 8, 3, 3)), pads=[1, 1, 1, 1]), a)
    return g("Add", g("Conv", b, W((8, 8, 3, 3)), pads=[1, 1, 1, 1]), a)


# ---- parts written into their whole
def concat(g: Graph, *parts: Any, axis: int = 0) -> str:
    return str(g("Concat", *parts, axis=axis))


case("parts", lambda g: barrier(g, concat(g, value(g), value(g))))
case("parts of an output", lambda g: concat(g, value(g), value(g)))
case("the same part twice", lambda g: barrier(g, concat(g, a := value(g), a)))
case("the same part in two wholes", lambda g: [concat(g, a := value(g), b := value(g)), concat(g, b, a)])
case("a whole within a whole", lambda g: barrier(g, concat(g, concat(g, value(g), value(g)), value(g))))
case(
    "a whole within a whole, both read",
    lambda g: g("MatMul", barrier(g, concat(g, a := concat(g, value(g), value(g)), value(g))), g("Transpose", a)),
)
case(
    "a part that is read again",
    lambda g: g("Add", barrier(g, concat(g, a := value(g), value(g))), g("Concat", a, a, axis=0)),
)
case("a part read again in place", lambda g: [barrier(g, concat(g, a := value(g), value(g))), barrier(g, g("Tanh", a))])
case("a part overwritten before the whole is read", lambda g: overwritten_part(g))
case("a part that is an output", lambda g: [a := value(g), barrier(g, concat(g, a, value(g)))])
case("a part that is an input", lambda g: barrier(g, concat(g, x := g.input(X), value(g), x)))
case("a part that is a constant", lambda g: barrier(g, concat(g, W(X), value(g))))
case("a part that is a view", lambda g: barrier(g, concat(g, g("Reshape", value(g), ints(2, 18)), value(g, (2, 18)))))
case(
    "a part whose view is read",
    lambda g: [barrier(g, concat(g, a := value(g), value(g))), barrier(g, g("Reshape", a, ints(6, 6)))],
)
case(
    "parts of parts",
    lambda g: concat(g, *g("Split", concat(g, value(g), value(g)), outputs=4, axis=0, num_outputs=4)[::-1]),
)
case("parts side by side", lambda g: barrier(g, concat(g, value(g), value(g), axis=1)))
case("parts behind an axis of one", lambda g: barrier(g, concat(g, value(g, (1, 3, 4)), value(g, (1, 2, 4)), axis=1)))
case(
    "a whole of one part and nothing",
    lambda g: barrier(g, g("Tanh", concat(g, value(g), g("Slice", value(g), ints(4), ints(4))))),
)
case("channels behind each other", lambda g: dense_block(g))


def overwritten_part(g: Graph) -> Any:
    """tanh(a) could be written over a if nobody knew that a is a part of what is read later."""
    a = value(g)
    whole = concat(g, a, value(g))
    other = barrier(g, g("Tanh", a))
    return g("Add", barrier(g, whole), concat(g, other, other))


def dense_block(g: Graph) -> Any:
    x = g("Conv", (1, 8, 4, 4), W((8, 8, 1, 1)))
    for _ in range(3):
        channels = 8 + 4 * _
        x = concat(g, x, g("Relu", g("Conv", x, W((4, channels, 3, 3)), pads=[1, 1, 1, 1])), axis=1)
    return g("GlobalAveragePool", x)


# ---- sizes
case("nothing at all", lambda g: g("Add", np.zeros((0, 3), np.float32), W((1, 3))))
case("sums of nothing", lambda g: g("ReduceSum", np.zeros((3, 0), np.float32), ints(1)))
case(
    "a tensor of rank 0 all the way",
    lambda g: g("Softmax", g("Reshape", g("Mul", a := g("ReduceSum", X, keepdims=0), a), ints(1))),
)
case("many live tensors", lambda g: g("Sum", *[barrier(g, x) for x in [value(g, (i, 9)) for i in range(4, 5)] * 7]))
