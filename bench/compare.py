"""Time models as artifacts beside ONNX Runtime in this process, and write the tables of bench/results.

    python bench/compare.py [--models resnet50,minilm] [--threads 1,2] [--rounds 9] [--name NAME]

The two take turns (A B A B …) on the same inputs, so both meet the same disturbances of the machine: read ratios, not
times. ONNX Runtime runs with all its optimisations. Load is from the file to a session that can run; the first run is
the first after that, with the files in the page cache. Inputs are those of mcpc.models.samples at the usual sizes. A
model that does not compile is listed with the reason.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort

from mcpc.benchmark import Timing, onnxruntime_session, take_turns
from mcpc.compiler import compile as compile_model
from mcpc.errors import McpcError
from mcpc.loader import load
from mcpc.models import builders, samples, zoo

RESULTS = Path(__file__).parent / "results"
MODELS = tuple(dict.fromkeys((*builders.BUILDERS, *zoo.entries())))


def model_file(name: str, folder: Path) -> Path:
    """The .onnx of a model, built below ``folder`` or fetched."""
    if name not in builders.BUILDERS:
        return zoo.fetch(name)
    path = folder / f"{name}.onnx"
    onnx.save(builders.build(name), path)
    return path


def measure(name: str, model: Path, artifact: Path, threads: int, rounds: int) -> dict[str, Any]:
    """All numbers of one model at one thread count; times in milliseconds."""
    with load(artifact, threads=threads) as ours:
        theirs = onnxruntime_session(model, threads)
        feeds = samples.feeds(name)
        got, want = ours.run(None, feeds), theirs.run(None, feeds)
        difference = max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(got, want, strict=True))
        steady = take_turns(
            {"mcpc": lambda: ours.run(None, feeds), "onnxruntime": lambda: theirs.run(None, feeds)}, rounds
        )
    starts: dict[str, Callable[[], Any]] = {
        "mcpc": lambda: load(artifact, threads=threads),
        "onnxruntime": lambda: onnxruntime_session(model, threads),
    }
    loaded, first = _time_starts(starts, feeds, rounds)
    return {
        "model": name,
        "threads": threads,
        "relative_difference": difference,
        "latency": {who: timing.to_json() for who, timing in steady.items()},
        "latency_ratio": _ratio(steady),
        "load_median": loaded,
        "load_ratio": loaded["onnxruntime"] / loaded["mcpc"],
        "first_run_median": first,
        "first_to_steady": {who: first[who] / steady[who].median for who in first},
    }


def _time_starts(
    starts: dict[str, Callable[[], Any]], feeds: dict[str, Any], rounds: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Median milliseconds to load, and of the first run after it."""
    loads: dict[str, list[float]] = {who: [] for who in starts}
    firsts: dict[str, list[float]] = {who: [] for who in starts}
    for _ in range(rounds):
        for who, start in starts.items():
            began = time.perf_counter()
            session = start()
            ready = time.perf_counter()
            session.run(None, feeds)
            done = time.perf_counter()
            loads[who].append((ready - began) * 1e3)
            firsts[who].append((done - ready) * 1e3)
            if hasattr(session, "close"):
                session.close()
            del session  # or the next one's start would pay for its end
    return _medians(loads), _medians(firsts)


def _medians(times: dict[str, list[float]]) -> dict[str, float]:
    return {who: statistics.median(each) for who, each in times.items()}


def _ratio(steady: dict[str, Timing]) -> dict[str, float]:
    """How many times longer ONNX Runtime takes: by medians of all runs, by minima, and the range over the rounds."""
    ours, theirs = steady["mcpc"], steady["onnxruntime"]
    per_round = [b / a for a, b in zip(ours.turns, theirs.turns, strict=True)]
    return {
        "median": theirs.median / ours.median,
        "min": theirs.minimum / ours.minimum,
        "lowest_round": min(per_round),
        "highest_round": max(per_round),
    }


