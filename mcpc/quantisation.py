"""From a network of floats to one with layers of integers, and what is measured on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mcpc import precision_report
from mcpc.accuracy_budget import Budget, Outcome
from mcpc.codegen import Family
from mcpc.errors import UsageError
from mcpc.graph_copy import copied
from mcpc.half_rounding import round_halves
from mcpc.halves import PRECISION
from mcpc.ir import Graph
from mcpc.judge import judge
from mcpc.layer_errors import is_quantised, layers_of, measure
from mcpc.layer_precision import FP16, FP32, INT8
from mcpc.layer_times import Times, predict
from mcpc.onnx_writer import to_model
from mcpc.pipeline import Pass, PassContext, run_pipeline, suggest
from mcpc.precision import HALVE, Feeds, Ranges
from mcpc.precision_search import Network, choose
from mcpc.units import duration

Array = np.ndarray[Any, Any]

#: What each layer computes in, by its name.
Precisions = Mapping[str, str]

#: Samples on which layers are measured and choices are tried; a choice is checked on all that were kept.
FEW = 4


@dataclass(frozen=True)
class Quantisation:
    """How a network is quantised: by the pass ``quantizing``, which ``rest`` and the family's own follow. ``is_auto``:
    only layers that pay become integers, within ``budget``, and others float16 where that pays and ``rest`` can do it;
    without that the budget is only compared with what was found."""

    quantizing: Pass
    rest: Sequence[Pass]
    family: Family
    ranges: Ranges
    budget: Budget
    is_auto: bool = False

    def __call__(self, graph: Graph, ctx: PassContext) -> Graph:
        """``graph``, changed in place; ``ctx.options["layer_precisions"]``, what is asked of layers, gets all of them.

        What becomes of each layer is recorded in ``ctx``: its precision, its errors on some of the samples that the
        ranges come from (none where they come from a table), and the times that the cost model predicts for it in each
        precision; where the network is predicted to become slower, and whether it is within the budget if there is one.
        UsageError E001 where something is asked of what is no layer, or what is no precision of one.
        """
        asked: Precisions = ctx.options["layer_precisions"]
        can_halve = any(each.name == HALVE for each in self.rest)
        _check(asked, [node.name for node in layers_of(graph)], (FP32, FP16, INT8) if can_halve else (FP32, INT8))
        trials = _Trials(self, copied(graph), ctx)
        for name in (name for name, each in asked.items() if each == INT8 and name not in trials.able):
            raise UsageError("E001", f"layer {name!r} cannot be int8", hint="compile without it: a note says why")
        reasons = dict.fromkeys(asked, "as asked for")
        whole = trials.all_in(INT8, trials.able)
        budget = self.budget.or_default() if self.is_auto else self.budget
        precisions = self._chosen(trials, asked, budget, reasons, ctx) if self.is_auto else {**whole, **asked}
        ctx.options = {**ctx.options, "layer_precisions": precisions}
        graph = run_pipeline(graph, [self.quantizing], ctx)
        if self.is_auto:
            graph.metadata[PRECISION] = "auto"
        floats, times = trials.times(trials.all_in(FP32)), trials.times(precisions)
        shown = {FP32: floats.layers, INT8: trials.times(whole).layers}
        if can_halve:
            shown[FP16] = trials.times(trials.all_in(FP16)).layers
        for name, precision in precisions.items():
            if precision != FP32:
                shown[precision] = {**shown[precision], name: times.layers[name]}
        errors = measure(trials.exact, trials.rounded(precisions), trials.few, ctx.progress) if trials.few else None
        precision_report.record(precisions, errors, shown, reasons, ctx)
        if not self.is_auto:
            precision_report.record_if_slower(floats, times, ctx)
        if budget.is_given:
            precision_report.record_budget(budget, trials.check(precisions), floats, times, ctx)
        return graph

    def _chosen(
        self, trials: _Trials, asked: Precisions, budget: Budget, reasons: dict[str, str], ctx: PassContext
    ) -> Precisions:
        """The precision of each layer; ``reasons`` get why it is not another."""
        base = {**self._floats(trials, asked, budget, reasons), **asked}

        def of(integers: frozenset[str]) -> Precisions:
            return {**base, **dict.fromkeys(integers, INT8)}

        network = Network(
            trials.times(base),
            lambda integers: trials.times(of(integers)),
            lambda integers: trials.try_out(of(integers)),
            lambda integers: trials.check(of(integers)),
        )
        free = [name for name in trials.able if name not in asked]
        alone = measure(trials.exact, trials.rounded(of(frozenset(free))), trials.few, ctx.progress)
        choice = choose(network, free, alone, budget, ctx.progress)
        reasons.update(choice.reasons)
        for name in choice.integers:
            reasons.pop(name, None)
        return of(choice.integers)

    def _floats(self, trials: _Trials, asked: Precisions, budget: Budget, reasons: dict[str, str]) -> Precisions:
        """float16 for the layers that it is predicted to make faster, or for all, if it makes the network faster and
        the outputs bear it; float32 for all others."""
        floats, halves = trials.all_in(FP32), {**trials.all_in(FP16), **asked}
        times, faster = trials.times(floats), trials.times(halves)
        gaining = [name for name in halves if faster.layers[name] < times.layers[name] and name not in asked]
        mixed = {**trials.all_in(FP16, gaining), **asked}
        if not gaining:
            return floats
        total = trials.times(mixed).total
        if faster.total <= total:  # what is fused is shared out among its layers, and lost where one is another type
            mixed, total = halves, faster.total
        if total >= times.total:
            reason = f"with float16 the network is predicted to take {duration(total)}, {duration(times.total)} without"
        elif not budget.allows(trials.check(mixed)):
            reason = "with float16 the outputs leave the budget"
        else:
            return mixed
        reasons.update(dict.fromkeys(gaining, reason))
        return floats


def _check(asked: Precisions, layers: Sequence[str], known: Sequence[str]) -> None:
    for name, precision in asked.items():
        if name not in layers:
            raise UsageError("E001", f"there is no layer {name!r} with weights", hint=suggest(name, layers))
        if precision not in known:
            message = f"there is no precision {precision!r} for layer {name!r}"
            raise UsageError("E001", message, hint=f"known: {', '.join(known)}")


class _Trials:
    """Networks in which layers of ``exact`` have precisions, and what becomes of their times and outputs."""

    def __init__(self, how: Quantisation, exact: Graph, ctx: PassContext) -> None:
        self._how, self._target, self._options = how, ctx.target, ctx.options
        self.exact = exact
        self.layers = [node.name for node in layers_of(exact)]
        quantised = {node.name for node in self._quantised(self.all_in(INT8)).nodes if is_quantised(node)}
        #: The layers that can be integers.
        self.able = [name for name in self.layers if name in quantised]
        self._samples = how.ranges.samples
        self._sparse = range(0, len(self._samples), max(1, len(self._samples) // FEW))[:FEW]
        self.few = [self._samples[index] for index in self._sparse]

    def all_in(self, precision: str, layers: Iterable[str] | None = None) -> dict[str, str]:
        """All layers, or those given and float32 for the others."""
        return {
            **dict.fromkeys(self.layers, FP32),
            **dict.fromkeys(self.layers if layers is None else layers, precision),
        }

    def _quantised(self, precisions: Precisions) -> Graph:
        """A copy of the network with what rounds to integers."""
        graph = copied(self.exact)
        if INT8 not in precisions.values():
            return graph
        return run_pipeline(graph, [self._how.quantizing], self._context(precisions))

    def _context(self, precisions: Precisions) -> PassContext:
        return PassContext(self._target, {**self._options, "layer_precisions": precisions})

    def rounded(self, precisions: Precisions) -> Graph:
        """The network as floats that are rounded, to integers and to float16."""
        return round_halves(self._quantised(precisions), {name for name, each in precisions.items() if each == FP16})

    def times(self, precisions: Precisions) -> Times:
        how, options = self._how, self._context(precisions).options
        return predict(self._quantised(precisions), self.layers, how.rest, how.family, self._target, options)

    def try_out(self, precisions: Precisions) -> Outcome:
        """On few samples."""
        return self._outcome(precisions, self._sparse)

    def check(self, precisions: Precisions) -> Outcome:
        """On all samples that were kept."""
        return self._outcome(precisions, range(len(self._samples)))

    def _outcome(self, precisions: Precisions, indices: Sequence[int]) -> Outcome:
        run, outcome = self._run(self.rounded(precisions)), Outcome()
        for index in indices:
            outcome.add(run(self._samples[index]), self._want[index])
        return outcome

    @cached_property
    def _want(self) -> list[Mapping[str, Array]]:
        """What the float network computes of the samples."""
        run = self._run(self.exact)
        return [run(feeds) for feeds in self._samples]

    def _run(self, graph: Graph) -> Callable[[Feeds], Mapping[str, Array]]:
        """What gives the outputs for feeds, by name."""
        names = [value.name for value in graph.outputs]
        run = judge(to_model(graph).SerializeToString(), names)
        return lambda feeds: dict(zip(names, run(feeds), strict=True))
