"""The self-test that an artifact carries: inputs, and what ONNX Runtime makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mcpc.draws import Draw
from mcpc.errors import ModelError, UsageError
from mcpc.golden import Golden, compact_input, compact_output
from mcpc.halves import coarser
from mcpc.ir import Graph
from mcpc.judge import judge
from mcpc.ops.random import random_node
from mcpc.pipeline import PassContext
from mcpc.sample_inputs import sample_draws
from mcpc.sensitivity import coarsest_rounding, shaken, tolerances
from mcpc.verification import RTOL


def default_case(graph: Graph, reference_model: bytes, ctx: PassContext) -> list[Golden]:
    """One case on sampled inputs; none, which is recorded, where those do not fit the model (an index or a size that
    no shape shows), or nobody else runs it."""
    try:
        return golden_cases(graph, reference_model, 1)
    except ModelError as error:
        ctx.pass_name = "self-test"
        ctx.decide("self-test", "omit", error.message)
        return []


def golden_cases(
    graph: Graph, reference_model: bytes, golden: int | Sequence[Mapping[str, np.ndarray[Any, Any]]]
) -> list[Golden]:
    """Cases of the inputs in ``golden``, or that many on sampled inputs; ModelError E100 where those cannot be run."""
    if golden != 0 and (drawing := random_node(graph)) is not None:
        message = "the model draws random numbers: nobody can say what it computes"
        hint = "--no-golden leaves the self-test out"
        raise ModelError("E100", message, op=drawing.op, node=drawing.name, hint=hint)
    if not isinstance(golden, int):
        return [golden_case(graph, reference_model, feeds, {}) for feeds in golden]
    samples = [sample_draws(graph.inputs, seed, bounds=graph.bounds) for seed in range(golden)]
    try:
        return [golden_case(graph, reference_model, *each) for each in samples]
    except UsageError as error:
        message = f"the model does not run on inputs sampled for its self-test: {error.message}"
        raise ModelError("E100", message, hint="--no-golden leaves the self-test out") from error


def golden_case(
    graph: Graph, reference_model: bytes, feeds: Mapping[str, np.ndarray[Any, Any]], draws: Mapping[str, Draw]
) -> Golden:
    """``feeds`` and what ONNX Runtime (optimisations off) makes of them: large ones by the ``draws`` that they are made
    of, and by samples. UsageError E002 where ``feeds`` are not the model's inputs."""
    names = [value.name for value in graph.outputs]
    run = judge(reference_model, names)
    outputs = run(feeds)
    rounding = coarser(coarsest_rounding(reference_model), graph.metadata)
    atol = max([1e-6, *tolerances(shaken(reference_model, names) or run, feeds, outputs, rounding)])
    inputs = [compact_input(feeds[value.name], draws.get(value.name)) for value in graph.inputs]
    return Golden(inputs, [compact_output(each) for each in outputs], rtol=RTOL, atol=atol)
