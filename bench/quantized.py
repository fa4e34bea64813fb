"""Time networks in QDQ form as artifacts beside ONNX Runtime, and write the tables of bench/results.

    python bench/quantized.py [--models resnet50,mobilenetv2] [--rounds 9] [--target host] [--name quantized-NAME]

Models are quantised by ONNX Runtime's quantize_static in QDQ form, with a scale an output channel for weights: "u8s8"
has unsigned activations, "s8s8" signed ones. Both run the same file in turns (A B A B ...), one thread each, in
processes of their own: read ratios. The model in float32 runs beside them.

ONNX Runtime chooses its kernels by CPUID. With ``--target x86-64-v3`` and a library in LD_PRELOAD that takes the
features beyond AVX2 out of CPUID's answers, the table is that of an AVX2 core, whatever core it is.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process
from report import table_head, table_row
from turns import Contestant, take_turns

from mcpc import processor
from mcpc.compiler import compile as compile_model
from mcpc.models import samples
from mcpc.models.networks import network

RESULTS = Path(__file__).parent / "results"

ACTIVATIONS = {"u8s8": QuantType.QUInt8, "s8s8": QuantType.QInt8}

#: Samples that ranges are taken from.
CALIBRATION = 4


class Samples:
    """Normally distributed inputs in the shapes of a model's sample."""

    def __init__(self, feeds: dict[str, Any]) -> None:
        rng = np.random.default_rng(1)
        drawn = (
            {name: rng.standard_normal(v.shape, np.float32) for name, v in feeds.items()} for _ in range(CALIBRATION)
        )
        self._left = iter([feeds, *drawn])

    def get_next(self) -> dict[str, Any] | None:
        return next(self._left, None)


def models(name: str, folder: Path) -> dict[str, Path]:
    """The network in float32 and both quantised forms."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {kind: folder / f"{kind}.onnx" for kind in ("fp32", *ACTIVATIONS)}
    if not paths["fp32"].exists():
        onnx.save(network(name), folder / "plain.onnx")
        quant_pre_process(str(folder / "plain.onnx"), str(paths["fp32"]), skip_symbolic_shape=True)
    for kind, activations in ACTIVATIONS.items():
        if not paths[kind].exists():
            quantize_static(
                str(paths["fp32"]),
                str(paths[kind]),
                Samples(dict(samples.feeds(name))),
                quant_format=QuantFormat.QDQ,
                per_channel=True,
                activation_type=activations,
                weight_type=QuantType.QInt8,
            )
    return paths


def measure(name: str, folder: Path, target: str, rounds: int) -> dict[str, Any]:
    """Medians in milliseconds and their ratios."""
    feeds = folder / "feeds.npz"
    paths = models(name, folder)
    sample: dict[str, Any] = dict(samples.feeds(name))
    np.savez(feeds, **sample)
    with ExitStack() as stack:
        contestants = {}
        for kind, path in paths.items():
            artifact = compile_model(path, target, folder / f"{kind}-{target}.mcp26bin", golden=0)
            for who, prepared in (("mcpc", artifact), ("onnxruntime", path)):
                contestant = stack.enter_context(Contestant(sys.executable, who, prepared, 1, feeds))
                contestant("start")
                contestants[f"{who} {kind}"] = contestant
        times = take_turns(contestants, rounds)
    milliseconds = {who: timing.median for who, timing in times.items()}
    ratios = {kind: milliseconds[f"onnxruntime {kind}"] / milliseconds[f"mcpc {kind}"] for kind in paths}
    return {"model": name, "milliseconds": milliseconds, "ratio": ratios}


def markdown(document: dict[str, Any]) -> str:
    kinds = ("fp32", *ACTIVATIONS)
    machine = f"{document['machine']}, {document['cpuid']}"
    lines = [
        "# Networks quantised by ONNX Runtime",
        "",
        f"`{document['command']}` on {machine}; ONNX Runtime {document['onnxruntime']}.",
        "Median milliseconds of one thread, mcpc / ONNX Runtime, and how many times longer ONNX Runtime takes.",
        "",
        *table_head(["model", *kinds]),
    ]
    for row in document["results"]:
        cells = []
        for kind in kinds:
            ours, theirs = (row["milliseconds"][f"{who} {kind}"] for who in ("mcpc", "onnxruntime"))
            cells.append(f"{ours:.2f} / {theirs:.2f}: {row['ratio'][kind]:.2f}x")
        lines.append(table_row([row["model"], *cells]))
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="resnet50,mobilenetv2", help="names of built models, separated by commas")
    parser.add_argument("--rounds", type=int, default=9, help="turns of each contestant")
    parser.add_argument("--target", default="host", help="what mcpc compiles for")
    parser.add_argument("--name", default="quantized-host", help="stem of the result files")
    parser.add_argument("--work", type=Path, help="folder that keeps quantised models")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of the result files")
    options = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as temporary:
        for name in options.models.split(","):
            row = measure(name, (options.work or Path(temporary)) / name, options.target, options.rounds)
            results.append(row)
            print(
                name, {kind: f"{ratio:.2f}x" for kind, ratio in row["ratio"].items()}, row["milliseconds"], flush=True
            )
    document = {
        "command": f"python bench/quantized.py --target {options.target} --rounds {options.rounds}",
        "machine": processor.name(),
        "cpuid": "CPUID masked to AVX2" if os.environ.get("LD_PRELOAD") else "CPUID as it is",
        "onnxruntime": version("onnxruntime"),
        "results": results,
    }
    options.output.mkdir(exist_ok=True)
    stem = options.output / options.name
    stem.with_suffix(".json").write_text(json.dumps(document, indent=2) + "\n")
    stem.with_suffix(".md").write_text(markdown(document))
    print(f"written: {stem}.json and .md")


if __name__ == "__main__":
    main()
