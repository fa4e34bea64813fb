"""16-bit floats: one operator's result is rounded, what happens inside it is not."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from ..case import ONNX, ORT, Family
from ..graphs import Array, Graph
from ..graphs import Weight as W

FAMILY = Family("halves")

RNG = np.random.default_rng(3)
LOOSE = {"tolerance": 2e-3}
BY_ORT = {"judges": (ORT,), "because": "onnx.reference rounds every sum", **LOOSE}
BY_ONNX = {"judges": (ONNX,), "because": "ONNX Runtime lacks the type", **LOOSE}


def half(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float16)


def op(name: str, *operands: Any, text: str = "", case: Any = BY_ORT, **options: Any) -> None:
    FAMILY.op(f"{name}{text}", name, *operands, case=case, **options)


op("ReduceMean", half(3, 40), W(np.array([1])))
op("ReduceMax", half(3, 40), W(np.array([0])), keepdims=0, case=LOOSE)
op("Softmax", half(3, 40))
op("LogSoftmax", half(3, 40))
op("ArgMax", half(3, 40), axis=1, case=LOOSE)
op("TopK", half(3, 40), W(np.array([3])), outputs=2, case=LOOSE)
op("CumSum", half(3, 9), W(np.array(1)), case=BY_ONNX)
op("MatMul", half(3, 40), half(40, 9))
op("MatMul", half(3, 40), W(half(40, 50)), text=", a large constant")
op("Gemm", half(3, 40), W(half(50, 40)), W(half(50)), transB=1)
op("Conv", half(1, 3, 8, 8), W(half(4, 3, 3, 3)), W(half(4)))
op("Conv", half(1, 16, 8, 8), W(half(16, 16, 3, 3)), text=", many weights")
op("ConvTranspose", half(1, 3, 5, 5), W(half(3, 4, 3, 3)))
op("MaxPool", half(1, 3, 6, 6), kernel_shape=[2, 2])
op("AveragePool", half(1, 3, 6, 6), kernel_shape=[2, 2])
op("GlobalAveragePool", half(1, 3, 6, 6))
op("LayerNormalization", half(3, 40), W(half(40)), W(half(40)))
op("InstanceNormalization", half(2, 3, 9), W(half(3)), W(half(3)))
op("BatchNormalization", half(2, 3, 9), W(half(3)), W(half(3)), W(half(3)), W(np.abs(half(3)) + np.float16(1)))
op("Resize", half(1, 2, 4, 4), None, W(np.array([1, 1, 2, 2], np.float32)), mode="linear")
op("LSTM", half(4, 2, 3), W(half(1, 16, 3)), W(half(1, 16, 4)), outputs=3, hidden_size=4)
op("ScatterElements", half(3, 4), np.array([[0, 1, 2, 0]]), half(1, 4), reduction="add", case=BY_ONNX)
op("ScatterND", half(3, 4), W(np.array([[2], [0]])), half(2, 4), case=LOOSE)
op("GatherND", half(3, 4), W(np.array([[2], [0]])), case=LOOSE)
op("Einsum", half(3, 4), half(4, 5), equation="ij,jk->ik")
op("Unique", np.array([1, 0.5, 1, -2], np.float16), case=BY_ONNX)
op("MatMul", np.full((2, 9), 300, np.float16), np.full((9, 2), 300, np.float16), text=", beyond the range")


# ---- elementwise operators, to the last bit: a processor that computes float16 gives what float32 rounded once does
EXACT = {"tolerance": 0.0}


def bits(count: int = 1003) -> Array:
    """Numbers of all kinds: subnormal, infinite, none at all."""
    return RNG.integers(0, 1 << 16, count, np.uint16).view(np.float16)


def near(scale: float, count: int = 1003) -> Array:
    """Numbers whose sums and quotients keep digits of both."""
    return (RNG.standard_normal(count) * scale).astype(np.float16)


for name in ("Add", "Sub", "Mul", "Div", "Max", "Min"):
    op(name, bits(), bits(), text=", any bits", case=EXACT)
    op(name, near(1), near(1), text=", near each other", case=EXACT)
    op(name, near(1e-4), near(1e-6 if name in ("Add", "Sub") else 3e4), text=", near the least", case=EXACT)
for name in ("Less", "GreaterOrEqual", "Equal"):
    op(name, bits(), bits(), case=EXACT)
for name in ("Abs", "Neg", "Floor", "Ceil", "Round", "Relu", "Sqrt", "Reciprocal"):
    op(name, bits(), case=EXACT)
op("Sign", near(1), case=EXACT)
op("Round", np.arange(-6, 6, 0.25, dtype=np.float16), text=" to even", case=EXACT)
op("Clip", bits(), W(np.array(-2, np.float16)), W(np.array(0.1, np.float16)), case=EXACT)
op("Where", W(np.arange(1003) % 3 == 0), bits(), bits(), case=EXACT)
op("LeakyRelu", near(2), alpha=0.125, case=EXACT)
op("LeakyRelu", near(2), text=", a slope that is no half", alpha=0.1, case=LOOSE)
op("PRelu", near(2), near(2), case=EXACT)
op("HardSwish", near(3), case=LOOSE)
op("Mean", near(3), near(2), near(1), case=LOOSE)


def chain(g: Graph) -> str:
    """Steps of one loop that float16 and float32 share."""
    x, y = g.input(near(1)), g.input(near(1))
    z = g("Sub", g("Add", g("Mul", x, W(np.array(1.5, np.float16))), y), x)
    z = g("Relu", g("Max", g("Sqrt", g("Abs", g("Div", z, y))), y))
    return g("Mul", g("Tanh", g("Neg", g("Min", z, W(np.array(6, np.float16))))), g("Floor", y))


FAMILY.graph("a chain", chain, judges=(ONNX,), because="ONNX Runtime rounds the end only", tolerance=2e-3)


def block(g: Graph) -> str:
    """What a network in 16 bits is made of, end to end."""
    x = g("Conv", g.input(half(1, 3, 8, 8)), W(half(16, 3, 3, 3)), pads=[1] * 4)
    x = g("Relu", g("Add", x, W(half(16, 1, 1))))
    x = g("GlobalAveragePool", x)
    x = g("MatMul", g("Reshape", x, W(np.array([1, 16]))), W(half(16, 80)))
    x = g("Add", g("Mul", x, g("Sigmoid", x)), W(half(80)))
    return g("Softmax", g("MatMul", g("LayerNormalization", x, W(half(80))), W(half(80, 10))))


def brain_floats(g: Graph) -> str:
    """bfloat16 inside, since numpy has no such inputs."""
    x = g("Cast", g.input((3, 40)), to=TensorProto.BFLOAT16)
    y = g("Cast", g.input((40, 5)), to=TensorProto.BFLOAT16)
    return g("Cast", g("Mul", g("MatMul", x, y), g("ReduceMax", x, W(np.array([1])))), to=TensorProto.FLOAT)


def made_of_constants(g: Graph) -> str:
    """A loop without operands: ONNX Runtime computes no bfloat16, so it stays for the run."""
    x = g("Cast", g.input((3, 40)), to=TensorProto.BFLOAT16)
    factor = g("Cast", g("Sqrt", W(np.array([0.3], np.float32))), to=TensorProto.BFLOAT16)
    return g("Cast", g("Mul", x, factor), to=TensorProto.FLOAT)


FAMILY.graph("made of constants", made_of_constants, judges=(ONNX,), because="ONNX Runtime lacks the type")
FAMILY.graph("a block", block, judges=(ORT,), because="onnx.reference rounds every sum", tolerance=1e-2)
FAMILY.graph("bfloat16", brain_floats, judges=(ONNX,), because="ONNX Runtime lacks the type", tolerance=2e-2)
