"""Time models as artifacts beside ONNX Runtime and other runtimes, and write the tables of bench/results.

    python bench/compare.py [--models resnet50,minilm] [--threads 1,2] [--rounds 9] [--name NAME]
                            [--peers onnxruntime,openvino,MNN=/other/venv/bin/python]

All take turns (A B A B …) on the same inputs, each in a process of its own at its best settings (contestants.py), so
all meet the same disturbances of the machine: read ratios, not times. A peer that is not installed, or cannot run a
model, is left out with the reason. Load is from the file to a session that can run; the first run is the first after
that, with the files in the page cache. Inputs are those of mcpc.models.samples at the usual sizes. Errors are measured
against the model in double precision by ONNX's own evaluator.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import float64
import numpy as np
import onnx
import report
from contestants import CONTESTANTS
from turns import Contestant, Unable, prepare, take_starts, take_turns

from mcpc import processor
from mcpc.benchmark import Timing
from mcpc.models import samples
from mcpc.models.networks import NAMES, network

RESULTS = Path(__file__).parent / "results"
PEERS = tuple(name for name in CONTESTANTS if name != "mcpc")


class Entry:
    """A model, its inputs, and what the contestants made of it, in a folder of its own."""

    def __init__(self, name: str, folder: Path, pythons: Mapping[str, str], *, anew: bool) -> None:
        self.name, self.folder = name, folder
        folder.mkdir(parents=True, exist_ok=True)
        self.model = folder / "model.onnx"
        self.feeds = folder / "feeds.npz"
        self.prepared: dict[str, Path] = {}
        self.unable: dict[str, str] = {}
        if not self.model.exists():
            onnx.save(network(name), self.model)
        feeds: dict[str, Any] = dict(samples.feeds(name))
        np.savez(self.feeds, **feeds)
        known = folder / "prepared.json"
        kept = json.loads(known.read_text()) if known.exists() else {}
        for who, python in pythons.items():
            try:
                if who not in kept or (who == "mcpc" and anew):
                    kept[who] = str(prepare(python, who, self.model, self.feeds, folder))
                self.prepared[who] = Path(kept[who])
            except Unable as error:
                self.unable[who] = str(error)
        known.write_text(json.dumps(kept))

    def exact(self) -> list[np.ndarray[Any, Any]] | None:
        """The outputs in double precision; None where the evaluator has not all operators."""
        file = self.folder / "exact.npz"
        if not file.exists():
            try:
                np.savez(file, *float64.evaluate(onnx.load(self.model), dict(np.load(self.feeds))))
            except Exception as error:  # its exceptions share no base class
                self.unable["float64"] = (str(error).splitlines() or [type(error).__name__])[0]
                return None
        with np.load(file) as stored:
            return [stored[f"arr_{index}"] for index in range(len(stored.files))]

    def weights_bytes(self) -> int:
        """Of the model's weights, as the .onnx file stores them."""
        graph = onnx.load(self.model).graph
        return sum(onnx.numpy_helper.to_array(each).nbytes for each in graph.initializer)


def measure(entry: Entry, pythons: Mapping[str, str], threads: int, rounds: int, starts: int) -> dict[str, Any]:
    """All numbers of one model at one thread count; times in milliseconds. Unable where mcpc or ONNX Runtime is."""
    with ExitStack() as stack:
        ready: dict[str, Contestant] = {}
        unable = dict(entry.unable)
        for who, prepared in entry.prepared.items():
            contestant = stack.enter_context(Contestant(pythons[who], who, prepared, threads, entry.feeds))
            try:
                contestant("start")
                ready[who] = contestant
            except Unable as error:
                unable[who] = str(error)
        for who in ("mcpc", "onnxruntime"):
            if who not in ready:
                raise Unable(f"{who}: {unable[who]}")
        versions = {who: contestant("version") for who, contestant in ready.items()}
        steady = take_turns(ready, rounds)
        memory = {who: round(contestant("memory"), 1) for who, contestant in ready.items()}
        outputs = {who: contestant.outputs(entry.folder / "outputs.npz") for who, contestant in ready.items()}
        ready_again = take_starts(ready, starts)
    return {
        "model": entry.name,
        "threads": threads,
        "latency": {who: timing.to_json() for who, timing in steady.items()},
        "ratio": {who: ratio(steady["mcpc"], timing) for who, timing in steady.items() if who != "mcpc"},
        "relative_difference": {
            who: float64.error(each, outputs["onnxruntime"]) for who, each in outputs.items() if who != "onnxruntime"
        },
        "starts": {
            who: {"load_ms": round(each.load, 4), "first_ms": round(each.first, 4)} for who, each in ready_again.items()
        },
        "peak_rss_mib": memory,
        "artifact_bytes": entry.prepared["mcpc"].stat().st_size,
        "weights_bytes": entry.weights_bytes(),
        "error": errors(outputs, entry.exact()),
        "unable": unable,
        "versions": versions,
    }


