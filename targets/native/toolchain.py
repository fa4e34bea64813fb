"""C sources to a linked ELF image, with the clang and lld of the ziglang package.

The compiler is the same on every build machine and cross-compiles to every target, so the bytes depend on the sources,
the flags and ziglang's version only. Objects are kept in a cache by a hash of just these.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mcpc.cache import cache_dir
from mcpc.errors import McpcError, Problems, TargetError

#: The largest stack frame of a compiled function, in bytes: worker threads have small stacks, scratch is in the arena.
FRAME_LIMIT = 16 * 1024

_KERNELS = Path(__file__).parent / "kernels"

#: Part of every image: the memory functions that clang may call unasked, and the cores that kernels share.
COMMON_UNITS = tuple(_KERNELS / name for name in ("mem.c", "cores.c", "cores_f16.c", "cores_i8.c"))

_COMPILE_FLAGS = (
    "-std=c11",
    # Not -O3: there clang promotes arguments before it knows what a kernel's function pointers point at, and then
    # leaves calls in inner loops.
    "-O2",
    "-g0",
    "-fPIC",
    "-ffreestanding",
    "-fvisibility=hidden",
    "-ffunction-sections",
    "-fno-jump-tables",
    "-fno-math-errno",
    "-ffp-contract=off",
    # One arena byte holds floats in one step and integers in the next.
    "-fno-strict-aliasing",
    "-fno-stack-protector",
    "-fno-unwind-tables",
    "-fno-asynchronous-unwind-tables",
    "-fomit-frame-pointer",
    f"-Wframe-larger-than={FRAME_LIMIT}",
    "-Werror=frame-larger-than",
)

# Without -rtlib=compiler-rt on purpose: zig's holds memcpy, sinf and the like, so that a stray call would link
# silently and bring 190 KB of scalar code that is not ours. Undefined symbols fail the link instead.
_LINK_FLAGS = (
    "-shared",
    "-nostdlib",
    "-Wl,-z,defs",
    "-Wl,-z,norelro",
    "-Wl,--gc-sections",
    "-Wl,--build-id=none",
    "-Wl,--hash-style=sysv",
    # The image is mapped as one piece, so its segments need no pages of their own.
    "-Wl,-z,max-page-size=4096",
)


@dataclass(frozen=True)
class Unit:
    """A translation unit. ``name`` is a file stem that appears in messages; ``source`` is C11."""

    name: str
    source: str


@dataclass(frozen=True)
class Machine:
    """What code is compiled for: zig's names for target and processor, and extra compiler flags.

    ``Machine("aarch64-linux-none", "cortex_a76")``, ``Machine("x86_64-linux-none", "x86_64_v3", ("-DTILE=6",))``.
    """

    triple: str
    cpu: str
    flags: tuple[str, ...] = ()

    @property
    def arguments(self) -> list[str]:
        return ["-target", self.triple, f"-mcpu={self.cpu}"]


def compile_objects(
    units: Sequence[Unit], machine: Machine, include_dirs: Sequence[Path] = (), jobs: int | None = None
) -> list[Path]:
    """Compile ``units`` on ``jobs`` threads (None: one a processor) and return their object files in order.

    The files belong to the cache: read them, leave them. Every unit that does not compile is reported: TargetError
    E301 with clang's first errors.
    """
    include_dirs = [Path(directory).resolve() for directory in include_dirs]
    headers = _headers_digest(include_dirs)
    _folder("objects")  # a cache that cannot be written is one fault, not one of each unit
    objects: list[Path] = []
    problems = Problems()
    with ThreadPoolExecutor(max_workers=max(1, jobs or os.cpu_count() or 1)) as pool:
        pending = [pool.submit(_compile, unit, machine, include_dirs, headers) for unit in units]
        try:
            for future in pending:
                with problems.collect():
                    objects.append(future.result())
        except BaseException:  # an interrupt must not wait for units that have not begun
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    problems.raise_if_any()
    return objects


def compile_common(machine: Machine) -> list[Path]:
    """The object files of :data:`COMMON_UNITS`."""
    units = [Unit(path.stem, path.read_text(encoding="utf-8")) for path in COMMON_UNITS]
    return compile_objects(units, machine, [_KERNELS])


def link_image(objects: Sequence[Path], machine: Machine) -> bytes:
    """Link ``objects`` into an ELF shared object, ready for :func:`image.flatten`.

    TargetError E302 where a symbol stays undefined, E301 for any other fault of the linker.
    """
    common = compile_common(machine)
    with _work_folder() as folder:
        command = ["cc", *machine.arguments, *_LINK_FLAGS, *map(str, [*objects, *common]), "-o", "image.so"]
        result = _zig(command, folder)
        if result.returncode != 0:
            raise _link_error(result.stderr)
        return (folder / "image.so").read_bytes()


def _compile(unit: Unit, machine: Machine, include_dirs: Sequence[Path], headers: str) -> Path:
    flags = [*machine.arguments, *_COMPILE_FLAGS, *machine.flags]
    key = _digest(_zig_version(), "\0".join(flags), headers, unit.name, unit.source)
    cached = _folder("objects") / f"{key}.o"
    if cached.exists():
        return cached
    with _work_folder() as folder:
        source = folder / f"{unit.name}.c"
        source.write_text(unit.source, encoding="utf-8")
        # Names relative to the folder, and a prefix map for headers, keep the place of the build out of the object.
        paths = [text for directory in include_dirs for text in (f"-ffile-prefix-map={directory}=.", f"-I{directory}")]
        result = _zig(["cc", *flags, *paths, "-c", source.name, "-o", "unit.o"], folder)
        if result.returncode != 0:
            raise _compile_error(unit, result.stderr)
        (folder / "unit.o").replace(cached)
    return cached


def _zig(arguments: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    # zig's second copy of each object goes with the folder.
    environment = {
        **os.environ,
        "ZIG_GLOBAL_CACHE_DIR": str(_folder("zig")),
        "ZIG_LOCAL_CACHE_DIR": str(folder / "zig"),
    }
    command = [str(_zig_binary()), *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, errors="replace", check=False
    )


@functools.cache
def _zig_binary() -> Path:
    """The executable inside the package: it starts faster than ``python -m ziglang``."""
    spec = importlib.util.find_spec("ziglang")
    if spec is None or not spec.submodule_search_locations:
        raise TargetError("E301", "the C compiler is not installed", hint="pip install ziglang")
    folder = Path(spec.submodule_search_locations[0])
    return folder / ("zig.exe" if os.name == "nt" else "zig")


@functools.cache
def _zig_version() -> str:
    return importlib.metadata.version("ziglang")


def _folder(kind: str) -> Path:
    try:
        return cache_dir(kind).absolute()
    except OSError as error:
        raise TargetError(
            "E301",
            f"the compiler's cache {error.filename} cannot be written: {error.strerror}",
            hint="set MCPC_CACHE_DIR to a folder that can",
        ) from None


@contextmanager
def _work_folder() -> Iterator[Path]:
    """A folder of its own inside the cache, so that results move into place by an atomic rename."""
    with tempfile.TemporaryDirectory(dir=_folder("work")) as folder:
        yield Path(folder)


def _headers_digest(include_dirs: Sequence[Path]) -> str:
    """A hash of every header that a unit could include, found by content, not by place."""
    parts: list[str] = []
    for directory in include_dirs:
        for header in sorted(directory.rglob("*.h")):
            parts += [header.relative_to(directory).as_posix(), header.read_text(encoding="utf-8")]
        parts.append("")
    return _digest(*parts)


def _digest(*parts: str) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def _compile_error(unit: Unit, stderr: str) -> TargetError:
    lines = [line.strip() for line in stderr.splitlines() if "error:" in line] or stderr.strip().splitlines()
    return TargetError("E301", f"{unit.name}.c does not compile: " + "; ".join(lines[:3]))


def _link_error(stderr: str) -> McpcError:
    marker = "undefined symbol: "
    names = sorted({line.split(marker, 1)[1].strip() for line in stderr.splitlines() if marker in line})
    if names:
        return TargetError("E302", f"compiled code calls {', '.join(names)}, which the image does not define")
    lines = [line.strip() for line in stderr.splitlines() if "error:" in line] or stderr.strip().splitlines()
    return TargetError("E301", "the image does not link: " + "; ".join(lines[:3]))
