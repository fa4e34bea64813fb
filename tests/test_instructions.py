"""Instructions are counted exactly, and belong to the functions of the artifact."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mcpc.targets.native import toolchain

BENCH = Path(__file__).parent.parent / "bench"
ROUNDS = 1000

#: 3 instructions, ROUNDS times 2, then 3.
PROGRAM = f"""
__attribute__((naked, noreturn)) void _start(void) {{
    __asm__ volatile("nop\\n nop\\n mov x1, #{ROUNDS}\\n"
                     "1: subs x1, x1, #1\\n b.ne 1b\\n"
                     "mov x0, #0\\n mov x8, #93\\n svc #0");
}}
"""


@pytest.fixture(scope="module")
def compiler() -> str:
    found = shutil.which("cc")
    if found is None:
        pytest.skip("cc is not installed: it builds the plug-in that counts")
    return found


def test_plugin_counts_every_instruction(compiler: str, qemu: str, tmp_path: Path) -> None:
    (tmp_path / "loop.c").write_text(PROGRAM)
    arguments = ["cc", "-target", "aarch64-linux-none", "-nostdlib", "-static", "-O1", "loop.c", "-o", "loop"]
    assert toolchain._zig(arguments, tmp_path).returncode == 0
    plugin = tmp_path / "instructions.so"
    warnings = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]
    source = str(BENCH / "instructions.c")
    subprocess.run([compiler, *warnings, "-O2", "-shared", "-fPIC", source, "-o", str(plugin)], check=True)
    subprocess.run([qemu, "-plugin", f"{plugin},out={tmp_path / 'blocks'}", str(tmp_path / "loop")], check=True)
    blocks = [line.split(" ", 2) for line in (tmp_path / "blocks").read_text().splitlines()]
    assert sum(int(count) for count, _, _ in blocks) == 3 + 2 * ROUNDS + 3
    assert {path for _, _, path in blocks} == {str(tmp_path / "loop")}


def test_plugin_wants_a_file(compiler: str, qemu: str, tmp_path: Path) -> None:
    plugin = tmp_path / "instructions.so"
    subprocess.run([compiler, "-shared", "-fPIC", str(BENCH / "instructions.c"), "-o", str(plugin)], check=True)
    done = subprocess.run([qemu, "-plugin", str(plugin), "any"], capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "wants out=FILE" in done.stderr


def test_script_writes_a_table(compiler: str, qemu: str, tmp_path: Path) -> None:
    options = ["--models", "digits", "--output", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, str(BENCH / "instructions.py"), *options], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (row,) = json.loads((tmp_path / "instructions-rock5b.json").read_text())["results"]
    by_function = row["functions"]
    assert sum(by_function.values()) == row["instructions"]
    # The runtime hands out steps and no more; the products take the most.
    assert by_function["runtime"] < 0.1 * row["instructions"]
    assert next(iter(by_function)).startswith(("tile_", "packed_", "parts_", "conv_", "gemm_", "few_"))
    assert "| digits | fp32 |" in (tmp_path / "instructions-rock5b.md").read_text()
