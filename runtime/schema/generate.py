"""Writes src/schema_slots.h from mcp26.fbs: where the C reader finds each field of the metadata.

Run it after every change of the schema: ``python runtime/schema/generate.py`` (``--check`` only compares).
Only what mcp26.fbs uses of the FlatBuffers language is understood; anything else is an error, not a guess.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

SCHEMA = Path(__file__).parent / "mcp26.fbs"
HEADER = Path(__file__).parent.parent / "src" / "schema_slots.h"

_SCALAR_BYTES = {"bool": 1, "ubyte": 1, "uint": 4, "int": 4, "float": 4, "ulong": 8, "long": 8, "double": 8}
_FIELD = re.compile(r"(\w+)\s*:\s*(\[?\w+\]?)\s*(?:=\s*(-?\w+))?\s*(?:\(required\))?$")

_PREFACE = """\
/* Generated from schema/mcp26.fbs by schema/generate.py: do not edit.
 *
 * Table_field: the field's slot in the table's vtable. Table_field_default: its value where it is left out (0 unless
 * stated). Struct_field: the field's byte offset; Struct_size: the structure's bytes. */
#ifndef MCP26_SCHEMA_SLOTS_H
#define MCP26_SCHEMA_SLOTS_H

"""


def _fields(body: str) -> Iterator[tuple[str, str, str | None]]:
    """Name, type and default of each field between a definition's braces."""
    for text in filter(None, (part.strip() for part in body.split(";"))):
        match = _FIELD.fullmatch(text)
        if match is None:
            raise ValueError(f"schema/generate.py does not understand the field {text!r}")
        yield match[1], match[2], match[3]


def _table(name: str, body: str) -> Iterator[str]:
    for slot, (field, _, default) in enumerate(_fields(body)):
        yield f"{name}_{field} = {slot}"
        if default is not None:
            yield f"{name}_{field}_default = {default}"


def _struct(name: str, body: str) -> Iterator[str]:
    offset = alignment = 0
    for field, kind, _ in _fields(body):
        size = _SCALAR_BYTES[kind]
        offset = -(-offset // size) * size
        alignment = max(alignment, size)
        yield f"{name}_{field} = {offset}"
        offset += size
    yield f"{name}_size = {-(-offset // alignment) * alignment}"


def render(schema: str) -> str:
    """The header's text for a schema's text."""
    schema = re.sub(r"//.*", "", schema)
    identifier = re.search(r'file_identifier\s+"(.{4})"', schema)
    if identifier is None:
        raise ValueError("the schema states no file_identifier")
    text = _PREFACE + f'#define MCP26_SCHEMA_IDENTIFIER "{identifier[1]}"\n\n'
    for kind, name, body in re.findall(r"\b(table|struct)\s+(\w+)\s*\{([^}]*)\}", schema):
        lines = _table(name, body) if kind == "table" else _struct(name, body)
        text += "enum {\n" + "".join(f"    {line},\n" for line in lines) + "};\n\n"
    return text + "#endif\n"


def main() -> int:
    text = render(SCHEMA.read_text(encoding="utf-8"))
    if "--check" in sys.argv[1:]:
        return int(HEADER.read_text(encoding="utf-8") != text)
    HEADER.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
