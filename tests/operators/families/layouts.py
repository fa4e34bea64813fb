"""Graphs in which operators that want channels last meet operators that want rows: also residuals and gates."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..case import Family
from ..graphs import Graph
from ..graphs import Weight as W

FAMILY = Family("layouts")
case = FAMILY.graph

#: A convolution's weights, and the input that it takes.
W3 = W((8, 8, 3, 3))
X = (2, 8, 5, 6)


def conv(g: Graph, x: Any = X, w: W = W3, **attrs: Any) -> str:
    """3x3 that keeps the image's size."""
    return str(g("Conv", x, w, pads=[1, 1, 1, 1], **attrs))


def ints(*numbers: int) -> W:
    return W(np.array(numbers, np.int64))


def scalar(number: float) -> W:
    return W(np.array(number, np.float32))


# ---- a convolution's result under another shape, order or axis
case("Conv, Reshape, MatMul", lambda g: g("MatMul", g("Reshape", conv(g), ints(2, 8, 30)), W((30, 7))))
case("Conv, Flatten, Gemm", lambda g: g("Gemm", g("Flatten", conv(g)), W((240, 9)), W((9,))))
case("Conv, Transpose, Softmax", lambda g: g("Softmax", g("Transpose", conv(g), perm=[0, 2, 3, 1])))
case("Conv, Transpose to rows, MatMul", lambda g: g("MatMul", g("Transpose", conv(g), perm=[0, 2, 1, 3]), (2, 5, 6, 3)))
case(
    "Transpose, Conv, Transpose",
    lambda g: g("Transpose", conv(g, g("Transpose", (2, 5, 6, 8), perm=[0, 3, 1, 2])), perm=[0, 2, 3, 1]),
)
for axis in range(4):
    case(f"Conv, Softmax over axis {axis}", lambda g, axis=axis: g("Softmax", conv(g), axis=axis))
    case(
        f"Conv, ReduceMax over axis {axis}", lambda g, axis=axis: g("ReduceMax", conv(g), ints(axis), keepdims=axis % 2)
    )
    case(
        f"two Convs, Concat over axis {axis}, Slice",
        lambda g, axis=axis: g("Slice", g("Concat", conv(g), conv(g), axis=axis), ints(1), ints(4), ints(axis)),
    )
    case(
        f"Conv, Concat with an input over axis {axis}, Conv",
        lambda g, axis=axis: g("Conv", g("Concat", conv(g), X, axis=axis), W((4, 16 if axis == 1 else 8, 1, 1))),
    )
    case(f"Conv, Gather over axis {axis}", lambda g, axis=axis: g("Gather", conv(g), ints(1, 0), axis=axis))
    case(f"Conv, Split over axis {axis}", lambda g, axis=axis: g("Split", conv(g), outputs=2, axis=axis, num_outputs=2))
for axes in ((1, 2), (0, 3), (1, 3), (2, 3), (0, 1), (0, 2, 3)):
    for keep in (1, 0):
        case(
            f"Conv, ReduceSum over {axes}, keepdims {keep}",
            lambda g, axes=axes, keep=keep: g("Relu", g("ReduceSum", conv(g), ints(*axes), keepdims=keep)),
        )
