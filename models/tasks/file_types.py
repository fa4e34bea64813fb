"""The type of a file from its bytes with magika (Fratantonio et al., 2024, arXiv:2409.13768)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

#: Bytes read at either end, and those of them that the network sees after white space is taken off.
BLOCK, HALF = 4096, 1024

#: Stands where there is no byte.
PADDING = 256


def features(content: bytes) -> Array:
    """A file's content as the network reads it, int32 [1, 2048]: the first 1024 bytes, then the last 1024.

    White space at the beginning and at the end does not count. A short file is padded in the middle.
    """
    first, last = content[:BLOCK].lstrip()[:HALF], content[-BLOCK:].rstrip()[-HALF:]
    result = np.full((1, 2 * HALF), PADDING, np.int32)
    result[0, : len(first)] = np.frombuffer(first, np.uint8)
    result[0, 2 * HALF - len(last) :] = np.frombuffer(last, np.uint8)
    return result


def labels(config: Path) -> list[str]:
    """What the network's classes are called, from the config.json beside the model."""
    names: list[str] = json.loads(config.read_text())["target_labels_space"]
    return names
