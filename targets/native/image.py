"""A linked ELF shared object to the flat image of a CODE section, checked to need no loader.

The runtime maps the image read+execute at any page boundary and jumps into it. That is sound only if nothing in it
has to be patched or written: no relocations, no symbols from elsewhere, no writable data.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from elftools.elf.constants import P_FLAGS, SH_FLAGS
from elftools.elf.elffile import ELFFile

from mcpc.errors import TargetError

#: Entries of .dynamic that ask a loader to act.
_LOADER_TAGS = frozenset(
    "DT_" + name
    for name in (
        *("NEEDED", "REL", "RELA", "RELR", "JMPREL", "TEXTREL"),
        *("INIT", "FINI", "INIT_ARRAY", "FINI_ARRAY", "PREINIT_ARRAY"),
    )
)


@dataclass(frozen=True)
class Image:
    """``data`` runs wherever it is placed at a multiple of 4096; ``entries`` maps names to offsets in it."""

    data: bytes
    entries: dict[str, int]


def flatten(elf: bytes, entries: Sequence[str] = ("mcp26_entry", "mcp26_plan")) -> Image:
    """The read-only and executable segments of ``elf`` as one image, with the offsets of the functions ``entries``.

    Raises TargetError E302 that names every section and symbol which needs a loader or memory to write to.
    """
    file = ELFFile(io.BytesIO(elf))
    symbols = _symbols(file, ".dynsym")
    exports = {s.name: s["st_value"] for s in symbols if s["st_info"]["type"] == "STT_FUNC" and not _is_undefined(s)}
    faults = [*_section_faults(file), *_loader_faults(file)]
    faults += [f"undefined {s.name}" for s in symbols if s.name and _is_undefined(s)]
    faults += [f"no function {name}" for name in entries if name not in exports]
    if faults:
        raise TargetError(
            "E302",
            f"compiled code is not relocation-free: {'; '.join(faults)}",
            hint="code may hold constants only: no mutable statics, thread-locals, pointer tables or library calls",
        )
    segments = [s for s in file.iter_segments("PT_LOAD") if not s["p_flags"] & P_FLAGS.PF_W]
    data = bytearray(max(segment["p_vaddr"] + segment["p_memsz"] for segment in segments))
    for segment in segments:
        start = segment["p_vaddr"]
        data[start : start + segment["p_filesz"]] = segment.data()
    return Image(bytes(data), {name: exports[name] for name in entries})


def _section_faults(file: Any) -> Iterator[str]:
    for index, section in enumerate(file.iter_sections()):
        flags, kind = section["sh_flags"], section["sh_type"]
        if not flags & SH_FLAGS.SHF_ALLOC or section["sh_size"] == 0:
            continue
        if kind in ("SHT_REL", "SHT_RELA", "SHT_RELR"):
            places = [relocation["r_offset"] for relocation in section.iter_relocations()]
            held = [s.name for s in _data_symbols(file) if any(0 <= p - s["st_value"] < s["st_size"] for p in places)]
            yield f"relocations {section.name}{_listed(held)}"
        elif flags & SH_FLAGS.SHF_WRITE and kind != "SHT_DYNAMIC":
            adjective = "thread-local" if flags & SH_FLAGS.SHF_TLS else "writable"
            held = [symbol.name for symbol in _data_symbols(file) if symbol["st_shndx"] == index]
            yield f"{adjective} {section.name}{_listed(held)}"


def _loader_faults(file: Any) -> Iterator[str]:
    dynamic = file.get_section_by_name(".dynamic")
    for tag in dynamic.iter_tags() if dynamic is not None else ():
        if tag.entry.d_tag in _LOADER_TAGS:
            yield str(tag.entry.d_tag)


def _symbols(file: Any, table: str) -> list[Any]:
    section = file.get_section_by_name(table)
    return list(section.iter_symbols()) if section is not None else []


def _data_symbols(file: Any) -> list[Any]:
    return [s for s in _symbols(file, ".symtab") if s["st_size"] and s["st_info"]["type"] in ("STT_OBJECT", "STT_TLS")]


def _is_undefined(symbol: Any) -> bool:
    return bool(symbol["st_shndx"] == "SHN_UNDEF")


def _listed(names: Sequence[str]) -> str:
    return f" ({', '.join(names)})" if names else ""
