"""Errors of float32 functions over all bit patterns, or every so manyth: ``python -m tests.kernels.sweep [STEP]``."""

from __future__ import annotations

import ctypes
import sys
import tempfile
from pathlib import Path

from mcpc.targets.native.toolchain import Machine, Unit, compile_objects, link_image

from .program import HERE, INCLUDES

FUNCTIONS = (
    "exp", "expm1", "log", "log1p", "tanh", "sigmoid", "erf", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
    "cosh", "asinh", "acosh", "atanh", "gelu", "silu",
)  # fmt: skip


def library(cpu: str, folder: Path) -> ctypes.CDLL:
    """The sweeps of sweep.c for one x86-64 processor."""
    machine = Machine("x86_64-linux-none", cpu)
    path = folder / f"sweep-{cpu}.so"
    unit = Unit("sweep", (HERE / "sweep.c").read_text())
    path.write_bytes(link_image(compile_objects([unit], machine, INCLUDES), machine))
    return ctypes.CDLL(str(path))


def largest_error(loaded: ctypes.CDLL, name: str, step: int) -> tuple[float, float]:
    """In units in the last place, and the argument there. An odd ``step`` goes through all exponents and both signs."""
    where = ctypes.c_float()
    sweep = getattr(loaded, f"sweep_{name}")
    sweep.restype = ctypes.c_double
    count = ctypes.c_int64(-(-(2**32) // step))
    return sweep(ctypes.c_uint32(0), ctypes.c_uint32(step), count, ctypes.byref(where)), where.value


if __name__ == "__main__":
    step = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    with tempfile.TemporaryDirectory() as folder:
        loaded = library("x86_64_v3", Path(folder))
        for name in FUNCTIONS:
            error, where = largest_error(loaded, name, step)
            print(f"{name:8} {error:.3f} ulp at {float.hex(where)}", flush=True)
