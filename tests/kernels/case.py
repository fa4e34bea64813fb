"""A call of a kernel: its parameters, its buffers, and what numpy says of the results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

Array = np.ndarray[Any, Any]

#: A chunk that no unit count reaches: the whole kernel in one call.
ALL = 1 << 40

#: What results hold before a call, and still must where a kernel has no business.
UNTOUCHED = 12345.0


@dataclass
class Packed:
    """Weights [K, N], packed for the ISA that reads them; a stack of them for groups."""

    matrices: list[Array]

    def array(self, nr: int) -> Array:
        return np.stack([pack(matrix, nr) for matrix in self.matrices])


class Packable(Protocol):
    """A buffer whose contents depend on the panels' width."""

    def array(self, nr: int) -> Array: ...


class PackedBytes(Packed):
    """The same for one matrix of bytes, in groups of four rows (gemm_i8.h)."""

    def array(self, nr: int) -> Array:
        depth, columns = self.matrices[0].shape
        wide = np.zeros((-(-depth // 4) * 4, -(-columns // nr) * nr), np.int8)
        wide[:depth, :columns] = self.matrices[0]
        return wide.reshape(len(wide) // 4, 4, wide.shape[1] // nr, nr).transpose(2, 0, 3, 1)


@dataclass
class Case:
    """``numbers`` and ``buffers`` are the parameters that harness.c's run_<kernel> takes. ``results`` maps the index
    of a buffer to what it must hold: floats within ``rtol`` of the largest magnitude there (numpy's sums run in
    another order), the very values where it is 0. ``is_static``: called with literal sizes too."""

    name: str
    kernel: str
    numbers: list[int]
    buffers: Sequence[Array | Packable]
    results: dict[int, Array]
    rtol: float = 0.0
    is_static: bool = False

    def arrays(self, nr: int) -> list[Array]:
        """The buffers for panels of ``nr`` columns (MCP26_NR)."""
        return [np.ascontiguousarray(b if isinstance(b, np.ndarray) else b.array(nr)) for b in self.buffers]


def pack(matrix: Array, nr: int) -> Array:
    """[K, N] -> [ceil(N / nr)][K][nr], zero-padded (tile.h)."""
    depth, columns = matrix.shape
    panels = math.ceil(columns / nr)
    wide = np.zeros((depth, panels * nr), np.float32)
    wide[:, :columns] = matrix
    return np.ascontiguousarray(wide.reshape(depth, panels, nr).transpose(1, 0, 2))


def normal(rng: np.random.Generator, *shape: int) -> Array:
    return rng.standard_normal(shape, np.float32)


def untouched(*shape: int) -> Array:
    return np.full(shape, UNTOUCHED, np.float32)
