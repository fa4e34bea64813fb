"""What the cases run on. A runner takes a family as one model, and gives what became of every output."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol
from unittest import mock

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

import mcpc
from mcpc import onnx_reader, onnx_writer, plugins
from mcpc.artifact import Artifact, Code, Contents, write_artifact
from mcpc.cache import cache_dir
from mcpc.container import Kind
from mcpc.golden import Golden
from mcpc.onnx_structure import reads, walk
from mcpc.pipeline import PassContext, parse_pipeline, run_pipeline
from mcpc.reference import run_model
from mcpc.targets.native import choice, module
from mcpc.targets.native import family as native

from .case import ONNX, ORT, Family
from .graphs import Array

QEMU = "qemu-aarch64"


class Graphs(Protocol):
    """Graphs side by side in one model, their inputs, and their outputs in order."""

    @property
    def feeds(self) -> Mapping[str, Array]: ...

    @property
    def outputs(self) -> Mapping[str, Array]: ...

    def serialize(self) -> bytes: ...


class Together(Protocol):
    """What is compiled as one artifact: a family, or another collection of cases."""

    @property
    def name(self) -> str: ...

    @property
    def model(self) -> Graphs: ...

    @property
    def kernel(self) -> str:
        """The name of the Winograd kernel that convolutions take where they can, "" for none."""
        ...


def written_back(family: Family) -> dict[str, Array]:
    """The graph after all passes, those of code generation included, written as ONNX and run by each case's judge."""
    target = plugins.find_target("host")
    ctx = PassContext(target=target)
    series = parse_pipeline(target.pipeline, plugins.passes())
    code_passes = plugins.find_family(target.family).passes(target)
    graph = run_pipeline(onnx_reader.read(family.model.serialize()), [*series, *code_passes], ctx)
    model = onnx_writer.to_model(graph)
    results: dict[str, Array] = {}
    for judge in (ORT, ONNX):
        outputs = [name for case in family if case.judges[0] == judge for name in case.expected]
        if not outputs:
            continue
        feeds = {name: array for case in family if case.judges[0] == judge for name, array in case.graph.feeds.items()}
        part = _part(model, list(feeds), outputs)
        if judge == ORT:
            arrays = run_model(part.SerializeToString(), feeds, outputs)
        else:
            arrays = [np.asarray(array) for array in ReferenceEvaluator(part).run(outputs, feeds)]
        results |= dict(zip(outputs, arrays, strict=True))
    return results


def _part(model: onnx.ModelProto, inputs: list[str], outputs: list[str]) -> onnx.ModelProto:
    """What computes ``outputs``."""
    part = onnx.ModelProto()
    part.CopyFrom(model)
    graph, wanted = part.graph, set(outputs)
    kept = []
    for node in reversed(model.graph.node):
        if wanted & set(node.output):
            kept.append(node)
            wanted |= reads(node)
    called = {(node.domain, node.op_type) for node in walk(kept)}
    for function in reversed(model.functions):  # each calls earlier ones
        if (function.domain, function.name) in called:
            called |= {(node.domain, node.op_type) for node in function.node}
    for field, items in (
        ("node", reversed(kept)),
        ("input", [each for each in model.graph.input if each.name in inputs]),
        ("output", [each for name in outputs for each in model.graph.output if each.name == name]),
        ("initializer", [each for each in model.graph.initializer if each.name in wanted]),
    ):
        graph.ClearField(field)
        getattr(graph, field).extend(items)
    del part.functions[:]
    part.functions.extend(each for each in model.functions if (each.domain, each.name) in called)
    return part


def compile_family(family: Together, target: str, folder: Path, passes: str | None) -> Path:
    stem = re.sub(r"[^A-Za-z0-9]+", "-", f"{family.name} {target} {'plain' if passes == '' else ''}")
    path = folder / f"{stem}.mcp26bin"

    def wanted(candidates: Sequence[Sequence[choice.Candidate]], *limits: float) -> list[choice.Candidate]:
        """Every target takes the same kernels: their results differ in the last bits."""
        plain = [min((c for c in each if c.form is None), key=lambda c: c.us) for each in candidates]
        return [
            next((c for c in each if c.name == family.kernel), p) for each, p in zip(candidates, plain, strict=True)
        ]

    with (
        mock.patch.object(module, "KERNELS_PER_UNIT", 16),  # kernels are many and small: mostly the compiler starts
        mock.patch.object(choice, "within_budget", wanted),
    ):
        return mcpc.compile(family.model.serialize(), target, path, passes=passes, golden=0)


