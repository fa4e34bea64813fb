"""The shared library as devices get it: its size, what it exports, what it asks of the system."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile

RUNTIME = Path(__file__).parents[2] / "runtime"

#: DESIGN §7: stripped, AArch64, linked by lld.
SIZE_LIMIT = 48 * 1024


def _read(library: Path) -> tuple[list[Any], list[Any]]:
    """What a library asks for (DT_NEEDED), and its dynamic symbols."""
    with library.open("rb") as file:
        elf: Any = ELFFile(file)
        needed, symbols = elf.get_section_by_name(".dynamic"), elf.get_section_by_name(".dynsym")
        return list(needed.iter_tags("DT_NEEDED")), list(symbols.iter_symbols())


def test_size(aarch64_library: Path) -> None:
    assert aarch64_library.stat().st_size <= SIZE_LIMIT


def test_exports_the_header_and_nothing_else(aarch64_library: Path) -> None:
    header = (RUNTIME / "include" / "mcp26.h").read_text(encoding="utf-8")
    declared = set(re.findall(r"^MCP26_API [^;]*?\b(mcp26_\w+)\(", header, re.MULTILINE))
    _, symbols = _read(aarch64_library)
    exported = {symbol.name for symbol in symbols if symbol.name and symbol["st_shndx"] != "SHN_UNDEF"}
    assert exported == declared


def test_needs_libc_alone_and_never_exits_prints_or_allocates_by_malloc(aarch64_library: Path) -> None:
    needed, symbols = _read(aarch64_library)
    imported = {symbol.name for symbol in symbols if symbol["st_shndx"] == "SHN_UNDEF"}
    assert {tag.needed for tag in needed} <= {"libc.so.6", "libpthread.so.0"}
    assert not imported & {"exit", "_exit", "abort", "printf", "puts", "fwrite", "fprintf"}
    assert not imported & {"malloc", "calloc", "realloc", "aligned_alloc"}


def test_one_file_speaks_to_the_system() -> None:
    """A port replaces platform_linux.c and, for the processor's features, a few lines of cpu.c."""
    portable = {"errno.h", "inttypes.h", "stdarg.h", "stdatomic.h", "stddef.h", "stdint.h"}
    portable |= {"stdio.h", "stdlib.h", "string.h"}
    allowed = {"cpu.c": {"cpuid.h", "sys/auxv.h"}}
    for source in sorted((RUNTIME / "src").iterdir()):
        if source.name == "platform_linux.c":
            continue
        included = set(re.findall(r"^#include <(.+)>", source.read_text(encoding="utf-8"), re.MULTILINE))
        assert included <= portable | allowed.get(source.name, set()), source.name
