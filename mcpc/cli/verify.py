"""mcpc verify"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from mcpc.per_layer import LayerComparison


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
@click.option(
    "--calib-table",
    type=EXISTING_FILE,
    metavar="FILE.json",
    help="With --per-layer: the table that the artifact was quantised by (needed after --smooth).",
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
    calib_table: Path | None,
    threads: int | None,
    as_json: bool,
) -> None:
    """Compare an artifact's outputs with what ONNX Runtime, optimisations off, computes from the model.

    Exits with 1 where they differ, and names the worst tensor. MODEL.onnx is the file that was compiled.

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
    layers = verify_layers(artifact, model, threads=threads, calib_table=calib_table, **options) if per_layer else []
    sys.exit(print_verdict(comparisons, as_json, hint=_hint(artifact, model, layers), layers=layers))


def _hint(artifact: Path, model: Path, layers: Sequence[LayerComparison]) -> str:
    """Where to look for the reason that outputs differ."""
    from mcpc.inspection import inspect

    compiled = inspect(artifact)["provenance"].get("source.sha256")
    if compiled is not None and compiled != hashlib.sha256(model.read_bytes()).hexdigest():
        return "the artifact is compiled from another file than this model"
    if not layers:
        return "--per-layer finds the layer, compile with --verify-passes the pass that changes it"
    if all(each.matches for each in layers):
        return "compiled anew, with memory of its own for each tensor, every layer agrees: is the artifact an old one?"
    return "compile with --verify-passes to find the pass that changes it"
