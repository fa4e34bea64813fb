"""mcpc targets"""

from __future__ import annotations

import click

from mcpc.cli import console
from mcpc.cli.options import json_option


@click.group()
def targets() -> None:
    """The devices that can be compiled for.

    \b
    Example:
      mcpc targets list
      mcpc targets show rock5b
    """


@targets.command("list")
@json_option
def list_targets(as_json: bool) -> None:
    """List the targets.

    \b
    Example:
      mcpc targets list --json
    """
    from mcpc import plugins

    found = [plugins.find_target(name) for name in sorted(plugins.targets())]
    if as_json:
        console.print_json([target.to_json() for target in found])
    else:
        rows = [(target.name, target.isa, target.description) for target in found]
        click.echo(console.table(("target", "isa", "what it is"), rows))


@targets.command()
@click.argument("name")
@json_option
def show(name: str, as_json: bool) -> None:
    """Show what is known about a target: cores, code variants, the passes it runs.

    \b
    Example:
      mcpc targets show rock5b
    """
    from mcpc.plugins import find_target

    target = find_target(name)
    if as_json:
        console.print_json(target.to_json())
        return
    click.echo(f"{target.name}: {target.description}")
    click.echo(f"  family    {target.family}, {target.isa}, {target.triple}")
    click.echo(f"  passes    {target.pipeline}")
    for core in target.cores:
        caches = f"{core.l1d_kib} KiB L1D, {core.l2_kib} KiB L2"
        caches += f", {core.l3_kib} KiB L3" if core.l3_kib else ""
        click.echo(
            f"  core      {core.count} x {core.name}, {core.mhz} MHz, {caches}; "
            f"{core.gflops:g} GFLOP/s, {core.gbps:g} GB/s ({core.source})"
        )
    for variant in target.variants:
        click.echo(
            f"  variant   {variant.name} ({variant.mcpu}), needs {', '.join(variant.features) or 'nothing more'}"
        )
