"""Running artifacts from Python: the C runtime behind an interface in the manner of ONNX Runtime's."""

from __future__ import annotations

import ctypes
import math
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from mcpc import runtime_api
from mcpc.errors import ErrorGroup, McpcError, RuntimeFault, UsageError
from mcpc.runtime_handle import Array, Handle, Slot, TensorInfo, address_of


def load(
    path: str | os.PathLike[str],
    *,
    threads: int | None = None,
    affinity: str = "all",
    memory_budget: int | None = None,
    verify_key: str | os.PathLike[str] | None = None,
) -> Session:
    """Open an artifact for running.

    ``threads``: how many work on a run, the calling one included; None: one a core. ``affinity``: ``"big"`` or
    ``"little"`` keeps the threads that the session starts on that kind of core (the calling thread stays where it is,
    see :func:`place_thread`). ``memory_budget``: bytes that activations and resident weights may take together.
    ``verify_key``: a PEM file with the Ed25519 public key that must have signed the artifact; then all of the file is
    read and compared with the signed hashes.

    FormatError E500 to E504 where the file is no usable artifact, RuntimeFault E605 where memory is too small.
    """
    if affinity not in runtime_api.AFFINITIES:
        raise UsageError("E001", f"no affinity {affinity!r}", hint=f"one of {', '.join(runtime_api.AFFINITIES)}")
    if threads is not None and not 1 <= threads < 2**32:
        raise UsageError("E001", f"{threads} threads cannot run anything", hint="1 or more, or None for one a core")
    if memory_budget is not None and not 1 <= memory_budget < 2**64:
        raise UsageError("E001", f"a memory budget of {memory_budget} bytes is no budget")
    if verify_key is not None:
        _verify_signature(path, Path(verify_key))
    return Session(Handle(path, threads or 0, affinity, memory_budget or 0, verify_all=verify_key is not None))


def place_thread(affinity: str) -> None:
    """Move the calling thread to the ``"big"`` or ``"little"`` cores, or to ``"all"``, of those that it may use."""
    if affinity not in runtime_api.AFFINITIES:
        raise UsageError("E001", f"no affinity {affinity!r}", hint=f"one of {', '.join(runtime_api.AFFINITIES)}")
    status = runtime_api.library().mcp26_place_thread(runtime_api.AFFINITIES[affinity])
    if status != runtime_api.OK:
        raise runtime_api.error_of(status, f"the system refuses to place the thread on {affinity} cores")


