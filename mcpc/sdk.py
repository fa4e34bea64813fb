"""What a device's developer builds against: the runtime's header and libraries, and a static tool, for one target.

All is compiled from the runtime's sources in this package by ziglang, so any machine makes it for any target. The
processor is the target's baseline, not its fastest variant: the runtime picks an artifact's code by what it finds.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path

from mcpc.cache import cache_dir
from mcpc.errors import TargetError
from mcpc.target import Target

#: The oldest glibc that the libraries run with.
GLIBC = "2.17"

#: zig's name of the processor and system, per ISA as target descriptions name it.
SYSTEMS = {"aarch64": "aarch64-linux", "x86-64": "x86_64-linux"}

_LINK_FLAGS = ("-s", "-pthread", "-Wl,--gc-sections", "-Wl,--build-id=none")


def build(
    target: Target, output: Path, progress: Callable[[str, int, int], None] = lambda what, done, total: None
) -> list[Path]:
    """Write the SDK of ``target`` to the folder ``output``, made where missing, and return its files.

    Raises :class:`TargetError`: E300 where there is no C library for the target, E301 where the compiler fails.
    """
    if target.isa not in SYSTEMS:
        raise TargetError("E300", f"no SDK for target {target.name!r}: its ISA is {target.isa}")
    system = SYSTEMS[target.isa]
    runtime = _runtime_folder()
    include, library, tools = output / "include", output / "lib", output / "bin"
    for folder in (include, library, tools):
        folder.mkdir(parents=True, exist_ok=True)

    sources = sorted((runtime / "src").glob("*.c"))
    # The flags of every build of the runtime; include folders in it are relative to the runtime's.
    flags = (runtime / "compile_flags.txt").read_text(encoding="utf-8").split()
    compile_flags = [
        f"-I{runtime / flag[2:]}" if flag.startswith("-I") else flag for flag in (*flags, "-g0", "-DNDEBUG")
    ]
    shared, static, tool = library / "libmcp26.so", library / "libmcp26.a", tools / "mcp26-run"
    with tempfile.TemporaryDirectory(dir=cache_dir("work")) as work:
        progress("static library", 0, 3)
        glibc = f"{system}-gnu.{GLIBC}"
        objects = [Path(work) / f"{source.stem}.o" for source in sources]
        for source, object_ in zip(sources, objects, strict=True):
            _zig("cc", "-target", glibc, *compile_flags, "-c", source, "-o", object_)
        static.unlink(missing_ok=True)  # ar would add to it
        _zig("ar", "Drcs", static, *objects)
        progress("shared library", 1, 3)
        _zig("cc", "-target", glibc, "-shared", *_LINK_FLAGS, "-Wl,-soname,libmcp26.so", *objects, "-o", shared)
        progress("mcp26-run (the first time on this machine zig builds a C library, about a minute)", 2, 3)
        main = runtime / "tools" / "mcp26-run.c"
        _zig("cc", "-target", f"{system}-musl", "-static", *compile_flags, *_LINK_FLAGS, *sources, main, "-o", tool)

    written = [static, shared, tool]
    for source, destination in (
        (runtime / "include" / "mcp26.h", include / "mcp26.h"),
        (runtime / "examples" / "example.c", output / "example.c"),
    ):
        shutil.copyfile(source, destination)
        written.append(destination)
    readme = output / "README.md"
    readme.write_text(
        _README.format(target=target.name, system=system.replace("_", "-"), glibc=GLIBC), encoding="utf-8"
    )
    return sorted([*written, readme])


def _runtime_folder() -> Path:
    """The runtime's sources: in the wheel beside the package, in a checkout its top-level folder."""
    return Path(str(files("mcpc.runtime") / "src")).parent


def _zig(*arguments: str | Path) -> None:
    environment = {**os.environ, "ZIG_GLOBAL_CACHE_DIR": str(cache_dir("zig"))}
    with tempfile.TemporaryDirectory(dir=cache_dir("work")) as local:
        environment["ZIG_LOCAL_CACHE_DIR"] = local
        command: Sequence[str] = [sys.executable, "-m", "ziglang", *map(str, arguments)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if "error:" in line] or done.stderr.splitlines() or ["?"]
        raise TargetError("E301", f"zig {arguments[0]} failed: {lines[0]}")


_README = """# mcp26 runtime for {target}

| file | what it is |
|---|---|
| include/mcp26.h | the interface, and its manual |
| lib/libmcp26.a, lib/libmcp26.so | the runtime, static and shared; needs glibc {glibc} or newer and nothing else |
| bin/mcp26-run | a static tool: tests, times and runs artifacts on any Linux of this processor |
| example.c | the shortest program that runs an artifact |

On the device:

    ./mcp26-run model.mcp26bin --selftest
    ./mcp26-run model.mcp26bin --bench 100 --threads 4

With the compiler of your system (a cross compiler such as `{system}-gnu-gcc`, or the device's own `gcc`):

    gcc -O2 -Iinclude example.c lib/libmcp26.a -lpthread -lm -o example
    ./example model.mcp26bin

Artifacts come from `mcpc compile model.onnx --target {target}`.
"""
