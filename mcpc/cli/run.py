"""mcpc run"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcpc.cli import console
from mcpc.cli.options import (
    NEW_FILE,
    artifact_argument,
    input_option,
    json_option,
    read_inputs,
    read_sizes,
    size_option,
    threads_option,
)
from mcpc.errors import UsageError
from mcpc.files import replacing, require_writable

if TYPE_CHECKING:
    import numpy as np


@click.command()
@artifact_argument
@input_option
@click.option("--random-inputs", "seed", type=click.IntRange(min=0), metavar="SEED", help="Sample the other inputs.")
@size_option
@click.option("-o", "--output", type=NEW_FILE, metavar="OUT.npz", help="Write the outputs by name.")
@threads_option
@json_option
def run(
    artifact: Path,
    input_files: tuple[str, ...],
    seed: int | None,
    dims: tuple[str, ...],
    output: Path | None,
    threads: int | None,
    as_json: bool,
) -> None:
    """Run an artifact once and say what came out.

    \b
    Example:
      mcpc run model.mcp26bin --input image=cat.npy -o result.npz
    """
    if not input_files and seed is None:
        raise UsageError("E003", "no inputs", hint="give --input NAME=FILE.npy, or --random-inputs SEED")
    if output is not None:
        require_writable(output)
    feeds, sizes = read_inputs(input_files), read_sizes(dims)

    import numpy as np

    from mcpc.loader import load
    from mcpc.sample_inputs import artifact_inputs

    with load(artifact, threads=threads) as session:
        if seed is not None:
            feeds = {**artifact_inputs(artifact, session, seed, sizes), **feeds}
        names = [each.name for each in session.get_outputs()]
        results = dict(zip(names, session.run(None, feeds), strict=True))
    if output is not None:
        with replacing(output) as file:  # a file object, since savez would append .npz to another name
            arrays = {name: _storable(array) for name, array in results.items()}
            np.savez(file, **arrays)  # type: ignore[arg-type]  # its stub takes allow_pickle for an array
    summaries = [_summary(name, array) for name, array in results.items()]
    if as_json:
        console.print_json({"outputs": summaries, "output": str(output) if output else None})
    else:
        for each in summaries:
            numbers = (
                f"min {each['min']:.6g}, mean {each['mean']:.6g}, max {each['max']:.6g}, first {each['first']}"
                if each["first"]
                else "empty"
            )
            click.echo(console.printable(f"{each['name']}: {each['dtype']}{each['shape']}, {numbers}"))
        if output is not None:
            click.echo(f"written: {output}")


def _storable(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """``array``, as bytes where its type is none of numpy's: some have a code that numpy writes but cannot read."""
    return array if array.dtype.isbuiltin == 1 else array.view(f"V{array.itemsize}")


def _summary(name: str, array: np.ndarray[Any, Any]) -> dict[str, Any]:
    import numpy as np

    numbers = array.astype(np.float64)
    filled = array.size > 0
    return {
        "name": name,
        "dtype": array.dtype.name,
        "shape": list(array.shape),
        "min": float(numbers.min()) if filled else None,
        "mean": float(numbers.mean()) if filled else None,
        "max": float(numbers.max()) if filled else None,
        "first": [float(f"{value:.6g}") for value in numbers.reshape(-1)[:5]],
    }