case("Conv, Pad, Conv", lambda g: g("Conv", g("Pad", conv(g), ints(0, 1, 1, 2, 1, 0, 2, 0)), W((3, 9, 2, 2))))
case(
    "Conv, reflecting Pad, Conv",
    lambda g: g("Conv", g("Pad", conv(g), ints(0, 0, 1, 2, 0, 0, 2, 1), mode="reflect"), W3),
)
case(
    "Conv, Slice with steps",
    lambda g: g("Slice", conv(g), ints(6, 0, 4), ints(0, 6, -9), ints(1, 3, 2), ints(-2, 2, -1)),
)
case("Conv, Expand", lambda g: g("Expand", g("ReduceMean", conv(g), ints(2, 3)), ints(2, 8, 3, 2)))
case("Conv, Tile", lambda g: g("Tile", conv(g), ints(1, 2, 1, 2)))
case("Conv, DepthToSpace, Conv", lambda g: g("Conv", g("DepthToSpace", conv(g), blocksize=2), W((3, 2, 3, 3))))
case("SpaceToDepth, Conv", lambda g: g("Conv", g("SpaceToDepth", (1, 2, 6, 8), blocksize=2), W3))
case("Conv, MaxPool, Conv", lambda g: conv(g, g("MaxPool", conv(g), kernel_shape=[2, 2], strides=[1, 1])))
case(
    "Conv, GlobalAveragePool, Flatten, Gemm",
    lambda g: g("Gemm", g("Flatten", g("GlobalAveragePool", conv(g))), W((8, 5))),
)
case("Conv, Squeeze", lambda g: g("Squeeze", g("Conv", X, W((8, 8, 5, 1))), ints(2)))
case("Conv over one axis, LSTM", lambda g: g(
    "LSTM",
    g("Transpose", g("Conv", (1, 4, 9), W((6, 4, 3))), perm=[2, 0, 1]),
    W((1, 20, 6)),
    W((1, 20, 5)),
    outputs=[True, True, False],
    hidden_size=5,
))  # fmt: skip
case("one image, two layouts", lambda g: [conv(g, x := g.input(X)), g("Softmax", x, axis=1), g("Relu", x)])
case("Conv of a computed image's rows", lambda g: conv(g, g("Reshape", g("Relu", (2, 240)), ints(2, 8, 5, 6))))
case(
    "batch and channels of one",
    lambda g: g("Reshape", g("Conv", (1, 1, 4, 5), W((1, 1, 3, 3)), pads=[1, 1, 1, 1]), ints(20)),
)
case(
    "Conv, Shape's worth of Reshape and back",
    lambda g: conv(g, g("Reshape", g("Reshape", conv(g), ints(2, -1)), ints(2, 8, 5, 6))),
)

# ---- residuals and gates
case("residual", lambda g: g("Add", conv(g, x := g.input(X)), x))
case("residual from the left, Relu", lambda g: g("Relu", g("Add", x := g.input(X), conv(g, x))))
case("residual of few channels", lambda g: g("Add", conv(g, x := g.input((1, 3, 5, 6)), W((3, 3, 3, 3))), x))
case("residual of one channel", lambda g: g("Add", conv(g, x := g.input((2, 1, 5, 6)), W((1, 1, 3, 3))), x))
case("residual of the input around two", lambda g: g("Add", conv(g, conv(g, x := g.input(X))), x))
case("residual of an inverted bottleneck", lambda g: inverted_bottleneck(g))
case("two residuals in a row", lambda g: g("Add", b := g("Add", a := conv(g), conv(g, a)), conv(g, b)))
case("a residual read again behind", lambda g: g("Mul", g("Add", a := conv(g), conv(g, a)), a))


def inverted_bottleneck(g: Graph) -> Any:
    x = conv(g)
    wide = g("Clip", conv(g, x, W((8, 1, 3, 3)), group=8), scalar(0), scalar(6))
    return g("Add", x, g("Conv", wide, W((8, 8, 1, 1))))


def squeeze_and_excite(g: Graph) -> Any:
    x = conv(g)
    gate = g("Relu", g("Conv", g("GlobalAveragePool", x), W((3, 8, 1, 1)), W((3,))))
    return conv(g, g("Mul", x, g("Sigmoid", g("Conv", gate, W((8, 3, 1, 1)), W((8,))))))


def gate_of_mean(g: Graph) -> Any:
    x = conv(g)
    return g("Mul", g("Sigmoid", g("ReduceMean", x, ints(1), keepdims=1)), x)


case("squeeze and excite", squeeze_and_excite)
case("gate for every pixel", gate_of_mean)
case("swish", lambda g: conv(g, g("Mul", a := conv(g), g("Sigmoid", a))))


# ---- products of operands that are stored transposed
def matmul_of_transposed(g: Graph, left: Any, right: Any, perms: tuple[Any, Any], behind: Any = None) -> str:
    operands = [
        x if perm is None else g("Transpose", x, perm=list(perm)) for x, perm in zip((left, right), perms, strict=True)
    ]
    y = g("MatMul", *operands)
    return str(y if behind is None else g("Transpose", y, perm=list(behind)))


