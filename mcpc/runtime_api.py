"""The C runtime (runtime/include/mcp26.h) for ctypes: finding the library, its structures, functions and errors."""

from __future__ import annotations

import ctypes
import functools
import os
import sysconfig
from collections.abc import Iterator
from ctypes import (
    CDLL,
    POINTER,
    Structure,
    c_char,
    c_char_p,
    c_float,
    c_int32,
    c_int64,
    c_uint32,
    c_uint64,
    c_void_p,
)
from pathlib import Path
from typing import ClassVar

from mcpc.errors import FormatError, McpcError, RuntimeFault

VERSION_MAJOR = 1

OK = 0
ARGUMENT = -1
VERIFY_FULL = 2
AFFINITIES = {"all": 0, "big": 1, "little": 2}

#: What a status of mcp26.h is as an error: its class and code.
_ERRORS: dict[int, tuple[type[McpcError], str]] = {
    -1: (McpcError, "E700"),  # argument: this module's fault
    -2: (FormatError, "E500"),  # io
    -3: (RuntimeFault, "E605"),  # memory
    -4: (FormatError, "E500"),  # not an artifact
    -5: (FormatError, "E501"),  # truncated
    -6: (FormatError, "E501"),  # corrupt header
    -7: (FormatError, "E501"),  # corrupt metadata
    -8: (FormatError, "E501"),  # corrupt code
    -9: (FormatError, "E501"),  # corrupt data
    -10: (FormatError, "E502"),  # format version
    -11: (FormatError, "E502"),  # runtime version
    -12: (FormatError, "E503"),  # no variant for the processor
    -13: (RuntimeFault, "E601"),  # dtype
    -14: (RuntimeFault, "E602"),  # rank
    -15: (RuntimeFault, "E602"),  # shape
    -16: (RuntimeFault, "E602"),  # symbol out of bounds
    -17: (RuntimeFault, "E600"),  # missing input
    -18: (RuntimeFault, "E602"),  # buffer size
    -19: (RuntimeFault, "E602"),  # alignment
    -20: (RuntimeFault, "E603"),  # data out of bounds
    -21: (RuntimeFault, "E604"),  # cancelled
    -22: (RuntimeFault, "E606"),  # golden
    -23: (McpcError, "E700"),  # compiled code misbehaved
    -24: (FormatError, "E503"),  # no native code
}


class Error(Structure):
    _fields_: ClassVar = [("status", c_int32), ("message", c_char * 508)]


class ModelOptions(Structure):
    _fields_: ClassVar = [("struct_size", c_uint32), ("verify", c_uint32)]


class SessionOptions(Structure):
    _fields_: ClassVar = [
        ("struct_size", c_uint32),
        ("threads", c_uint32),
        ("affinity", c_uint32),
        ("reserved", c_uint32),
        ("memory_budget", c_uint64),
        ("memory", c_void_p),
        ("memory_size", c_uint64),
    ]


class ModelInfo(Structure):
    _fields_: ClassVar = [
        ("name", c_char_p),
        ("target", c_char_p),
        ("variant", c_char_p),
        ("isa", c_char_p),
        ("meta", c_void_p),
        ("meta_bytes", c_uint64),
        ("file_bytes", c_uint64),
        ("code_bytes", c_uint64),
        ("weights_bytes", c_uint64),
        ("arena_bytes", c_uint64),
        ("state_bytes", c_uint64),
        ("scratch_bytes", c_uint64),
        ("format_major", c_uint32),
        ("format_minor", c_uint32),
        ("needs_major", c_uint32),
        ("needs_minor", c_uint32),
        ("input_count", c_uint32),
        ("output_count", c_uint32),
        ("symbol_count", c_uint32),
        ("step_count", c_uint32),
        ("shard_count", c_uint32),
        ("golden_count", c_uint32),
        ("section_count", c_uint32),
        ("unbounded", c_uint32),
        ("code_mapped", c_uint32),
    ]


class TensorInfo(Structure):
    _fields_: ClassVar = [
        ("name", c_char_p),
        ("dims", POINTER(c_int64)),
        ("dim_texts", POINTER(c_char_p)),
        ("dim_symbols", POINTER(c_int32)),
        ("max_bytes", c_uint64),
        ("dtype", c_uint32),
        ("rank", c_uint32),
        ("has_default", c_uint32),
        ("reserved", c_uint32),
    ]


class SymbolInfo(Structure):
    _fields_: ClassVar = [("name", c_char_p), ("min", c_int64), ("max", c_int64)]


class StepInfo(Structure):
    _fields_: ClassVar = [
        ("name", c_char_p),
        ("op", c_char_p),
        ("kernel", c_char_p),
        ("shape", c_char_p),
        ("flops", c_uint64),
        ("bytes", c_uint64),
        ("predicted_us", c_float),
        ("shard_count", c_uint32),
        ("shards", POINTER(c_uint32)),
    ]


