"""LSTM, GRU and RNN with every attribute and operand that they may have."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..case import ONNX, ORT, Family
from ..graphs import Weight as W

FAMILY = Family("recurrent")
#: onnx.reference knows only the forward direction without peepholes, lengths or clip.
ORT_ONLY = {"judges": (ORT,), "because": "onnx.reference knows no such form"}
ONNX_ONLY = {"judges": (ONNX,), "because": "ONNX Runtime knows no layout 1"}

#: Operator: gates, states.
FORMS = {"LSTM": (4, 2), "GRU": (3, 1), "RNN": (1, 1)}


def recurrent(
    name: str,
    op: str,
    *,
    time: int = 5,
    batch: int = 2,
    size: int = 3,
    hidden: int = 4,
    bias: bool = True,
    lengths: list[int] | None = None,
    initial: str = "",
    peepholes: bool = False,
    outputs: tuple[bool, ...] = (),
    **attrs: Any,
) -> None:
    """``initial`` says where the first state comes from: "computed", "constant", or nowhere."""
    gates, states = FORMS[op]
    is_batch_first = attrs.get("layout", 0)
    outputs = outputs or (True,) * (1 + states)
    directions = 2 if attrs.get("direction") == "bidirectional" else 1
    state: Any = (batch, directions, hidden) if is_batch_first else (directions, batch, hidden)
    first = {"": None, "computed": state, "constant": W(state)}[initial]
    operands = [
        (batch, time, size) if is_batch_first else (time, batch, size),
        W((directions, gates * hidden, size)),
        W((directions, gates * hidden, hidden)),
        W((directions, 2 * gates * hidden)) if bias else None,
        None if lengths is None else np.array(lengths, np.int32),
        *[first] * states,
        W((directions, 3 * hidden)) if peepholes else None,
    ]
    while operands[-1] is None:
        operands.pop()
    plain = {"layout", "linear_before_reset"}
    is_plain = set(attrs) <= plain and lengths is None and not initial and not peepholes and all(outputs)
    case = ONNX_ONLY if is_batch_first else {} if is_plain else ORT_ONLY
    FAMILY.op(f"{op}, {name}", op, *operands, outputs=outputs, hidden_size=hidden, case=case, **attrs)


def lstm(name: str, **options: Any) -> None:
    recurrent(name, "LSTM", **options)


def gru(name: str, **options: Any) -> None:
    """Both forms of the reset gate."""
    recurrent(name, "GRU", **options)
    recurrent(f"{name}, linear before reset", "GRU", linear_before_reset=1, **options)


def rnn(name: str, **options: Any) -> None:
    recurrent(name, "RNN", **options)


lstm("forward")
lstm("reverse", direction="reverse")
lstm("bidirectional", direction="bidirectional")
lstm("without bias", bias=False)
lstm("of one step", time=1)
lstm("of one item", batch=1, hidden=17, size=9)
lstm("hidden size 32", hidden=32, size=5)
lstm("initial states", initial="computed")
lstm("initial states, bidirectional", initial="computed", direction="bidirectional")
lstm("constant initial states", initial="constant", direction="reverse")
lstm("peepholes", peepholes=True)
lstm("peepholes, bidirectional", peepholes=True, direction="bidirectional", initial="computed")
lstm("lengths", lengths=[3, 5])
lstm("lengths, reverse", lengths=[3, 5], direction="reverse")
lstm("lengths, bidirectional", lengths=[1, 4], direction="bidirectional", initial="computed")
lstm("clip", clip=0.5)
lstm("input_forget", input_forget=1)
lstm("activations", activations=["Sigmoid", "Relu", "Tanh"])
lstm(
    "activations of both directions",
    activations=["Sigmoid", "Tanh", "Tanh", "Sigmoid", "Tanh", "Relu"],
    direction="bidirectional",
)
lstm("everything", lengths=[2, 5], initial="computed", peepholes=True, direction="bidirectional", clip=1.5)
lstm("Y only", outputs=(True, False, False))
lstm("Y_h only", outputs=(False, True, False))
lstm("Y_c only", outputs=(False, False, True), direction="bidirectional")
lstm("Y and Y_c", outputs=(True, False, True))

for declare in (gru, rnn):
    count = 2 if declare is gru else 1
    declare("forward")
    declare("reverse", direction="reverse")
    declare("bidirectional", direction="bidirectional")
    declare("without bias", bias=False)
    declare("of one step", time=1)
    declare("of one item", batch=1, hidden=17, size=9)
    declare("hidden size 32", hidden=32, size=5)
    declare("initial state", initial="computed")
    declare("initial state, bidirectional", initial="computed", direction="bidirectional")
    declare("constant initial state", initial="constant", direction="reverse")
    declare("lengths", lengths=[3, 5])
    declare("lengths, reverse", lengths=[3, 5], direction="reverse")
    declare("lengths, bidirectional", lengths=[1, 4], direction="bidirectional", initial="computed")
    declare("clip", clip=0.5)
    declare("activations", activations=["HardSigmoid", "Relu"][:count])
    declare("Y only", outputs=(True, False))
    declare("Y_h only", outputs=(False, True), direction="bidirectional")

# ---- layout 1, of which onnx.reference knows the forward direction
for declare in (lstm, gru, rnn):
    declare("batch first", layout=1)
    declare("batch first, one item", layout=1, batch=1)

# ---- every activation, with its default parameters where ONNX Runtime has ONNX's, and with others
for name, alpha, beta in (
    ("Affine", 0.5, 0.25),
    ("LeakyRelu", 0.3, None),
    ("ThresholdedRelu", 0.2, None),
    ("ScaledTanh", 0.5, 2.0),
    ("HardSigmoid", 0.3, 0.4),
    ("Elu", 0.7, None),
    ("Softsign", None, None),
    ("Softplus", None, None),
):
    if name not in ("Affine", "ThresholdedRelu", "ScaledTanh"):
        rnn(f"activation {name}", activations=[name])
    if alpha is not None:
        betas = None if beta is None else [beta]
        rnn(f"activation {name}, parameters", activations=[name], activation_alpha=[alpha], activation_beta=betas)
lstm(
    "parameters of some activations",
    activations=["HardSigmoid", "Tanh", "LeakyRelu"],
    activation_alpha=[0.3, 0.125],
    activation_beta=[0.4],
)
