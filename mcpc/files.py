"""Output files that are there whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from mcpc.errors import UsageError


def require_writable(path: Path) -> None:
    """Raise UsageError E002 where :func:`replacing` could not put a file, before the work that makes its contents."""
    if path.exists() and not path.is_file():  # renaming over a device would take it from the whole system
        raise UsageError("E002", f"{path} cannot be written: it is no regular file")
    if not path.parent.is_dir():
        raise UsageError("E002", f"{path} cannot be written: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise UsageError("E002", f"{path} cannot be written: no file can be made in {path.parent}")


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file that takes ``path``'s place when the block ends well, and vanishes otherwise."""
    require_writable(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
        temporary.replace(path)
    except OSError as error:
        raise UsageError("E002", f"{path} cannot be written: {error.strerror}") from None
    finally:
        with suppress(OSError):
            temporary.unlink()
