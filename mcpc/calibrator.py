"""What finds the ranges of tensors, as the compiler sees it, and what the compiler lends it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from mcpc.ir import Graph, Value
from mcpc.ranges import RangeTable

Array = np.ndarray[Any, Any]

#: Runs feeds; the tensors that were asked for, in order.
Run = Callable[[Mapping[str, Array]], Sequence[Array]]

#: Makes what runs a model (serialized, outputs by name) as code for this machine, which keeps its files in the folder.
Compiler = Callable[[bytes, Sequence[str], Path], Run]

#: What is being done, its index, and the number there are (0: not known).
Progress = Callable[[str, int, int], None]


class Calibrator(Protocol):
    """Found through the entry-point group ``mcpc.calibrators``."""

    def collect(
        self,
        graph: Graph,
        tensors: Sequence[Value],
        data: Any,
        method: str,
        *,
        compiled: Compiler | None = None,
        progress: Progress | None = None,
        seen: Callable[[dict[str, Array]], None] | None = None,
        axes: Mapping[Value, int] | None = None,
    ) -> RangeTable:
        """The ranges of ``tensors`` while ``graph`` runs on the samples in ``data``, each of which is also given to
        ``seen``, and what there is along the axes of tensors in ``axes``. Raises CalibrationError E400."""
        ...

    def load(self, path: Path) -> RangeTable:
        """The ranges in a file. Raises CalibrationError E400."""
        ...
