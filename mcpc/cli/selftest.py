"""mcpc selftest"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from mcpc.cli.options import artifact_argument, json_option, threads_option
from mcpc.cli.verdict import print_verdict


@click.command()
@artifact_argument
@threads_option
@json_option
def selftest(artifact: Path, threads: int | None, as_json: bool) -> None:
    """Run the inputs inside an artifact and compare with the outputs inside it.

    Exits with 1 where they differ. On the device: mcp26-run ARTIFACT --selftest

    \b
    Example:
      mcpc selftest model.mcp26bin
    """
    from mcpc.verification import selftest as run_selftest

    comparisons = run_selftest(artifact, threads=threads)
    sys.exit(
        print_verdict(comparisons, as_json, hint="the artifact or this machine is at fault: compile again, compare")
    )
