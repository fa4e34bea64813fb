"""mcpc compile"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import click

from mcpc import layer_precision
from mcpc.cli import console
from mcpc.cli.options import EXISTING_FILE, NEW_FILE, json_option, read_bounds, target_option
from mcpc.errors import UsageError
from mcpc.units import size

#: Decisions that are shown when they are made: all of a pass, or those of one kind.
NOTED = (
    "read",
    "self-test",
    ("halve", "keep"),
    ("quantize-weights", "keep"),
    ("quantize", "calibrate"),
    ("quantize", "keep"),
    ("quantize", "outliers"),
    (layer_precision.PASS, layer_precision.MET),
)

#: Decisions that tell of what may not be wanted.
WARNED = ((layer_precision.PASS, layer_precision.SLOWER), (layer_precision.PASS, layer_precision.NOT_MET))


@click.command("compile")
@click.argument("model", type=EXISTING_FILE, metavar="MODEL.onnx")
@target_option
@click.option(
    "-o", "--output", type=NEW_FILE, metavar="OUT.mcp26bin", help="Default: the model's name, in this folder."
)
@click.option(
    "--input-shape",
    "shapes",
    multiple=True,
    metavar="NAME:1x3x224x224",
    help="Fix an input's shape (repeatable); ? leaves a size open.",
)
@click.option(
    "--dim",
    "dims",
    multiple=True,
    metavar="NAME=VALUE|MIN..MAX",
    help="Fix or bound a symbolic size (repeatable). Bounded sizes need no memory beyond what is planned.",
)
@click.option("--freeze-defaults", is_flag=True, help="Make constants of initializers that are also listed as inputs.")
@click.option(
    "--precision",
    type=click.Choice(["fp32", "fp16", "int8", "int8-dynamic", "auto"]),
    help="fp16: float16 weights, and float16 arithmetic where the target has it. int8: products of 8-bit integers, by "
    "--calib-data. int8-dynamic: those of MatMul and Gemm, by ranges that each run finds. auto: by layer, what is "
    "fastest within limits of errors (default: the target's).",
)
@click.option(
    "--weights",
    type=click.Choice(["int8", "int4"]),
    help="Store weights of MatMul and Gemm in 8 or 4 bits and multiply floats, which suits what reads more than it "
    "computes.",
)
@click.option(
    "--block-size",
    type=click.IntRange(min=0),
    metavar="N",
    help="With --weights: a scale for every N weights that are summed (default: 128; 0: a scale a column).",
)
@click.option(
    "--calib-data",
    type=click.Path(exists=True, path_type=Path),
    metavar="PATH",
    help="Samples for int8: .npz by input name, a folder of .npz or .npy, or a .txt that lists images or .npy files.",
)
@click.option(
    "--calib-method",
    show_default="minmax",
    metavar="NAME",
    help="Ranges by minmax, moving-average, percentile, entropy or mse.",
)
@click.option(
    "--smooth",
    is_flag=True,
    help="With --precision int8 or auto: scale channels against their weights first (SmoothQuant).",
)
@click.option(
    "--calib-table",
    type=NEW_FILE,
    metavar="FILE.json",
    help="Where the ranges go; without --calib-data where they come from (TensorRT's and ONNX Runtime's tables too).",
)
@click.option(
    "--zero-point-bias",
    type=click.Choice(["0", "128"]),
    help="128: store 8-bit weights as uint8 around it, as some neural processors read them (default: the target's).",
)
@click.option(
    "--max-drop",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="With auto: how far outputs may move from float32 on samples of --calib-data (0.1 if no limit is given); "
    "layers that move them most stay float. With int8: warn beyond.",
)
@click.option(
    "--drop-metric",
    type=click.Choice(["l2", "top1"]),
    default="l2",
    show_default=True,
    help="What --max-drop limits: the relative L2 error of each output, or the share of its rows (along the last axis) "
    "whose largest element is another.",
)
@click.option(
    "--min-sqnr",
    type=float,
    metavar="DB",
    help="Like --max-drop: the least signal-to-quantisation-noise ratio of each output, in dB.",
)
@click.option(
    "--layer-precision",
    "layers",
    multiple=True,
    metavar="NODE=PRECISION",
    help="With int8 and auto: a layer's own: fp32, int8 or, with auto, fp16 (repeatable).",
)
@click.option(
    "--symmetric-activations",
    is_flag=True,
    default=None,
    help="Zero points of activations are 128, or 0 where there are no negative numbers (of int8: 0).",
)
@click.option(
    "--winograd",
    type=click.Choice(["auto", "off"]),
    default="auto",
    help="Kernels of convolutions that store more weights to multiply less: where they pay (default), or never.",
)
@click.option(
    "--tune", is_flag=True, help="Measure kernels on this machine before choosing (the target must be its own)."
)
@click.option("--passes", metavar="SPEC", help="Passes to run instead of the target's, such as 'fold, simplify, fuse'.")
@click.option("--verify-passes", is_flag=True, help="Compare with ONNX Runtime after every pass.")
@click.option(
    "--emit",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Keep the generated C, and the graph after each pass as .mcir and .onnx.",
)
@click.option(
    "--golden",
    type=click.IntRange(min=0),
    metavar="N",
    help="Self-test cases (default: 1, if the model runs on sampled inputs).",
)
@click.option("--no-golden", is_flag=True, help="No self-test cases, like --golden 0.")
@click.option("--sign", type=EXISTING_FILE, metavar="KEY.pem", help="Sign with an Ed25519 private key.")
@click.option("-j", "--jobs", type=click.IntRange(min=1), metavar="N", help="Compiler processes (default: one a core).")
@click.option("-q", "--quiet", is_flag=True, help="Print errors only.")
@click.option("-v", "--verbose", is_flag=True, help="Also print what each pass did.")
@json_option
def compile_(
    model: Path,
    target: str,
    output: Path | None,
    shapes: tuple[str, ...],
    dims: tuple[str, ...],
    freeze_defaults: bool,
    precision: str | None,
    weights: str | None,
    block_size: int | None,
    calib_data: Path | None,
    calib_method: str | None,
    smooth: bool,
    calib_table: Path | None,
    zero_point_bias: str | None,
    max_drop: float | None,
    drop_metric: str,
    min_sqnr: float | None,
    layers: tuple[str, ...],
    symmetric_activations: bool | None,
    winograd: str,
    tune: bool,
    passes: str | None,
    verify_passes: bool,
    emit: Path | None,
    golden: int | None,
    no_golden: bool,
    sign: Path | None,
    jobs: int | None,
    quiet: bool,
    verbose: bool,
    as_json: bool,
) -> None:
    """Compile an ONNX model for a target into one file.

    \b
    Example:
      mcpc compile mobilenetv2.onnx --target rock5b -o mobilenetv2.mcp26bin
      mcpc compile bert.onnx --dim batch=1 --dim sequence=1..512
      mcpc compile resnet50.onnx --precision int8 --calib-data images.txt
      mcpc compile smollm2.onnx --weights int4 --block-size 32
      mcpc compile resnet50.onnx --precision auto --calib-data images.txt --min-sqnr 25
    """
    input_shapes, bounds = parse_shapes(shapes), read_bounds(dims)

    from mcpc.compiler import compile as compile_model
    from mcpc.inspection import inspect

    began = time.perf_counter()
    with console.progress_bar(quiet or as_json) as progress:
        path = compile_model(
            model,
            target,
            output,
            input_shapes=input_shapes,
            dims=bounds,
            freeze_defaults=freeze_defaults,
            precision=precision,
            weights=weights,
            block_size=block_size,
            calib_data=calib_data,
            calib_method=calib_method,
            smooth=smooth,
            calib_table=calib_table,
            zero_point_bias=None if zero_point_bias is None else int(zero_point_bias),
            max_drop=max_drop,
            drop_metric=drop_metric,
            min_sqnr=min_sqnr,
            layer_precisions=parse_layers(layers),
            symmetric_activations=symmetric_activations,
            winograd=winograd,
            tune=tune,
            passes=passes,
            verify_passes=verify_passes,
            emit=emit,
            golden=0 if no_golden else golden,
            sign=sign,
            jobs=jobs,
            progress=progress,
        )
    seconds = time.perf_counter() - began
    document = inspect(path)
    if as_json:
        console.print_json({"output": str(path), "seconds": round(seconds, 3), **document})
    elif not quiet:
        for line in _notes(document["decisions"]):
            click.echo(console.printable(line), err=True)
        if verbose:
            _print_passes(document)
        _print_summary(path, document, seconds)


def _notes(decisions: list[dict[str, Any]]) -> list[str]:
    """What is to be told at once: a line for all subjects of one reason."""
    subjects: dict[tuple[str, str], list[str]] = {}
    for each in decisions:
        kind = (each["pass"], each["action"])
        if each["pass"] in NOTED or kind in (*NOTED, *WARNED):
            word = "warning" if kind in WARNED else "note"
            subjects.setdefault((word, each["reason"]), []).append(each["subject"])
    return [
        f"{word}: {first}{f' and {len(others)} more' if others else ''}: {reason}"
        for (word, reason), (first, *others) in subjects.items()
    ]


def parse_shapes(texts: tuple[str, ...]) -> dict[str, tuple[int | None, ...]]:
    """``NAME:1x3x?x?`` (an empty shape is a scalar) as a shape by name, None for a size that stays open."""
    result: dict[str, tuple[int | None, ...]] = {}
    for text in texts:
        # Tensor names may hold ':', so the last one separates.
        name, separator, sizes = text.rpartition(":")
        if not separator or not name or not re.fullmatch(r"((\d+|\?)(x(\d+|\?))*)?", sizes):
            raise UsageError("E003", f"--input-shape {text!r} is not NAME:1x3x224x224")
        if name in result:
            raise UsageError("E003", f"--input-shape gives {name!r} twice")
        result[name] = tuple(None if text == "?" else int(text) for text in sizes.split("x") if text)
    return result


def parse_layers(texts: tuple[str, ...]) -> dict[str, str]:
    """``NODE=int8`` as a precision by node."""
    result: dict[str, str] = {}
    for text in texts:
        name, separator, precision = text.rpartition("=")  # names may hold '='
        if not separator or not name or not precision:
            raise UsageError("E003", f"--layer-precision {text!r} is not NODE=PRECISION")
        if name in result:
            raise UsageError("E003", f"--layer-precision gives {name!r} twice")
        result[name] = precision
    return result


def _print_summary(path: Path, document: dict[str, Any], seconds: float) -> None:
    arena = "unbounded" if document["unbounded"] else size(document["arena_bytes"])
    click.echo(
        f"{path}: {size(document['file_bytes'])} for {document['target']} in {seconds:.1f} s "
        f"({size(document['weights_bytes'])} weights, {size(document['code_bytes'])} code, "
        f"{len(document['steps'])} steps, {arena} arena)"
    )


def _print_passes(document: dict[str, Any]) -> None:
    rows = [(each["spec"], each["nodes_before"], each["nodes_after"]) for each in document["passes"]]
    click.echo(console.table(("pass", "nodes", "after"), rows, right=(1, 2)))
