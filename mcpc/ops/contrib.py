"""ONNX Runtime's own operators, which its optimiser saves to disk (domain com.microsoft): each is declared by the
ai.onnx operators that it stands for. The reader puts these in its place (:mod:`mcpc.contrib`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from mcpc.ir import MCPC, DType, Graph, Node, TensorType, Value
from mcpc.ops.context import InferContext, attribute, axis_of, choice, fail, number
from mcpc.ops.inference import infer_node
from mcpc.ops.registry import ACCUMULATED, OpDef, moves, register

DOMAIN = "com.microsoft"


class Expansion:
    """Collects the nodes that an operator stands for; their types are inferred as they are added."""

    def __init__(self, node: Node, context: InferContext, graph: Graph) -> None:
        self.node = node
        self.context = context
        self.graph = graph
        self.nodes: list[Node] = []

    def __call__(self, op: str, *inputs: Value | None, **attrs: Any) -> Value:
        return self.several(op, 1, *inputs, **attrs)[0]

    def several(self, op: str, outputs: int | Sequence[bool], *inputs: Value | None, **attrs: Any) -> list[Value]:
        """The outputs of a new node; ``outputs`` says how many, or which it has."""
        asked = [True] * outputs if isinstance(outputs, int) else outputs
        name = self.graph.fresh(f"{self.node.name}.{op}")
        names = [name, *(self.graph.fresh(name) for _ in asked[1:])]
        made = [Value(n, TensorType(DType.float32, None)) if a else None for n, a in zip(names, asked, strict=True)]
        node = Node(op, inputs, made, attrs, name)
        infer_node(node, self.context)
        self.nodes.append(node)
        return [value for value in made if value is not None]

    def fused(self, kind: str, body: Graph, *inputs: Value) -> Value:
        """The output of a new node that computes what ``body`` does."""
        output = Value(self.graph.fresh(f"{self.node.name}.{kind}"), TensorType(DType.float32, None))
        node = Node("Fused", inputs, [output], {"kind": kind, "body": body}, output.name, MCPC)
        infer_node(node, self.context)
        self.nodes.append(node)
        return output

    def ints(self, *items: int) -> Value:
        return self.graph.constant(f"{self.node.name}.ints", np.array(items, np.int64))

    def scalar(self, number: float, like: Value) -> Value:
        """``number`` in the type of ``like``."""
        return self.graph.constant(f"{self.node.name}.scalar", np.array(number, like.dtype.numpy))

    def size(self, value: Value, axis: int) -> Value:
        """One size of ``value``, [1]."""
        return self("Shape", value, start=axis, end=axis + 1)

    def input(self, index: int) -> Value:
        value = self.node.input(index)
        if value is None:
            fail(self.node, f"input {index} is missing")
        return value

    def number(self, name: str, default: float) -> float:
        return number(self.node, name, default)

    def is_asked(self, index: int) -> bool:
        return index < len(self.node.outputs) and self.node.outputs[index] is not None

    def refuse(self, what: str) -> NoReturn:
        fail(self.node, f"{self.node.op} with {what} is not supported", "E102")


Build = Callable[[Expansion], Sequence[Value | None]]


@dataclass(frozen=True)
class Contrib(OpDef):
    """``build(expansion)`` gives what stands for the operator's outputs, None for one that nobody asks for."""

    build: Build | None = None

    def applies(self, node: Node) -> bool:
        """Whether a node of the operator is replaced."""
        return True

    def expand(self, node: Node, context: InferContext, graph: Graph) -> tuple[list[Node], Sequence[Value | None]]:
        assert self.build is not None
        expansion = Expansion(node, context, graph)
        outputs = self.build(expansion)
        return expansion.nodes, outputs


def stands_for(*names: str, domain: str = DOMAIN, versions: tuple[int, int] = (1, 1)) -> Callable[[Build], Build]:
    """Declare operators by the function that builds what they stand for."""

    def declare(build: Build) -> Build:
        def infer(node: Node, context: InferContext) -> list[TensorType]:
            outputs = Contrib("", infer, moves, ACCUMULATED, build=build).expand(node, context, Graph(""))[1]
            return [TensorType(DType.float32, None) if value is None else value.type for value in outputs]

        register(*(Contrib(name, infer, moves, ACCUMULATED, versions, domain, build=build) for name in names))
        return build

    return declare


