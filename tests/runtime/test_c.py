"""Runs the runtime's C tests, one pytest case each, in several builds."""

from __future__ import annotations

import platform
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Build = Callable[[str, str, tuple[Path, ...]], tuple[str, ...]]

_C = Path(__file__).parent / "c"
_SOURCES = tuple(_C / f"{name}.c" for name in ("main", "open_tests", "session_tests", "pool_tests"))
_NAMES = [
    name for source in _SOURCES for name in re.findall(r'^    \{"(\w+)", test_', source.read_text(), re.MULTILINE)
]

#: What has threads; ThreadSanitizer adds nothing to the rest.
_THREADED = [
    "golden",
    "cancel",
    "sessions_at_once",
    "every_item_once",
    "many_loops",
    "failure_ends_loop",
    "start_and_stop",
]


def _run(build: Build, flavour: str, name: str, artifacts: Path) -> None:
    command = [*build(flavour, "runtime_tests", _SOURCES), name, str(artifacts)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", _NAMES)
def test_with_memory_checks(name: str, build: Build, artifacts: Path) -> None:
    _run(build, "memory", name, artifacts)


@pytest.mark.parametrize("name", _THREADED)
def test_with_thread_checks(name: str, build: Build, artifacts: Path) -> None:
    _run(build, "threads", name, artifacts)


@pytest.mark.parametrize("name", _NAMES)
def test_on_aarch64(name: str, build: Build, artifacts: Path) -> None:
    _run(build, "aarch64", name, artifacts)


@pytest.mark.parametrize("threads", [1, 4])
def test_run_allocates_nothing(threads: int, build: Build, artifacts: Path) -> None:
    if platform.libc_ver()[0] != "glibc":
        pytest.skip("the counting allocator stands on glibc's")
    program = build("plain", "allocation", (_C / "allocation.c",))
    command = [*program, str(artifacts / "demo.mcp26bin"), str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout.strip()) == (0, "0"), done.stderr


def test_affinity_on_made_up_machines(build: Build, artifacts: Path) -> None:
    program = build("plain", "affinity", (_C / "affinity.c",))
    command = [*program, str(artifacts / "demo.mcp26bin")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "RK3588" in done.stdout


@pytest.mark.parametrize("artifact", ["demo", "drawn", "growing"])
def test_fuzzed(artifact: str, build: Build, artifacts: Path) -> None:
    fuzz = _C.parents[2] / "runtime" / "fuzz"
    program = build("memory", "open_run", (fuzz / "open_run.c", fuzz / "driver.c"))
    path = str(artifacts / f"{artifact}.mcp26bin")
    for arguments in ([path], ["--mutate", "400", "--seed", "1", path]):
        done = subprocess.run([*program, *arguments], capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr
