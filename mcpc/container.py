"""The outer structure of an artifact file: header, section table, sections (docs/format.md)."""

from __future__ import annotations

import enum
import itertools
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO

import google_crc32c

from mcpc.errors import FormatError

MAGIC = b"MCP26BIN"

#: The format that this release writes; it reads every minor version of the major one.
FORMAT_VERSION = (1, 1)

#: The least runtime version that reads what this release writes.
RUNTIME_VERSION = (1, 1)

_HEADER = struct.Struct("<8s4H2Q2I20x")  # without its own checksum
_ENTRY = struct.Struct("<2I2Q8x")
_CRC = struct.Struct("<I")
HEADER_BYTES = _HEADER.size + _CRC.size
ENTRY_BYTES = _ENTRY.size

_PAGE = 64 * 1024  # of the kernels with the largest pages


class Kind(enum.IntEnum):
    META = 1
    CODE = 2
    SHARD = 3
    GOLDEN = 4
    ENGINE = 5
    SIGNATURE = 6


ALIGNMENT = {
    Kind.META: 8,
    Kind.CODE: _PAGE,
    Kind.SHARD: _PAGE,
    Kind.GOLDEN: 64,
    Kind.ENGINE: _PAGE,
    Kind.SIGNATURE: 8,
}

#: Kinds whose checksum is in the table and checked whenever a file is opened.
CHECKSUMMED = (Kind.META, Kind.CODE)


@dataclass(frozen=True)
class Section:
    """``kind`` is a :class:`Kind`, or a number that this release does not know. Offset and size are in bytes."""

    kind: int
    offset: int
    size: int
    crc: int = 0


@dataclass(frozen=True)
class Container:
    """What header and section table state. ``prologue`` is their bytes, as the signature covers them."""

    format_version: tuple[int, int]
    runtime_version: tuple[int, int]
    file_size: int
    sections: tuple[Section, ...]
    prologue: bytes

    def of_kind(self, kind: Kind) -> list[int]:
        """Indices of the sections of one kind."""
        return [index for index, section in enumerate(self.sections) if section.kind == kind]


def crc32c(data: bytes, before: int = 0) -> int:
    """The checksum of ``data``, or of what had checksum ``before`` with ``data`` behind it."""
    return int(google_crc32c.extend(before, data))


def encode_prologue(sections: Sequence[Section], file_size: int) -> bytes:
    """Header and, right behind it, section table."""
    table = b"".join(_ENTRY.pack(section.kind, section.crc, section.offset, section.size) for section in sections)
    header = _HEADER.pack(
        MAGIC, *FORMAT_VERSION, *RUNTIME_VERSION, file_size, HEADER_BYTES, len(sections), crc32c(table)
    )
    return header + _CRC.pack(crc32c(header)) + table


def read_container(file: BinaryIO) -> Container:
    """Read and check header and section table; the sections' contents are not read.

    FormatError E500 for another kind of file, E501 for a damaged one, E502 for another major version.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    header = file.read(HEADER_BYTES)
    if not header or not MAGIC.startswith(header[: len(MAGIC)]):
        raise FormatError("E500", "the file is not an mcpc artifact: it does not start with MCP26BIN")
    if len(header) < HEADER_BYTES:
        raise damaged(f"truncated to {size} bytes, the header alone has {HEADER_BYTES}")
    if crc32c(header[: _HEADER.size]) != _CRC.unpack_from(header, _HEADER.size)[0]:
        raise damaged("the header's checksum is wrong")
    _, major, minor, *needs, stated, table_offset, count, table_crc = _HEADER.unpack_from(header)
    if major != FORMAT_VERSION[0]:
        raise FormatError(
            "E502",
            f"the artifact has format version {major}.{minor}, this release reads version {FORMAT_VERSION[0]}",
            hint="compile the model again with this release, or use the mcpc release that made the artifact",
        )
    if stated != size:
        raise damaged(f"{size} bytes long where the header states {stated}")
    table_size = count * ENTRY_BYTES
    if not 1 <= count <= 65535 or table_offset % 8 or not HEADER_BYTES <= table_offset <= size - table_size:
        raise damaged("the section table does not lie within the file")
    file.seek(table_offset)
    table = file.read(table_size)
    if crc32c(table) != table_crc:
        raise damaged("the section table's checksum is wrong")
    sections = tuple(Section(kind, offset, size, crc) for kind, crc, offset, size in _ENTRY.iter_unpack(table))
    _check_extents(sections, table_offset, size)
    return Container((major, minor), (needs[0], needs[1]), size, sections, header + table)


def _check_extents(sections: Sequence[Section], table_offset: int, file_size: int) -> None:
    extents = [(0, HEADER_BYTES), (table_offset, len(sections) * ENTRY_BYTES)]
    for index, section in enumerate(sections):
        if section.offset + section.size > file_size:
            raise damaged(f"section {index} reaches beyond the file")
        if section.kind in ALIGNMENT and section.offset % ALIGNMENT[Kind(section.kind)]:
            raise damaged(f"section {index} is not aligned")
        extents.append((section.offset, section.size))
    extents.sort()
    if any(start + size > following for (start, size), (following, _) in itertools.pairwise(extents)):
        raise damaged("sections overlap")
    metas = sum(section.kind == Kind.META for section in sections)
    if metas != 1:
        raise damaged(f"{metas} META sections where there must be one")


def damaged(what: str) -> FormatError:
    return FormatError("E501", f"the artifact is damaged: {what}", hint="copy or compile it again")
