"""From a network of floats to one with layers of integers, and what is measured on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mcpc import precision_report
from mcpc.accuracy_budget import Budget, Outcome
from mcpc.codegen import Family
from mcpc.errors import UsageError
from mcpc.graph_copy import copied
from mcpc.halves import PRECISION
from mcpc.ir import Graph
from mcpc.layer_errors import is_quantised, layers_of, measure
from mcpc.layer_precision import FP32, INT8
from mcpc.layer_times import Times, predict
from mcpc.onnx_writer import to_model
from mcpc.pipeline import Pass, PassContext, run_pipeline, suggest
from mcpc.precision import Feeds, Ranges
from mcpc.precision_search import Network, choose
from mcpc.reference import open_session

Array = np.ndarray[Any, Any]

#: Samples on which layers are measured and choices are tried; a choice is checked on all that were kept.
FEW = 4


@dataclass(frozen=True)
class Quantisation:
    """How a network is quantised: by the pass ``quantizing``, which ``rest`` and the family's own follow. ``is_auto``:
    only layers that pay become integers, within ``budget``; without that it is only compared with what was found."""

    quantizing: Pass
    rest: Sequence[Pass]
    family: Family
    ranges: Ranges
    budget: Budget
    is_auto: bool = False

    def __call__(self, graph: Graph, ctx: PassContext) -> Graph:
        """``graph``, changed in place.

        What becomes of each layer is recorded in ``ctx``: its precision, its errors on some of the samples that the
        ranges come from (none where they come from a table), and the times that the cost model predicts for it both
        ways; where the network is predicted to become slower, and whether it is within the budget if there is one.
        UsageError E001 where ``ctx.options["layer_precisions"]`` has what is no layer, or no precision of one.
        """
        asked: Mapping[str, str] = ctx.options["layer_precisions"]
        _check(asked, [node.name for node in layers_of(graph)])
        trials = _Trials(self, copied(graph), ctx)
        integers, budget = trials.able, self.budget
        reasons = {name: "as asked for" for name in trials.layers if name in asked}
        if self.is_auto:
            budget = budget.or_default()
            integers = self._chosen(trials, budget, reasons, ctx)
        ctx.options = {**ctx.options, "layer_precisions": trials.precisions(integers)}
        graph = run_pipeline(graph, [self.quantizing], ctx)
        if self.is_auto:
            graph.metadata[PRECISION] = "auto"
        floats, mixed, whole = (trials.times(each) for each in (frozenset[str](), integers, trials.able))
        shown = {name: (mixed if name in integers else whole).layers[name] for name in trials.layers}
        errors = measure(trials.exact, graph, trials.few, ctx.progress) if trials.few else None
        precision_report.record(trials.exact, graph, errors, {FP32: floats.layers, INT8: shown}, reasons, ctx)
        if not self.is_auto:
            precision_report.record_if_slower(floats, mixed, ctx)
        if budget.is_given:
            precision_report.record_budget(budget, trials.check(integers), floats, mixed, ctx)
        return graph

    def _chosen(self, trials: _Trials, budget: Budget, reasons: dict[str, str], ctx: PassContext) -> frozenset[str]:
        """The layers that compute in integers; ``reasons`` get why others do not."""
        asked: Mapping[str, str] = ctx.options["layer_precisions"]
        fixed = frozenset(name for name in trials.able if asked.get(name) == INT8)
        network = Network(
            trials.times(frozenset()),
            lambda integers: trials.times(integers | fixed),
            lambda integers: trials.try_out(integers | fixed),
            lambda integers: trials.check(integers | fixed),
        )
        alone = measure(trials.exact, trials.graph(trials.able), trials.few, ctx.progress)
        free = [name for name in trials.layers if name in trials.able - fixed]
        choice = choose(network, free, alone, budget, ctx.progress)
        reasons.update(choice.reasons)
        return choice.integers | fixed


def _check(asked: Mapping[str, str], layers: Sequence[str]) -> None:
    for name, precision in asked.items():
        if name not in layers:
            raise UsageError("E001", f"there is no layer {name!r} with weights", hint=suggest(name, layers))
        if precision not in (FP32, INT8):
            raise UsageError(
                "E001", f"there is no precision {precision!r} for layer {name!r}", hint="known: fp32, int8"
            )


class _Trials:
    """Networks in which some layers of ``exact`` are integers, and what becomes of their times and outputs."""

    def __init__(self, how: Quantisation, exact: Graph, ctx: PassContext) -> None:
        self._how, self._target, self._options = how, ctx.target, ctx.options
        self.exact = exact
        self.layers = [node.name for node in layers_of(exact)]
        every = frozenset(self.layers)
        #: The layers that can be integers, as far as is asked for.
        self.able = frozenset(node.name for node in self.graph(every).nodes if is_quantised(node)) & every
        self._samples = how.ranges.samples
        self._sparse = range(0, len(self._samples), max(1, len(self._samples) // FEW))[:FEW]
        self.few = [self._samples[index] for index in self._sparse]

    def precisions(self, integers: frozenset[str]) -> dict[str, str]:
        """What is asked for where only ``integers`` are."""
        asked: Mapping[str, str] = self._options["layer_precisions"]
        return {**asked, **{name: FP32 for name in self.layers if name not in integers}}

    def graph(self, integers: frozenset[str]) -> Graph:
        """The float network where ``integers`` are none."""
        if not integers:
            return self.exact
        options = {**self._options, "layer_precisions": self.precisions(integers)}
        return run_pipeline(copied(self.exact), [self._how.quantizing], PassContext(self._target, options))

    def times(self, integers: frozenset[str]) -> Times:
        how = self._how
        return predict(self.graph(integers), self.layers, how.rest, how.family, self._target, self._options)

    def try_out(self, integers: frozenset[str]) -> Outcome:
        """On few samples."""
        return self._outcome(integers, self._sparse)

    def check(self, integers: frozenset[str]) -> Outcome:
        """On all samples that were kept."""
        return self._outcome(integers, range(len(self._samples)))

    def _outcome(self, integers: frozenset[str], indices: Sequence[int]) -> Outcome:
        run, outcome = self._run(self.graph(integers)), Outcome()
        for index in indices:
            outcome.add(run(self._samples[index]), self._want[index])
        return outcome

    @cached_property
    def _want(self) -> list[Mapping[str, Array]]:
        """What the float network computes of the samples."""
        run = self._run(self.exact)
        return [run(feeds) for feeds in self._samples]

    def _run(self, graph: Graph) -> Any:
        """What gives the outputs for feeds, by name."""
        session, names = open_session(to_model(graph).SerializeToString()), [value.name for value in graph.outputs]

        def run(feeds: Feeds) -> Mapping[str, Array]:
            return dict(zip(names, session.run(names, dict(feeds)), strict=True))

        return run
