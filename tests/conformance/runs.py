"""How cases are run: on this machine alone and in batches, and as AArch64 code under qemu."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from onnx.backend.test.runner import Runner

import mcpc
import mcpc.backend

from ..operators import runners
from .batch import Batch, Outcome, outcomes
from .cases import Array, Case

#: The target and the processor that AArch64 code is tested as: what every board runs.
AARCH64, CPU = "aarch64", "cortex-a53"


def alone(case: Case) -> Outcome:
    """Through the backend interface, as onnx's own runner does it."""

    def attempt(batch: Batch) -> dict[str, Outcome]:
        session = mcpc.backend.prepare(case.proto)
        return {str(case): _judged(case, [list(session.run(inputs)) for inputs, _ in case.sets])}

    return outcomes(Batch((case,)), attempt)[str(case)]


def on_host(batch: Batch, folder: Path) -> dict[str, Outcome]:
    """Compiled for this machine, on one thread; the outputs that are kept are those of the first data set."""

    def attempt(batch: Batch) -> dict[str, Outcome]:
        path = runners.compile_family(batch, "host", folder, None)
        with mcpc.load(path, threads=1) as session:
            names = list(batch.model.outputs)
            if len(batch.cases) == 1:
                (case,), inputs = batch.cases, list(batch.model.feeds)
                sets = [dict(zip(inputs, arrays, strict=False)) for arrays, _ in case.sets]
                return {str(case): _judged(case, [session.run(names, feeds) for feeds in sets])}
            results = dict(zip(names, session.run(names, batch.model.feeds), strict=True))
        return {str(case): _judged(case, [batch.outputs_of(case, results)]) for case in batch.cases}

    return outcomes(batch, attempt)


def on_aarch64(batch: Batch, folder: Path, host: Mapping[str, Outcome]) -> dict[str, Outcome]:
    """Compiled for an AArch64 target and run under qemu, to give the ``host``'s numbers to the last bit."""

    def attempt(batch: Batch) -> dict[str, Outcome]:
        names = {str(case): [f"{case}/{value.name}" for value in case.proto.graph.output] for case in batch.cases}
        want = {n: array for case, own in names.items() for n, array in zip(own, host[case].outputs, strict=True)}
        said = runners.on_aarch64(batch, runners.for_aarch64(batch, AARCH64, folder, want), CPU)
        return {case: Outcome("; ".join(f"{n}: {said[n]}" for n in own if said[n])) for case, own in names.items()}

    run = tuple(case for case in batch.cases if host[str(case)].outputs)
    missing = {str(case): Outcome("the host gives nothing to compare with") for case in batch.cases}
    return missing | (outcomes(Batch(run), attempt) if run else {})


def _judged(case: Case, results: Sequence[list[Array]]) -> Outcome:
    """What onnx's runner says of the results of all data sets."""
    outputs = tuple(results[0])
    for got, (_, want) in zip(results, case.sets, strict=True):
        try:
            Runner.assert_similar_outputs(want, got, case.rtol, case.atol)
        except AssertionError as error:
            return Outcome(" ".join(str(error).split()), outputs)
    return Outcome("", outputs)