# ---- products


def _factor(e: Expansion, index: int) -> Value:
    """A or B: its batches moved to the front from behind the first axis, its last two axes exchanged."""
    x, name = e.input(index), "AB"[index]
    rank = x.type.rank
    if rank is None:
        fail(e.node, f"the rank of %{x.name} is not known", "E108")
    perm = list(range(rank))
    if attribute(e.node, f"transBatch{name}", 0) and rank > 2:
        perm = [*perm[1:-1], 0, perm[-1]]
    if attribute(e.node, f"trans{name}", 0) and rank > 1:
        perm[-2:] = perm[:-3:-1]
    return x if perm == list(range(rank)) else e("Transpose", x, perm=perm)


@stands_for("FusedMatMul", "TransposeMatMul")
def fused_matmul(e: Expansion) -> Sequence[Value | None]:
    """alpha A' B'."""
    product, alpha = e("MatMul", _factor(e, 0), _factor(e, 1)), e.number("alpha", 1.0)
    return [product if alpha == 1.0 else e("Mul", product, e.scalar(alpha, product))]


@stands_for("MatMulInteger16")
def matmul_integer16(e: Expansion) -> Sequence[Value | None]:
    return [e("MatMul", *(e("Cast", e.input(index), to=DType.int32) for index in range(2)))]


#: Activations by the names of their parameters.
_ACTIVATIONS: dict[str, tuple[str, ...]] = {
    "Relu": (), "Sigmoid": (), "Tanh": (), "Softplus": (), "Softsign": (), "Elu": ("alpha",), "LeakyRelu": ("alpha",),
    "ThresholdedRelu": ("alpha",), "HardSigmoid": ("alpha", "beta"), "Selu": ("alpha", "gamma"), "Clip": (),
}  # fmt: skip


def _activated(e: Expansion, x: Value, parameters: Sequence[float]) -> Value:
    if "activation" not in e.node.attrs:
        return x
    name = choice(e.node, "activation", "", list(_ACTIVATIONS))
    if name == "Clip":
        return e("Clip", x, *(e.scalar(number, x) for number in parameters))
    return e(name, x, **dict(zip(_ACTIVATIONS[name], map(float, parameters), strict=False)))


@stands_for("FusedConv")
def fused_conv(e: Expansion) -> Sequence[Value | None]:
    """activation(Conv(X, W, B) + Z)."""
    attrs = {name: value for name, value in e.node.attrs.items() if not name.startswith("activation")}
    result, z = e("Conv", e.input(0), e.input(1), e.node.input(2), **attrs), e.node.input(3)
    if z is not None:
        result = e("Add", result, z)
    return [_activated(e, result, e.node.attrs.get("activation_params", []))]


@stands_for("FusedGemm")
def fused_gemm(e: Expansion) -> Sequence[Value | None]:
    attrs = {name: value for name, value in e.node.attrs.items() if not name.startswith("activation")}
    names = [f"activation_{name}" for name in _ACTIVATIONS.get(str(e.node.attrs.get("activation")), ())]
    result = e("Gemm", e.input(0), e.input(1), e.node.input(2), **attrs)
    return [_activated(e, result, [e.number(name, 0.0) for name in names if name in e.node.attrs])]


# ---- activations


@stands_for("Gelu")
def gelu(e: Expansion) -> Sequence[Value | None]:
    return [e("Gelu", e.input(0))]


@stands_for("BiasGelu")
def bias_gelu(e: Expansion) -> Sequence[Value | None]:
    return [e("Gelu", e("Add", e.input(0), e.input(1)))]


@stands_for("FastGelu")
def fast_gelu(e: Expansion) -> Sequence[Value | None]:
    x, bias = e.input(0), e.node.input(1)
    return [e("Gelu", x if bias is None else e("Add", x, bias), approximate="tanh")]


