"""The SDK: what is in it, how large it is, and a program built against it with a board's own compiler."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import mcpc
from mcpc.errors import McpcError
from mcpc.models import inputs, zoo
from mcpc.verification import reference

COMPILER = "aarch64-linux-gnu-gcc"
WARNINGS = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Wvla", "-Werror"]


def test_files(aarch64_sdk: Path) -> None:
    names = {str(path.relative_to(aarch64_sdk)) for path in aarch64_sdk.rglob("*") if path.is_file()}
    assert names == {
        *("README.md", "example.c", "include/mcp26.h", "lib/libmcp26.a", "lib/libmcp26.so", "bin/mcp26-run")
    }


@pytest.mark.parametrize("library", [["lib/libmcp26.a", "-lpthread"], ["-Llib", "-lmcp26"]])
def test_example_runs_a_real_model_on_aarch64(aarch64_sdk: Path, qemu: str, tmp_path: Path, library: list[str]) -> None:
    """silero-vad through example.c, built with Debian's gcc against both libraries."""
    if shutil.which(COMPILER) is None:
        pytest.skip(f"{COMPILER} is not installed")
    try:
        model = zoo.fetch("silero-vad")
    except McpcError as error:
        pytest.skip(f"the real model cannot be fetched: {error.message}")
    program, artifact = tmp_path / "example", tmp_path / "vad.mcp26bin"
    command = [COMPILER, *WARNINGS, "-O2", "-Iinclude", "example.c", *library, "-o", str(program)]
    subprocess.run(command, cwd=aarch64_sdk, check=True)
    mcpc.compile(model, "rock5b", artifact)

    feeds = {
        "input": inputs.vad_frames(inputs.speech(1)[0])[10:11],
        "state": np.random.default_rng(0).standard_normal((2, 1, 128), np.float32) * np.float32(0.1),
    }
    files = [tmp_path / f"{name}.bin" for name in feeds]
    for file, array in zip(files, feeds.values(), strict=True):
        file.write_bytes(array.tobytes())
    emulator = [qemu, "-cpu", "cortex-a76", "-L", "/usr/aarch64-linux-gnu", "-E", f"LD_LIBRARY_PATH={aarch64_sdk}/lib"]
    done = subprocess.run(
        [*emulator, str(program), str(artifact), *map(str, files)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (want,) = reference(model, feeds, ["output"])
    name, value = done.stdout.split()[:2]
    assert name == "output:" and float(value) == pytest.approx(float(want[0, 0]), rel=1e-3)
