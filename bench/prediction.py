"""Compare the cost model with the clock: predicted and measured time of every step of the sample models.

    python bench/prediction.py [--models resnet50,minilm] [--target host] [--name prediction-NAME] [--keep FOLDER]

Every model is compiled for the shapes of its sample inputs and run on one thread, alone; a step's time is the median
over the profiles. Stated are Spearman's rank correlation and the median of |predicted - measured| / measured. Steps of
less than half a microsecond are left out: the clock itself takes a tenth of that.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import platform
import re
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from artifacts import artifact
from compare import RESULTS
from scipy.stats import spearmanr

from mcpc import processor
from mcpc.coefficients import digest
from mcpc.loader import load
from mcpc.models import samples
from mcpc.models.networks import NAMES
from mcpc.plugins import find_target

#: Steps shorter than this, in milliseconds, are not compared.
LEAST_MS = 0.0005


def profile(path: Path, name: str, seconds: float) -> list[dict[str, Any]]:
    """The steps that ran, each with its median time over runs of so many seconds."""
    with load(path, threads=1) as session:
        feeds = samples.feeds(name)
        session.run(None, feeds)
        profiles: list[list[dict[str, Any]]] = []
        began = time.perf_counter()
        while len(profiles) < 5 or time.perf_counter() - began < seconds:
            profiles.append(session.profile(feeds))
    return [
        {**steps[0], "ms": statistics.median(step["ms"] for step in steps)} for steps in zip(*profiles, strict=True)
    ]


def agreement(steps: list[dict[str, Any]]) -> dict[str, float]:
    """How predictions and times go together; both totals in milliseconds."""
    compared = [(step["predicted_ms"], step["ms"]) for step in steps if step["ms"] >= LEAST_MS]
    predicted, measured = zip(*compared, strict=True)
    is_ranked = len(set(predicted)) > 1 and len(set(measured)) > 1
    errors = sorted(abs(p - m) / m for p, m in compared)
    return {
        "steps": len(compared),
        "spearman": round(float(spearmanr(predicted, measured)[0]), 4) if is_ranked else 1.0,
        "median_error": round(statistics.median(errors), 4),
        "error_p90": round(errors[int(len(errors) * 0.9)], 4),
        "predicted_ms": round(sum(predicted), 4),
        "measured_ms": round(sum(measured), 4),
    }


def by_kernel(steps: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The steps by their kernel, whatever its window, the longest in sum first."""
    found: dict[str, list[dict[str, Any]]] = collections.defaultdict(list)
    for step in steps:
        found[re.sub(r"\d+(x\d+)+", "KxK", step["kernel"])].append(step)
    return dict(sorted(found.items(), key=lambda item: -sum(step["ms"] for step in item[1])))


def markdown(document: dict[str, Any]) -> str:
    lines = [
        f"# Predicted and measured time of steps: {document['machine']['processor']}",
        "",
        f"`{document['command']}`, one thread; coefficients {document['coefficients']}"
        + (f", measured {document['measured']}." if document["measured"] else ", those of the target's description."),
    ]
    for title, rows in (("model", document["models"]), ("kernel", document["kernels"])):
        lines += [
            "",
            f"| {title} | steps | Spearman | median error | 90th percentile | predicted ms | measured ms |",
            "|---|---|---|---|---|---|---|",
        ]
        for name, row in rows.items():
            lines.append(
                f"| {name} | {row['steps']} | {row['spearman']:.3f} | {row['median_error']:.1%} "
                f"| {row['error_p90']:.1%} | {row['predicted_ms']:.3f} | {row['measured_ms']:.3f} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(NAMES), help="names separated by commas")
    parser.add_argument("--target", default="host", help="a target that this machine runs")
    parser.add_argument("--seconds", type=float, default=1.0, help="how long each model is profiled")
    parser.add_argument("--keep", type=Path, help="folder of artifacts: made there where missing, only measured else")
    parser.add_argument("--compile-only", action="store_true", help="make the artifacts of --keep and stop")
    parser.add_argument("--name", default="prediction-host", help="stem of the result files")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of the result files")
    options = parser.parse_args()
    target = find_target(options.target)
    every: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name in options.models.split(","):
            path = artifact(name, options.target, folder / f"{name}.mcp26bin")
            if not options.compile_only:
                every[name] = profile(path, name, options.seconds)
                print(f"{name}: {agreement(every[name])}", flush=True)
    if options.compile_only:
        return
    steps = [step for steps in every.values() for step in steps]
    document = {
        "command": f"python bench/prediction.py --target {options.target}",
        "machine": {"processor": processor.name(), "cores": os.cpu_count(), "system": platform.system()},
        "coefficients": digest(target),
        "measured": target.measured.date if target.measured is not None else "",
        "models": {**{name: agreement(steps) for name, steps in every.items()}, "all": agreement(steps)},
        "kernels": {
            name: agreement(group)
            for name, group in by_kernel(steps).items()
            if any(step["ms"] >= LEAST_MS for step in group)
        },
    }
    options.output.mkdir(exist_ok=True)
    stem = options.output / options.name
    stem.with_suffix(".json").write_text(json.dumps(document, indent=2) + "\n")
    stem.with_suffix(".md").write_text(markdown(document))
    print(f"all: {document['models']['all']}")  # type: ignore[index]


if __name__ == "__main__":
    main()
