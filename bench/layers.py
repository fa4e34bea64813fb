"""Say how near the products of a network come to the machine's limit, each among the others and with its own weights.

    python bench/layers.py [--model resnet50] [--targets host,x86-64-v3] [--rounds 15] [--output PAGE.md]

A round measures the fused multiply-adds that the core does from registers alone (bench/peak.c, compiled as the target's
code is), runs the network once, then once with a clock at every step, and once in ONNX Runtime with its profiler on,
all on one thread. Medians over the rounds count. Products of one operator, shape and stride are one row.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import onnx
import onnx.helper
import onnxruntime as ort
from compare import RESULTS

from mcpc import plugins, processor
from mcpc.compiler import compile as compile_model
from mcpc.loader import load
from mcpc.models import samples
from mcpc.models.networks import network

#: Rounds of the peak's loop, 5 to 10 ms.
PEAK_ROUNDS = 2_000_000


@dataclass(frozen=True)
class Product:
    """What a node with constant weights computes: [rows, depth] x [depth, columns]."""

    label: str
    rows: int
    depth: int
    columns: int

    @property
    def gflop(self) -> float:
        return 2e-9 * self.rows * self.depth * self.columns


@dataclass
class Row:
    """All nodes of one product: their number, and their median milliseconds together."""

    nodes: list[str] = field(default_factory=list)
    ours: float = 0.0
    theirs: float = 0.0


@dataclass(frozen=True)
class Weights:
    """Of a node that multiplies by a constant; ``label`` says by which operator."""

    label: str
    depth: int
    columns: int

    def product(self, shape: str) -> Product | None:
        """With the rows that a step's output has, whose type is ``shape``; None where a size is open."""
        sizes = re.search(r"\[([\d, ]*)\]", shape)
        if sizes is None:
            return None
        elements = math.prod(map(int, sizes[1].split(",")))
        return Product(self.label, elements // self.columns, self.depth, self.columns)


def weights_of(model: onnx.ModelProto) -> dict[str, Weights]:
    """By the node's name."""
    shapes = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    result: dict[str, Weights] = {}
    for node in model.graph.node:
        if node.op_type not in ("Conv", "Gemm", "MatMul") or node.input[1] not in shapes:
            continue
        w = shapes[node.input[1]]
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        columns = w[0] if node.op_type == "Conv" or attributes.get("transB") else w[-1]
        taps = "x".join(map(str, w[2:])) if node.op_type == "Conv" else ""
        stride = attributes.get("strides", [1])[0]
        label = " ".join(filter(None, [node.op_type, taps, f"stride {stride}" if stride > 1 else ""]))
        result[node.name] = Weights(label, math.prod(w) // columns, columns)
    return result


def peak_meter(target: str, folder: Path) -> Callable[[], float]:
    """A function that measures the GFLOP/s of fused multiply-adds, eight or sixteen lanes as the target's code."""
    description = plugins.find_target(target)
    library, source = folder / f"peak-{target}.so", Path(__file__).parent / "peak.c"
    machine = ["-target", description.triple, f"-mcpu={description.variants[0].mcpu}"]
    flags = ["-O2", "-shared", "-nostdlib", "-fPIC"]
    subprocess.run([sys.executable, "-m", "ziglang", "cc", *machine, *flags, source, "-o", library], check=True)
    function = ctypes.CDLL(str(library)).float_fma_flop
    function.restype, function.argtypes = ctypes.c_double, [ctypes.c_int64]

    def gflops() -> float:
        began = time.perf_counter()
        flop = float(function(PEAK_ROUNDS))
        return flop / (time.perf_counter() - began) / 1e9

    return gflops


def peer_session(model: Path, folder: Path) -> ort.InferenceSession:
    """ONNX Runtime at its best, with its profiler on."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "onnxruntime")
    return ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def peer_times(profile: str) -> dict[str, float]:
    """Median milliseconds by the node's name, without what ONNX Runtime's optimisations put behind it."""
    times: dict[str, list[float]] = defaultdict(list)
    for event in json.loads(Path(profile).read_text()):
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            times[re.sub("(_output_0)?(_nchwc)?_kernel_time$", "", event["name"])].append(event["dur"] / 1e3)
    return {name: statistics.median(each) for name, each in times.items()}


def measure(name: str, model: Path, target: str, artifact: Path, rounds: int) -> list[str]:
    """The lines of one target's table."""
    folder, feeds = artifact.parent, samples.feeds(name)
    known, peak, peer = weights_of(onnx.load(model)), peak_meter(target, folder), peer_session(model, folder)
    peaks, runs, profiles = [], [], []
    with load(artifact, threads=1) as session:
        for _ in range(rounds):
            peaks.append(peak())
            session.run(None, feeds)
            began = time.perf_counter()
            session.run(None, feeds)
            runs.append((time.perf_counter() - began) * 1e3)
            profiles.append(session.profile(feeds))
            peer.run(None, feeds)
            peer.run(None, feeds)
    theirs = peer_times(peer.end_profiling())
    limit = statistics.median(peaks)

    rows: dict[Product, Row] = defaultdict(Row)
    others = 0.0
    for steps in zip(*profiles, strict=True):
        milliseconds = statistics.median(step["ms"] for step in steps)
        parts = steps[0]["name"].split("+")
        node = next((part for part in parts if part in known), "")
        product = known[node].product(steps[0]["shape"]) if node else None
        if product is None:
            others += milliseconds
            continue
        row = rows[product]
        row.nodes.append(node)
        row.ours += milliseconds
        row.theirs += sum(theirs.get(part, 0.0) for part in parts)
    if not rows:
        raise SystemExit(f"{name} has no products of fixed sizes with constant weights")
    lines = [
        f"## {name} for {target}: {limit:.0f} GFLOP/s, {statistics.median(runs):.1f} ms",
        "",
        "| product | rows x depth x columns | layers | ms a layer | GFLOP/s | of the peak | ONNX Runtime's ms |",
        "|---|---|---|---|---|---|---|",
    ]
    for product, row in rows.items():
        count, rate = len(row.nodes), product.gflop * len(row.nodes) / row.ours * 1e3
        lines.append(
            f"| {product.label} | {product.rows} x {product.depth} x {product.columns} | {count} "
            f"| {row.ours / count:.3f} | {rate:.1f} | {rate / limit:.0%} "
            f"| {f'{row.theirs / count:.3f}' if row.theirs else ''} |"
        )
    total = sum(row.ours for row in rows.values())
    rate = sum(product.gflop * len(row.nodes) for product, row in rows.items()) / total * 1e3
    peers = sum(row.theirs for row in rows.values())
    lines.append(f"| all | | {sum(len(r.nodes) for r in rows.values())} | {total:.2f} together | {rate:.1f} "
                 f"| {rate / limit:.0%} | {peers:.2f} together |")  # fmt: skip
    return [*lines, "", f"Other steps take {others:.2f} ms.", ""]


def heading(command: str) -> list[str]:
    return [
        f"# Products and the machine's limit: {processor.name()}, one thread",
        "",
        f"`{command}`, ONNX Runtime {ort.__version__}. The peak is what the same core did in the same rounds from "
        "registers alone; a Winograd layer may be above it: the rate counts the products of the plain convolution.",
        "",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--targets", default="host,x86-64-v3", help="names separated by commas")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--output", type=Path, default=RESULTS / "layers.md")
    options = parser.parse_args()
    command = f"python bench/layers.py --model {options.model} --targets {options.targets} --rounds {options.rounds}"
    page = heading(command)
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.onnx"
        onnx.save(network(options.model), model)
        for target in options.targets.split(","):
            artifact = Path(folder) / f"{target}.mcp26bin"
            compile_model(model, target, artifact, input_shapes=samples.SAMPLES[options.model].input_shapes, golden=0)
            page += measure(options.model, model, target, artifact, options.rounds)
    options.output.write_text("\n".join(page).rstrip() + "\n")
    print("\n".join(page))


if __name__ == "__main__":
    main()