@stands_for("QuickGelu")
def quick_gelu(e: Expansion) -> Sequence[Value | None]:
    """x sigmoid(alpha x)."""
    x = e.input(0)
    return [e("Mul", x, e("Sigmoid", e("Mul", x, e.scalar(e.number("alpha", 1.702), x))))]


@stands_for("BiasDropout")
def bias_dropout(e: Expansion) -> Sequence[Value | None]:
    if e.is_asked(1):
        e.refuse("a mask")
    result, residual = e("Add", e.input(0), e.input(1)), e.node.input(2)
    return [result if residual is None else e("Add", result, residual)]


# ---- normalisation


def _summed(e: Expansion, bias: int) -> Value:
    """Input, skip and bias."""
    total = e("Add", e.input(0), e.input(1))
    more = e.node.input(bias)
    return total if more is None else e("Add", total, more)


@stands_for("SkipLayerNormalization")
def skip_layer_normalization(e: Expansion) -> Sequence[Value | None]:
    total = _summed(e, 4)
    count = 3 if e.is_asked(1) or e.is_asked(2) else 1
    parameters = e.input(2), e.node.input(3)
    outputs = e.several("LayerNormalization", count, total, *parameters, epsilon=e.number("epsilon", 1e-12))
    return [*outputs, *[None] * (3 - count), total]


@stands_for("SkipSimplifiedLayerNormalization")
def skip_rms_normalization(e: Expansion) -> Sequence[Value | None]:
    if e.is_asked(1) or e.is_asked(2):
        e.refuse("statistics")
    total = _summed(e, 3)
    return [e("RMSNormalization", total, e.input(2), epsilon=e.number("epsilon", 1e-12)), None, None, total]


@stands_for("SimplifiedLayerNormalization")
@stands_for("SimplifiedLayerNormalization", domain="")
def rms_normalization(e: Expansion) -> Sequence[Value | None]:
    """RMSNormalization, and what it divides by: 1 / sqrt(mean of squares + epsilon)."""
    x, axis, epsilon = e.input(0), attribute(e.node, "axis", -1), e.number("epsilon", 1e-5)
    result = e("RMSNormalization", x, e.input(1), axis=axis, epsilon=epsilon)
    if not e.is_asked(1):
        return [result]
    if x.type.rank is None:
        fail(e.node, f"the rank of %{x.name} is not known", "E108")
    wide = x if x.dtype is DType.float64 else e("Cast", x, to=DType.float32)
    axes = e.ints(*range(axis_of(e.node, axis, x.type.rank), x.type.rank))
    mean = e("ReduceMean", e("Mul", wide, wide), axes, keepdims=1)
    return [result, e("Reciprocal", e("Sqrt", e("Add", mean, e.scalar(epsilon, mean))))]


@stands_for("EmbedLayerNormalization")
def embed_layer_normalization(e: Expansion) -> Sequence[Value | None]:
    tables = [e.node.input(index) for index in range(2, 7)]
    return embedded(e, tables, e.node.input(8))


def embedded(e: Expansion, tables: Sequence[Value | None], positions: Value | None) -> Sequence[Value | None]:
    """Words, positions and segments, looked up, summed and normalised; the number of words as mask_index; the sum.
    ``tables`` are the three, scale and bias."""
    words, places, kinds, gamma, beta = tables
    ids, segments, mask = e.input(0), e.node.input(1), e.node.input(7)
    total = e("Gather", words, ids, axis=0)
    if positions is None:
        total = e("Add", total, e("Slice", places, e.ints(0), e.size(ids, 1), e.ints(0)))
    else:
        total = e("Add", total, e("Gather", places, positions, axis=0))
    if segments is not None:
        total = e("Add", total, e("Gather", kinds, segments, axis=0))
    result = e("LayerNormalization", total, gamma, beta, epsilon=e.number("epsilon", 1e-12))
    if not e.is_asked(1):
        return [result, None, total]
    counted = e("Sub", ids, ids) if mask is None else mask
    return [result, e("ReduceSum", counted, e.ints(1), keepdims=0), total]
