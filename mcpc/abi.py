"""The code ABI as the compiler needs it: its version, and the header that generated code includes."""

from __future__ import annotations

import functools
import re
from importlib.resources import files
from pathlib import Path


def include_dir() -> Path:
    """The folder of mcp26_abi.h, which runtime and generated code share."""
    return Path(str(files("mcpc.runtime") / "include"))


@functools.cache
def version() -> int:
    """MCP26_ABI_VERSION, as the header says."""
    found = re.search(r"#define MCP26_ABI_VERSION (\d+)", (include_dir() / "mcp26_abi.h").read_text(encoding="utf-8"))
    assert found is not None
    return int(found.group(1))
