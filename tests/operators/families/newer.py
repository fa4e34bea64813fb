"""Operators that ONNX added or extended after the opset of graphs, and previews of others."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper

from ..case import ONNX, Family
from ..graphs import Array, Graph
from ..graphs import Weight as W

FAMILY = Family("newer", opset=28)
op = FAMILY.op
case = FAMILY.graph

ONNX_ONLY = {"judges": (ONNX,), "because": "ONNX Runtime knows no such operator"}

# ---- operators

for axis in (0, 1, -1):
    op(f"CumProd, axis {axis}", "CumProd", (3, 5, 70), W(np.array(axis)))
    op(f"CumProd, axis {axis} of int64", "CumProd", np.arange(1, 25).reshape(2, 3, 4), W(np.array(axis)), reverse=1)
for flags in ({"exclusive": 1}, {"reverse": 1}, {"exclusive": 1, "reverse": 1}):
    op(f"CumProd, {' and '.join(flags)}", "CumProd", (4, 9), np.array(1), **flags)
op("CumProd, an axis that is data", "CumProd", (4, 9), np.array(-2, np.int32), exclusive=1)
for mode in ("DCR", "CRD"):
    op(f"SpaceToDepth, {mode}", "SpaceToDepth", np.arange(96).reshape(2, 2, 4, 6), blocksize=2, mode=mode)
case("SpaceToDepth, CRD, after a Conv", lambda g: g(
    "SpaceToDepth", g("Conv", (1, 3, 6, 6), W((4, 3, 3, 3)), pads=[1] * 4), blocksize=3, mode="CRD"))  # fmt: skip
for dtype in (np.float16, np.float32, np.float64):
    dividends = np.array([-4.25, 7, 5, 4.25, -7, 8, 0.0, -0.0, -3, 3, np.inf, -np.inf, 1, np.nan, 1, 6, -6], dtype)
    divisors = np.array([2.5, -3.5, 8, -2.5, 3.5, 5, -2, 2, np.inf, -np.inf, 2, 2, -0.0, 1, np.nan, -3, 3], dtype)
    judge = {"judges": (ONNX,), "because": "ONNX Runtime takes floats with fmod only"}
    op(f"Mod, {dtype.__name__}, sign of the divisor", "Mod", dividends, divisors, case=judge)
op("SwiGLU", "SwiGLU", (3, 70), (3, 70), case=ONNX_ONLY)
op("SwiGLU, alpha", "SwiGLU", (3, 7), (3, 7), alpha=1.7, case=ONNX_ONLY)
op("Attention, mask of rank 1", "Attention", *[(2, 3, 5, 4)] * 3, np.array([1, 1, 0, 1, 0], bool), left_window_size=2)


# ---- FlexAttention: by the operators that its definition makes of it
def modifier(*nodes: tuple[str, tuple[str, ...], dict[str, Any]], **constants: Array) -> Any:
    """The body that makes scores or probabilities of ``x``; a node's output is called after its operator."""
    made = [helper.make_node(op, inputs, [op], name=op, **attrs) for op, inputs, attrs in nodes]
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["B", "H", "L", "S"])
        for name in ("x", made[-1].output[0])
    )
    initial = [
        helper.make_tensor(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape, a.ravel())
        for name, a in constants.items()
    ]
    return helper.make_graph(made, "modifier", [x], [y], initial)


flex = "FlexAttention"
FLEX: dict[str, Any] = {"domain": "ai.onnx.preview", "case": ONNX_ONLY}
QKV = (2, 4, 5, 8), (2, 4, 7, 8), (2, 4, 7, 6)
CAP = modifier(
    ("Div", ("x", "cap"), {}), ("Tanh", ("Div",), {}), ("Mul", ("Tanh", "cap"), {}), cap=np.array(2, np.float32)
)
MASK = modifier(
    ("Where", ("seen", "x", "least"), {}), seen=np.tril(np.ones((5, 7), bool)), least=np.array(-np.inf, np.float32)
)
HALVED = modifier(("Mul", ("x", "half"), {}), half=np.array(0.5, np.float32))
EXPORTED = modifier(
    ("Div", ("x", "/score/cap.1"), {}), ("Tanh", ("Div",), {}), **{"/score/cap.1": np.array(2, np.float32)}
)
op("FlexAttention", flex, *QKV, **FLEX)
op("FlexAttention, scale", flex, *QKV, scale=0.3, **FLEX)
op("FlexAttention, grouped heads", flex, (2, 4, 5, 8), (2, 2, 7, 8), (2, 2, 7, 6), **FLEX)
op("FlexAttention, capped scores", flex, *QKV, score_mod=CAP, **FLEX)
op("FlexAttention, names as exporters write them", flex, *QKV, score_mod=EXPORTED, **FLEX)
op("FlexAttention, masked scores", flex, *QKV, score_mod=MASK, **FLEX)
op("FlexAttention, both modifiers", flex, *QKV, score_mod=CAP, prob_mod=HALVED, **FLEX)


