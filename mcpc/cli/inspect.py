"""mcpc inspect"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from mcpc.cli import console
from mcpc.cli.options import NEW_FILE, artifact_argument, json_option
from mcpc.decision_table import Cells, Total
from mcpc.files import replacing
from mcpc.precision_table import layer_table, output_table
from mcpc.units import duration, size

Document = dict[str, Any]


@click.command()
@artifact_argument
@click.option(
    "--section",
    type=click.Choice(["summary", "steps", "fusion", "precision", "memory", "shards", "provenance"]),
    help="Show one part (default: the summary; with --json: everything).",
)
@click.option("--html", type=NEW_FILE, metavar="FILE", help="Write one page with steps, memory plan and decisions.")
@json_option
def inspect(artifact: Path, section: str | None, html: Path | None, as_json: bool) -> None:
    """Show what is in an artifact and why.

    \b
    Example:
      mcpc inspect model.mcp26bin --section steps
      mcpc inspect model.mcp26bin --section precision
      mcpc inspect model.mcp26bin --html model.html
    """
    from mcpc.inspection import SECTIONS
    from mcpc.inspection import inspect as read

    document = read(artifact)
    if html is not None:
        from mcpc.html_report import render

        with replacing(html) as file:
            file.write(render(document).encode())
    if as_json:
        console.print_json({key: document[key] for key in SECTIONS[section]} if section else document)
    elif html is not None and section is None:
        click.echo(f"written: {html}")
    else:
        click.echo(_TEXTS[section or "summary"](document))


def _summary(document: Document) -> str:
    arena = f"arena {size(document['arena_bytes'])} (largest live set {size(document['live_set_bytes'])})"
    if document["unbounded"]:
        arena = "arena unbounded: it grows while it runs, unless compiled with --dim NAME=MIN..MAX"
    lines = [
        f"{document['model_name']} for {document['target']}, format {document['format_version']}, "
        f"needs runtime {document['runtime_version']}, {'signed' if document['signed'] else 'not signed'}",
        f"  file      {size(document['file_bytes'])}: weights {size(document['weights_bytes'])}, "
        f"code {size(document['code_bytes'])}",
        f"  memory    {arena}, state {size(document['state_bytes'])}, "
        f"scratch {size(document['scratch_bytes'])} a thread",
        f"  work      {len(document['steps'])} steps, {document['flops'] / 1e9:.3g} GFLOP, "
        f"predicted {duration(document['predicted_us'])} on one core",
        f"  self-test {_selftest(document)}",
    ]
    lines += [f"  {kind[:-1]:<9} {_tensor(each)}" for kind in ("inputs", "outputs") for each in document[kind]]
    for symbol in document["symbols"]:
        bound = f"to {symbol['max']}" if symbol["max"] is not None else "without bound"
        lines.append(f"  symbol    {symbol['name']} from {symbol['min']} {bound}")
    for code in document["code"]:
        needs = ", ".join(code["features"]) or "nothing"
        lines.append(f"  code      {code['name']} ({code['isa']}), {size(code['bytes'])}, needs {needs}")
    return "\n".join(map(console.printable, lines))


def _selftest(document: Document) -> str:
    cases = document["golden_cases"]
    if cases == 0:
        return "no cases"
    tensors = ", ".join(f"{count} {how}" for how, count in document["golden_tensors"].items() if count)
    return f"{cases} {'case' if cases == 1 else 'cases'}, {size(document['golden_bytes'])}; tensors: {tensors}"


def _tensor(tensor: Document) -> str:
    optional = ", optional" if tensor.get("optional") else ""
    return f"{tensor['name']} {tensor['dtype']}[{', '.join(map(str, tensor['shape']))}]{optional}"


def _steps(document: Document) -> str:
    rows = [
        (
            step["index"],
            duration(step["predicted_us"]),
            f"{step['flops'] / 1e6:.2f}",
            size(step["bytes"]),
            step["shape"],
            step["op"],
            step["kernel"],
            step["name"],
        )
        for step in document["steps"]
    ]
    headers = ("#", "predicted", "MFLOP", "traffic", "shape", "operators", "kernel", "nodes")
    return console.table(headers, rows, right=(0, 1, 2, 3))


def _fusion(document: Document) -> str:
    """Every decision, and behind them the sums over the boundaries that were taken and refused."""
    rows: list[tuple[str, ...]] = []
    for each in document["decisions"]:
        cells = Cells.of(each["numbers"])
        rows.append(
            (each["pass"], each["action"], each["subject"], cells.split, cells.fused, each["reason"], cells.others)
        )
    for action in dict.fromkeys(each["action"] for each in document["decisions"]):
        total = Total.of(each for each in document["decisions"] if each["action"] == action)
        if total.count:
            split, fused = duration(total.split), duration(total.fused)
            rows.append(("total", action, f"{total.count} boundaries", split, fused, "", ""))
    headers = ("pass", "action", "subject", "split", "fused", "reason", "numbers")
    return console.table(headers, rows, right=(3, 4))


def _precision(document: Document) -> str:
    """Layers, outputs and findings."""
    precision = document["precision"]
    if not precision["layers"]:
        stated = document["provenance"].get("precision", "the model's")
        return f"no layer was quantised here; the precision is {stated}"
    tables = [layer_table(precision["layers"]), output_table(precision["outputs"])]
    shown = [console.table(each.headers, each.rows, right=each.numbers) for each in tables if each.rows]
    found = [f"{each['verdict']}: {each['reason']}" for each in precision["network"]]
    return "\n\n".join([*shown, *found])


def _memory(document: Document) -> str:
    rows = [
        (each["offset"], size(each["bytes"]), each["first_step"], each["last_step"], each["name"])
        for each in document["buffers"]
    ]
    if document["unbounded"]:
        table = console.table(("first step", "last", "buffer"), [row[2:] for row in rows], right=(0, 1))
        return f"arena unbounded: buffers are placed in the run, where sizes are known\n{table}"
    over = document["arena_bytes"] / document["live_set_bytes"] - 1 if document["live_set_bytes"] else 0.0
    return (
        f"arena {size(document['arena_bytes'])}, {over:.1%} above the largest live set "
        f"{size(document['live_set_bytes'])}\n"
        + console.table(("offset", "size", "first step", "last", "buffer"), rows, right=(0, 1, 2, 3))
    )


def _shards(document: Document) -> str:
    rows = [
        (each["index"], size(each["bytes"]), f"{len(each['steps'])} steps", each["sha256"])
        for each in document["shards"]
    ]
    return console.table(("#", "size", "read by", "sha256"), rows, right=(0, 1))


def _provenance(document: Document) -> str:
    rows = sorted(document["provenance"].items())
    passes = [(each["spec"], each["nodes_before"], each["nodes_after"]) for each in document["passes"]]
    return (
        console.table(("key", "value"), rows) + "\n\n" + console.table(("pass", "nodes", "after"), passes, right=(1, 2))
    )


_TEXTS: dict[str, Callable[[Document], str]] = {
    "summary": _summary,
    "steps": _steps,
    "fusion": _fusion,
    "precision": _precision,
    "memory": _memory,
    "shards": _shards,
    "provenance": _provenance,
}
