"""``precision="auto"``: which layers compute in integers.

First by speed: a layer stays float where its integers are predicted to take longer than its floats, conversions at its
borders included; these change with what its neighbours are, so it is asked again until nothing changes, and the
fastest of the networks that were asked about is taken. Layers that
follow one another fall back together where the network is faster so, as where floats are fused. Then by error:
where the outputs move further than the budget allows, the layers are ordered by how far each moves them alone
(sensitivity analysis: Wu, Judd, Zhang, Isaev and Micikevicius, "Integer Quantization for Deep Learning Inference",
arXiv:2004.09602, 2020), and the least number of them falls back that does, found by bisection over this order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from mcpc.accuracy_budget import Budget, Outcome
from mcpc.calibrator import Progress
from mcpc.fidelity import MOST_DB
from mcpc.layer_errors import Errors
from mcpc.layer_times import Times
from mcpc.units import duration

Array = np.ndarray[Any, Any]

#: The most runs of layers of which the network is predicted without them, those that gain least first; behind so many
#: in a row that do not make it faster the others are left.
MOST_RUNS, PATIENCE = 24, 6

#: The most layers whose effect on the outputs is measured one by one: those with most noise of their own.
MOST_SENSITIVITIES = 64


@dataclass(frozen=True)
class Choice:
    """``integers`` are the layers that compute in integers, ``reasons`` say why others do not."""

    integers: frozenset[str]
    reasons: Mapping[str, str]


@dataclass(frozen=True)
class Network:
    """What the search asks about the network whose layers in a set are integers. ``predict`` gives its times,
    ``try_out`` what becomes of its outputs on few samples, ``check`` on all that there are. ``floats`` are the times of
    the float network."""

    floats: Times
    predict: Callable[[frozenset[str]], Times]
    try_out: Callable[[frozenset[str]], Outcome]
    check: Callable[[frozenset[str]], Outcome]


def choose(network: Network, layers: Sequence[str], alone: Errors, budget: Budget, progress: Progress | None) -> Choice:
    """The layers, of those that can be, that compute in integers: within ``budget``, and by prediction faster than
    floats; none where that cannot be. ``alone`` has the noise of each layer."""
    choice = _fastest(network, layers, frozenset(layers), {}, "", progress)
    order: Sequence[str] = ()
    for outcome in (network.try_out, network.check):
        while choice.integers and not budget.allows(outcome(choice.integers)):  # each time some fall back
            order = order or _by_sensitivity(network, choice.integers, alone, budget, progress)
            left = [name for name in order if name in choice.integers]
            choice = _within(network, layers, choice, left, budget, outcome, progress)
    return choice


def _fastest(
    network: Network,
    layers: Sequence[str],
    integers: frozenset[str],
    reasons: Mapping[str, str],
    condition: str,
    progress: Progress | None,
) -> Choice:
    """``integers``, some of ``layers``, without those that do not pay, as long as others remain that may; none where
    all do not."""
    times, found = network.predict(integers), dict(reasons)
    best = (times.total, integers, times, found)
    while slower := {name for name in integers if times.layers[name] >= network.floats.layers[name]}:
        for name in slower:
            mine, floats = duration(times.layers[name]), duration(network.floats.layers[name])
            found = {**found, name: f"int8 is predicted to take {mine}, floats {floats}{condition}"}
        integers -= slower
        times, condition = network.predict(integers), " beside layers that stay floats"
        if times.total < best[0]:
            best = (times.total, integers, times, found)
    _, integers, times, found = best  # a layer that is slower may save more conversions than it costs
    runs = _runs(layers, integers)
    runs.sort(key=lambda run: sum(network.floats.layers[each] - times.layers[each] for each in run))
    in_vain = 0
    for index, run in enumerate(runs[:MOST_RUNS]):
        if progress is not None:
            progress("predict layers as floats", index, min(len(runs), MOST_RUNS))
        without = network.predict(integers - set(run))
        in_vain = 0 if without.total <= times.total else in_vain + 1
        if in_vain == PATIENCE:
            break
        if not in_vain:
            mine, others = duration(times.total), duration(without.total)
            reason = f"the network is predicted to take {mine} with int8 in {len(run)} layers here, {others} without"
            found |= dict.fromkeys(run, reason)
            integers, times = integers - set(run), without
    if integers and times.total >= network.floats.total:
        mine, floats = duration(times.total), duration(network.floats.total)
        reason = f"with int8 the network is predicted to take {mine}, {floats} without"
        return Choice(frozenset(), {**found, **dict.fromkeys(integers, reason)})
    return Choice(integers, found)


def _runs(layers: Iterable[str], integers: frozenset[str]) -> list[tuple[str, ...]]:
    """``integers`` in the order of ``layers``, cut where others are between."""
    return [tuple(run) for is_chosen, run in groupby(layers, integers.__contains__) if is_chosen]


def _within(
    network: Network,
    layers: Sequence[str],
    choice: Choice,
    order: Sequence[str],
    budget: Budget,
    outcome: Callable[[frozenset[str]], Outcome],
    progress: Progress | None,
) -> Choice:
    """``choice`` without as few of the first in ``order`` as bring it into the budget, and without what does not pay
    then."""
    too_few, enough = 0, len(order)  # without all of them it is the float network
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        if budget.allows(outcome(choice.integers - set(order[:middle]))):
            enough = middle
        else:
            too_few = middle
    reason = f"the outputs keep within the budget without it: of {len(order)} layers {enough} fall back"
    reasons = {**choice.reasons, **dict.fromkeys(order[:enough], reason)}
    return _fastest(
        network, layers, choice.integers - set(order[:enough]), reasons, " where others fell back", progress
    )


def _by_sensitivity(
    network: Network, integers: Iterable[str], alone: Errors, budget: Budget, progress: Progress | None
) -> list[str]:
    """The layers by how far the outputs move where one of them is rounded, the farthest first; behind the first
    MOST_SENSITIVITIES of the noisiest the others by their noise."""
    noisiest = _by_noise(integers, alone)
    tried = noisiest[:MOST_SENSITIVITIES]
    moved: dict[str, tuple[float, float]] = {}
    for index, name in enumerate(tried):
        if progress is not None:
            progress("try layers one by one", index, len(tried))
        outcome = network.try_out(frozenset([name]))
        moved[name] = (-outcome.drop(budget.drop_metric), outcome.sqnr)
    return [*sorted(tried, key=moved.__getitem__), *noisiest[len(tried) :]]


def _by_noise(integers: Iterable[str], alone: Errors) -> list[str]:
    """The layers by their own signal-to-noise ratio, the lowest first; names make the order one."""

    def ratio(name: str) -> tuple[float, str]:
        error = alone.layers.get(name)
        own = None if error is None else error.alone
        return (MOST_DB if own is None else own.sqnr, name)

    return sorted(integers, key=ratio)