def ratio(ours: Timing, theirs: Timing) -> dict[str, float]:
    """How many times longer a peer takes: by medians of all runs, by minima, and the range over the rounds."""
    per_round = [b / a for a, b in zip(ours.turns, theirs.turns, strict=True)]
    return {
        "median": theirs.median / ours.median,
        "min": theirs.minimum / ours.minimum,
        "lowest_round": min(per_round),
        "highest_round": max(per_round),
    }


def errors(outputs: Mapping[str, Any], exact: list[Any] | None) -> dict[str, float | None] | None:
    """The largest errors of mcpc and ONNX Runtime against ``exact``, and their ratio."""
    if exact is None:
        return None
    ours, theirs = (float64.error(outputs[who], exact) for who in ("mcpc", "onnxruntime"))
    return {"mcpc": ours, "onnxruntime": theirs, "ratio": ours / theirs if theirs else None}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(NAMES), help="names separated by commas")
    parser.add_argument("--threads", default="1,2", help="thread counts separated by commas")
    parser.add_argument("--rounds", type=int, default=9, help="turns of each contestant")
    parser.add_argument("--starts", type=int, default=5, help="times that each loads again")
    parser.add_argument("--peers", default=",".join(PEERS), help="names separated by commas; NAME=PYTHON: run by that")
    parser.add_argument("--name", default="host", help="stem of the result files")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of the result files")
    parser.add_argument("--work", type=Path, help="folder that keeps prepared models and exact outputs")
    parser.add_argument("--prepare", action="store_true", help="fill that folder only, with artifacts made anew")
    options = parser.parse_args()
    command = f"python bench/compare.py --threads {options.threads} --rounds {options.rounds}"
    if options.models != parser.get_default("models"):
        command += f" --models {options.models}"
    pythons = {"mcpc": sys.executable}
    for peer in options.peers.split(","):
        name, _, python = peer.partition("=")
        if name not in PEERS:
            parser.error(f"no peer is called {name!r}: one of {', '.join(PEERS)}")
        pythons[name] = python or sys.executable

    results = []
    failures: dict[str, str] = {}
    known: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as temporary:
        for name in options.models.split(","):
            entry = Entry(name, (options.work or Path(temporary)) / name, pythons, anew=options.prepare)
            if options.prepare:
                entry.exact()
                print(f"{name}: ready for {', '.join(entry.prepared)}")
                print(*(f"    {who}: {why}" for who, why in entry.unable.items()), sep="\n", flush=True)
                continue
            for threads in map(int, options.threads.split(",")):
                try:
                    row = measure(entry, pythons, threads, options.rounds, options.starts)
                except Unable as error:
                    failures[name] = str(error)
                    print(f"{name}: {failures[name]}")
                    break
                known |= row.pop("versions")
                results.append(row)
                ratios = ", ".join(f"{peer} {each['median']:.2f}x" for peer, each in row["ratio"].items())
                print(f"{name}, {threads} threads: {ratios}", flush=True)
    if options.prepare:
        return
    ran = {peer for row in results for peer in row["ratio"]}
    document = {
        "command": command,
        "machine": {"processor": processor.name(), "cores": os.cpu_count()},
        "versions": {"python": platform.python_version(), **known},
        "peers": [peer for peer in PEERS if peer in ran],
        "results": results,
        "failures": failures,
    }
    options.output.mkdir(exist_ok=True)
    stem = options.output / options.name
    stem.with_suffix(".json").write_text(json.dumps(document, indent=2) + "\n")
    stem.with_suffix(".md").write_text(report.markdown(document))
    stem.with_suffix(".svg").write_text(report.plot(document))
    print(f"written: {stem}.json, .md and .svg")


if __name__ == "__main__":
    main()
