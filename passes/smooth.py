"""Channels of what products read, and of their weights, are scaled against one another so that bytes lose less
(SmoothQuant: Xiao et al., 2022, arXiv:2211.10438).

A tensor has one scale for all its bytes, so that channels of small numbers beside one of large ones are left few steps.
x W = (x / s) (s W): what is divided off x is multiplied into the weights, whose columns have scales of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mcpc.ir import Graph, Node, Value
from mcpc.pipeline import Pass, PassContext
from mcpc.ranges import Channels
from mcpc.rewrite import made_by

from .bias_correction import is_depthwise
from .integer import PRODUCTS, float_reason, stored_steps, weight_axis
from .propagate import MOVES

Array = np.ndarray[Any, Any]

#: The key of a context's options: what is predicted of products, by their names.
PREDICTED = "predicted"

#: Shares of a channel's range that go into its weights, which are tried.
_SHARES = np.linspace(0.0, 1.0, 21)

#: No factor is farther from the mean one than this; channels that are nearly always 0 would have larger ones.
_MOST_FACTOR = 1000.0

#: The variance of rounding to steps of 1.
_VARIANCE = 1 / 12


@dataclass(frozen=True)
class Predicted:
    """``sqnr`` is what rounding to bytes leaves of a product, in dB, ``mean`` that of its input's channels, float64
    [channels]."""

    sqnr: float
    mean: Array


@dataclass(frozen=True)
class Smooth(Pass):
    """Divides the input of products with constant weights, of one group or a group a channel, by a factor a channel,
    where that is predicted to raise the ratio of signal to the noise of rounding (SQNR) by ``gain`` dB.

    What is predicted is the noise of 255 even steps over the tensor's range and of 254 a column of weights, errors and
    channels taken as independent: sums of squares of all that is known, no run. The factors are the best of some. What
    is seen of channels comes from ``ctx.options["ranges"].channels``; where that has nothing, nothing changes. What
    else reads the tensor reads it as it was. One that is moved into its place, as bytes could be, has to gain three
    times as much.
    """

    name: ClassVar[str] = "smooth"

    gain: float = 1.0

    def __call__(self, graph: Graph, ctx: PassContext) -> Graph:
        groups = _groups(graph)
        axes = {value: 1 if nodes[0].is_op("Conv") else (value.type.rank or 1) - 1 for value, nodes in groups.items()}
        find = ctx.options.get("ranges")
        seen: Mapping[str, Channels] = find.channels(graph, axes) if find is not None and groups else {}
        places = {node: place for place, node in enumerate(graph.nodes)}
        predicted: dict[str, Predicted] = {}
        with graph.edit():
            for value, nodes in groups.items():
                if value.name not in seen:
                    continue
                factors, before, after = _factors(
                    seen[value.name], [_matrix(node) for node in nodes], _are_stored(nodes)
                )
                is_moved = value.producer is not None and value.producer.is_op(*MOVES)
                if after < before + self.gain * (3 if is_moved else 1) or not _may_scale(nodes):
                    factors, after = np.ones_like(factors), before
                else:
                    _scale(graph, value, nodes, factors, axes[value], min(nodes, key=places.__getitem__))
                    reason = f"rounding is predicted to leave {after:.1f} dB instead of {before:.1f}"
                    ctx.decide(value, "smooth", reason, before=before, after=after)
                known = Predicted(after, seen[value.name].mean / factors)
                predicted.update(dict.fromkeys((node.name for node in nodes), known))
        ctx.options = {**ctx.options, PREDICTED: predicted}
        return graph


def _groups(graph: Graph) -> dict[Value, list[Node]]:
    """The products that read a tensor's channels, by the tensor."""
    groups: dict[Value, list[Node]] = {}
    for node in graph.nodes:
        is_whole = node.attrs.get("group", 1) == 1 or is_depthwise(node)
        value = node.inputs[0] if node.is_op(*PRODUCTS) and is_whole and not float_reason(node) else None
        if value is not None and np.isfinite(_weights(node)).all():
            groups.setdefault(value, []).append(node)
    return {value: nodes for value, nodes in groups.items() if len({node.is_op("Conv") for node in nodes}) == 1}


def _are_stored(nodes: Sequence[Node]) -> bool:
    """Whether the weights are integers already, which are rounded no more where they stay."""
    return all(node.inputs[1] is not None and node.inputs[1].data is None for node in nodes)


def _may_scale(nodes: Sequence[Node]) -> bool:
    """Whether nobody else reads the weights: the file would hold them twice."""
    weights = {node.inputs[1] for node in nodes}
    return all(user in nodes for value in weights if value is not None for user in value.users)