# ---- states of fixed size
def linear(
    name: str,
    rule: str,
    b: int = 2,
    t: int = 5,
    heads: int = 3,
    group: int = 1,
    depth: int = 8,
    width: int = 6,
    decays: int | None = None,
    rates: int | None = None,
    past: bool = True,
    used: slice = slice(2),
    options: dict[str, Any] | None = None,
    **attrs: Any,
) -> None:
    """``decays`` and ``rates`` of a token; None for one a head."""

    def build(g: Graph) -> Any:
        key = g.draw(b, t, heads, depth)
        key /= np.linalg.norm(key, axis=-1, keepdims=True)
        decay = -np.abs(g.draw(b, t, heads if decays is None else decays)) if "gated" in rule else None
        beta = 1 / (1 + np.exp(g.draw(b, t, heads if rates is None else rates))) if "delta" in rule else None
        state = (b, heads, depth, width) if past else None
        operands = [
            (b, t, heads * group * depth),
            key.reshape(b, t, heads * depth),
            (b, t, heads * width),
            state,
            decay,
            beta,
        ]
        while operands[-1] is None:
            operands.pop()
        heads_of = {"q_num_heads": heads * group, "kv_num_heads": heads}
        return g("LinearAttention", *operands, outputs=2, update_rule=rule, **heads_of, **attrs)[used]

    case(f"LinearAttention, {name}", build, **(options or {}))


for rule in ("linear", "gated", "delta", "gated_delta"):
    linear(rule, rule)
    linear(f"{rule}, one token", rule, t=1, width=70)
    linear(f"{rule}, no past", rule, past=False, depth=3)
linear("decay by component", "gated_delta", decays=24, depth=8)
linear("decay by component, many", "gated", heads=1, decays=75, depth=75, width=33)
linear("one rate", "delta", rates=1)
linear("grouped heads", "gated_delta", group=4, width=40)
linear("one head of keys", "delta", heads=1, group=3)
linear("scale", "linear", scale=0.7)
linear("a state that nobody reads", "gated_delta", used=slice(1))
linear("a result that nobody reads", "gated_delta", used=slice(1, 2))
linear("long", "gated_delta", b=1, t=130, heads=2, depth=64, width=64)
linear("no token", "gated", t=0, options={"judges": (ONNX,), "because": "ONNX Runtime cannot reshape nothing"})

SHAPES = {
    "prefill": (2, 11, 21),
    "one step": (2, 11, 1),
    "shorter than the kernel": (1, 3, 2),
    "one channel": (1, 1, 9),
}
for text, (b, c, t) in SHAPES.items():
    for taps in (1, 4):
        conv = "CausalConvWithState"
        op(f"{conv}, {text}, {taps} taps", conv, (b, c, t), W((c, 1, taps)), outputs=2)
        operands = (b, c, t), (c, 1, taps), (c,), (b, c, taps - 1)
        op(f"{conv}, {text}, {taps} taps, everything", conv, *operands, outputs=2, activation="silu")
op("CausalConvWithState, many taps", "CausalConvWithState", (1, 5, 30), W((5, 1, 19)), W((5,)), (1, 5, 18), outputs=2)
case(
    "CausalConvWithState, a state that nobody reads",
    lambda g: g("CausalConvWithState", (1, 5, 9), W((5, 1, 3)), outputs=2, activation="swish")[:1],
)
