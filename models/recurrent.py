"""Two small recurrent networks as PyTorch exports them, with seeded weights: a GRU and an LSTM.

Both read feature frames, for instance 40 mel bands, and give a class a frame. The state goes in and comes out: the GRU
can be fed a long recording in pieces of any length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mcpc.models.graph import GraphBuilder, Size

if TYPE_CHECKING:
    import onnx

FEATURES, HIDDEN, LAYERS, CLASSES = 40, 64, 2, 16


def gru(seed: int = 0, batch: Size = "batch", time: Size = "time") -> onnx.ModelProto:
    """Two GRU layers: ``x`` float32 [batch, time, 40] and ``h0`` [2, batch, 64] give ``logits`` [batch, time, 16] and
    ``hn`` [2, batch, 64]. The batch is first, as ``torch.nn.GRU(batch_first=True)`` has it."""
    b = GraphBuilder(np.random.default_rng(seed))
    x = b.node("Transpose", "gru/Transpose", ["x"], perm=[1, 0, 2])
    last = []
    for layer in range(LAYERS):
        name = f"gru/layer.{layer}"
        weights = _weights(b, name, gates=3, directions=1, inputs=FEATURES if layer == 0 else HIDDEN)
        sequence, state = b.several(
            "GRU",
            f"{name}/GRU",
            [x, *weights, "", _layer_of(b, "h0", name, layer, 1)],
            [f"{name}/GRU_output_0", f"{name}/GRU_output_1"],
            hidden_size=HIDDEN,
            linear_before_reset=1,
        )
        last.append(state)
        x = b.node("Squeeze", f"{name}/Squeeze", [sequence, b.constant(f"{name}/axes", [1])])
    b.node("Concat", "gru/Concat", last, "hn", axis=0)
    x = b.node("Transpose", "gru/Transpose_1", [x], perm=[1, 0, 2])
    _head(b, x, HIDDEN)
    state_shape = [LAYERS, batch, HIDDEN]
    return b.model(
        "gru",
        {"x": [batch, time, FEATURES], "h0": state_shape},
        {"logits": [batch, time, CLASSES], "hn": state_shape},
    )


def lstm(seed: int = 0, batch: Size = "batch", time: Size = "time") -> onnx.ModelProto:
    """Two LSTM layers, each in both directions: ``x`` float32 [time, batch, 40], ``h0`` and ``c0`` [4, batch, 64] give
    ``logits`` [time, batch, 16], ``hn`` and ``cn`` [4, batch, 64]; layer by layer, forwards before backwards."""
    b = GraphBuilder(np.random.default_rng(seed))
    x, width = "x", FEATURES
    hidden, cell = [], []
    for layer in range(LAYERS):
        name = f"lstm/layer.{layer}"
        weights = _weights(b, name, gates=4, directions=2, inputs=width)
        states = [_layer_of(b, state, f"{name}/{state}", layer, 2) for state in ("h0", "c0")]
        sequence, h, c = b.several(
            "LSTM",
            f"{name}/LSTM",
            [x, *weights, "", *states],
            [f"{name}/LSTM_output_{index}" for index in range(3)],
            direction="bidirectional",
            hidden_size=HIDDEN,
        )
        hidden.append(h)
        cell.append(c)
        sequence = b.node("Transpose", f"{name}/Transpose", [sequence], perm=[0, 2, 1, 3])
        shape, width = b.constant(f"{name}/shape", [0, 0, -1]), 2 * HIDDEN
        x = b.node("Reshape", f"{name}/Reshape", [sequence, shape], allowzero=0)
    b.node("Concat", "lstm/Concat", hidden, "hn", axis=0)
    b.node("Concat", "lstm/Concat_1", cell, "cn", axis=0)
    _head(b, x, width)
    state_shape = [2 * LAYERS, batch, HIDDEN]
    return b.model(
        "lstm",
        {"x": [time, batch, FEATURES], "h0": state_shape, "c0": state_shape},
        {"logits": [time, batch, CLASSES], "hn": state_shape, "cn": state_shape},
    )


def _weights(b: GraphBuilder, name: str, gates: int, directions: int, inputs: int) -> Sequence[str]:
    """W, R and B; larger than PyTorch's initial ones, as trained weights are."""
    rows = gates * HIDDEN
    return [
        b.weight(f"{name}.W", b.rng.standard_normal((directions, rows, inputs)) / np.sqrt(inputs)),
        b.weight(f"{name}.R", b.rng.standard_normal((directions, rows, HIDDEN)) / np.sqrt(HIDDEN)),
        b.weight(f"{name}.B", b.rng.normal(0, 0.2, (directions, 2 * rows))),
    ]


def _layer_of(b: GraphBuilder, state: str, name: str, layer: int, directions: int) -> str:
    """One layer's part [directions, batch, hidden] of a state."""
    bounds = [b.constant(f"{name}/{key}", [value * directions]) for key, value in (("from", layer), ("to", layer + 1))]
    axes, steps = b.constant(f"{name}/axis", [0]), b.constant(f"{name}/step", [1])
    return b.node("Slice", f"{name}/Slice", [state, *bounds, axes, steps])


def _head(b: GraphBuilder, x: str, width: int) -> None:
    weight = b.weight("head.weight", b.rng.standard_normal((width, CLASSES)) * (2 / np.sqrt(width)))
    product = b.node("MatMul", "head/MatMul", [x, weight])
    b.node("Add", "head/Add", [b.weight("head.bias", b.rng.normal(0, 0.1, CLASSES)), product], "logits")
