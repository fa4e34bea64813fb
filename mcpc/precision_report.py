"""Records what quantisation did to each layer of a network, and whether it pays."""

from __future__ import annotations

from collections.abc import Mapping

from mcpc.accuracy_budget import DROP_METRICS, Budget, Outcome
from mcpc.layer_errors import Errors
from mcpc.layer_precision import (
    FP32,
    INT8,
    MET,
    NETWORK,
    NOT_MET,
    PASS,
    SLOWER,
    TIMES,
    LayerPrecision,
    record_output,
)
from mcpc.layer_times import Times
from mcpc.pipeline import PassContext
from mcpc.units import duration

#: Layers that are named where a network loses time.
NAMED = 3


def record(
    precisions: Mapping[str, str],
    errors: Errors | None,
    times: Mapping[str, Mapping[str, float]],
    reasons: Mapping[str, str],
    ctx: PassContext,
) -> None:
    """A decision for each layer in ``precisions``, and for each output. ``times`` are those of the layers, in
    microseconds, by precision; ``reasons`` say why layers have theirs."""
    told = {each.subject: each.reason for each in ctx.decisions if each.action == "keep"}
    for name, precision in precisions.items():
        reason = reasons.get(name) or ("" if precision == INT8 else told.get(name, ""))
        us = {kind: each[name] for kind, each in times.items()}
        error = None if errors is None else errors.layers.get(name)
        LayerPrecision(name, precision, reason, us, error).record(ctx)
    if errors is not None:
        for name, fidelity in errors.outputs.items():
            record_output(ctx, name, fidelity)


def record_if_slower(floats: Times, integers: Times, ctx: PassContext) -> None:
    """Say so where integers are predicted to take longer than floats, and in which layers."""
    if integers.total <= floats.total:
        return
    lost = {name: us - floats.layers[name] for name, us in integers.layers.items()}
    worst = sorted((name for name in lost if lost[name] > 0), key=lambda name: -lost[name])[:NAMED]
    reason = f"int8 is predicted to take {duration(integers.total)} where fp32 takes {duration(floats.total)}"
    if worst:
        reason += f"; most is lost in {', '.join(f'{name} by {duration(lost[name])}' for name in worst)}"
    ctx.pass_name = PASS
    reason += '; precision "auto" leaves out what does not pay'
    ctx.decide(NETWORK, SLOWER, reason, **_totals(floats, integers))


def record_budget(budget: Budget, outcome: Outcome, floats: Times, mixed: Times, ctx: PassContext) -> None:
    """Whether the outputs are within the budget, and what the network is predicted to take."""
    ctx.pass_name = PASS
    verdict = MET if budget.allows(outcome) else NOT_MET
    reason = f"{budget.describe(outcome)}; predicted {duration(mixed.total)}, {duration(floats.total)} in fp32"
    drops = {f"drop_{metric}": outcome.drop(metric) for metric in DROP_METRICS}
    ctx.decide(NETWORK, verdict, reason, **drops, sqnr_db=outcome.sqnr, **_totals(floats, mixed))


def _totals(floats: Times, chosen: Times) -> dict[str, float]:
    return {TIMES[FP32]: floats.total, "predicted_us": chosen.total}
