"""A thousand samples take no more memory than a hundred."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mcpc.calib.collection import collect
from mcpc.calib.observers import OBSERVERS
from mcpc.ir import DType, Graph, TensorType

Array = np.ndarray[Any, Any]

COUNT, SHAPE = 1000, (1, 8, 64, 64)

#: What a process may grow by: an eighth of the samples together.
MOST = COUNT * int(np.prod(SHAPE)) * 4 // 8


def resident() -> int:
    """Bytes of this process in memory."""
    fields = Path("/proc/self/status").read_text().split()
    return int(fields[fields.index("VmRSS:") + 1]) * 1024


class Reader:
    """Makes each sample when it is asked for."""

    def __init__(self, count: int) -> None:
        self._left = count

    def get_next(self) -> Mapping[str, Array] | None:
        if not self._left:
            return None
        self._left -= 1
        numbers = np.random.default_rng(self._left).standard_normal(SHAPE[1:], np.float32)
        return {"x": numbers[None] * np.float32(1 + self._left)}


@pytest.mark.parametrize("method", OBSERVERS)
def test_memory_is_flat(method: str) -> None:
    if not Path("/proc/self/status").exists():
        pytest.skip("only Linux says how much memory a process has")
    graph = Graph("network")
    x = graph.add_input("x", TensorType(DType.float32, SHAPE))
    (y,) = graph.emit("Relu", [x], [TensorType(DType.float32, SHAPE)], names=["y"])
    (z,) = graph.emit("Add", [y, x], [TensorType(DType.float32, SHAPE)], names=["z"])
    graph.outputs.append(z)
    sizes: list[int] = []

    def progress(what: str, done: int, total: int) -> None:
        if done % 100 == 99:
            sizes.append(resident())

    table = collect(graph, [x, y, z], Reader(COUNT), method, axes={y: 1}, progress=progress)
    assert table.samples == COUNT and len(sizes) == 10 and table.channels["y"].high.shape == (8,)
    assert max(sizes) - sizes[0] < MOST, sizes
