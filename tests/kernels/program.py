"""Builds tests/kernels/harness.c for an ISA and runs calls of kernels through it."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mcpc.targets.native import toolchain
from mcpc.targets.native.toolchain import Machine, Unit, compile_common, compile_objects

from .case import Array, Case

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
INCLUDES = (ROOT / "targets/native/kernels", ROOT / "runtime/include")

#: Numbers of a call, as in harness.c.
NUMBERS = 32
STATIC = 1000
KERNELS = (
    "gemm", "matmul", "conv", "conv_few", "depthwise", "pool", "pool_global", "function", "integer", "map_nd", "reduce",
    "softmax", "lstm", "copy", "pad", "gather", "window", "resize", "double", "gemm_i8",
    "attention", "matmul_strided", "normalize", "gemm_weights", "matmul_i8", "separable", "winograd",
    "winograd_line", "depthwise_i8", "winograd_i8", "gemm_words",
)  # fmt: skip

#: Panel width (MCP26_NR) by ISA.
PANEL = {"x86_64": 16, "aarch64": 8}


def build(isa: str, cpu: str, cases: Sequence[Case], folder: Path) -> Path:
    """The harness with these cases' parameters as literals, for one processor."""
    lines = [
        f"CASE({index}, {case.kernel}, {', '.join(map(str, case.numbers))})"
        for index, case in enumerate(cases)
        if case.is_static
    ]
    source = (HERE / "harness.c").read_text().replace('#include "cases.inc"', "\n".join(lines))
    machine = Machine(f"{isa}-linux-none", cpu, ("-Wno-pass-failed",))
    objects = compile_objects([Unit("harness", source)], machine, INCLUDES) + compile_common(machine)
    program = folder / f"harness-{cpu}"
    command = ["cc", *machine.arguments, "-static", "-nostdlib", *map(str, objects), "-o", str(program)]
    linked = toolchain._zig(command, folder)
    assert linked.returncode == 0, linked.stderr
    return program


def call(isa: str, case: Case, kernel: int) -> bytes:
    """One call on the harness's standard input."""
    buffers = case.arrays(PANEL[isa])
    numbers = [*case.numbers, *[0] * (NUMBERS - len(case.numbers))]
    parts = [np.array([kernel, *numbers, len(buffers)], np.int64).tobytes()]
    for position, buffer in enumerate(buffers):
        data = buffer.tobytes()
        parts.append(np.array([len(data), position in case.results], np.int64).tobytes())
        parts.append(data + bytes(-len(data) % 8))
    return b"".join(parts)


def run(command: Sequence[str], isa: str, cases: Sequence[Case], is_static: bool) -> list[dict[int, Array]]:
    """Each case's results by buffer index; none for cases that were left out, since they have no static form."""
    wanted = [(index, case) for index, case in enumerate(cases) if case.is_static or not is_static]
    stream = b"".join(
        call(isa, case, STATIC + index if is_static else KERNELS.index(case.kernel)) for index, case in wanted
    )
    done = subprocess.run(command, input=stream, capture_output=True, check=False)
    assert done.returncode == 0, f"the harness ended with {done.returncode} after {len(done.stdout)} bytes of results"
    results: list[dict[int, Array]] = [{} for _ in cases]
    offset = 0
    for index, case in wanted:
        buffers = case.arrays(PANEL[isa])
        for position in sorted(case.results):
            like = buffers[position]
            count = math.prod(like.shape)
            results[index][position] = np.frombuffer(done.stdout, like.dtype, count, offset).reshape(like.shape)
            offset += like.nbytes
    assert offset == len(done.stdout)
    return results
