"""Where downloaded and compiled files are kept between runs."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir(kind: str) -> Path:
    """The folder for one kind of cached file, made where missing: below MCPC_CACHE_DIR, else the user's cache."""
    base = os.environ.get("MCPC_CACHE_DIR")
    root = Path(base) if base else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mcpc"
    folder = root / kind
    folder.mkdir(parents=True, exist_ok=True)
    return folder
