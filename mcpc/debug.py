"""``MCPC_DEBUG=1..5``: what the compiler tells on stderr while it works.

1: time and size of every pass; 2: decisions too; 3: the graph after every pass too; 4: generated C too; 5: and every
pass is checked against ONNX Runtime.
"""

from __future__ import annotations

import os
import sys

TIMES, DECISIONS, GRAPHS, CODE, CHECKS = 1, 2, 3, 4, 5


def level() -> int:
    """The level that the environment asks for, 0 for silence."""
    text = os.environ.get("MCPC_DEBUG", "")
    return int(text) if text.isdecimal() else 0


def log(at: int, text: str) -> None:
    """Write ``text`` to stderr where the level is at least ``at``."""
    if level() >= at:
        print(text, file=sys.stderr)
