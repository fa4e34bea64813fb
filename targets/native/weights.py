"""Packed weights in shards: what the steps read, in the order in which they read it."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

#: A shard is closed once it is this large; one tensor is never split.
SHARD_BYTES = 16 << 20

Array = np.ndarray[Any, Any]


class Weights:
    """Collects arrays into shards, each at a multiple of ``alignment`` bytes; equal contents are stored once."""

    def __init__(self, alignment: int, shard_bytes: int = SHARD_BYTES) -> None:
        self.shards: list[list[Array]] = []
        self._alignment = alignment
        self._size = 0
        self._limit = shard_bytes
        self._places: dict[bytes, tuple[int, int]] = {}

    def add(self, data: Array) -> tuple[int, int]:
        """(shard, byte offset) of ``data``."""
        data = np.ascontiguousarray(data)
        key = hashlib.sha256(data.reshape(-1).view(np.uint8).data).digest()
        if key in self._places:
            return self._places[key]
        if not self.shards or (self._size and self._size + data.nbytes > self._limit):
            self.shards.append([])
            self._size = 0
        place = len(self.shards) - 1, self._size
        padding = -data.nbytes % self._alignment
        self.shards[-1] += [data, np.zeros(padding, np.uint8)]
        self._size += data.nbytes + padding
        self._places[key] = place
        return place
