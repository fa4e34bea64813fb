"""How outputs compare with what they should be, as `verify` and `selftest` print it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from mcpc.cli import console
from mcpc.errors import RuntimeFault
from mcpc.precision_table import FIDELITY_HEADERS, fidelity_cells, time_cells, time_headers

#: What is compared of every tensor.
DIFFERENCE_HEADERS = ("max difference", "of tolerance")

if TYPE_CHECKING:
    from mcpc.per_layer import LayerComparison
    from mcpc.verification import Comparison


def print_verdict(
    comparisons: Sequence[Comparison], as_json: bool, hint: str, layers: Sequence[LayerComparison] = ()
) -> int:
    """Print a line an output and a line a layer, an error with ``hint`` for each output that differs and one for the
    first layer that does, and return the exit status."""
    faults = [RuntimeFault("E606", each.describe(), hint=hint) for each in comparisons if not each.matches]
    faults += _layer_faults(layers)
    if as_json:
        document: dict[str, Any] = {"matches": not faults, "outputs": [each.to_json() for each in comparisons]}
        if layers:
            document["layers"] = [layer.to_json() for layer in layers]
        if faults:
            document["errors"] = [fault.to_json() for fault in faults]
        console.print_json(document)
    else:
        rows = [(*_numbers(each), each.name) for each in comparisons]
        click.echo(console.table(("verdict", *DIFFERENCE_HEADERS, "output"), rows, right=(1, 2)))
        if layers:
            click.echo("\n" + _layer_table(layers))
    for fault in faults:
        click.echo(fault, err=True)
    return RuntimeFault.exit_code if faults else 0


def _layer_table(layers: Sequence[LayerComparison]) -> str:
    """With what quantisation did where the network was quantised."""
    is_quantised = any(each.precision is not None or each.fidelity is not None for each in layers)
    times = time_headers([each.precision for each in layers if each.precision is not None])
    rows = []
    for each in layers:
        kept = ("", "") if each.fidelity is None else fidelity_cells(each.fidelity.sqnr, each.fidelity.cosine)
        chosen = [""] * (1 + len(times))
        if each.precision is not None:
            chosen = [each.precision["precision"], *time_cells(each.precision, times)]
        quantised = (*kept, *chosen) if is_quantised else ()
        what = (each.against, each.layer.op, each.layer.name, each.layer.node)
        rows.append((*_numbers(each.comparison), *quantised, *what))
    quantised = (*FIDELITY_HEADERS, "type", *times) if is_quantised else ()
    headers = ("verdict", *DIFFERENCE_HEADERS, *quantised, "against", "operators", "tensor", "node")
    numbers = {*DIFFERENCE_HEADERS, *FIDELITY_HEADERS, *times}
    return console.table(headers, rows, right=tuple(at for at, header in enumerate(headers) if header in numbers))


def _numbers(each: Comparison) -> tuple[str, str, str]:
    return "ok" if each.matches else "DIFFERS", f"{each.max_abs_difference:.3g}", f"{each.excess:.3g}"


def _layer_faults(layers: Sequence[LayerComparison]) -> list[RuntimeFault]:
    """One for the first layer that differs: what follows it may differ for that reason only."""
    differing = [layer for layer in layers if not layer.matches]
    if not differing:
        return []
    first, worst = differing[0], max(differing, key=lambda layer: layer.comparison.excess)
    hint = f"the first of {len(differing)} layers that differ"
    if worst is not first:
        hint += f"; the worst: {worst.comparison.describe()}, at node {worst.layer.node!r}"
    message = first.comparison.describe().replace("output", "tensor", 1)
    return [RuntimeFault("E606", message, op=first.layer.op, node=first.layer.node, hint=hint)]
