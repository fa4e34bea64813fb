"""The shared library as devices get it: its size, what it exports, what it asks of the system."""

from __future__ import annotations

import re
from pathlib import Path

from elftools.elf.elffile import ELFFile

RUNTIME = Path(__file__).parents[2] / "runtime"

#: DESIGN §7: stripped, AArch64, linked by lld.
SIZE_LIMIT = 48 * 1024


def test_size(aarch64_library: Path) -> None:
    assert aarch64_library.stat().st_size <= SIZE_LIMIT


def test_exports_the_header_and_nothing_else(aarch64_library: Path) -> None:
    header = (RUNTIME / "include" / "mcp26.h").read_text(encoding="utf-8")
    declared = set(re.findall(r"^MCP26_API [^;]*?\b(mcp26_\w+)\(", header, re.MULTILINE))
    with aarch64_library.open("rb") as file:
        symbols = list(ELFFile(file).get_section_by_name(".dynsym").iter_symbols())
    exported = {symbol.name for symbol in symbols if symbol.name and symbol["st_shndx"] != "SHN_UNDEF"}
    assert exported == declared


def test_needs_libc_alone_and_never_exits_prints_or_allocates_by_malloc(aarch64_library: Path) -> None:
    with aarch64_library.open("rb") as file:
        elf = ELFFile(file)
        needed = {tag.needed for tag in elf.get_section_by_name(".dynamic").iter_tags("DT_NEEDED")}
        symbols = list(elf.get_section_by_name(".dynsym").iter_symbols())
    imported = {symbol.name for symbol in symbols if symbol["st_shndx"] == "SHN_UNDEF"}
    assert needed <= {"libc.so.6", "libpthread.so.0"}
    assert not imported & {"exit", "_exit", "abort", "printf", "puts", "fwrite", "fprintf", "malloc", "calloc", "realloc"}


def test_one_file_speaks_to_the_system() -> None:
    """A port replaces platform_linux.c and, for the processor's features, a few lines of cpu.c."""
    portable = {"errno.h", "inttypes.h", "stdarg.h", "stdatomic.h", "stddef.h", "stdint.h", "stdio.h", "stdlib.h", "string.h"}
    allowed = {"cpu.c": {"cpuid.h", "sys/auxv.h"}}
    for source in sorted((RUNTIME / "src").iterdir()):
        if source.name == "platform_linux.c":
            continue
        included = set(re.findall(r"^#include <(.+)>", source.read_text(encoding="utf-8"), re.MULTILINE))
        assert included <= portable | allowed.get(source.name, set()), source.name
