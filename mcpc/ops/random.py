"""Operators that draw random numbers.

Each node has a stream of its own, which goes on from run to run of a session and begins anew in a new one, or when its
state is reset. With the attribute ``seed`` the stream is the same in every session and on every processor; without it
each session has another. Neither is ONNX Runtime's, nor secret.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcpc.ir import OPSET, DType, Graph, Node, TensorType, Value, dim
from mcpc.ops.context import FLOATS, InferContext, attribute, expect, expect_rank, fail, number, type_of
from mcpc.ops.contrib import Expansion, stands_for
from mcpc.ops.registry import EXACT, Cost, OpDef, moves, register, traffic

#: The operators that nodes are of once a graph is read; Bernoulli and Dropout are expressed by them.
RANDOM = ("Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")


def random_node(graph: Graph) -> Node | None:
    """A node of ``graph`` that draws, None where there is none."""
    return next((node for node in graph.all_nodes() if node.is_op(*RANDOM)), None)


def _float_type(node: Node, default: DType) -> DType:
    dtype = node.attrs.get("dtype", default)
    if not isinstance(dtype, DType) or dtype not in FLOATS:
        fail(node, "attribute dtype names no type of random numbers", "E109")
    for name in ("mean", "scale") if node.op.startswith("RandomNormal") else ("low", "high"):
        number(node, name, 0.0)
    return dtype


def infer_random(node: Node, context: InferContext) -> list[TensorType]:
    """No input; the attributes ``shape`` and ``dtype`` say what the result is."""
    shape = node.attrs.get("shape")
    if not isinstance(shape, list | tuple) or any(not isinstance(size, int) or size < 0 for size in shape):
        fail(node, f"attribute shape is {shape!r}", "E102")
    return [TensorType(_float_type(node, DType.float32), tuple(shape))]


def infer_random_like(node: Node, context: InferContext) -> list[TensorType]:
    """X, of whose shape the result is, and of whose type without ``dtype``."""
    x = type_of(node, 0)
    return [TensorType(_float_type(node, x.dtype), x.shape)]


def infer_multinomial(node: Node, context: InferContext) -> list[TensorType]:
    """Logarithms of probabilities, up to a common factor, [B, C] → classes [B, sample_size]."""
    x = expect(node, 0, FLOATS)
    expect_rank(node, 0, 2)
    dtype, count = node.attrs.get("dtype", DType.int32), attribute(node, "sample_size", 1)
    if dtype not in (DType.int32, DType.int64):
        fail(node, "attribute dtype is neither int32 nor int64", "E109")
    if count < 1:
        fail(node, f"attribute sample_size is {count}", "E102")
    if x.shape is None:
        return [TensorType(dtype, None)]
    if x.shape[1] == 0:
        fail(node, "there is no class to choose")
    return [TensorType(dtype, (x.shape[0], count))]


def cost_multinomial(node: Node) -> Cost:
    return Cost(dim(15 * type_of(node, 0).elements + 30 * node.output.type.elements), traffic(node))


def seed_of(node: Node) -> dict[str, Any]:
    """The seed of a node as an attribute for another."""
    return {"seed": number(node, "seed", 0.0)} if "seed" in node.attrs else {}


@stands_for("Bernoulli", domain="", versions=(15, OPSET))
def bernoulli(e: Expansion) -> Sequence[Value | None]:
    """Whether a number out of [0, 1) is below x."""
    x, dtype = e.input(0), e.node.attrs.get("dtype")
    if x.dtype not in FLOATS:
        fail(e.node, f"input 0 is {x.dtype.name}, which Bernoulli does not take")
    wide = x.dtype if x.dtype is DType.float64 else DType.float32  # 16 bits tell few probabilities apart
    drawn = e("RandomUniformLike", x, dtype=wide, **seed_of(e.node))
    is_below = e("Less", drawn, x if x.dtype is wide else e("Cast", x, to=wide))
    return [e("Cast", is_below, to=x.dtype if dtype is None else dtype)]


register(
    OpDef("RandomNormal", infer_random, moves, EXACT),
    OpDef("RandomUniform", infer_random, moves, EXACT),
    OpDef("RandomNormalLike", infer_random_like, moves, EXACT),
    OpDef("RandomUniformLike", infer_random_like, moves, EXACT),
    OpDef("Multinomial", infer_multinomial, cost_multinomial, EXACT, (7, OPSET)),
)
