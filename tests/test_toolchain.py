"""The C compiler behind the native targets: errors, cache, and bytes that depend on nothing but the input."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mcpc.errors import ErrorGroup, TargetError
from mcpc.targets.native import toolchain
from mcpc.targets.native.toolchain import Machine, Unit, compile_objects, link_image

MACHINES = [Machine("x86_64-linux-none", "x86_64_v3"), Machine("aarch64-linux-none", "cortex_a76")]

#: The copy of `struct big` becomes a call to memcpy, `__FILE__` would carry the place of the build.
UNITS = [
    Unit("caller", '#include "scale.h"\nint helper(int);\n__attribute__((visibility("default")))\n'
                   "int run(int x) { return helper(x) * SCALE; }\n"),
    Unit("helper", '#include "scale.h"\nstruct big { char bytes[9000]; };\nint helper(int x);\n'
                   "void copy(struct big *a, struct big *b);\nint helper(int x) { return WHERE[x & 7] + x; }\n"
                   'void copy(struct big *a, struct big *b) { *a = *b; }\n__attribute__((visibility("default")))\n'
                   "void spread(struct big *a) { copy(a, a + 1); }\n"),
]  # fmt: skip


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MCPC_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def headers(folder: Path, scale: int = 3) -> Path:
    folder.mkdir(parents=True)
    (folder / "scale.h").write_text(f"#define SCALE {scale}\nstatic const char WHERE[] = __FILE__ __FILE__;\n")
    return folder


def build(machine: Machine, include: Path, jobs: int = 2) -> bytes:
    return link_image(compile_objects(UNITS, machine, [include], jobs), machine)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.triple)
def test_same_bytes_in_any_folder_with_any_number_of_jobs(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = []
    for place, jobs in ("here", 1), ("somewhere/else/entirely", 4):
        monkeypatch.setenv("MCPC_CACHE_DIR", str(tmp_path / place / "cache"))
        images.append(build(machine, headers(tmp_path / place / "include"), jobs))
    assert images[0] == images[1]
    assert str(tmp_path).encode() not in images[0]


def test_same_bytes_for_any_hash_seed(tmp_path: Path) -> None:
    include = headers(tmp_path / "include")
    script = (
        "import sys, pathlib; sys.path.insert(0, sys.argv[1]); import test_toolchain as t;"
        "sys.stdout.buffer.write(t.build(t.MACHINES[0], pathlib.Path(sys.argv[2])))"
    )
    command = [sys.executable, "-c", script, str(Path(__file__).parent), str(include)]
    images = []
    for seed in "1", "2":
        environment = {**os.environ, "PYTHONHASHSEED": seed, "MCPC_CACHE_DIR": str(tmp_path / seed)}
        images.append(subprocess.run(command, env=environment, check=True, capture_output=True).stdout)
    assert images[0] == images[1] and images[0].startswith(b"\x7fELF")


def test_cache_is_used_and_follows_source_headers_and_flags(cache: Path, tmp_path: Path) -> None:
    machine, include = MACHINES[0], headers(tmp_path / "include")
    first = compile_objects(UNITS, machine, [include])
    stamp = [path.stat().st_mtime_ns for path in first]
    again = compile_objects(UNITS, machine, [headers(tmp_path / "same headers elsewhere")])
    assert again == first and [path.stat().st_mtime_ns for path in again] == stamp
    changed = [
        compile_objects(UNITS, machine, [headers(tmp_path / "other", scale=4)]),
        compile_objects(UNITS, Machine(machine.triple, machine.cpu, ("-DX=1",)), [include]),
        compile_objects([Unit(unit.name, unit.source + "\n") for unit in UNITS], machine, [include]),
        compile_objects(UNITS, Machine(machine.triple, "x86_64"), [include]),
    ]
    for other in changed:
        assert not set(other) & set(first)
    assert not list((cache / "work").iterdir())


def test_concurrent_builds_share_a_cache(cache: Path, tmp_path: Path) -> None:
    include = headers(tmp_path / "include")
    with ThreadPoolExecutor(4) as pool:
        images = list(pool.map(lambda _: build(MACHINES[0], include), range(4)))
    assert len(set(images)) == 1


def test_every_broken_unit_is_reported(cache: Path) -> None:
    units = [
        Unit("fine", "int f(void); int f(void) { return 1; }\n"),
        Unit("typo", "int f(void); int f(void) { return missing; }\n"),
        Unit("header", '#include "nowhere.h"\n'),
    ]
    with pytest.raises(ErrorGroup) as caught:
        compile_objects(units, MACHINES[0])
    assert [error.code for error in caught.value.errors] == ["E301", "E301"]
    assert "typo.c" in str(caught.value) and "'missing'" in str(caught.value) and "nowhere.h" in str(caught.value)


def test_large_stack_frame_is_refused(cache: Path) -> None:
    source = "void use(char *); void f(void); void f(void) { char block[20000]; use(block); }\n"
    with pytest.raises(TargetError, match="stack frame size") as caught:
        compile_objects([Unit("frame", source)], MACHINES[1])
    assert caught.value.code == "E301"


def test_unwritable_cache_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MCPC_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(TargetError, match="cannot be written") as caught:
        compile_objects(UNITS, MACHINES[0])
    assert "MCPC_CACHE_DIR" in caught.value.hint


def test_an_interrupt_does_not_wait_for_units_that_have_not_begun(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []

    def interrupted(unit: Unit, *_: object) -> Path:
        begun.append(unit.name)
        if len(begun) == 1:
            raise KeyboardInterrupt
        time.sleep(0.01)
        return Path(unit.name)

    monkeypatch.setattr(toolchain, "_compile", interrupted)
    with pytest.raises(KeyboardInterrupt):
        compile_objects([Unit(str(index), "") for index in range(200)], MACHINES[0], jobs=1)
    assert len(begun) < 200


def test_names_in_any_script_compile_in_any_locale(tmp_path: Path) -> None:
    script = (
        "from mcpc.targets.native.toolchain import *;"
        "print(compile_objects([Unit('u', '/* \\u65e5 */ int x;')], Machine('x86_64-linux-none', 'x86_64_v3'))[0])"
    )
    latin = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    environment = {**os.environ, **latin, "MCPC_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and Path(done.stdout.strip()).stat().st_size > 0, done.stderr
