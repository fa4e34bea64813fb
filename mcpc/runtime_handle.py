"""An open model with its session in the C runtime, described in Python's terms."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from mcpc import dtypes, runtime_api
from mcpc.errors import FormatError, McpcError, RuntimeFault, UsageError

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class TensorInfo:
    """An input or output. ``shape`` holds sizes, and texts such as ``"N"`` or ``"2*N + 1"`` for symbolic ones; ``type``
    is ONNX Runtime's name for ``dtype``, ``"tensor(float)"``."""

    name: str
    shape: list[int | str]
    type: str
    dtype: np.dtype[Any]


class Slot:
    """An input or output with what binding it takes. ``sizes`` are -1 where symbolic; ``shape_buffer`` is
    int64_t[rank]. An input that ``has_default`` may be left out. The runtime's memory of an output that ``may_move`` is
    another one after a run that needs more."""

    __slots__ = (
        *("code", "dtype", "has_default", "index", "info", "is_static", "may_move", "name", "shape_buffer", "sizes"),
    )

    def __init__(self, index: int, described: runtime_api.TensorInfo) -> None:
        rank = described.rank
        self.index = index
        self.name = described.name.decode(errors="replace")
        self.code = int(described.dtype)
        self.sizes = tuple(described.dims[:rank])
        self.is_static = -1 not in self.sizes
        self.may_move = described.max_bytes == 0
        self.has_default = bool(described.has_default)
        self.shape_buffer = (ctypes.c_int64 * rank)()
        type = dtypes.BY_CODE.get(self.code)
        if type is None:
            raise FormatError("E502", f"{self.name!r} has an element type ({self.code}) that Python cannot pass")
        self.dtype = type.numpy
        shape = [
            described.dim_texts[d].decode(errors="replace") if size == -1 else size for d, size in enumerate(self.sizes)
        ]
        self.info = TensorInfo(self.name, shape, f"tensor({type.ort_name})", self.dtype)


class Handle:
    """Owns an ``mcp26_model`` and an ``mcp26_session``. Arrays that lie in the session's memory refer to their handle,
    so the memory is given back when the last of them and the Python session are gone."""

    def __init__(
        self, path: str | os.PathLike[str], threads: int, affinity: str, memory_budget: int, *, verify_all: bool
    ) -> None:
        self.model = ctypes.c_void_p()
        self.session = ctypes.c_void_p()
        self.library = library = runtime_api.library()
        # Looked up once: these are called in every run.
        self.bind_input = library.mcp26_session_bind_input
        self.bind_output = library.mcp26_session_bind_output
        self.run = library.mcp26_session_run
        self._output = library.mcp26_session_output

        error = runtime_api.Error()
        verify = runtime_api.VERIFY_FULL if verify_all else 0
        model_options = runtime_api.new_struct(runtime_api.ModelOptions, verify=verify)
        runtime_api.check(library.mcp26_model_open(os.fsencode(path), model_options, self.model, error), error)
        session_options = runtime_api.new_struct(
            runtime_api.SessionOptions,
            threads=threads,
            affinity=runtime_api.AFFINITIES[affinity],
            memory_budget=memory_budget,
        )
        status = library.mcp26_session_create(self.model, session_options, self.session, error)
        if status == runtime_api.ARGUMENT:  # all else in the options was checked by the caller
            raise UsageError("E001", f"{threads} threads are more than the runtime takes", hint="None is one a core")
        runtime_api.check(status, error)

        info = library.mcp26_model_get_info(self.model).contents
        self.variant: str = info.variant.decode(errors="replace")
        self.inputs = [Slot(i, library.mcp26_model_input(self.model, i).contents) for i in range(info.input_count)]
        self.outputs = [Slot(i, library.mcp26_model_output(self.model, i).contents) for i in range(info.output_count)]
        symbols = [library.mcp26_model_symbol(self.model, i).contents for i in range(info.symbol_count)]
        self.bounds: dict[str, tuple[int, int | None]] = {
            symbol.name.decode(errors="replace"): (symbol.min, None if symbol.max < 0 else symbol.max)
            for symbol in symbols
        }
        self.step_count: int = info.step_count
        self._view = runtime_api.View()
        self._view_reference = ctypes.byref(self._view)

    def __del__(self) -> None:
        if self.session:
            self.library.mcp26_session_close(self.session)
        if self.model:
            self.library.mcp26_model_close(self.model)

    def check(self, status: int) -> None:
        """Raise what the last call on the session reports."""
        if status != runtime_api.OK:
            raise self.error(status)

    def error(self, status: int) -> McpcError:
        return runtime_api.error_of(status, self.library.mcp26_session_message(self.session))

    def steps(self) -> list[dict[str, Any]]:
        """What the metadata say about each step."""
        found = [self.library.mcp26_model_step(self.model, index).contents for index in range(self.step_count)]
        return [
            {
                "name": step.name.decode(errors="replace"),
                "op": step.op.decode(errors="replace"),
                "kernel": step.kernel.decode(errors="replace"),
                "shape": (step.shape or b"").decode(errors="replace"),
                "flops": step.flops,
                "bytes": step.bytes,
                "predicted_ms": step.predicted_us / 1e3,
            }
            for step in found
        ]

    def planned_shape(self, index: int) -> tuple[int, ...]:
        """The shape that an output will have, -1 where a step will tell; fills ``self._view``."""
        self.check(self._output(self.session, index, self._view_reference))
        return tuple(self._view.shape[: self._view.rank])

    def output_shape(self, index: int) -> tuple[int, ...]:
        """The true shape after a run; fills ``self._view``."""
        shape = self.planned_shape(index)
        if -1 in shape:
            raise RuntimeFault("E603", f"output {self.outputs[index].name!r} has no shape: no step made it")
        return shape

    def output_copy(self, slot: Slot) -> Array:
        array: Array = np.empty(self.output_shape(slot.index), slot.dtype)
        ctypes.memmove(address_of(array), self._view.data, self._view.bytes)
        return array

    def output_view(self, slot: Slot) -> Array:
        """The output where it lies in the session's memory."""
        shape = self.output_shape(slot.index)
        if self._view.bytes == 0:
            return np.empty(shape, slot.dtype)
        memory = (ctypes.c_uint8 * self._view.bytes).from_address(self._view.data)
        memory.owner = self
        return np.frombuffer(memory, np.uint8).view(slot.dtype).reshape(shape)


def address_of(array: Any) -> int:
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array))
    except (TypeError, ValueError):  # read-only, empty, or of a type without a buffer: the way that is ten times slower
        return int(array.ctypes.data)
