"""LSTM with every attribute and operand that it may have."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..case import ORT, Family
from ..graphs import Weight as W

FAMILY = Family("recurrent")
#: onnx.reference knows only the forward direction without peepholes, lengths or clip.
ORT_ONLY = {"judges": (ORT,), "because": "onnx.reference knows no such LSTM"}


def lstm(
    name: str,
    *,
    time: int = 5,
    batch: int = 2,
    size: int = 3,
    hidden: int = 4,
    bias: bool = True,
    lengths: list[int] | None = None,
    initial: str = "",
    peepholes: bool = False,
    outputs: tuple[bool, bool, bool] = (True, True, True),
    **attrs: Any,
) -> None:
    """``initial`` says where the first state comes from: "computed", "constant", or nowhere."""
    directions = 2 if attrs.get("direction") == "bidirectional" else 1
    state: Any = (directions, batch, hidden)
    first = {"": None, "computed": state, "constant": W(state)}[initial]
    operands = [
        (time, batch, size),
        W((directions, 4 * hidden, size)),
        W((directions, 4 * hidden, hidden)),
        W((directions, 8 * hidden)) if bias else None,
        None if lengths is None else np.array(lengths, np.int32),
        first,
        first,
        W((directions, 3 * hidden)) if peepholes else None,
    ]
    while operands[-1] is None:
        operands.pop()
    is_plain = set(attrs) <= {"layout"} and lengths is None and not initial and not peepholes and all(outputs)
    case = {} if is_plain else ORT_ONLY
    FAMILY.op(name, "LSTM", *operands, outputs=outputs, hidden_size=hidden, case=case, **attrs)


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
