"""Measures on this machine what code generation can choose between (``mcpc compile --tune``).

The network is built once with each kernel that a family offers, wherever that is legal, and profiled: so each layer
meets the caches as it does in use, with its weights in memory. Times are kept in the user's cache by what a layer
computes, by processor and by the versions that code depends on.
"""

from __future__ import annotations

import hashlib
import json
import statistics
from importlib.metadata import version
from pathlib import Path

from mcpc import processor
from mcpc.cache import cache_dir
from mcpc.codegen import Family
from mcpc.errors import UsageError
from mcpc.files import replacing
from mcpc.ir import Graph
from mcpc.runtime_api import cpu_has
from mcpc.sample_inputs import sample_inputs
from mcpc.target import Target
from mcpc.trial import trial

#: Runs of a network, the first of which does not count.
RUNS = 6

#: Microseconds by a layer's key and the kernel's name, joined by a bar.
Times = dict[str, float]


def measured_times(graph: Graph, target: Target, family: Family, jobs: int | None = None) -> Times:
    """The times of all that :meth:`Family.tunable` offers for ``graph``, which is shaped for the family.

    UsageError E001 where this machine does not run the target's code.
    """
    require_host(target)
    place = _place(target)
    try:
        times: Times = json.loads(place.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        times = {}
    for kernel, layers in family.tunable(graph, target).items():
        keys = {name: layer.key for name, layer in layers.items()}
        missing = {name: key for name, key in keys.items() if f"{key}|{kernel}" not in times}
        if missing:
            measured = _profile(graph, target, family, kernel, jobs)
            times |= {f"{key}|{kernel}": measured[name] for name, key in missing.items() if name in measured}
    with replacing(place) as file:
        file.write(json.dumps(times, indent=1, sort_keys=True).encode())
    return times


def require_host(target: Target) -> None:
    """UsageError E001 where this machine does not run the target's first variant."""
    if target.variant_here(cpu_has) not in target.variants[:1]:
        raise UsageError("E001", f"--tune measures on this machine, which does not run code for {target.name}")


def _profile(graph: Graph, target: Target, family: Family, kernel: str, jobs: int | None) -> Times:
    """Median microseconds of each step by its name, with ``kernel`` wherever that is legal."""
    feeds = sample_inputs(graph.inputs, 0, bounds=graph.bounds)
    with trial(graph, target, family, {"kernel": kernel}, jobs) as session:
        profiles = [session.profile(feeds) for _ in range(RUNS)][1:]
    steps = zip(*profiles, strict=True)
    return {runs[0]["name"]: 1e3 * statistics.median(step["ms"] for step in runs) for runs in steps}


def _place(target: Target) -> Path:
    """The file of the times for this processor, target and version."""
    parts = [processor.name(), target.name, str(target.variants), version("mcpc"), version("ziglang")]
    return cache_dir("tuning") / f"{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:20]}.json"
