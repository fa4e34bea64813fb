"""mcpc targets"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mcpc.cli import console
from mcpc.cli.options import json_option, target_option

if TYPE_CHECKING:
    from mcpc.target import Core


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
      mcpc targets calibrate host
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
        click.echo(_coefficients(core, target.launch_us))
    if target.measured is not None:
        rest = sorted(set(target.big_core.rates) - set(target.measured.classes))
        click.echo(
            f"  measured  {target.measured.date} on {target.measured.processor}: the coefficients of the first core"
            + (f", but for {', '.join(rest)}, which are scaled like gemm" if rest else "")
        )
    else:
        click.echo(
            f"  measured  nothing; `mcpc targets calibrate {target.name}` does it on a machine that runs its code"
        )
    for variant in target.variants:
        click.echo(
            f"  variant   {variant.name} ({variant.mcpu}), needs {', '.join(variant.features) or 'nothing more'}"
        )


def _coefficients(core: Core, launch_us: float) -> str:
    levels = (("L1", core.l1_gbps), ("L2", core.l2_gbps), ("L3", core.l3_gbps), ("memory", core.gbps))
    bandwidths = ", ".join(f"{name} {rate:g} GB/s" for name, rate in levels if rate)
    rates = [f"{kind} {rate:g}" for kind, rate in core.rates.items()]
    lines = [", ".join(rates[start : start + 6]) for start in range(0, len(rates), 6)]
    return "\n".join(
        [
            f"    data    {bandwidths}; {launch_us:g} us a step",
            f"    rates   {lines[0]}",
            *(f"            {line}" for line in lines[1:]),
        ]
    )


@targets.command()
@click.argument("name")
@click.option("-q", "--quiet", is_flag=True, help="Print errors only.")
@json_option
def calibrate(name: str, quiet: bool, as_json: bool) -> None:
    """Measure what the cost model takes of a target, on this machine, for half a minute.

    The result is kept in the user's configuration (MCPC_CONFIG_DIR, else ~/.config/mcpc) and used by every compilation
    for this target on a processor of the same name.

    \b
    Example:
      mcpc targets calibrate host
      mcpc targets show host
    """
    from mcpc import coefficients
    from mcpc.plugins import find_target
    from mcpc.target_calibration import calibrate as measure

    with console.progress_bar(quiet or as_json) as progress:
        target = measure(find_target(name), progress=progress)
    assert target.measured is not None
    path = coefficients.save(target, target.measured)
    if as_json:
        console.print_json({"file": str(path), "digest": coefficients.digest(target), **target.to_json()})
    elif not quiet:
        click.echo(_coefficients(target.big_core, target.launch_us))
        click.echo(f"written: {path}")


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