class Session:
    """A model that is ready to run, with memory and threads of its own. Made by :func:`load`.

    Calls from several threads wait for each other; for parallel runs, load the artifact once a thread: the system
    shares code and weights. Closing (or leaving the ``with`` block) gives memory back as soon as no output that was
    returned without a copy is in use any more.
    """

    def __init__(self, handle: Handle) -> None:
        self._handle: Handle | None = handle
        self._lock = threading.RLock()
        self._inputs = {slot.name: slot for slot in handle.inputs}
        self._required = {slot.name for slot in handle.inputs if not slot.has_default}
        self._outputs = handle.outputs
        self._by_name = {slot.name: slot for slot in self._outputs}
        self._bound_inputs: dict[str, Array] = {}
        self._bound_outputs: dict[str, Array] = {}
        self._overridden: set[str] = set()  # inputs with a default that the last run gave another value
        self._taken_outputs: set[int] = set()  # outputs that the runtime writes to memory of ours

    # ---- what the model is

    def get_inputs(self) -> list[TensorInfo]:
        """The inputs that every run needs."""
        return [slot.info for slot in self._inputs.values() if not slot.has_default]

    def get_overridable_initializers(self) -> list[TensorInfo]:
        """The inputs that a run may leave out: they then have a value from the artifact."""
        return [slot.info for slot in self._inputs.values() if slot.has_default]

    def get_outputs(self) -> list[TensorInfo]:
        return [slot.info for slot in self._outputs]

    @property
    def bounds(self) -> dict[str, tuple[int, int | None]]:
        """The least and largest value (None: unbounded) of each symbolic size."""
        return dict(self._open().bounds)

    @property
    def threads(self) -> int:
        """How many threads work on a run, the calling one included."""
        handle = self._open()
        return int(handle.library.mcp26_session_threads(handle.session))

    @property
    def memory_bytes(self) -> int:
        """What the session holds now for activations, state and outputs; code and weights are not in it."""
        handle = self._open()
        return int(handle.library.mcp26_session_bytes(handle.session))

    @property
    def variant(self) -> str:
        """The code variant that was picked for this processor."""
        return self._open().variant

    # ---- running

    def run(self, output_names: Sequence[str] | None, feeds: Mapping[str, Any]) -> list[Array]:
        """Run once and return fresh arrays of the outputs ``output_names`` (None: of all, in the model's order).

        ``feeds`` holds an array for every input; those with a default value may be left out. Arrays of another memory
        order or byte order are copied, other element types are refused: nothing is cast silently.

        RuntimeFault E600: an input is missing or unknown. E601: wrong element type. E602: wrong rank or shape. E603:
        the data led out of bounds. E604: cancelled. E605: out of memory. E607: unknown output, closed session.
        """
        with self._lock:
            handle = self._open()
            wanted = self._outputs if output_names is None else [self._output(name) for name in output_names]
            arrays = self._bind_inputs(handle, feeds)
            results = self._run_into_fresh(handle, wanted)
            del arrays  # they had to live until here
            return results

    def bind(self, name: str, tensor: Any) -> None:
        """Use the memory of ``tensor`` for input or output ``name`` in every :meth:`run_bound` to come; None ends it.

        Nothing is copied: change the contents between runs. ``tensor`` is a numpy array or anything in host memory that
        speaks DLPack (a torch tensor), row-major and of the right element type; an output's must be writable and large
        enough for every shape to come. Errors as in :meth:`run`, E607 for a name or memory that cannot be bound.
        """
        with self._lock:
            self._open()
            slot = self._inputs.get(name)
            is_output = slot is None
            slot = slot or self._output(name)
            bound = self._bound_outputs if is_output else self._bound_inputs
            if tensor is None:
                bound.pop(name, None)
                return
            array = _as_array(tensor, slot)
            if array.dtype != slot.dtype:
                raise _wrong_dtype(slot, array)
            if not (array.flags.c_contiguous and array.flags.aligned) or (is_output and not array.flags.writeable):
                raise RuntimeFault(
                    "E607",
                    f"{name!r} cannot be bound to this array: it must be row-major, aligned"
                    + (" and writable" if is_output else ""),
                    hint="numpy.ascontiguousarray makes such a copy",
                )
            bound[name] = array

    def run_bound(self) -> list[Array]:
        """Run on the bound tensors and return all outputs without a copy.

        A bound output is returned as a view, of its true shape, of the memory bound to it. Others are views of the
        session's memory, which the next run overwrites (copies where the output's size is unbounded). All of them
        speak DLPack (``torch.from_dlpack``). Errors as in :meth:`run`.
        """
        with self._lock:
            handle = self._open()
            self._bind_inputs(handle, self._bound_inputs)
            for slot in self._outputs:
                self._bind_output(handle, slot, self._bound_outputs.get(slot.name))
            handle.check(handle.library.mcp26_session_run(handle.session))
            return [self._output_in_place(handle, slot) for slot in self._outputs]

    def reset_state(self) -> None:
        """Forget what earlier runs left in the model (KV cache, recurrent state, random streams)."""
        with self._lock:
            handle = self._open()
            handle.library.mcp26_session_reset_state(handle.session)

    def cancel(self) -> None:
        """End the run that another thread is in with RuntimeFault E604; where there is none, the next one."""
        handle = self._open()
        handle.library.mcp26_session_cancel(handle.session)

    def profile(self, feeds: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """Run once on ``feeds`` (None: on the bound tensors) with the clock on, and return one entry a step:
        ``name``, ``op``, ``kernel``, ``shape`` (of the output, a text), ``ms`` (measured), ``predicted_ms``, ``flops``,
        ``bytes`` (least memory traffic)."""
        with self._lock:
            handle = self._open()
            handle.check(handle.library.mcp26_session_profile(handle.session, 1))
            try:
                if feeds is None:
                    self.run_bound()
                else:
                    self.run(None, feeds)
                nanoseconds = handle.library.mcp26_session_profile_ns(handle.session)
                return [{**step, "ms": nanoseconds[index] / 1e6} for index, step in enumerate(handle.steps())]
            finally:
                handle.library.mcp26_session_profile(handle.session, 0)

    def close(self) -> None:
        """Give threads and memory back. A second call does nothing."""
        with self._lock:
            self._handle = None
            self._bound_inputs.clear()
            self._bound_outputs.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- inside

    def _open(self) -> Handle:
        if self._handle is None:
            raise RuntimeFault("E607", "the session is closed")
        return self._handle

    def _output(self, name: str) -> Slot:
        if name not in self._by_name:
            raise RuntimeFault(
                "E607", f"no output {name!r}", hint=f"the model has {', '.join(map(repr, self._by_name))}"
            )
        return self._by_name[name]

    def _wrong_names(self, given: Iterable[str]) -> McpcError:
        """Every unknown and missing input at once."""
        hint = f"the model has {', '.join(map(repr, self._inputs)) or 'none'}"
        unknown = [f"no input {name!r}" for name in given if name not in self._inputs]
        missing = [f"input {name!r} is missing" for name in self._inputs if name in self._required - set(given)]
        errors: list[McpcError] = [RuntimeFault("E600", message, hint=hint) for message in unknown + missing]
        return errors[0] if len(errors) == 1 else ErrorGroup(errors)

    def _bind_inputs(self, handle: Handle, feeds: Mapping[str, Any]) -> list[Array]:
        """Hand all inputs to the runtime, and return the arrays whose memory it reads."""
        if not self._required <= feeds.keys() <= self._inputs.keys():
            raise self._wrong_names(feeds)
        for name in self._overridden - feeds.keys():
            handle.check(handle.bind_input(handle.session, self._inputs[name].index, 0, None, 0, None, 0))
        self._overridden = feeds.keys() - self._required
        return [self._bind_input(handle, slot, feeds[name]) for name, slot in self._inputs.items() if name in feeds]

    def _bind_input(self, handle: Handle, slot: Slot, tensor: Any) -> Array:
        """Hand a tensor to the runtime, and return the array whose memory it reads."""
        array = tensor if type(tensor) is np.ndarray else _as_array(tensor, slot)
        if array.dtype != slot.dtype:
            array = _retyped(slot, array)
        flags = array.flags
        if not (flags.c_contiguous and flags.aligned):
            array = array.copy(order="C")
        shape = array.shape
        buffer = slot.shape_buffer if len(shape) == len(slot.sizes) else (ctypes.c_int64 * len(shape))()
        buffer[:] = shape
        status = handle.bind_input(
            handle.session, slot.index, slot.code, ctypes.byref(buffer), len(shape), address_of(array), array.nbytes
        )
        if status != runtime_api.OK:
            raise handle.error(status)
        return array

    def _bind_output(self, handle: Handle, slot: Slot, array: Array | None) -> None:
        """Let the runtime write an output to ``array``, or (None) to memory of its own."""
        if array is not None:
            self._taken_outputs.add(slot.index)
            handle.check(handle.bind_output(handle.session, slot.index, address_of(array), array.nbytes))
        elif slot.index in self._taken_outputs:
            handle.check(handle.bind_output(handle.session, slot.index, None, 0))
            self._taken_outputs.discard(slot.index)

    def _run_into_fresh(self, handle: Handle, wanted: Sequence[Slot]) -> list[Array]:
        # Outputs are written where they are returned, but for those whose size a step may learn from the data: these go
        # to the session's memory, which holds the largest.
        sizes = {slot.index: slot.sizes for slot in wanted}
        if not all(slot.is_static for slot in wanted):
            handle.check(handle.library.mcp26_session_plan(handle.session))
            sizes = {index: handle.planned_shape(index) for index in sizes}
        try:
            fresh = {
                slot.index: np.empty(sizes[slot.index], slot.dtype) for slot in wanted if -1 not in sizes[slot.index]
            }
        except (MemoryError, ValueError) as error:  # sizes are the artifact's: numpy calls the largest invalid
            raise RuntimeFault("E605", f"there is no memory for the outputs: {error}") from None
        for slot in self._outputs:
            self._bind_output(handle, slot, fresh.get(slot.index))
        handle.check(handle.run(handle.session))
        return [fresh[slot.index] if slot.index in fresh else handle.output_copy(slot) for slot in wanted]

    def _output_in_place(self, handle: Handle, slot: Slot) -> Array:
        bound = self._bound_outputs.get(slot.name)
        if bound is None:
            return handle.output_copy(slot) if slot.may_move else handle.output_view(slot)
        shape = handle.output_shape(slot.index)
        if bound.shape == shape:
            return bound
        return bound.reshape(-1)[: math.prod(shape)].reshape(shape)


def _as_array(tensor: Any, slot: Slot) -> Array:
    """``tensor`` as an array, without a copy where it speaks DLPack or the array protocols."""
    if isinstance(tensor, np.ndarray):
        return tensor
    try:
        array: Array = np.from_dlpack(tensor) if hasattr(tensor, "__dlpack__") else np.asarray(tensor)
    except Exception as error:  # whatever the other library raises
        raise RuntimeFault("E601", f"{slot.name!r} cannot be made an array: {error}") from error
    return array


def _retyped(slot: Slot, array: Array) -> Array:
    """``array`` in the byte order of this machine, or, where it comes from a file in which numpy could not name the
    element type, with it; E601 for any other type."""
    if array.dtype.newbyteorder("=") == slot.dtype:
        return array.astype(slot.dtype)
    if array.dtype == np.dtype((np.void, slot.dtype.itemsize)) and slot.dtype.isbuiltin != 1:
        return np.ascontiguousarray(array).view(slot.dtype).reshape(array.shape)
    raise _wrong_dtype(slot, array)


def _wrong_dtype(slot: Slot, array: Array) -> RuntimeFault:
    return RuntimeFault(
        "E601",
        f"{slot.name!r} must be {slot.dtype}, got {array.dtype}",
        hint=f"convert it: array.astype({slot.dtype.name!r})",
    )


def _verify_signature(path: str | os.PathLike[str], key: Path) -> None:
    from mcpc.artifact import Artifact

    with Artifact.open(path) as artifact:
        artifact.verify_signature(key)
