"""How fast an artifact opens and runs on this machine, alone or in turns with something else."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


def benchmark(
    artifact: Path | str,
    *,
    threads: int | None = None,
    affinity: str = "all",
    warmup: int = 10,
    iterations: int | None = None,
    profile: bool = False,
    seed: int = 0,
    dims: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Open the artifact and run it on sampled inputs: the object that ``mcpc bench --json`` prints. ``dims`` are values
    of symbolic sizes. ``affinity`` counts for the calling thread too, while this runs.

    ``iterations`` None runs for about a second, 10 times at least. ``latency_ms`` covers a whole ``run`` call from
    Python, ``first_run_ms`` the first after opening. With ``profile``, ``steps`` has each step's median over a tenth as
    many runs after the others, so that reading the clock disturbs none of them.
    ``session_bytes`` are for activations, state and outputs of these sizes, ``arena_bytes`` what the artifact states.
    ``peak_rss_mib`` is the process's.
    """
    with _placed(affinity):
        return _benchmark(artifact, threads, affinity, warmup, iterations, profile, seed, dims)


def _benchmark(
    artifact: Path | str,
    threads: int | None,
    affinity: str,
    warmup: int,
    iterations: int | None,
    profile: bool,
    seed: int,
    dims: Mapping[str, int] | None,
) -> dict[str, Any]:
    from mcpc.inspection import inspect
    from mcpc.loader import load
    from mcpc.sample_inputs import artifact_inputs

    began = time.perf_counter()
    session = load(artifact, threads=threads, affinity=affinity)
    open_ms = _milliseconds_since(began)
    with session:
        feeds = artifact_inputs(artifact, session, seed, dims)

        def run() -> float:
            began = time.perf_counter()
            session.run(None, feeds)
            return _milliseconds_since(began)

        first_ms = run()
        for _ in range(warmup):
            run()
        runs: list[float] = []
        while len(runs) < (iterations or 10) or (iterations is None and sum(runs) < 1000):
            runs.append(run())
        document = inspect(artifact)
        result: dict[str, Any] = {
            "latency_ms": percentiles(runs),
            "input_shapes": {name: list(array.shape) for name, array in feeds.items()},
            "iterations": len(runs),
            "open_ms": round(open_ms, 4),
            "first_run_ms": round(first_ms, 4),
            "peak_rss_mib": peak_rss_mib(),
            "arena_bytes": document["arena_bytes"],
            "session_bytes": session.memory_bytes,
            "weights_bytes": document["weights_bytes"],
        }
        if profile:
            profiles = [session.profile(feeds) for _ in range(max(len(runs) // 10, 1))]
            result["steps"] = [
                {**steps[0], "ms": round(statistics.median(step["ms"] for step in steps), 6)}
                for steps in zip(*profiles, strict=True)
            ]
        return result


@contextmanager
def _placed(affinity: str) -> Iterator[None]:
    """The calling thread on cores of ``affinity``: a session places only the threads that it starts."""
    from mcpc.loader import place_thread

    before = os.sched_getaffinity(0)
    place_thread(affinity)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@dataclass(frozen=True)
class Timing:
    """Milliseconds of one contestant: its least run, the median of all runs, and the median of each of its turns."""

    minimum: float
    median: float
    turns: tuple[float, ...]

    @classmethod
    def of(cls, turns: Sequence[Sequence[float]]) -> Timing:
        """Of the times of each turn's runs."""
        return cls(
            minimum=min(min(turn) for turn in turns),
            median=statistics.median(value for turn in turns for value in turn),
            turns=tuple(statistics.median(turn) for turn in turns),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "min": round(self.minimum, 4),
            "median": round(self.median, 4),
            "turns": [round(t, 4) for t in self.turns],
        }


def take_turns(
    contestants: Mapping[str, Callable[[], object]], rounds: int = 7, turn_ms: float = 150
) -> dict[str, Timing]:
    """Time callables in turns (A B A B …), so that a machine that slows down meanwhile slows all of them.

    A turn lasts ``turn_ms`` or three calls, whichever is longer, after one call that is not counted.
    """
    times: dict[str, list[list[float]]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, call in contestants.items():
            call()
            turn: list[float] = []
            while len(turn) < 3 or sum(turn) < turn_ms:
                began = time.perf_counter()
                call()
                turn.append(_milliseconds_since(began))
            times[name].append(turn)
    return {name: Timing.of(turns) for name, turns in times.items()}


def percentiles(milliseconds: Sequence[float]) -> dict[str, float]:
    """The least, the median, and the 90th and 99th percentile."""
    low, median, p90, p99 = (round(float(value), 4) for value in np.percentile(milliseconds, [0, 50, 90, 99]))
    return {"min": low, "p50": median, "p90": p90, "p99": p99}


def peak_rss_mib() -> float:
    """The most memory that this process has had resident."""
    import resource

    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


def onnxruntime_session(model: Path | str, threads: int) -> Any:
    """ONNX Runtime at its best: all optimisations, on ``threads`` threads."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def _milliseconds_since(began: float) -> float:
    return (time.perf_counter() - began) * 1e3
