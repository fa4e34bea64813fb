"""How exactly quantised networks are computed, layer by layer and to the end, and write the tables of bench/results.

    python bench/exactness.py [--models smart-turn,resnet50,mobilenetv2] [--inputs 60] [--target x86-64-v3]
                              [--name exactness-NAME] [--json]

A layer is what lies between tensors of bytes. Each is compared with what float64 makes of the bytes that the artifact
itself has computed before it, so that no error is carried on; ONNX Runtime's float32, without optimisations, gets the
same bytes. smart-turn comes quantised; the others are quantised here by ONNX Runtime, with a scale a channel. Then
outputs of the whole network are compared, and those of an emulated AArch64 core with the host's, to the bit.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest import mock

import float64
import numpy as np
import onnx
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process
from report import table_head, table_row

import mcpc
from mcpc import processor, sdk
from mcpc.golden import Golden
from mcpc.judge import judge
from mcpc.models import builders, inputs, zoo
from mcpc.models.samples import feeds
from mcpc.models.tasks import turns
from mcpc.plugins import find_target

Array = np.ndarray[Any, Any]
Feeds = Mapping[str, Array]

RESULTS = Path(__file__).parent / "results"
MODELS = ("smart-turn", "resnet50", "mobilenetv2")
DEVICES = ("rock5b", "aarch64")


# ---- networks and inputs


def quantized(name: str, folder: Path, size: int = 224) -> Path:
    """The network called ``name`` in QDQ form, of images ``size`` pixels high and wide."""
    if name == "smart-turn":
        return zoo.fetch(name)
    path, prepared = folder / f"{name}.onnx", folder / f"{name}-prepared.onnx"
    quant_pre_process(builders.build(name, size=size), str(prepared))
    quantize_static(
        str(prepared), str(path), _Samples(name, size), quant_format=QuantFormat.QDQ, per_channel=True,
        activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
    )  # fmt: skip
    return path


class _Samples(CalibrationDataReader):
    def __init__(self, name: str, size: int) -> None:
        self._left = iter([dict(feeds(name, (size, size), seed=100 + seed)) for seed in range(4)])

    def get_next(self) -> dict[str, Array] | None:
        return next(self._left, None)


def spoken(count: int) -> Iterator[Array]:
    """Audio [samples] at 16 kHz, in turns: speech that breaks off, that ends in a pause, noise alone, faint speech in
    noise, and two phrases with silence between."""
    for index in range(count):
        rng = np.random.default_rng(index)
        speech, _ = inputs.speech(turns.SECONDS, index)
        begun = speech[: int(rng.uniform(2, turns.SECONDS) * turns.RATE)]
        noise = rng.standard_normal(len(speech))
        silence = 1e-3 * noise[: int(rng.uniform(0.2, 2) * turns.RATE)]
        yield (
            begun,
            np.concatenate([begun, silence]),
            rng.uniform(0.01, 0.3) * noise,
            rng.uniform(0.05, 1) * speech + 10 ** rng.uniform(-4, -1.5) * noise,
            np.concatenate([begun[: 2 * turns.RATE], 0 * silence, begun[-turns.RATE :]]),
        )[index % 5].astype(np.float32)  # fmt: skip


def samples(name: str, count: int) -> list[Feeds]:
    if name == "smart-turn":
        return [{"input_features": turns.features(audio)} for audio in spoken(count)]
    return [feeds(name, seed=seed) for seed in range(count)]


# ---- layers


def roundings(model: onnx.ModelProto) -> list[str]:
    """The tensors of bytes that are made of computed floats."""
    constants = {tensor.name for tensor in model.graph.initializer}
    return [
        node.output[0]
        for node in model.graph.node
        if node.op_type == "QuantizeLinear" and node.input[0] not in constants
    ]


def exposed(model: onnx.ModelProto) -> onnx.ModelProto:
    """The network with its bytes as outputs too."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    known = {value.name for value in model.graph.output}
    result.graph.output.extend(onnx.ValueInfoProto(name=name) for name in roundings(model) if name not in known)
    return result


def cut(model: onnx.ModelProto, stored: Feeds) -> onnx.ModelProto:
    """The network in pieces: its bytes, ``stored`` by name, are inputs, what makes them outputs called NAME:made."""
    result = exposed(model)
    for node in result.graph.node:
        if node.op_type == "QuantizeLinear" and node.output[0] in stored:
            array = stored[node.output[0]]
            type = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
            result.graph.input.append(onnx.helper.make_tensor_value_info(node.output[0], type, array.shape))
            node.output[0] += ":made"
    for value in result.graph.output:
        value.name += ":made" * (value.name in stored)
    return result


