"""Builds the runtime's C tests with sanitizers and for AArch64, and the artifacts that they open."""

from __future__ import annotations

import functools
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

RUNTIME = Path(__file__).parents[2] / "runtime"
TESTS = Path(__file__).parent / "c"

_ZIG = (sys.executable, "-m", "ziglang", "cc")


@dataclass(frozen=True)
class Flavour:
    """A way to build: compiler with its flags, and what to start programs with."""

    command: tuple[str, ...]
    start: tuple[str, ...] = ()


def compile_flags() -> list[str]:
    """The runtime's flags, with folders as absolute paths."""
    lines = (RUNTIME / "compile_flags.txt").read_text(encoding="utf-8").split()
    return [f"-I{RUNTIME / line[2:]}" if line.startswith("-I") else line for line in lines]


def compile_runtime(command: Sequence[str], extra: Sequence[Path], output: Path) -> Path:
    """Compile the runtime's sources and ``extra`` into one program or library; warnings are errors."""
    sources = sorted((RUNTIME / "src").glob("*.c"))
    arguments = [*command[1:], *compile_flags(), f"-I{TESTS}", "-Werror", *sources, *extra, "-pthread", "-o", output]
    done = subprocess.run([command[0], *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return output


@functools.cache
def _works(command: tuple[str, ...], start: tuple[str, ...] = ()) -> bool:
    """Whether an empty program builds and runs: sanitizers come in packages of their own, and want their kernel."""
    if shutil.which(command[0]) is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / "empty.c", Path(folder) / "empty"
        source.write_text("int main(void) { return 0; }\n")
        built = subprocess.run([*command, str(source), "-o", str(program)], capture_output=True, check=False)
        if built.returncode != 0:
            return False
        return subprocess.run([*start, str(program)], capture_output=True, check=False).returncode == 0


def _sanitizer(gcc: str, zig: str) -> Flavour:
    for command in (("gcc", "-O1", "-g", *gcc.split()), (*_ZIG, "-O1", "-g", *zig.split())):
        if _works(command):
            return Flavour(command)
    pytest.skip(f"neither gcc nor zig builds with {zig}")


def find_flavour(name: str) -> Flavour:
    """A way to build by its name. Skips the test where the machine has not what it takes.

    plain    for this machine, as the product is
    memory   with AddressSanitizer and UBSan of gcc; of zig, UBSan alone
    threads  with ThreadSanitizer
    aarch64  static, started through qemu
    """
    if name == "plain":
        return Flavour((*_ZIG,))
    if name == "memory":
        return _sanitizer("-fsanitize=address,undefined -fno-sanitize-recover=all", "-fsanitize=undefined")
    if name == "threads":
        return _sanitizer("-fsanitize=thread", "-fsanitize=thread")
    assert name == "aarch64"
    if platform.machine() == "aarch64":
        return Flavour((*_ZIG, "-Os"))
    if shutil.which("qemu-aarch64") is None:
        pytest.skip("qemu-aarch64 is not installed")
    return Flavour((*_ZIG, "-target", "aarch64-linux-musl", "-static", "-Os"), ("qemu-aarch64",))


@pytest.fixture(scope="session")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with demo, drawn, growing and foreign."""
    folder = tmp_path_factory.mktemp("artifacts")
    subprocess.run([sys.executable, str(Path(__file__).parent / "artifacts.py"), str(folder)], check=True)
    return folder


Program = tuple[str, ...]


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str, tuple[Path, ...]], Program]:
    """``build(flavour, program, sources)`` gives the command that starts the program; built once a session."""

    @functools.cache
    def cached(flavour_name: str, program: str, sources: tuple[Path, ...]) -> Program:
        flavour = find_flavour(flavour_name)
        folder = tmp_path_factory.mktemp(flavour_name)
        return (*flavour.start, str(compile_runtime(flavour.command, sources, folder / program)))

    return cached


@pytest.fixture(scope="session")
def aarch64_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """libmcp26.so as devices get it: for AArch64 and glibc 2.17, linked by lld, stripped."""
    link = ("-shared", "-s", "-Wl,--gc-sections", "-Wl,-z,defs", "-Wl,-soname,libmcp26.so")
    output = tmp_path_factory.mktemp("library") / "libmcp26.so"
    return compile_runtime((*_ZIG, "-target", "aarch64-linux-gnu.2.17", *link), (), output)
