"""Operators as training uses them: the forms that inference has no use for are expressed by other operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mcpc.ir import DType, Node, Value
from mcpc.ops.context import attribute, fail
from mcpc.ops.contrib import Contrib, Expansion
from mcpc.ops.normalize import cost_batch_normalization, infer_batch_normalization
from mcpc.ops.random import seed_of
from mcpc.ops.registry import EXACT, ROUNDED, moves, register
from mcpc.ops.shape import infer_dropout


@dataclass(frozen=True)
class TrainingForm(Contrib):
    """An operator that is replaced where ``trains`` says so."""

    trains: Callable[[Node], bool] = lambda node: False

    def applies(self, node: Node) -> bool:
        return self.trains(node)


def _converted(e: Expansion, value: Value, dtype: DType) -> Value:
    return value if value.dtype is dtype else e("Cast", value, to=dtype)


def _wide(value: Value) -> DType:
    return DType.float64 if value.dtype is DType.float64 else DType.float32


# ---- Dropout


def _drops(node: Node) -> bool:
    """Whether a Dropout is more than its first operand."""
    training = node.input(2)
    has_mask = len(node.outputs) > 1 and node.outputs[1] is not None
    return has_mask or (training is not None and (training.data is None or bool(training.data.any())))


def dropout(e: Expansion) -> Sequence[Value | None]:
    """data / (1 - ratio) where a number out of [0, 1) is not below the ratio, else 0; outside training data."""
    x, ratio, training = e.input(0), e.node.input(1), e.node.input(2)
    never = training is None or (training.data is not None and not training.data.any())
    if never or (ratio is not None and ratio.data is not None and not ratio.data.any()):
        return [e("Identity", x), e("ConstantOfShape", e("Shape", x), value=np.array([True]))]
    assert training is not None
    wide = _wide(x)
    one = e.graph.constant("one", np.array(1, wide.numpy))
    share = e.graph.constant("ratio", np.array(0.5, wide.numpy)) if ratio is None else _converted(e, ratio, wide)
    mask = e("GreaterOrEqual", e("RandomUniformLike", x, dtype=wide, **seed_of(e.node)), share)
    scaled = e("Div", _converted(e, x, wide), e("Sub", one, share))
    y = _converted(e, e("Where", mask, scaled, e.scalar(0.0, scaled)), x.dtype)
    if training.data is None:
        y, mask = e("Where", training, y, x), e("Or", mask, e("Not", training))
    return [y, mask]


register(TrainingForm("Dropout", infer_dropout, moves, EXACT, build=dropout, trains=_drops))


# ---- BatchNormalization


def batch_normalization(e: Expansion) -> Sequence[Value | None]:
    """Normalised by the batch's own mean and variance, which move the running ones."""
    x = e.input(0)
    if x.type.rank is None:
        fail(e.node, f"the rank of %{x.name} is not known", "E108")
    wide, rank = _wide(x), x.type.rank
    scale, bias, *running = (_converted(e, e.input(index), wide) for index in range(1, 5))
    axes = e.ints(*(axis for axis in range(rank) if axis != 1))

    def spread(channels: Value) -> Value:
        return e("Unsqueeze", channels, e.ints(*range(1, rank - 1))) if rank > 2 else channels

    inner = _converted(e, x, wide)
    mean = e("ReduceMean", inner, axes, keepdims=0)
    centred = e("Sub", inner, spread(mean))
    variance = e("ReduceMean", e("Mul", centred, centred), axes, keepdims=0)
    deviation = e("Sqrt", e("Add", spread(variance), e.scalar(e.number("epsilon", 1e-5), inner)))
    y = e("Add", e("Mul", e("Div", centred, deviation), spread(scale)), spread(bias))
    momentum = e.number("momentum", 0.9)
    moved = []
    for old, new, index in zip(running, (mean, variance), (3, 4), strict=True):
        kept = e("Mul", old, e.scalar(momentum, old))
        sum = e("Add", kept, e("Mul", new, e.scalar(1.0 - momentum, new)))
        moved.append(_converted(e, sum, e.input(index).dtype))
    return [_converted(e, y, x.dtype), *moved]


register(
    TrainingForm(
        "BatchNormalization",
        infer_batch_normalization,
        cost_batch_normalization,
        ROUNDED,
        build=batch_normalization,
        trains=lambda node: bool(attribute(node, "training_mode", 0)),
    )
)