def on_host(family: Family, folder: Path, passes: str | None, gain: float, threads: int = 3) -> dict[str, Array]:
    """Compiled for this machine and run through the C runtime, on one thread and on several, which must give the same.
    Steps go to the thread pool from the ``gain`` on that code generation is to see in it."""
    with mock.patch.object(native, "PARALLEL_GAIN", gain):
        path = compile_family(family, "host", folder, passes)
    names = list(family.model.outputs)
    with mcpc.load(path, threads=1) as alone, mcpc.load(path, threads=threads) as together:
        want, got = alone.run(None, family.model.feeds), together.run(None, family.model.feeds)
    for name, one, several in zip(names, want, got, strict=True):
        assert same_bits(one, several), f"{name} depends on the number of threads"
    return dict(zip(names, want, strict=True))


def same_bits(a: Array, b: Array) -> bool:
    """Whether all numbers are the same to the last bit; any NaN is as good as another."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if "float" not in a.dtype.name:
        return bool((a == b).all())
    a, b = a.astype(np.float64), b.astype(np.float64)  # numpy lacks some functions of others
    equal = (a == b) & (np.signbit(a) == np.signbit(b))
    return bool((equal | (np.isnan(a) & np.isnan(b))).all())


def for_aarch64(family: Together, target: str, folder: Path, want: Mapping[str, Array]) -> Path:
    """Compiled for an AArch64 target, with the family's inputs and ``want`` for the self-test, to be met exactly."""
    path = compile_family(family, target, folder, None)
    embed(path, Golden(list(family.model.feeds.values()), [want[name] for name in family.model.outputs], 0.0, 0.0))
    return path


def on_aarch64(family: Together, path: Path, cpu: str) -> dict[str, str]:
    """What mcp26-run under qemu, as the processor ``cpu``, says of an artifact's outputs: "" where all is well."""
    command = [QEMU, "-cpu", cpu, device_tool(path.parent), path, "--selftest"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    said = dict(re.findall(r"^case 0 output (.*): (\w+, \d+ elements, .*)$", done.stdout, re.MULTILINE))
    why = dict(re.findall(r"^mcp26-run: output '(.*)': (.*)$", done.stderr, re.MULTILINE))
    results = {}
    for name in family.model.outputs:
        if name not in said:
            results[name] = f"no word of it: exit status {done.returncode}, {done.stderr.strip()}"
        else:
            results[name] = "" if said[name].startswith("ok") else why.get(name, said[name])
    return results


def embed(path: Path, golden: Golden) -> None:
    """Give an artifact this case for its self-test."""
    with Artifact.open(path) as artifact:
        meta = artifact.meta
        code = [
            Code(c.name, c.isa, artifact.section(c.section), c.entry, c.plan, tuple(c.features or ()))
            for c in meta.code
        ]
        shards = [artifact.section(index) for index in artifact.container.of_kind(Kind.SHARD)]
    write_artifact(path, Contents(meta, code, shards, [golden]))


def missing_for_aarch64() -> str:
    """What this machine lacks for AArch64 code, empty for nothing."""
    return "" if shutil.which(QEMU) else f"{QEMU} is not installed (Debian package qemu-user)"


@functools.cache
def device_tool(folder: Path) -> Path:
    """mcp26-run for AArch64, static, built in ``folder``. Where zig has not built its C library yet, it takes a minute
    more."""
    runtime = Path(__file__).resolve().parents[2] / "runtime"
    tool = folder / "mcp26-run"
    sources = [*sorted((runtime / "src").glob("*.c")), runtime / "tools" / "mcp26-run.c"]
    command = [sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-linux-musl", "-static", "-std=c11", "-O1"]
    include = [f"-I{runtime / 'include'}", f"-I{runtime / 'src'}"]
    subprocess.run([*command, *include, *sources, "-o", tool], check=True, env=_zig_environment())
    return tool


def _zig_environment() -> dict[str, str]:
    return {**os.environ, "ZIG_GLOBAL_CACHE_DIR": str(cache_dir("zig"))}
