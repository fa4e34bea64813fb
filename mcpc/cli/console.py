"""Text for people: tables, progress on a terminal."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

#: What a long job reports: what it does, how much of it is done, of how much.
Progress = Callable[[str, int, int], None]


def printable(text: object) -> str:
    """``text`` on one line, control characters escaped: names in models and artifacts must not reach the terminal."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in str(text))


def table(headers: Sequence[str], rows: Sequence[Sequence[object]], right: Sequence[int] = ()) -> str:
    """Aligned columns under their headers; the columns in ``right`` are aligned to the right."""
    cells = [[printable(cell) for cell in row] for row in [headers, *rows]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if at in right else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    )


def print_json(document: Any) -> None:
    """``document`` as JSON, which has no number for NaN and infinities: they become null."""
    click.echo(json.dumps(_finite(document), indent=2, allow_nan=False))


def _finite(document: Any) -> Any:
    if isinstance(document, dict):
        return {key: _finite(value) for key, value in document.items()}
    if isinstance(document, (list, tuple)):
        return [_finite(value) for value in document]
    return None if isinstance(document, float) and not math.isfinite(document) else document


@contextmanager
def progress_bar(quiet: bool) -> Iterator[Progress]:
    """A progress bar on stderr while the block runs; nothing where stderr is no terminal, or ``quiet``."""
    if quiet or not sys.stderr.isatty():
        yield lambda what, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("starting", total=None)
        yield lambda what, done, total: bars.update(task, description=what, completed=done, total=total)