HEADS = (0, 2, 1, 3)
for name, arguments in {
    "keys": ((2, 3, 5, 4), (2, 3, 6, 4), (None, (0, 1, 3, 2))),
    "keys of heads": ((2, 5, 3, 12), (2, 70, 3, 12), (HEADS, (0, 2, 3, 1))),
    "values of heads, back": ((2, 3, 66, 6), (2, 6, 3, 21), (None, HEADS), HEADS),
    "one key": ((2, 3, 5, 4), (2, 3, 1, 4), (None, (0, 1, 3, 2))),
    "one component": ((2, 5, 3, 1), (2, 6, 3, 1), (HEADS, (0, 2, 3, 1))),
    "rank 3": ((5, 2, 4), (7, 2, 4), ((1, 0, 2), (1, 2, 0)), (1, 0, 2)),
    "rank 2": ((5, 4), (7, 4), (None, (1, 0))),
    "one batch of many": ((2, 3, 5, 4), (1, 1, 6, 4), (None, (0, 1, 3, 2))),
    "columns that are rows at the left": ((2, 4, 5), (2, 4, 6), ((0, 2, 1), None)),
    "great depth": ((2, 3, 1100), (2, 9, 1100), (None, (0, 2, 1))),
}.items():
    FAMILY.graph(f"MatMul of transposed, {name}", lambda g, a=arguments: matmul_of_transposed(g, *a))
FAMILY.graph("MatMul of transposed, scaled and masked", lambda g: g("Add", g("Mul", matmul_of_transposed(
    g, (2, 5, 3, 4), (2, 6, 3, 4), (HEADS, (0, 2, 3, 1))), W(np.array(0.5, np.float32))), (2, 3, 5, 6)))  # fmt: skip
FAMILY.graph("MatMul of transposed, elementwise between", lambda g: g("Transpose", g("Relu", g("MatMul", g("Tanh", g(
    "Transpose", (2, 5, 3, 4), perm=list(HEADS))), g("Mul", g("Transpose", (2, 6, 3, 4), perm=[0, 2, 3, 1]), scalar(
        0.5)))), perm=list(HEADS)))  # fmt: skip
FAMILY.graph("elementwise behind a Transpose, read by others too", lambda g: [x := g("Tanh", g(
    "Transpose", (2, 5, 3, 4), perm=list(HEADS))), g("MatMul", x, (2, 3, 4, 6)), g("ReduceSum", x)])  # fmt: skip


def transposed_image(g: Graph, residual: bool) -> str:
    """Rows in between, as in ConvNeXt: a norm and a product over channels."""
    x = conv(g)
    rows = g("LayerNormalization", g("Transpose", x, perm=[0, 2, 3, 1]), W((8,)), W((8,)))
    back = g("Transpose", g("MatMul", rows, W((8, 8))), perm=[0, 3, 1, 2])
    return conv(g, g("Add", back, x) if residual else g("Relu", back))


FAMILY.graph("rows between Convs", lambda g: transposed_image(g, residual=False))
FAMILY.graph("rows between Convs, residual", lambda g: transposed_image(g, residual=True))
FAMILY.graph("rows into a Conv over one axis", lambda g: g("Conv", g(
    "Transpose", g("MatMul", (2, 9, 5), W((5, 6))), perm=[0, 2, 1]), W((7, 6, 3))))  # fmt: skip
FAMILY.graph("an image of rows, few channels", lambda g: g("Conv", g(
    "Transpose", (2, 6, 5, 3), perm=[0, 3, 1, 2]), W((4, 3, 3, 3))))  # fmt: skip


# ---- a Pad of what a kernel writes in place
def padded(g: Graph, x: Any, axis: int, before: int, behind: int, *number: W) -> str:
    return str(g("Pad", x, ints(before, behind), *(number or ("",)), ints(axis)))


case(
    "MaxPool, Pad of channels, Add",
    lambda g: g(
        "Add", padded(g, g("MaxPool", X, kernel_shape=[3, 3], pads=[1] * 4), 1, 0, 8), conv(g, w=W((16, 8, 3, 3)))
    ),
)
case(
    "Conv, Pad of channels on both sides, Conv",
    lambda g: g("Conv", padded(g, conv(g), 1, 3, 5, scalar(0.5)), W((4, 16, 1, 1))),
)
case(
    "Conv, Pad of channels before, read twice",
    lambda g: g("Add", g("Conv", padded(g, y := conv(g), 1, 8, 0), W((8, 16, 1, 1))), y),
)
case("MatMul, Pad of rows", lambda g: padded(g, g("MatMul", (1, 5, 6), W((6, 7))), 1, 2, 1, scalar(-1.0)))
case("Relu, Pad of the first axis", lambda g: g("Neg", padded(g, g("Relu", (3, 4)), 0, 1, 2)))
case(
    "Conv, Pad of one image's rows, MaxPool",
    lambda g: g("MaxPool", padded(g, conv(g, (1, 8, 5, 6)), 2, 1, 2, scalar(9.0)), kernel_shape=[2, 2]),
)
