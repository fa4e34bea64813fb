"""Count the instructions that an inference retires on an AArch64 board, and write the tables of bench/results.

    python bench/instructions.py [--models resnet50,mobilenetv2] [--precision fp32] [--target rock5b] [--functions 12]

No board is needed: the device's own tool runs under qemu-aarch64 as a Cortex-A76, one thread, and a plug-in counts
(bench/instructions.c, built here by the host's C compiler). An inference is the difference between a process that runs
one more and a process that does not, so opening and reading are left out. Counts do not depend on the machine that
emulates. A second table says which functions of the artifact the instructions belong to. Inputs are those of
mcpc.models.samples at the usual sizes.
"""

from __future__ import annotations

import argparse
import bisect
import io
import json
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import quantized
from elftools.elf.elffile import ELFFile

from mcpc import sdk
from mcpc.artifact import Artifact
from mcpc.compiler import compile as compile_model
from mcpc.models import samples
from mcpc.models.networks import network
from mcpc.plugins import find_target
from mcpc.precision import PRECISIONS
from mcpc.target import Target
from mcpc.targets.native.family import link_variant, read_sources

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PROCESSOR = "cortex-a76"

#: Millions of instructions of others, counted in the same way (ncnn 20261020, MNN 3.6.1, their AArch64 wheels).
PEERS = {
    ("resnet50", "fp32"): {"ncnn": 914, "MNN": 920},
    ("resnet50", "fp16"): {"ncnn": 481, "MNN": 484},
    ("mobilenetv2", "fp32"): {"ncnn": 101, "MNN": 109},
    ("mobilenetv2", "fp16"): {"ncnn": 55, "MNN": 56},
}

#: Instructions by mapped file and offset of the block in it.
Blocks = Counter[tuple[str, int]]


@dataclass(frozen=True)
class Bench:
    """What counts: the plug-in, the device's tool, a folder for what is made."""

    plugin: Path
    tool: Path
    folder: Path

    @classmethod
    def build(cls, target: Target, folder: Path) -> Bench:
        plugin = folder / "instructions.so"
        source = HERE / "instructions.c"
        subprocess.run(["cc", "-std=c11", "-O2", "-shared", "-fPIC", str(source), "-o", str(plugin)], check=True)
        sdk.build(target, folder / "sdk")
        return cls(plugin, folder / "sdk" / "bin" / "mcp26-run", folder)

    def blocks(self, artifact: Path) -> Blocks:
        """The instructions of one inference."""
        counts = self._run(artifact, 2)
        counts.subtract(self._run(artifact, 1))
        return Counter({block: count for block, count in counts.items() if count})

    def _run(self, artifact: Path, runs: int) -> Blocks:
        output = self.folder / "blocks.txt"
        emulator = ["qemu-aarch64", "-cpu", PROCESSOR, "-plugin", f"{self.plugin},out={output}"]
        command = [*emulator, str(self.tool), str(artifact), "--bench", str(runs), "--threads", "1"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        counts: Blocks = Counter()
        for line in output.read_text().splitlines():
            count, offset, path = line.split(" ", 2)
            counts[path, int(offset)] += int(count)
        return counts


def functions(blocks: Blocks, artifact: Path, sources: Path, target: Target) -> Counter[str]:
    """The instructions by function of the artifact; "runtime" is the tool and all else."""
    starts, names = [], []
    with Artifact.open(artifact) as opened:
        for variant, code in zip(target.variants, opened.meta.code, strict=True):
            base = opened.container.sections[code.section].offset
            file: Any = ELFFile(io.BytesIO(link_variant(read_sources(sources), target, variant)))
            symbols = file.get_section_by_name(".symtab").iter_symbols()
            placed = [(base + s["st_value"], s.name) for s in symbols if s["st_info"]["type"] == "STT_FUNC"]
            for start, name in sorted(placed):
                starts.append(start)
                names.append(name)
    totals: Counter[str] = Counter()
    for (path, offset), count in blocks.items():
        is_ours = Path(path) == artifact and offset >= starts[0]
        totals[names[bisect.bisect_right(starts, offset) - 1] if is_ours else "runtime"] += count
    return totals


def measure(bench: Bench, name: str, precision: str, target: Target) -> dict[str, Any]:
    """All numbers of one model."""
    model, artifact = bench.folder / f"{name}.onnx", bench.folder / f"{name}.mcp26bin"
    options: dict[str, Any] = {"precision": precision} if precision in PRECISIONS else {}
    if precision in quantized.ACTIVATIONS:
        model = quantized.models(name, bench.folder)[precision]
    else:
        onnx.save(network(name), model)
    with tempfile.TemporaryDirectory(dir=bench.folder) as emit:
        compile_model(model, target.name, artifact, emit=emit, golden=[samples.feeds(name)], **options)
        blocks = bench.blocks(artifact)
        by_function = functions(blocks, artifact, Path(emit) / "c", target)
    return {
        "model": name,
        "precision": precision,
        "instructions": blocks.total(),
        "peers_millions": PEERS.get((name, precision), {}),
        "functions": dict(by_function.most_common()),
    }


def markdown(document: dict[str, Any], functions_shown: int) -> str:
    """The result as a page: totals, then where they come from."""
    lines = [
        f"# Instructions an inference on {document['target']}",
        "",
        f"`{document['command']}`: retired by one thread on an emulated {PROCESSOR}, in millions. ncnn and MNN are "
        "their AArch64 wheels, counted in the same way.",
        "",
        "| model | precision | mcpc | ncnn | MNN |",
        "|---|---|---|---|---|",
    ]
    for row in document["results"]:
        peers = [str(row["peers_millions"].get(peer, "–")) for peer in ("ncnn", "MNN")]
        lines.append(f"| {row['model']} | {row['precision']} | {row['instructions'] / 1e6:.1f} | {' | '.join(peers)} |")
    for row in document["results"]:
        total = row["instructions"]
        lines += ["", f"{row['model']}, {row['precision']}:", "", "| function | millions | share |", "|---|---|---|"]
        for function, count in list(row["functions"].items())[:functions_shown]:
            lines.append(f"| `{function}` | {count / 1e6:.2f} | {count / total:.1%} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="resnet50,mobilenetv2", help="names of built models, separated by commas")
    parser.add_argument(
        "--precision", default="fp32", help="precisions separated by commas; u8s8 and s8s8: in QDQ form, quantized.py"
    )
    parser.add_argument("--target", default="rock5b", help="a target with AArch64 code")
    parser.add_argument("--functions", type=int, default=12, help="functions listed a model")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of the result files")
    options = parser.parse_args()
    command = "python bench/instructions.py"
    for name in ("models", "precision", "target"):
        if getattr(options, name) != parser.get_default(name):
            command += f" --{name} {getattr(options, name)}"

    target = find_target(options.target)
    results = []
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench.build(target, Path(folder).resolve())
        for name in options.models.split(","):
            for precision in options.precision.split(","):
                results.append(measure(bench, name, precision, target))
                print(f"{name}, {precision}: {results[-1]['instructions'] / 1e6:.1f} million instructions")
    document = {"command": command, "target": target.name, "processor": PROCESSOR, "results": results}
    options.output.mkdir(exist_ok=True)
    stem = options.output / f"instructions-{target.name}"
    stem.with_suffix(".json").write_text(json.dumps(document, indent=2) + "\n")
    stem.with_suffix(".md").write_text(markdown(document, options.functions))
    print(f"written: {stem}.json and .md")


if __name__ == "__main__":
    main()
