"""mcpc sdk"""

from __future__ import annotations

from pathlib import Path

import click

from mcpc.cli import console
from mcpc.cli.options import json_option, target_option
from mcpc.units import size


@click.command()
@target_option
@click.option(
    "-o", "--output", type=click.Path(file_okay=False, path_type=Path), required=True, metavar="DIR", help="The folder."
)
@json_option
def sdk(target: str, output: Path, as_json: bool) -> None:
    """Build what a program on the device needs: header, libraries, the mcp26-run tool, an example.

    \b
    Example:
      mcpc sdk --target rock5b -o sdk-rock5b
    """
    from mcpc.plugins import find_target
    from mcpc.sdk import build

    with console.progress_bar(as_json) as progress:
        files = build(find_target(target), output, progress)
    if as_json:
        console.print_json({"files": [{"path": str(file), "bytes": file.stat().st_size} for file in files]})
    else:
        for file in files:
            click.echo(f"{size(file.stat().st_size):>10}  {file}")
