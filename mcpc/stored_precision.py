"""What is said of the layers of a network that was rounded without samples: by dynamic ranges, or in its weights."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mcpc import precision_report
from mcpc.codegen import Family
from mcpc.errors import UsageError
from mcpc.graph_copy import copied
from mcpc.ir import DType, Graph, Value
from mcpc.layer_errors import Errors, layers_of, measure
from mcpc.layer_precision import DYNAMIC, FP32, PASS, WEIGHTS_4, WEIGHTS_8
from mcpc.layer_times import predict
from mcpc.pipeline import Pass, PassContext, run_pipeline
from mcpc.sample_inputs import sample_inputs

#: Seeds of the inputs on which errors are measured.
SEEDS = range(2)


def run_rounding(graph: Graph, passes: Sequence[Pass], rest: Sequence[Pass], family: Family, ctx: PassContext) -> Graph:
    """``graph`` behind ``passes``, which round it and which ``rest`` follow. What becomes of each layer is recorded as
    :class:`mcpc.quantisation.Quantisation` does it; errors are those on sampled inputs, and there are none, which is
    recorded, where the network does not run on these."""
    exact = copied(graph)
    graph = run_pipeline(graph, passes, ctx)
    values = {value.name: value for value in graph.values()}
    known = {value.name for value in exact.values()}
    layers = layers_of(exact)
    precisions = {node.name: _precision(values[node.output.name], known) for node in layers}
    if set(precisions.values()) <= {FP32}:
        return graph
    floats, times = (predict(each, precisions, rest, family, ctx.target, ctx.options) for each in (exact, graph))
    shown = {kind: times.layers for kind in precisions.values() if kind != FP32}
    precision_report.record(precisions, _errors(exact, graph, ctx), {FP32: floats.layers, **shown}, {}, ctx)
    return graph


def _precision(value: Value, known: Collection[str]) -> str:
    """That of the layer whose result ``value`` is, by what is between it and values called ``known``."""
    pending, found = [value], FP32
    while pending:
        node = pending.pop().producer
        if node is None:
            continue
        if node.is_op("MatMulInteger"):
            return DYNAMIC
        stored = node.inputs[0]
        if node.is_op("DequantizeLinear") and stored is not None and stored.is_constant:
            found = WEIGHTS_4 if stored.dtype in (DType.int4, DType.uint4) else WEIGHTS_8
        pending += [each for each in node.inputs if each is not None and each.name not in known]
    return found


def _errors(exact: Graph, graph: Graph, ctx: PassContext) -> Errors | None:
    try:
        samples = [sample_inputs(exact.inputs, seed, bounds=exact.bounds) for seed in SEEDS]
        return measure(exact, graph, samples, ctx.progress)
    except UsageError as error:
        ctx.pass_name = PASS
        ctx.decide("errors", "omit", f"the network does not run on sampled inputs: {error.message}")
        return None
