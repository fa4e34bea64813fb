"""Records what quantisation did to each layer of a network, and whether it pays."""

from __future__ import annotations

from collections.abc import Mapping

from mcpc.ir import Graph
from mcpc.layer_errors import Errors, is_quantised, layers_of
from mcpc.layer_precision import FP32, INT8, NETWORK, PASS, SLOWER, LayerPrecision, record_output
from mcpc.layer_times import Times
from mcpc.pipeline import PassContext
from mcpc.units import duration

#: Layers that are named where a network loses time.
NAMED = 3


def record(
    exact: Graph,
    quantised: Graph,
    errors: Errors | None,
    times: Mapping[str, Times],
    reasons: Mapping[str, str],
    ctx: PassContext,
) -> None:
    """A decision for each layer of ``exact``, and for each output. ``times`` are those of the network by precision,
    ``reasons`` say why layers have theirs."""
    rounded = {node.name for node in quantised.nodes if is_quantised(node)}
    told = {each.subject: each.reason for each in ctx.decisions if each.action == "keep"}
    for node in layers_of(exact):
        precision = INT8 if node.name in rounded else FP32
        reason = "" if precision == INT8 else told.get(node.name, "it has no form of integers")
        us = {kind: each.layers[node.name] for kind, each in times.items()}
        error = None if errors is None else errors.layers.get(node.name)
        LayerPrecision(node.name, precision, reasons.get(node.name, reason), us, error).record(ctx)
    if errors is not None:
        for name, fidelity in errors.outputs.items():
            record_output(ctx, name, fidelity)


def record_if_slower(times: Mapping[str, Times], ctx: PassContext) -> None:
    """Say so where integers are predicted to take longer than floats, and in which layers."""
    floats, integers = times[FP32], times[INT8]
    if integers.total <= floats.total:
        return
    lost = {name: us - floats.layers[name] for name, us in integers.layers.items()}
    worst = sorted((name for name in lost if lost[name] > 0), key=lambda name: -lost[name])[:NAMED]
    reason = f"int8 is predicted to take {duration(integers.total)} where fp32 takes {duration(floats.total)}"
    if worst:
        reason += f"; most is lost in {', '.join(f'{name} by {duration(lost[name])}' for name in worst)}"
    ctx.pass_name = PASS
    reason += '; precision "auto" leaves out what does not pay'
    ctx.decide(NETWORK, SLOWER, reason, fp32_us=floats.total, int8_us=integers.total)
