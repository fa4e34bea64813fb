"""How outputs compare with what they should be, as `verify` and `selftest` print it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from mcpc.cli import console
from mcpc.errors import RuntimeFault

if TYPE_CHECKING:
    from mcpc.verification import Comparison


def print_verdict(comparisons: Sequence[Comparison], as_json: bool, hint: str) -> int:
    """Print a line an output, an error with ``hint`` for each that differs, and return the exit status."""
    faults = [RuntimeFault("E606", each.describe(), hint=hint) for each in comparisons if not each.matches]
    if as_json:
        document: dict[str, Any] = {"matches": not faults, "outputs": [each.to_json() for each in comparisons]}
        if faults:
            document["errors"] = [fault.to_json() for fault in faults]
        console.print_json(document)
    else:
        rows = [
            ("ok" if each.matches else "DIFFERS", f"{each.max_abs_difference:.3g}", f"{each.excess:.3g}", each.name)
            for each in comparisons
        ]
        click.echo(console.table(("verdict", "max difference", "of tolerance", "output"), rows, right=(1, 2)))
    for fault in faults:
        click.echo(fault, err=True)
    return RuntimeFault.exit_code if faults else 0
