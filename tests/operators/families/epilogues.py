"""Products, each kind with what is fused behind it: operands of every form of broadcasting, chains of every sort."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..case import Family
from ..graphs import Graph
from ..graphs import Weight as W

FAMILY = Family("epilogues")
case = FAMILY.graph

X = (2, 8, 5, 6)
W3 = W((8, 8, 3, 3))
Shape = tuple[int, ...]


def scalar(number: float) -> W:
    return W(np.array(number, np.float32))


def conv(g: Graph, x: Any = X, w: W = W3, **attrs: Any) -> str:
    """3x3 that keeps the image's size."""
    return str(g("Conv", x, w, pads=[1, 1, 1, 1], **attrs))


#: How a product is made.
PRODUCTS: dict[str, Callable[[Graph], str]] = {
    "Conv": conv,
    "depthwise Conv": lambda g: conv(g, X, W((8, 1, 3, 3)), group=8),
    "planar Conv": lambda g: conv(g, (2, 3, 5, 6), W((8, 3, 3, 3))),
    "1x1 Conv": lambda g: g("Conv", X, W((8, 8, 1, 1))),
    "grouped Conv": lambda g: conv(g, X, W((8, 4, 3, 3)), group=2),
    "Conv over one axis": lambda g: g("Conv", (2, 4, 9), W((6, 4, 3))),
    "Gemm": lambda g: g("Gemm", (5, 4), W((4, 9)), W((9,))),
    "Gemm of A transposed": lambda g: g("Gemm", (4, 5), W((4, 9)), transA=1),
    "Gemm of computed B": lambda g: g("Gemm", (5, 4), (9, 4), (5, 1), transB=1, alpha=0.5, beta=2.0),
    "Gemm of a whole C": lambda g: g("Gemm", (5, 4), W((4, 9)), W((5, 9)), beta=2.0),
    "MatMul by a constant": lambda g: g("MatMul", (2, 3, 4), W((4, 9))),
    "MatMul": lambda g: g("MatMul", (2, 3, 4), (2, 4, 9)),
    "MatMul of broadcast batches": lambda g: g("MatMul", (2, 1, 3, 4), (5, 4, 9)),
    "MatMul of a vector": lambda g: g("MatMul", (3, 4), (4,)),
    "MatMul by a constant vector": lambda g: g("MatMul", (2, 3, 4), W((4,))),
    "MaxPool": lambda g: g("MaxPool", X, kernel_shape=[1, 1]),
    "GlobalAveragePool": lambda g: g("GlobalAveragePool", X),
    "Softmax": lambda g: g("Softmax", (3, 9)),
    "ReduceSum": lambda g: g("ReduceSum", X, W(np.array([1]))),
}

#: The shapes of the operand that it is subtracted from.
IMAGE: list[Shape] = [(8, 1, 1), X, (2, 1, 5, 6)]
OPERANDS: dict[str, list[Shape]] = {
    "Conv": [
        (),
        (1,),
        *IMAGE,
        (1, 8, 1, 1),
        (2, 8, 1, 1),
        (1, 8, 5, 6),
        (1, 1, 5, 6),
        (6,),
        (5, 1),
        (2, 1, 1, 1),
        (8, 1, 6),
    ],
    "depthwise Conv": IMAGE,
    "planar Conv": IMAGE,
    "1x1 Conv": IMAGE,
    "grouped Conv": IMAGE,
    "Conv over one axis": [(6, 1), (2, 6, 7), (2, 1, 7), (7,)],
    "Gemm": [(), (9,), (1, 9), (5, 1), (5, 9)],
    "Gemm of A transposed": [(9,), (5, 9)],
    "Gemm of computed B": [(9,), (5, 9)],
    "Gemm of a whole C": [(9,), (5, 9)],
    "MatMul by a constant": [(9,), (3, 1), (2, 3, 1), (2, 1, 9), (2, 3, 9)],
    "MatMul": [(9,), (3, 9), (2, 3, 1), (2, 3, 9)],
    "MatMul of broadcast batches": [(9,), (2, 5, 3, 9), (3, 1)],
    "MatMul of a vector": [(3,), (1,)],
    "MatMul by a constant vector": [(2, 3), (3,)],
    "MaxPool": [(8, 1, 1), X],
    "GlobalAveragePool": [(8, 1, 1), (2, 8, 1, 1)],
    "Softmax": [(9,), (3, 9)],
    "ReduceSum": [(6,), (2, 1, 5, 6)],
}


def declare(product: str, shape: Shape, kind: str) -> None:
    """The operand is an input, a constant, or computed."""

    def build(g: Graph) -> Any:
        values = np.array(g.draw(*shape), np.float32)
        operand = {"input": lambda: values, "constant": lambda: W(values), "computed": lambda: g("Tanh", values)}[
            kind
        ]()
        return g("Relu", g("Sub", operand, PRODUCTS[product](g)))

    case(f"{product}, {kind} {'x'.join(map(str, shape)) or 'scalar'}", build)


#: Where the operand comes from, if not from outside only.
KINDS = {
    "Conv": ("input", "constant", "computed"),
    **dict.fromkeys(("planar Conv", "Gemm", "MatMul", "MatMul by a constant", "MaxPool"), ("input", "constant")),
}

for product, shapes in OPERANDS.items():
    for shape in shapes:
        for kind in KINDS.get(product, ("input",)):
            declare(product, shape, kind)


def conv_with_bias(g: Graph) -> str:
    return str(g("Conv", X, W3, g("Relu", (8,)), pads=[1, 1, 1, 1]))


case("Conv, its result twice", lambda g: g("Mul", a := conv(g), a))
case("Conv, branches", lambda g: g("Add", g("Tanh", a := conv(g)), g("Mul", a, g("Sigmoid", a))))
case("Conv, comparison", lambda g: g("Where", g("Less", a := conv(g), scalar(0)), g("Mul", a, scalar(0.1)), a))
case("Conv, Cast to int32 and back", lambda g: g("Cast", g("Cast", conv(g), to=6), to=1))
case("Conv, Clip", lambda g: g("Clip", conv(g), scalar(-0.5), scalar(0.5)))
case("Conv, SiLU", lambda g: g("Mul", g("Sigmoid", a := conv(g)), a))
case("Conv, HardSwish", lambda g: g("HardSwish", conv(g)))
case("Conv, PRelu", lambda g: g("PRelu", conv(g), W((8, 1, 1))))
case("Conv with a computed bias", conv_with_bias)
case("Conv with a computed bias, Relu", lambda g: g("Relu", conv_with_bias(g)))
case("Conv, broadcast to a larger tensor", lambda g: g("Add", g("Conv", (1, 8, 1, 1), W((8, 8, 1, 1))), X))
case("Gemm, broadcast to a larger tensor", lambda g: g("Add", g("Gemm", (1, 4), W((4, 9))), (5, 9)))
