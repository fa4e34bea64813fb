"""Options that several verbs share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mcpc.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

    from mcpc.size_options import Bound

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


def size_option(command: Command) -> Command:
    option = click.option(
        "--dim", "dims", multiple=True, metavar="NAME=VALUE", help="The value of a symbolic size (repeatable)."
    )
    return option(command)


def read_sizes(texts: tuple[str, ...]) -> dict[str, int]:
    """The values of ``NAME=VALUE`` options by name."""
    result: dict[str, int] = {}
    for name, text in _named(texts, "--dim", "NAME=VALUE"):
        if not re.fullmatch(r"\d+", text):
            raise UsageError("E003", f"--dim {name}={text}: {text!r} is no size")
        result[name] = int(text)
    return result


def read_bounds(texts: tuple[str, ...]) -> dict[str, Bound]:
    """``NAME=VALUE`` as a value, ``NAME=MIN..MAX`` as a range by name; MIN and MAX may be left out."""
    result: dict[str, Bound] = {}
    for name, text in _named(texts, "--dim", "NAME=VALUE or NAME=MIN..MAX"):
        match = re.fullmatch(r"(\d+)|(\d*)\.\.(\d*)", text)
        if match is None:
            raise UsageError("E003", f"--dim {name}={text}: {text!r} is neither a size nor a range such as 1..32")
        value, low, high = match.groups()
        result[name] = int(value) if value else (int(low or 0), int(high) if high else None)
    return result


def _named(texts: tuple[str, ...], option: str, form: str) -> Iterator[tuple[str, str]]:
    """Name and value of repeated NAME=VALUE options."""
    seen: set[str] = set()
    for text in texts:
        # Names may hold '=', so the last one separates.
        name, separator, value = text.rpartition("=")
        if not separator or not name:
            raise UsageError("E002", f"{option} {text!r} is not {form}")
        if name in seen:
            raise UsageError("E002", f"{option} gives {name!r} twice")
        seen.add(name)
        yield name, value


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
    for name, path in _named(texts, "--input", "NAME=FILE.npy"):
        text = f"{name}={path}"
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
