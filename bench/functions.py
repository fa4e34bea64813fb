"""Cycles that the functions of vmath.h take for an element, and write the table of bench/results.

    python bench/functions.py [--processors x86_64_v3,x86_64_v4] [--name NAME]

Each function runs in a loop as the emitter writes it, over 2048 elements that stay in the first-level cache. Where
AVX-512 does two vectors at once, that shows. A cycle is a third of a multiplication in a chain of integer products,
timed just before and after, so that the table does not depend on the clock rate.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from compare import RESULTS

from mcpc import processor
from mcpc.targets.native.toolchain import Machine, Unit, compile_objects, link_image

ROOT = Path(__file__).parent.parent
INCLUDES = (ROOT / "targets/native/kernels", ROOT / "runtime/include")
COUNT, REPEATS = 2048, 16

#: Ranges of x, and of y where there is one.
FUNCTIONS: dict[str, list[tuple[float, float]]] = {
    "exp": [(-20, 20)], "expm1": [(-20, 20)], "log": [(0.01, 1000)], "log1p": [(-0.9, 100)], "tanh": [(-8, 8)],
    "sigmoid": [(-20, 20)], "silu": [(-20, 20)], "erf": [(-4, 4)], "gelu": [(-5, 5)], "sin": [(-100, 100)],
    "cos": [(-100, 100)], "tan": [(-100, 100)],
    "asin": [(-1, 1)], "acos": [(-1, 1)], "atan": [(-10, 10)], "sinh": [(-10, 10)], "cosh": [(-10, 10)],
    "asinh": [(-100, 100)], "acosh": [(1, 100)], "atanh": [(-0.99, 0.99)], "pow": [(0.01, 30), (-4, 4)],
    "fmod": [(-100, 100), (1, 10)],
}  # fmt: skip

SOURCE = """
#include "elementwise.h"
#include "vmath.h"

#define EXPORT __attribute__((visibility("default"), noinline))

EXPORT uint64_t products(uint64_t x) {
    for (int i = 0; i < 100000; i++) __asm__ volatile("imul %0, %0\\n imul %0, %0\\n imul %0, %0" : "+r"(x));
    return x;
}

EXPORT int64_t ticks(void) { return (int64_t)__builtin_ia32_rdtsc(); }
"""
FUNCTION = """
MCP26_INLINE void body_{name}(const void *const *args, int64_t i, int64_t lanes) {{
    v8f x = v8f_load(ARG(float, 0) + i, lanes), y = v8f_load(ARG(float, 1) + i, lanes);
    (void)y;
    v8f_store(OUT(float, 2) + i, {call}, lanes);
}}
EXPORT void run_{name}(const float *x, const float *y, float *z) {{
    const void *args[] = {{x, y, z}};
    for (int i = 0; i < {repeats}; i++) map({count}, body_{name}, args, 0, {count} / MAP_UNIT);
}}
"""


def library(cpu: str, folder: Path) -> ctypes.CDLL:
    """The loops, built for one processor."""
    calls = {name: f"v8f_{name}({'x, y' if len(ranges) > 1 else 'x'})" for name, ranges in FUNCTIONS.items()}
    calls["copy"] = "x"
    source = SOURCE + "".join(
        FUNCTION.format(name=name, call=call, count=COUNT, repeats=REPEATS) for name, call in calls.items()
    )
    machine = Machine("x86_64-linux-none", cpu)
    path = folder / f"{cpu}.so"
    path.write_bytes(link_image(compile_objects([Unit("functions", source)], machine, INCLUDES), machine))
    loaded = ctypes.CDLL(str(path))
    loaded.ticks.restype = ctypes.c_int64
    return loaded


def least(loaded: ctypes.CDLL, call: Callable[[], object], rounds: int) -> int:
    """The least ticks of a call."""
    best = 1 << 62
    for _ in range(rounds):
        began = loaded.ticks()
        call()
        best = min(best, loaded.ticks() - began)
    return best


def measure(cpu: str, folder: Path) -> dict[str, float]:
    """Cycles an element by function."""
    loaded = library(cpu, folder)
    rng = np.random.default_rng(26)
    cycles: dict[str, float] = {}
    z = np.empty(COUNT, np.float32)
    empty = least(loaded, loaded.ticks, 2000)
    for name, ranges in ({"copy": [(0.0, 1.0)]} | FUNCTIONS).items():
        x, y = (rng.uniform(*ranges[i % len(ranges)], COUNT).astype(np.float32) for i in range(2))
        run = functools.partial(
            getattr(loaded, f"run_{name}"), *(each.ctypes.data_as(ctypes.c_void_p) for each in (x, y, z))
        )
        before = least(loaded, lambda: loaded.products(3), 5)
        ticks = least(loaded, run, 50) - empty
        cycle = min(before, least(loaded, lambda: loaded.products(3), 5)) / 900000
        cycles[name] = round(ticks / cycle / COUNT / REPEATS, 2)
    return cycles


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processors", default="x86_64_v3,x86_64_v4", help="zig's names, separated by commas")
    parser.add_argument("--name", default="functions", help="stem of the result files")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of the result files")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = {cpu: measure(cpu, Path(folder)) for cpu in options.processors.split(",")}
    command = f"python bench/functions.py --processors {options.processors}"
    lines = [
        f"# Elementary functions: {processor.name()}, one core",
        "",
        f"`{command}`. Cycles an element of float32; `copy` is a loop that only loads and stores.",
        "",
        f"| function | {' | '.join(results)} |",
        f"|---|{'---|' * len(results)}",
        *(
            f"| {name} | {' | '.join(f'{each[name]:.2f}' for each in results.values())} |"
            for name in ("copy", *FUNCTIONS)
        ),
    ]
    stem = options.output / options.name
    options.output.mkdir(exist_ok=True)
    stem.with_suffix(".md").write_text("\n".join(lines) + "\n")
    document = {"command": command, "machine": {"processor": processor.name()}, "cycles_per_element": results}
    stem.with_suffix(".json").write_text(json.dumps(document, indent=2) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
