"""What may become a CODE section, and what must not, on both architectures."""

from __future__ import annotations

import ctypes
import mmap
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpc.errors import TargetError
from mcpc.targets.native.image import Image, flatten
from mcpc.targets.native.toolchain import Machine, Unit, compile_objects, link_image

X86, ARM = Machine("x86_64-linux-none", "x86_64"), Machine("aarch64-linux-none", "generic")
HOST = {"x86_64": X86, "aarch64": ARM}.get(platform.machine())

MODULE = """
#include <stdint.h>
typedef struct mcp26_env mcp26_env;
__attribute__((visibility("default"))) int64_t mcp26_entry(mcp26_env *env, uint32_t step);
__attribute__((visibility("default"))) int32_t mcp26_plan(mcp26_env *env, uint32_t step);
%s
int64_t mcp26_entry(mcp26_env *env, uint32_t step) { (void)env; return %s; }
int32_t mcp26_plan(mcp26_env *env, uint32_t step) { (void)env; return (int32_t)step + 1; }
"""

GOOD = {
    "constant table": ("static const int64_t table[4] = {7, 5, 3, 2};", "table[step & 3]"),
    "direct calls": ("int64_t twice(int64_t x); int64_t twice(int64_t x) { return 2 * x; }", "twice(step)"),
    "switch": (
        "int64_t pick(uint32_t s); int64_t pick(uint32_t s) { switch (s) { case 0: return 11; case 1: return 12;"
        " case 2: return 2; case 3: return 77; case 4: return 1; default: return 9; } }",
        "pick(step)",
    ),
    "copy of a structure": (
        "struct big { int64_t words[1000]; }; void touch(struct big *b); __attribute__((noinline))"
        " void touch(struct big *b) { __asm__ volatile(\"\" : : \"r\"(b) : \"memory\"); }",
        "({ struct big a = {{0}}, b; a.words[999] = step; touch(&a); b = a; touch(&b); b.words[999]; })",
    ),
}  # fmt: skip

BAD = {
    "uninitialised static": ("static int64_t counter;", "counter++", [".bss", "counter"]),
    "initialised static": ("static int64_t counter = 5;", "counter++", [".data", "counter"]),
    "thread local": ("static _Thread_local int64_t counter;", "counter++", ["__tls_get_addr|thread-local .tbss"]),
    "function pointer table": (
        "static int64_t f(void) { return 1; } static int64_t g(void) { return 2; }"
        "static int64_t (*const volatile table[])(void) = {f, g};",
        "table[step & 1]()",
        ["table", "DT_RELA"],
    ),
    "constructor": (
        '__attribute__((constructor)) static void init(void) { __asm__ volatile(""); }',
        "1",
        ["DT_INIT_ARRAY"],
    ),
    "library call": ("float sqrtf(float);", "(int64_t)sqrtf((float)step)", ["sqrtf"]),
    "undefined weak symbol": (
        '__attribute__((weak, visibility("default"))) int64_t elsewhere(void);',
        "elsewhere ? elsewhere() : 0",
        ["undefined elsewhere"],
    ),
}


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MCPC_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


def build(machine: Machine, declarations: str, result: str) -> Image:
    unit = Unit("module", MODULE % (declarations, result))
    return flatten(link_image(compile_objects([unit], machine), machine))


def run(image: Image, name: str, step: int) -> int:
    """Call a function of the image where it lies in anonymous executable memory."""
    memory = mmap.mmap(-1, len(image.data), prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(image.data)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_uint32)(base + image.entries[name])
    return int(function(None, step))


@pytest.mark.parametrize("machine", [X86, ARM], ids=lambda machine: machine.triple)
@pytest.mark.parametrize("case", GOOD)
def test_constants_and_code_become_an_image(case: str, machine: Machine) -> None:
    image = build(machine, *GOOD[case])
    assert set(image.entries) == {"mcp26_entry", "mcp26_plan"}
    assert all(0 < offset < len(image.data) and offset % 4 == 0 for offset in image.entries.values())
    if machine is HOST:
        expected = {"constant table": 2, "direct calls": 6, "switch": 77, "copy of a structure": 3}
        assert run(image, "mcp26_entry", 3) == expected[case]
        assert run(image, "mcp26_plan", 3) & 0xFFFFFFFF == 4


@pytest.mark.parametrize("machine", [X86, ARM], ids=lambda machine: machine.triple)
@pytest.mark.parametrize("case", BAD)
def test_whatever_needs_a_loader_is_refused_by_name(case: str, machine: Machine) -> None:
    declarations, result, words = BAD[case]
    with pytest.raises(TargetError) as caught:
        build(machine, declarations, result)
    assert caught.value.code == "E302"
    for word in words:
        assert re.search(word, str(caught.value))


def test_missing_entry_is_refused() -> None:
    unit = Unit(
        "module", '__attribute__((visibility("default"))) int mcp26_entry(void);\nint mcp26_entry(void) { return 1; }\n'
    )
    elf = link_image(compile_objects([unit], X86), X86)
    assert flatten(elf, ["mcp26_entry"]).entries.keys() == {"mcp26_entry"}
    with pytest.raises(TargetError, match="no function mcp26_plan"):
        flatten(elf)


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler for a library that links to libc")
def test_needed_library_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "lib.c"
    source.write_text(
        "#include <stdlib.h>\nint mcp26_entry(void) { return abs(rand()); }\nint mcp26_plan(void) { return 0; }\n"
    )
    library = tmp_path / "lib.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    with pytest.raises(TargetError, match="DT_NEEDED") as caught:
        flatten(library.read_bytes())
    assert "undefined rand" in str(caught.value)
