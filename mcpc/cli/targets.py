"""mcpc targets"""

from __future__ import annotations

import click

from mcpc.cli import console
from mcpc.cli.options import json_option, target_option


class _Verbs(click.Group):
    """Takes `--ops` for `ops`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, ["ops", *args[1:]] if args[:1] == ["--ops"] else args)


@click.group(cls=_Verbs)
def targets() -> None:
    """The devices that can be compiled for.

    \b
    Example:
      mcpc targets list
      mcpc targets show rock5b
      mcpc targets ops --target rock5b
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


@targets.command("ops")
@target_option
@json_option
def list_operators(target: str, as_json: bool) -> None:
    """List the operators, and how a target runs them (also: mcpc targets --ops).

    \b
    Example:
      mcpc targets ops --target rock5b --json
    """
    from mcpc.operators import operators
    from mcpc.plugins import find_family, find_target

    found = operators(find_family(find_target(target).family))
    if as_json:
        console.print_json([each.to_json() for each in found])
        return
    rows = []
    for each in found:
        how = ", ".join(each.ways) if each.is_supported else f"not: {each.reason}"
        rows.append((each.domain or "ai.onnx", each.name, f"{each.first}-{each.last}", how))
    click.echo(console.table(("domain", "operator", "opsets", "how it is run"), rows))
    supported = sum(each.is_supported for each in found)
    click.echo(f"{supported} operators are supported, {len(found) - supported} are not")
