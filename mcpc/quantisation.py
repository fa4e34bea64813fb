"""From a network of floats to one with layers of integers, and what is measured on the way."""

from __future__ import annotations

from collections.abc import Sequence

from mcpc import precision_report
from mcpc.codegen import Family
from mcpc.graph_copy import copied
from mcpc.ir import Graph
from mcpc.layer_errors import Errors, layers_of, measure
from mcpc.layer_precision import FP32, INT8
from mcpc.layer_times import predict
from mcpc.pipeline import Pass, PassContext, run_pipeline
from mcpc.precision import Ranges


def quantise(
    graph: Graph, series: Sequence[Pass], rest: Sequence[Pass], family: Family, ranges: Ranges, ctx: PassContext
) -> Graph:
    """The graph behind ``series``, whose last pass quantises; ``rest`` follow it.

    What becomes of each layer is recorded in ``ctx``: its precision, its errors on some of the samples that the ranges
    come from (none where they come from a table), the times that the cost model predicts for it both ways; and where
    the network is predicted to become slower.
    """
    *before, quantizing = series
    if before:
        graph = run_pipeline(graph, before, ctx)
    exact = copied(graph)
    graph = run_pipeline(graph, [quantizing], ctx)
    layers = [node.name for node in layers_of(exact)]
    times = {
        precision: predict(each, layers, rest, family, ctx.target, ctx.options)
        for precision, each in ((FP32, exact), (INT8, graph))
    }
    errors: Errors | None = measure(exact, graph, ranges.samples, ctx.progress) if ranges.samples else None
    precision_report.record(exact, graph, errors, times, {}, ctx)
    precision_report.record_if_slower(times, ctx)
    return graph
