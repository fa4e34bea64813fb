"""The command line: one file a verb. Importing it is quick; a verb imports what it needs when it runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from mcpc.cli.bench import bench
from mcpc.cli.compile import compile_
from mcpc.cli.demo import demo
from mcpc.cli.faults import exit_status
from mcpc.cli.inspect import inspect
from mcpc.cli.run import run
from mcpc.cli.sdk import sdk
from mcpc.cli.selftest import selftest
from mcpc.cli.targets import targets
from mcpc.cli.verify import verify


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="mcpc", message="mcpc %(version)s")
def cli() -> None:
    """Compile an ONNX model for one device into one .mcp26bin file, and look at, run and check that file.

    \b
    Example:
      mcpc compile model.onnx --target rock5b
      mcpc inspect model.mcp26bin
    """


for _command in (compile_, inspect, run, bench, verify, selftest, targets, sdk, demo):
    cli.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command line (default: the process's) and exit with its status."""
    sys.exit(exit_status(cli, list(sys.argv[1:] if arguments is None else arguments)))
