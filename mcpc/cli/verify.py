"""mcpc verify"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

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
@click.option(
    "--atol",
    type=click.FloatRange(min=0),
    metavar="A",
    help="Default: 1e-4 of the output's largest value, or more where rounding moves it more.",
)
@click.option(
    "--per-layer",
    is_flag=True,
    help="Compare every tensor between the layers, and name the first that differs.",
)
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
    per_layer: bool,
    threads: int | None,
    as_json: bool,
) -> None:
    """Compare an artifact's outputs with what ONNX Runtime, optimisations off, computes from the model.

    Exits with 1 where they differ, and names the worst tensor.

    With --per-layer the tensors between the layers are compared too. Since an artifact keeps none of them, the model is
    compiled again in the same way, with each of them as an output: the same kernels and fusions, but no shared memory.

    \b
    Example:
      mcpc verify model.mcp26bin model.onnx --input image=cat.npy
      mcpc verify model.mcp26bin model.onnx --per-layer
    """
    feeds, sizes = read_inputs(input_files), read_sizes(dims)

    from mcpc.per_layer import verify_layers
    from mcpc.verification import verify as compare_all

    options: dict[str, Any] = {"inputs": feeds, "seed": seed, "dims": sizes, "rtol": rtol, "atol": atol}
    comparisons = compare_all(artifact, model, threads=threads, **options)
    layers = verify_layers(artifact, model, threads=threads, **options) if per_layer else []
    hint = "--per-layer finds the layer, compile with --verify-passes the pass that changes it"
    sys.exit(print_verdict(comparisons, as_json, hint=hint, layers=layers))
