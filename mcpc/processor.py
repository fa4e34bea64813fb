"""The processor of this machine."""

from __future__ import annotations

import platform
from pathlib import Path


def name() -> str:
    """What the processor calls itself: its model, or on AArch64, where there is none, implementer and part of every
    kind of core."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    facts = [(key.strip(), value.strip()) for key, _, value in (line.partition(":") for line in lines)]
    models = dict.fromkeys(value for key, value in facts if key == "model name")
    parts = dict.fromkeys(f"{key} {value}" for key, value in facts if key in ("CPU implementer", "CPU part"))
    return ", ".join(models or parts) or platform.processor() or platform.machine()


def architecture() -> str:
    """The instruction set as target triples name it: ``x86_64``, ``aarch64``."""
    return platform.machine().lower().replace("amd64", "x86_64").replace("arm64", "aarch64")