@dataclass(frozen=True)
class Layer:
    """Of the ``elements`` bytes that a layer makes ``off`` are others than float64's, ``far`` by more than a step, one
    by ``most``; ``runtime_off`` and ``runtime_most`` are ONNX Runtime's."""

    name: str
    elements: int
    off: int
    far: int
    most: int
    runtime_off: int
    runtime_most: int


def layers(model: onnx.ModelProto, given: Feeds, target: str, folder: Path) -> list[Layer]:
    artifact = mcpc.compile(exposed(model).SerializeToString(), target, folder / "exposed.mcp26bin", golden=0)
    wanted = roundings(model)
    with mcpc.load(artifact) as session:
        names = [output.name for output in session.get_outputs()]
        made = dict(zip(names, session.run(None, given), strict=True))
    stored = {name: made[name] for name in wanted}
    pieces = cut(model, stored)
    outputs = [f"{name}:made" for name in wanted]
    fed = {**given, **stored}
    exact = dict(zip((value.name for value in pieces.graph.output), float64.evaluate(pieces, fed), strict=True))
    runtime = dict(zip(outputs, judge(pieces.SerializeToString(), outputs)(fed), strict=True))
    result = []
    for name, output in zip(wanted, outputs, strict=True):
        ours, theirs = (np.abs(each.astype(np.int16) - exact[output]) for each in (stored[name], runtime[output]))
        counts = (
            int((ours > 0).sum()),
            int((ours > 1).sum()),
            int(ours.max()),
            int((theirs > 0).sum()),
            int(theirs.max()),
        )
        result.append(Layer(name, ours.size, *counts))
    return result


# ---- the whole


def outputs_of(model: Path, given: Sequence[Feeds], target: str, folder: Path) -> dict[str, list[Array]]:
    """The first output for each input, by who computes it."""
    proto = onnx.load(model)
    first = proto.graph.output[0].name
    run = judge(model, [first])
    with mcpc.load(mcpc.compile(model, target, folder / "whole.mcp26bin", golden=0)) as session:
        ours = [session.run([first], feeds)[0] for feeds in given]
    noise = np.random.default_rng(0)
    return {
        "mcpc": ours,
        "float64": [float64.evaluate(proto, feeds)[0] for feeds in given],
        "ONNX Runtime": [run(feeds)[0] for feeds in given],
        "ONNX Runtime, input ± 1e-7": [
            run(
                {
                    name: each + np.float32(1e-7) * noise.standard_normal(each.shape, np.float32)
                    for name, each in f.items()
                }
            )[0]
            for f in given
        ],
    }


