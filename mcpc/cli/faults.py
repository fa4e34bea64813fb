"""What went wrong, as lines on stderr, as JSON on stdout, and as an exit status."""

from __future__ import annotations

import json
import os
import sys
import traceback

import click

from mcpc.cli.console import printable
from mcpc.errors import ErrorGroup, McpcError, RuntimeFault, UsageError

INTERRUPTED = 130


def exit_status(command: click.Command, arguments: list[str]) -> int:
    """Run ``command`` and return its exit status: 0 done, 1 a check failed, 2 usage, 3 the model is at fault, 4 the
    target or toolchain is, 5 the artifact is, 70 a bug."""
    try:
        status = command.main(arguments, prog_name="mcpc", standalone_mode=False)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except click.exceptions.NoArgsIsHelpError as help_wanted:
        click.echo(help_wanted.format_message(), err=True)
        return help_wanted.exit_code
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read stdout has gone; the interpreter must not complain about that at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as caught:
        error = _as_mcpc_error(caught)
        report(error, as_json="--json" in arguments)
        return error.exit_code


def report(error: McpcError, as_json: bool) -> None:
    """Write each fault as ``error[E…]: …`` and ``hint: …`` to stderr; with ``as_json`` also one object to stdout."""
    errors = flatten(error)
    if as_json:
        click.echo(json.dumps({"errors": [each.to_json() for each in errors]}, indent=2))
    for each in errors:
        click.echo(_lines(each), err=True)


def flatten(error: McpcError) -> list[McpcError]:
    return error.errors if isinstance(error, ErrorGroup) else [error]


def _lines(error: McpcError) -> str:
    """The error on one line, then its hint on one."""
    text = str(error)
    for part in (error.message, error.hint):
        text = text.replace(part, " ".join(part.split())) if part else text
    return "\n".join(map(printable, text.split("\n")))


def _as_mcpc_error(caught: Exception) -> McpcError:
    if isinstance(caught, McpcError):
        if os.environ.get("MCPC_DEBUG"):
            traceback.print_exception(caught)
        return caught
    if isinstance(caught, click.UsageError):
        path = caught.ctx.command_path if caught.ctx else "mcpc"
        return UsageError("E003", caught.format_message(), hint=f"see {path} --help")
    if isinstance(caught, click.ClickException):
        return UsageError("E002", caught.format_message())
    if isinstance(caught, OSError) and caught.filename is not None:
        return UsageError("E002", f"{caught.filename}: {caught.strerror}")
    if isinstance(caught, MemoryError):
        return RuntimeFault("E605", f"memory is exhausted: {caught}" if str(caught) else "memory is exhausted")
    if os.environ.get("MCPC_DEBUG"):
        traceback.print_exception(caught)
    where = traceback.extract_tb(caught.__traceback__)[-1]
    place = f"{os.path.basename(where.filename)}:{where.lineno}"  # noqa: PTH119 (not a path of ours to open)
    return McpcError(
        "E700",
        f"a bug in mcpc: {type(caught).__name__} at {place}: {caught}",
        hint="run again with MCPC_DEBUG=1 for the traceback, and report it",
    )
