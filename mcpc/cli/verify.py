"""mcpc verify"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from mcpc.cli.options import (
    EXISTING_FILE,
    artifact_argument,
    input_option,
    json_option,
    read_inputs,
    read_sizes,
    size_option,
    threads_option,
)
from mcpc.cli.verdict import print_verdict


@click.command()
@artifact_argument
@click.argument("model", type=EXISTING_FILE, metavar="MODEL.onnx")
@input_option
@click.option("--random-inputs", "seed", type=click.IntRange(min=0), default=0, show_default=True, metavar="SEED")
@size_option
@click.option("--rtol", type=click.FloatRange(min=0), default=1e-3, show_default=True, metavar="R")
@click.option("--atol", type=click.FloatRange(min=0), metavar="A", help="Default: 1e-4 of the output's largest value.")
@threads_option
@json_option
def verify(
    artifact: Path,
    model: Path,
    input_files: tuple[str, ...],
    seed: int,
    dims: tuple[str, ...],
    rtol: float,
    atol: float | None,
    threads: int | None,
    as_json: bool,
) -> None:
    """Compare an artifact's outputs with what ONNX Runtime, optimisations off, computes from the model.

    Exits with 1 where they differ, and names the worst tensor.

    \b
    Example:
      mcpc verify model.mcp26bin model.onnx --input image=cat.npy
    """
    feeds, sizes = read_inputs(input_files), read_sizes(dims)

    from mcpc.verification import verify as compare_all

    comparisons = compare_all(
        artifact, model, inputs=feeds, seed=seed, dims=sizes, rtol=rtol, atol=atol, threads=threads
    )
    sys.exit(print_verdict(comparisons, as_json, hint="compile with --verify-passes to find the pass that changes it"))
