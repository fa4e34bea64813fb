"""mcpc: an ahead-of-time compiler for edge inference, and a loader for what it makes.

    path = mcpc.compile("model.onnx", target="host")
    with mcpc.load(path) as session:
        outputs = session.run(None, {"x": array})

Importing this package imports nothing else; each name brings what it needs when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcpc.errors import (
    CalibrationError,
    ErrorGroup,
    FormatError,
    McpcError,
    ModelError,
    PassError,
    RuntimeFault,
    TargetError,
    UsageError,
)

if TYPE_CHECKING:
    from mcpc import backend
    from mcpc.compiler import compile
    from mcpc.inspection import inspect
    from mcpc.loader import Session, load

    __version__: str

__all__ = [
    "CalibrationError",
    "ErrorGroup",
    "FormatError",
    "McpcError",
    "ModelError",
    "PassError",
    "RuntimeFault",
    "Session",
    "TargetError",
    "UsageError",
    "__version__",
    "backend",
    "compile",
    "inspect",
    "load",
]

_HOMES = {"compile": "compiler", "inspect": "inspection", "load": "loader", "Session": "loader"}


def __getattr__(name: str) -> Any:
    import importlib

    if name == "__version__":
        value: Any = importlib.import_module("importlib.metadata").version("mcpc")
    elif name == "backend":
        value = importlib.import_module("mcpc.backend")
    elif name in _HOMES:
        value = getattr(importlib.import_module(f"mcpc.{_HOMES[name]}"), name)
    else:
        raise AttributeError(f"module 'mcpc' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