def same_bits(model: Path, given: Feeds, device: str, folder: Path, tool: Path) -> bool:
    """Whether an emulated core computes what the host does, to the last bit of every output."""
    with mcpc.load(mcpc.compile(model, "host", folder / "host.mcp26bin", golden=0)) as session:
        arrays = [given[each.name] for each in session.get_inputs()]
        case = Golden(arrays, session.run(None, given), rtol=0.0, atol=0.0)
    with mock.patch("mcpc.compiler.golden_cases", lambda *arguments: [case]):
        path = mcpc.compile(model, device, folder / "device.mcp26bin", golden=1)
    command = ["qemu-aarch64", "-cpu", "cortex-a76", str(tool), str(path), "--selftest"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def measure(name: str, count: int, target: str, folder: Path, tool: Path | None) -> dict[str, Any]:
    path = quantized(name, folder)
    given = samples(name, count if name == "smart-turn" else 2)
    found = [layer.__dict__ for layer in layers(onnx.load(path), given[0], target, folder)]
    computed = outputs_of(path, given, target, folder)
    bits = {each: same_bits(path, given[0], each, folder, tool) for each in DEVICES} if tool is not None else {}
    pairs = [("mcpc", "float64"), ("ONNX Runtime", "float64"), ("mcpc", "ONNX Runtime")]
    pairs.append(("ONNX Runtime, input ± 1e-7", "ONNX Runtime"))
    return {
        "layers": found,
        "inputs": len(given),
        "bits": bits,
        "outputs": [
            {
                "of": of,
                "from": reference,
                "mean": float(np.mean(differences := _differences(computed[of], computed[reference]))),
                "most": float(np.max(differences)),
                "same": float(
                    np.mean(
                        [_decision(a) == _decision(b) for a, b in zip(computed[of], computed[reference], strict=True)]
                    )
                ),
            }
            for of, reference in pairs
        ],
    }


def _differences(some: Sequence[Array], others: Sequence[Array]) -> list[float]:
    return [float(np.abs(a.astype(np.float64) - b).max()) for a, b in zip(some, others, strict=True)]


def _decision(output: Array) -> int:
    """More likely than not, or the likeliest class."""
    return int(output.reshape(-1)[0] > 0.5) if output.size == 1 else int(output.argmax())


# ---- tables


def markdown(document: dict[str, Any]) -> str:
    lines = [
        f"# Exactness of quantised networks: {document['machine']['processor']}",
        "",
        f"`{document['command']}`; " + ", ".join(" ".join(each) for each in document["versions"].items()) + ".",
        "",
        "Bytes of all layers, each given the artifact's own bytes before it, against float64. "
        "[exactness.py](../exactness.py) says how.",
        "",
        *table_head(
            [
                "network",
                "layers",
                "bytes",
                "other by a step",
                "by more",
                "most",
                "least share within a step",
                "ONNX Runtime: other",
                "most",
            ]
        ),
    ]
    for name, each in document["models"].items():
        rows = each["layers"]
        total = {key: sum(row[key] for row in rows) for key in ("elements", "off", "far", "runtime_off")}
        worst = min(1 - row["far"] / row["elements"] for row in rows)
        cells = [name, len(rows), f"{total['elements']:,}", f"{total['off'] - total['far']:,}", f"{total['far']:,}"]
        cells += [max(row["most"] for row in rows), f"{100 * worst:.4f} %", f"{total['runtime_off']:,}"]
        lines.append(table_row([*cells, max(row["runtime_most"] for row in rows)]))
    lines += [
        "",
        "Outputs of the whole networks. A byte that is another one changes several of the next layer, so that what is "
        "as small as rounding moves a deep network's output by as much as its own noise of quantisation.",
        "",
    ]
    lines += table_head(["network", "inputs", "difference of", "from", "mean", "most", "same decision"])
    for name, each in document["models"].items():
        for row in each["outputs"]:
            cells = [name, each["inputs"], row["of"], row["from"], f"{row['mean']:.4f}", f"{row['most']:.4f}"]
            lines.append(table_row([*cells, f"{100 * row['same']:.1f} %"]))
    if any(each["bits"] for each in document["models"].values()):
        lines += ["", "Outputs of an emulated Cortex-A76 and of the host:", ""]
        lines += table_head(["network", *DEVICES])
        for name, each in document["models"].items():
            lines.append(table_row([name, *("the same bits" if each["bits"][d] else "others" for d in DEVICES)]))
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS), help="names separated by commas")
    parser.add_argument("--inputs", type=int, default=60, help="of smart-turn")
    parser.add_argument("--target", default="x86-64-v3", help="one that runs here")
    parser.add_argument("--name", default="exactness-host", help="stem of the result files")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of the result files")
    parser.add_argument("--json", action="store_true", help="print the document instead of the table")
    options = parser.parse_args()
    names = options.models.split(",")
    if unknown := set(names) - set(MODELS):
        parser.error(f"nothing is called {min(unknown)!r}: one of {', '.join(MODELS)}")
    document: dict[str, Any] = {
        "command": f"python bench/exactness.py --inputs {options.inputs} --target {options.target}",
        "machine": {"processor": processor.name()},
        "versions": {each: version(each) for each in ("mcpc", "onnxruntime")},
        "models": {},
    }
    with tempfile.TemporaryDirectory() as work:
        folder, tool = Path(work), None
        if shutil.which("qemu-aarch64"):
            sdk.build(find_target("aarch64"), folder / "sdk")
            tool = folder / "sdk" / "bin" / "mcp26-run"
        for name in names:
            document["models"][name] = measure(name, options.inputs, options.target, folder, tool)
    stem = options.output / options.name
    stem.with_suffix(".json").write_text(json.dumps(document, indent=2) + "\n")
    stem.with_suffix(".md").write_text(markdown(document))
    print(json.dumps(document) if options.json else markdown(document))


if __name__ == "__main__":
    main()
