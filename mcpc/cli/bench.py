"""mcpc bench"""

from __future__ import annotations

from pathlib import Path

import click

from mcpc.cli import console
from mcpc.cli.options import artifact_argument, json_option, read_sizes, size_option, threads_option
from mcpc.units import size


@click.command()
@artifact_argument
@size_option
@threads_option
@click.option(
    "--affinity", type=click.Choice(["big", "little", "all"]), default="all", show_default=True, help="Cores."
)
@click.option("--warmup", type=click.IntRange(min=0), default=10, show_default=True, metavar="W", help="Runs before.")
@click.option("--iterations", type=click.IntRange(min=1), metavar="I", help="Runs to time (default: for a second).")
@click.option("--profile", is_flag=True, help="Also time every step.")
@json_option
def bench(
    artifact: Path,
    dims: tuple[str, ...],
    threads: int | None,
    affinity: str,
    warmup: int,
    iterations: int | None,
    profile: bool,
    as_json: bool,
) -> None:
    """Time an artifact on this machine: opening, the first run, the steady state, each step.

    \b
    Example:
      mcpc bench model.mcp26bin --threads 1 --profile
      mcpc bench model.mcp26bin --dim batch=4
    """
    sizes = read_sizes(dims)

    from mcpc.benchmark import benchmark

    result = benchmark(
        artifact,
        threads=threads,
        affinity=affinity,
        warmup=warmup,
        iterations=iterations,
        profile=profile,
        dims=sizes,
    )
    if as_json:
        console.print_json(result)
        return
    latency = result["latency_ms"]
    click.echo(
        f"latency   {latency['p50']:.3f} ms median of {result['iterations']}, "
        f"min {latency['min']:.3f}, p90 {latency['p90']:.3f}, p99 {latency['p99']:.3f}"
    )
    shapes = (f"{name} {'x'.join(map(str, shape)) or 'scalar'}" for name, shape in result["input_shapes"].items())
    click.echo(console.printable(f"inputs    {', '.join(shapes)}"))
    click.echo(f"open      {result['open_ms']:.3f} ms, first run {result['first_run_ms']:.3f} ms")
    click.echo(
        f"memory    weights {size(result['weights_bytes'])} mapped, "
        f"session {size(result['session_bytes'])}, process peak {result['peak_rss_mib']} MiB"
    )
    if profile:
        total = sum(step["ms"] for step in result["steps"]) or 1.0
        rows = [
            (
                f"{step['ms']:.3f}",
                f"{step['ms'] / total:.1%}",
                f"{step['predicted_ms']:.3f}",
                step["kernel"],
                step["name"],
            )
            for step in sorted(result["steps"], key=lambda step: -step["ms"])
        ]
        click.echo()
        click.echo(console.table(("ms", "share", "predicted", "kernel", "step"), rows, right=(0, 1, 2)))