class View(Structure):
    _fields_: ClassVar = [
        ("data", c_void_p),
        ("shape", POINTER(c_int64)),
        ("bytes", c_uint64),
        ("rank", c_uint32),
        ("dtype", c_uint32),
    ]


#: Result and argument types of the functions in use.
_FUNCTIONS: dict[str, tuple[object, list[object]]] = {
    "mcp26_version": (c_uint32, []),
    "mcp26_strerror": (c_char_p, [c_int32]),
    "mcp26_cpu_has": (c_int32, [c_char_p]),
    "mcp26_model_open": (c_int32, [c_char_p, POINTER(ModelOptions), POINTER(c_void_p), POINTER(Error)]),
    "mcp26_model_close": (None, [c_void_p]),
    "mcp26_model_get_info": (POINTER(ModelInfo), [c_void_p]),
    "mcp26_model_input": (POINTER(TensorInfo), [c_void_p, c_uint32]),
    "mcp26_model_output": (POINTER(TensorInfo), [c_void_p, c_uint32]),
    "mcp26_model_symbol": (POINTER(SymbolInfo), [c_void_p, c_uint32]),
    "mcp26_model_step": (POINTER(StepInfo), [c_void_p, c_uint32]),
    "mcp26_session_create": (c_int32, [c_void_p, POINTER(SessionOptions), POINTER(c_void_p), POINTER(Error)]),
    "mcp26_session_close": (None, [c_void_p]),
    "mcp26_place_thread": (c_int32, [c_uint32]),
    "mcp26_session_message": (c_char_p, [c_void_p]),
    "mcp26_session_threads": (c_uint32, [c_void_p]),
    "mcp26_session_bytes": (c_uint64, [c_void_p]),
    "mcp26_session_bind_input": (c_int32, [c_void_p, c_uint32, c_uint32, c_void_p, c_uint32, c_void_p, c_uint64]),
    "mcp26_session_bind_output": (c_int32, [c_void_p, c_uint32, c_void_p, c_uint64]),
    "mcp26_session_run": (c_int32, [c_void_p]),
    "mcp26_session_output": (c_int32, [c_void_p, c_uint32, POINTER(View)]),
    "mcp26_session_reset_state": (None, [c_void_p]),
    "mcp26_session_cancel": (None, [c_void_p]),
    "mcp26_session_profile": (c_int32, [c_void_p, c_int32]),
    "mcp26_session_profile_ns": (POINTER(c_uint64), [c_void_p]),
}


@functools.cache
def library() -> CDLL:
    """The loaded library. RuntimeFault E608 where it is missing or too different."""
    path = find_library()
    try:
        loaded = CDLL(str(path))
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(loaded, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as error:
        raise RuntimeFault("E608", f"the runtime library {path} cannot be used: {error}") from None
    version = loaded.mcp26_version()
    if version >> 16 != VERSION_MAJOR:
        raise RuntimeFault(
            "E608", f"the runtime library {path} has version {version >> 16}.{version & 0xFFFF}, not {VERSION_MAJOR}.x"
        )
    return loaded


def find_library() -> Path:
    """``$MCPC_RUNTIME_LIBRARY``, or the library that was built with this package."""
    if chosen := os.environ.get("MCPC_RUNTIME_LIBRARY"):
        return Path(chosen)
    for folder in _library_folders():
        path = folder / "libmcp26.so"
        if path.exists():
            return path
    raise RuntimeFault(
        "E608",
        "the runtime library libmcp26.so is not beside the package",
        hint="install mcpc again, or set MCPC_RUNTIME_LIBRARY",
    )


def _library_folders() -> Iterator[Path]:
    import mcpc.runtime

    yield from map(Path, mcpc.runtime.__path__)
    # An editable install takes the sources from their checkout and puts what was built here.
    yield Path(sysconfig.get_path("platlib")) / "mcpc" / "runtime"


def error_of(status: int, message: bytes | str) -> McpcError:
    """The exception for a status and the runtime's message about it."""
    text = message.decode(errors="replace") if isinstance(message, bytes) else message
    kind, code = _ERRORS.get(status, (McpcError, "E700"))
    return kind(code, text or library().mcp26_strerror(status).decode())


def check(status: int, error: Error) -> None:
    """Raise what a function that fills an ``mcp26_error`` reports."""
    if status != OK:
        raise error_of(status, error.message)


def new_struct(kind: type[Structure], **fields: int) -> ctypes.Structure:
    """Options with their ``struct_size`` filled in."""
    return kind(struct_size=ctypes.sizeof(kind), **fields)


def cpu_has(feature: str) -> bool:
    """Whether this processor has a feature that an artifact may ask for, such as "avx2"."""
    return bool(library().mcp26_cpu_has(feature.encode()))
