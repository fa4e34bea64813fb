"""LSTM, GRU and RNN with every attribute and operand that they may have."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import numpy as np

from ..case import ONNX, ORT, Family
from ..graphs import Array
from ..graphs import Weight as W

FAMILY = Family("recurrent")
#: onnx.reference knows only the forward direction without peepholes, lengths or clip.
ORT_ONLY = {"judges": (ORT,), "because": "onnx.reference knows no such form"}
ONNX_ONLY = {"judges": (ONNX,), "because": "ONNX Runtime knows no layout 1"}
DOUBLE = {"judges": (ONNX,), "because": "ONNX Runtime knows no float64", "tolerance": 1e-12}

#: Operator: gates, states.
FORMS = {"LSTM": (4, 2), "GRU": (3, 1), "RNN": (1, 1)}


def typed(name: str, operand: Any, dtype: type) -> Any:
    """``operand`` with numbers of this type, drawn anew where it is a shape; lengths stay as they are."""
    if operand is None or isinstance(operand, np.ndarray):
        return operand
    shape = operand.values if isinstance(operand, W) else operand
    drawn: Array = np.random.default_rng([crc32(name.encode()), *shape]).standard_normal(shape).astype(dtype)
    return W(drawn) if isinstance(operand, W) else drawn


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
    computed: str = "",
    dtype: type = np.float32,
    **attrs: Any,
) -> None:
    """``initial`` says where the first state comes from: "computed", "constant", or nowhere. ``computed`` names those
    of W, R, B and P that are not constant."""
    gates, states = FORMS[op]
    is_batch_first = attrs.get("layout", 0)
    outputs = outputs or (True,) * (1 + states)
    directions = 2 if attrs.get("direction") == "bidirectional" else 1
    state: Any = (batch, directions, hidden) if is_batch_first else (directions, batch, hidden)
    first = {"": None, "computed": state, "constant": W(state)}[initial]

    def weight(name: str, *shape: int) -> Any:
        return (directions, *shape) if name in computed else W((directions, *shape))

    operands = [
        (batch, time, size) if is_batch_first else (time, batch, size),
        weight("W", gates * hidden, size),
        weight("R", gates * hidden, hidden),
        weight("B", 2 * gates * hidden) if bias else None,
        None if lengths is None else np.array(lengths, np.int32),
        *[first] * states,
        weight("P", 3 * hidden) if peepholes else None,
    ]
    while operands[-1] is None:
        operands.pop()
    if dtype is not np.float32:
        operands = [typed(f"{op}, {name}", operand, dtype) for operand in operands]
    plain = {"layout", "linear_before_reset"}
    is_plain = set(attrs) <= plain and lengths is None and not initial and not peepholes and all(outputs)
    case = DOUBLE if dtype is np.float64 else ONNX_ONLY if is_batch_first else {} if is_plain else ORT_ONLY
    if dtype is np.float16:
        case = {**case, "tolerance": 2e-3}
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

# ---- weights that are not constant, with the attributes that their packing depends on
lstm("W and R are inputs", computed="WR")
lstm("all are inputs", computed="WRBP", peepholes=True, direction="bidirectional", initial="computed", lengths=[3, 5])
lstm("R is an input", computed="R", direction="reverse", hidden=17, size=9)
lstm("all are inputs, batch first", computed="WRB", layout=1)
lstm("inputs, clip and input_forget", computed="WRB", clip=0.5, input_forget=1)
gru("W and R are inputs", computed="WR", bias=False)
gru("all are inputs", computed="WRB", direction="bidirectional", initial="computed", lengths=[2, 5], hidden=9)
gru("B is an input", computed="B")
rnn("all are inputs", computed="WRB", direction="bidirectional", activations=["Relu", "Elu"], activation_alpha=[0.7])
rnn("W is an input", computed="W", batch=1, hidden=17)
for declare in (lstm, gru, rnn):
    declare("an item without steps", lengths=[0, 4], initial="computed")

# ---- other types
for declare in (lstm, gru, rnn):
    declare("float16", dtype=np.float16, direction="bidirectional")
    declare("float16, all are inputs", dtype=np.float16, computed="WRB")
    declare("float64", dtype=np.float64, direction="bidirectional", hidden=9)
    declare("float64, all are inputs", dtype=np.float64, computed="WRB")
    declare("float64, batch first", dtype=np.float64, layout=1, computed="R")
lstm("float64, peepholes and states", dtype=np.float64, peepholes=True, initial="computed")
