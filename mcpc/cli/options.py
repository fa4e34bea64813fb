"""Options that several verbs share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mcpc.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

Command = TypeVar("Command", bound=Callable[..., Any])

EXISTING_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
NEW_FILE = click.Path(dir_okay=False, path_type=Path)


def artifact_argument(command: Command) -> Command:
    return click.argument("artifact", type=EXISTING_FILE)(command)


def json_option(command: Command) -> Command:
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")(command)


def target_option(command: Command) -> Command:
    option = click.option(
        "--target", default="host", show_default=True, metavar="NAME", help="The device; see `mcpc targets list`."
    )
    return option(command)


def threads_option(command: Command) -> Command:
    option = click.option(
        "--threads", type=click.IntRange(min=1), metavar="N", help="Threads to run on (default: one a core)."
    )
    return option(command)


def input_option(command: Command) -> Command:
    option = click.option(
        "--input", "input_files", multiple=True, metavar="NAME=FILE.npy", help="Read an input (repeatable)."
    )
    return option(command)


def read_inputs(texts: tuple[str, ...]) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of ``NAME=FILE.npy`` options by name. Raises :class:`UsageError` E002 for what cannot be read."""
    from zipfile import BadZipFile

    import numpy as np

    result: dict[str, np.ndarray[Any, Any]] = {}
    for text in texts:
        # Tensor names may hold '=', so the last one separates.
        name, separator, path = text.rpartition("=")
        if not separator or not name:
            raise UsageError("E002", f"--input {text!r} is not NAME=FILE.npy")
        if name in result:
            raise UsageError("E002", f"--input gives {name!r} twice")
        try:
            array = np.load(path, allow_pickle=False)
        except OSError as error:
            raise UsageError("E002", f"--input {text!r}: {error.strerror or error}") from error
        except (ValueError, EOFError, BadZipFile):  # whose texts advise to unpickle the file
            raise UsageError("E002", f"--input {text!r}: {path} is no .npy file of numbers") from None
        if not isinstance(array, np.ndarray):
            raise UsageError("E002", f"--input {text!r}: the file holds several arrays", hint="give a .npy file")
        result[name] = array
    return result