def _weights(node: Node) -> Array:
    """As floats, whatever they are stored as."""
    value = node.inputs[1]
    assert value is not None
    if value.data is not None:
        return value.data
    expand = made_by(value, "DequantizeLinear")
    assert expand is not None and expand.inputs[0] is not None and expand.inputs[0].data is not None
    zero = expand.input(2)
    others = tuple(axis for axis in range(expand.inputs[0].data.ndim) if axis != weight_axis(node))
    whole = expand.inputs[0].data.astype(np.float32)
    if zero is not None and zero.data is not None:
        whole -= np.expand_dims(np.broadcast_to(zero.data.reshape(-1), whole.shape[weight_axis(node)]), others)
    return np.asarray(whole * np.expand_dims(stored_steps(node), others))


def _matrix(node: Node) -> Array:
    """Weights as [input channels, places of the window, output channels] or, where each output channel has an input
    channel of its own, as [channels, places], float64."""
    weights, columns = _weights(node), weight_axis(node)
    if is_depthwise(node):
        return weights.reshape(len(weights), -1).astype(np.float64)
    turned = np.moveaxis(weights, (1 - columns, columns), (0, -1))
    return turned.reshape(turned.shape[0], -1, turned.shape[-1]).astype(np.float64)


def _along_inputs(factors: Array, node: Node) -> Array:
    """One number an input channel in a shape that broadcasts to the weights."""
    axis = 0 if is_depthwise(node) else 1 - weight_axis(node)
    rank = _weights(node).ndim
    return np.expand_dims(factors, tuple(each for each in range(rank) if each != axis))


def _factors(seen: Channels, weights: Sequence[Array], are_stored: bool) -> tuple[Array, float, float]:
    """The best of some factors for the channels, and the SQNR without and with them, in dB."""
    most = np.maximum(np.abs(seen.low), np.abs(seen.high))
    size = np.sqrt(sum(np.square(each).reshape(len(each), -1).sum(1) for each in weights))
    most, size = (np.maximum(each, max(each.max() / 1e6, 1e-30)) for each in (most, size))
    tried = [np.ones_like(most)]
    for share in _SHARES:
        tried += [_centred(most**share / size ** (1 - share)), _centred(most**share)]
    signal = sum(float(seen.square @ np.square(each).reshape(len(each), -1).sum(1)) for each in weights)
    noises = [_noise(seen, weights, factors) for factors in tried]
    noises[0] = _noise(seen, weights, tried[0], are_stored)
    best = int(np.argmin(noises))
    before, after = (
        float(10 * np.log10(signal / noise)) if signal > 0 < noise else np.inf for noise in (noises[0], noises[best])
    )
    return tried[best], before, after


def _centred(factors: Array) -> Array:
    return np.asarray(np.clip(factors / np.exp(np.log(factors).mean()), 1 / _MOST_FACTOR, _MOST_FACTOR))


def _noise(seen: Channels, weights: Sequence[Array], factors: Array, are_exact: bool = False) -> float:
    """The variance that rounding gives results, summed over output channels."""
    step = (max(float((seen.high / factors).max()), 0.0) - min(float((seen.low / factors).min()), 0.0)) / 255
    power = seen.square / factors**2
    total = 0.0
    for each in weights:
        scaled = each * np.expand_dims(factors, tuple(range(1, each.ndim)))
        total += _VARIANCE * step**2 * float(np.square(scaled).sum())
        if are_exact:
            continue
        places = each.shape[1]
        if each.ndim == 2:
            total += _VARIANCE * places * float(power @ np.square(np.abs(scaled).max(1) / 127))
        else:
            total += _VARIANCE * places * float(power.sum() * np.square(np.abs(scaled).max((0, 1)) / 127).sum())
    return total


def _scale(graph: Graph, value: Value, nodes: Sequence[Node], factors: Array, axis: int, first: Node) -> None:
    """Let ``nodes``, before all of which ``first`` is, multiply ``value`` by factors' inverses with scaled weights."""
    factors = factors.astype(np.float32)
    behind = (value.type.rank or 1) - 1 - axis
    inverse = graph.constant(f"{value.name}.factors", (1 / factors).reshape(-1, *[1] * behind))
    smooth = Value(graph.fresh(f"{value.name}.smooth"), value.type)
    graph.insert_before(first, [Node("Mul", [value, inverse], [smooth], name=smooth.name)])
    scaled: dict[Value, Value] = {}
    for node in nodes:
        old = node.inputs[1]
        assert old is not None
        if old not in scaled:
            weights = _weights(node) * _along_inputs(factors, node)
            scaled[old] = graph.constant(f"{old.name}.smooth", weights)
        graph.set_inputs(node, [smooth, scaled[old], *node.inputs[2:]])