def markdown(document: dict[str, Any]) -> str:
    """The result as a page with one row a measurement."""
    lines = [
        f"# {document['machine']['processor']}, {document['machine']['cores']} cores",
        "",
        f"`{document['command']}`, ONNX Runtime {document['versions']['onnxruntime']}. Milliseconds; "
        "ratios say how many times longer ONNX Runtime takes.",
        "",
        "| model | threads | mcpc median (min) | ONNX Runtime median (min) | ratio of medians (rounds) | of minima "
        "| load | load ratio | first run / steady |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in document["results"]:
        ours, theirs, ratio = row["latency"]["mcpc"], row["latency"]["onnxruntime"], row["latency_ratio"]
        lines.append(
            f"| {row['model']} | {row['threads']} | {ours['median']:.3f} ({ours['min']:.3f}) "
            f"| {theirs['median']:.3f} ({theirs['min']:.3f}) "
            f"| {ratio['median']:.2f} ({ratio['lowest_round']:.2f}–{ratio['highest_round']:.2f}) | {ratio['min']:.2f} "
            f"| {row['load_median']['mcpc']:.2f} / {row['load_median']['onnxruntime']:.1f} | {row['load_ratio']:.0f} "
            f"| {row['first_to_steady']['mcpc']:.2f} |"
        )
    for name, reason in document["failures"].items():
        lines += ["", f"{name} is not measured: {reason}"]
    return "\n".join(lines) + "\n"


def plot(document: dict[str, Any]) -> str:
    """The ratios of medians as a bar chart, SVG: a bar a measurement, a whisker over the range of its rounds."""
    rows = document["results"]
    label, width, step, top = 160, 560, 22, 40
    right = max((row["latency_ratio"]["highest_round"] for row in rows), default=1.0)
    scale = width / max(right, 1.5)
    height = top + step * len(rows) + 30
    colours = ("#3572a5", "#e69f00", "#56b4e9", "#009e73")
    threads = sorted({row["threads"] for row in rows})
    shapes = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{label + width + 60}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{label}" y="20">latency of ONNX Runtime / latency of mcpc; right of the line mcpc is faster</text>',
    ]
    for index, row in enumerate(rows):
        ratio, y = row["latency_ratio"], top + index * step
        colour = colours[threads.index(row["threads"]) % len(colours)]
        low, middle, high = (ratio[key] * scale for key in ("lowest_round", "median", "highest_round"))
        shapes += [
            f'<text x="{label - 8}" y="{y + 13}" text-anchor="end">{row["model"]}, {row["threads"]} thr.</text>',
            f'<rect x="{label}" y="{y + 2}" width="{middle:.1f}" height="14" fill="{colour}"/>',
            f'<path d="M{label + low:.1f} {y + 9}H{label + high:.1f}" stroke="black"/>',
            f'<text x="{label + high + 6:.1f}" y="{y + 13}">{ratio["median"]:.2f}</text>',
        ]
    line = label + scale
    shapes += [
        f'<path d="M{line:.1f} {top - 8}V{height - 24}" stroke="black" stroke-dasharray="3 3"/>',
        f'<text x="{line:.1f}" y="{height - 8}" text-anchor="middle">1</text>',
        "</svg>",
    ]
    return "\n".join(shapes) + "\n"


def processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS), help="names separated by commas")
    parser.add_argument("--threads", default="1,2", help="thread counts separated by commas")
    parser.add_argument("--rounds", type=int, default=9, help="turns of each contestant")
    parser.add_argument("--name", default="host", help="stem of the result files")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of the result files")
    options = parser.parse_args()
    command = f"python bench/compare.py --threads {options.threads} --rounds {options.rounds}"
    if options.models != parser.get_default("models"):
        command += f" --models {options.models}"

    results = []
    failures: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in options.models.split(","):
            artifact = Path(folder) / f"{name}.mcp26bin"
            try:
                model = model_file(name, Path(folder))
                compile_model(model, "host", artifact, input_shapes=samples.SAMPLES[name].input_shapes)
            except McpcError as error:
                failures[name] = str(error).splitlines()[0]
                print(f"{name}: {failures[name]}")
                continue
            for threads in map(int, options.threads.split(",")):
                row = measure(name, model, artifact, threads, options.rounds)
                results.append(row)
                ratio = row["latency_ratio"]
                print(f"{name}, {threads} threads: {ratio['median']:.2f}x by medians, {ratio['min']:.2f}x by minima")
            artifact.unlink()
    document = {
        "command": command,
        "machine": {"processor": processor(), "cores": os.cpu_count()},
        "versions": {"onnxruntime": ort.__version__, "numpy": np.__version__, "python": platform.python_version()},
        "results": results,
        "failures": failures,
    }
    options.output.mkdir(exist_ok=True)
    stem = options.output / options.name
    stem.with_suffix(".json").write_text(json.dumps(document, indent=2) + "\n")
    stem.with_suffix(".md").write_text(markdown(document))
    stem.with_suffix(".svg").write_text(plot(document))
    print(f"written: {stem}.json, .md and .svg")


if __name__ == "__main__":
    main()
