"""Checks a metadata FlatBuffer before flatc's classes read it: they trust every offset and length.

The checks are those of the C++ ``flatbuffers::Verifier``: offsets and vtables lie inside the buffer, required fields
are there, and the work is bounded, so that tables which share parts cannot blow up when they are unpacked into a tree.
"""

from __future__ import annotations

import struct

from mcpc._schema_layout import STRUCTS, TABLES
from mcpc.errors import FormatError

IDENTIFIER = b"MC26"

_Kind = int | str | list[int | str]


def check_metadata(data: bytes) -> None:
    """Raise FormatError E501 unless ``data`` is a sound FlatBuffer with root table Meta."""
    if data[4:8] != IDENTIFIER:
        raise _damaged("wrong identifier")
    try:
        _Walk(data).table(0, "Meta")
    except struct.error:
        raise _damaged("a field ends outside") from None


def _damaged(what: str) -> FormatError:
    return FormatError("E501", f"the artifact is damaged: metadata: {what}")


class _Walk:
    def __init__(self, data: bytes) -> None:
        self.data = data
        # A tree that shares nothing has fewer bytes than the buffer; our writer shares only vtables.
        self.budget = 4 * len(data) + 4096

    def table(self, reference: int, name: str) -> None:
        """The table that the offset at ``reference`` points to."""
        start = reference + self._number("<I", reference)
        vtable = start - self._number("<i", start)
        vtable_size, table_size = self._number("<H", vtable), self._number("<H", vtable + 2)
        self._range(vtable, vtable_size)
        self._range(start, table_size)
        self._spend(4 + table_size)
        for slot, (kind, required) in enumerate(TABLES[name]):
            entry = 4 + 2 * slot
            offset = self._number("<H", vtable + entry) if entry + 2 <= vtable_size else 0
            if offset == 0:
                if required:
                    raise _damaged(f"{name} lacks a required field")
                continue
            width = 4 if isinstance(kind, list) else _width(kind)
            if offset < 4 or offset + width > table_size:
                raise _damaged(f"a field of {name} lies outside its table")
            self._target(start + offset, kind)

    def _target(self, reference: int, kind: _Kind) -> None:
        """What a field or vector element of ``kind`` at ``reference`` points to, where it points."""
        if isinstance(kind, list):
            element = kind[0]
            start, count = self._vector(reference)
            self._range(start, count * _width(element))
            self._spend(count * _width(element))
            if isinstance(element, str) and element not in STRUCTS:
                for index in range(count):
                    self._target(start + 4 * index, element)
        elif kind == "string":
            start, count = self._vector(reference)
            self._range(start, count + 1)
            self._spend(count + 1)
        elif isinstance(kind, str) and kind not in STRUCTS:
            self.table(reference, kind)

    def _vector(self, reference: int) -> tuple[int, int]:
        """First element and length of the vector that the offset at ``reference`` points to."""
        start = reference + self._number("<I", reference)
        return start + 4, self._number("<I", start)

    def _number(self, form: str, position: int) -> int:
        if position < 0:
            raise _damaged("an offset points outside")
        return int(struct.unpack_from(form, self.data, position)[0])

    def _range(self, start: int, size: int) -> None:
        if start < 0 or start + size > len(self.data):
            raise _damaged("a part ends outside")

    def _spend(self, count: int) -> None:
        self.budget -= count
        if self.budget < 0:
            raise _damaged("its parts overlap")


def _width(kind: int | str) -> int:
    """Bytes in place: a scalar or structure itself, or the offset to a string or table."""
    if isinstance(kind, int):
        return kind
    return STRUCTS[kind][0] if kind in STRUCTS else 4
