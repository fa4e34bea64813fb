"""One self-contained page about an artifact: steps with their costs, the memory plan as a picture, every decision."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import groupby
from typing import Any

from mcpc.decision_table import Cells, Total
from mcpc.precision_table import layer_table, output_table
from mcpc.units import duration, size

Document = dict[str, Any]


def render(document: Document) -> str:
    """The page for what :func:`mcpc.inspect` returns; names in it may be hostile."""
    title = f"{document['model_name']} for {document['target']}"
    parts = [
        f"<h1>{escape(str(document['model_name']))} <small>for {escape(str(document['target']))}</small></h1>",
        _tiles(document),
        "<h2>Inputs and outputs</h2>",
        _table(("", "name", "type", "shape"), _tensors(document)),
        _sizes(document["symbols"]),
        "<h2>Memory plan</h2>",
        _memory_plan(document),
        "<h2>Steps</h2><p>In the order they run. Bars: predicted time and least memory traffic.</p>",
        _steps(document["steps"]),
        *_precision(document["precision"]),
        "<h2>Decisions</h2><p>Of a boundary between two operators: the predicted times of two kernels and of one.</p>",
        _decisions(document["decisions"]),
        "<h2>Passes</h2>",
        _table(
            ("pass", "nodes before", "after"),
            [(each["spec"] or each["name"], each["nodes_before"], each["nodes_after"]) for each in document["passes"]],
            numeric=(1, 2),
        ),
        "<h2>Code</h2>",
        _table(
            ("variant", "instruction set", "needs", "size"),
            [
                (each["name"], each["isa"], ", ".join(each["features"]), size(each["bytes"]))
                for each in document["code"]
            ],
        ),
        "<h2>Provenance</h2>",
        _table(("", ""), sorted(document["provenance"].items())),
    ]
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style>\n<main>{body}</main></html>\n'
    )


def _tiles(document: Document) -> str:
    predicted = sum(step["predicted_us"] for step in document["steps"]) / 1e3
    tiles = [
        ("file", size(document["file_bytes"])),
        ("weights", size(document["weights_bytes"])),
        ("arena", "unbounded" if document["unbounded"] else size(document["arena_bytes"])),
        ("steps", str(len(document["steps"]))),
        ("work", f"{sum(step['flops'] for step in document['steps']) / 1e9:.3g} GFLOP"),
        ("predicted", f"{predicted:.3g} ms"),
    ]
    return (
        '<div class="tiles">'
        + "".join(f"<div><b>{escape(value)}</b><span>{name}</span></div>" for name, value in tiles)
        + "</div>"
    )


def _tensors(document: Document) -> Iterable[Sequence[object]]:
    for kind in ("inputs", "outputs"):
        for tensor in document[kind]:
            yield kind[:-1], tensor["name"], tensor["dtype"], " × ".join(map(str, tensor["shape"])) or "scalar"


def _steps(steps: Sequence[Document]) -> str:
    slowest = max((step["predicted_us"] for step in steps), default=0) or 1
    heaviest = max((step["bytes"] for step in steps), default=0) or 1
    rows = [
        "<tr>"
        f'<td class="number">{index}</td><td>{escape(step["op"])}<br><small>{escape(step["name"])}</small></td>'
        f"<td><code>{escape(step['kernel'])}</code></td><td>{escape(step['shape'])}</td>"
        f'<td class="number">{step["flops"] / 1e6:.3g}</td>'
        f"<td>{_bar(step['predicted_us'] / slowest, duration(step['predicted_us']))}</td>"
        f"<td>{_bar(step['bytes'] / heaviest, size(step['bytes']))}</td></tr>"
        for index, step in enumerate(steps)
    ]
    head = "".join(
        f"<th>{name}</th>" for name in ("#", "operators", "kernel", "shape", "MFLOP", "predicted", "traffic")
    )
    return f'<div class="wide"><table><tr>{head}</tr>{"".join(rows)}</table></div>'


def _bar(part: float, text: str) -> str:
    return f'<div class="bar"><i style="width:{part * 100:.1f}%"></i><span>{escape(text)}</span></div>'


def _sizes(symbols: Sequence[Document]) -> str:
    rows = [(each["name"], each["min"], "without bound" if each["max"] is None else each["max"]) for each in symbols]
    return "<h2>Symbolic sizes</h2>" + _table(("name", "least", "largest"), rows) if rows else ""


def _memory_plan(document: Document) -> str:
    buffers, steps, arena = document["buffers"], max(len(document["steps"]), 1), document["arena_bytes"]
    if document["unbounded"] and not buffers:
        return "<p>There is no fixed plan: the arena grows with sizes that have no bound.</p>"
    if not buffers or not arena:
        return "<p>No buffer: every tensor is an input, an output or a weight.</p>"
    width, height, left, right, bottom = 1000, 340, 70, 970, 24
    unit = (right - left) / steps

    def y(offset: int) -> float:
        return height * (1 - offset / float(arena))

    shapes = [
        f'<line class="grid" x1="{left}" x2="{right}" y1="{y(offset):.1f}" y2="{y(offset):.1f}"/>'
        f'<text x="{left - 6}" y="{max(y(offset) + 4, 10):.1f}" text-anchor="end">{size(offset)}</text>'
        for offset in (arena * part // 4 for part in range(5))
    ]
    shapes += [
        f'<text x="{left + (step + 0.5) * unit:.1f}" y="{height + 17}" text-anchor="middle">step {step}</text>'
        for step in sorted({(steps - 1) * part // 4 for part in range(5)})
    ]
    for index, buffer in enumerate(buffers):
        first, last = buffer["first_step"], buffer["last_step"]
        x, box_width = left + first * unit, (last - first + 1) * unit
        top, box_height = y(buffer["offset"] + buffer["bytes"]), height * buffer["bytes"] / arena
        label = f"{buffer['name']}: {size(buffer['bytes'])} at {buffer['offset']}, steps {first} to {last}"
        shapes.append(
            f'<rect x="{x:.1f}" y="{top:.1f}" width="{max(box_width - 0.5, 0.5):.1f}" '
            f'height="{max(box_height - 0.5, 0.5):.1f}" fill="hsl({index * 47 % 360} 55% 60%)">'
            f"<title>{escape(label)}</title></rect>"
        )
    live = y(min(document["live_set_bytes"], arena))
    shapes.append(f'<line class="live" x1="{left}" x2="{right}" y1="{live:.1f}" y2="{live:.1f}"/>')
    caption = f"arena {size(arena)}, largest live set {size(document['live_set_bytes'])}, {len(buffers)} buffers"
    return (
        "<p>Each box is a buffer: how long it lives (steps, left to right) and where it lies in the arena (bytes, "
        "bottom up). The dashed line is the largest sum of live buffers, which no plan can go below.</p>"
        f'<svg viewBox="0 0 {width} {height + bottom}" role="img" aria-label="{caption}">{"".join(shapes)}</svg>'
        f"<p>{caption}</p>"
    )


def _precision(precision: Document) -> list[str]:
    """Nothing where no network of floats was quantised."""
    if not precision["layers"]:
        return []
    tables = [layer_table(precision["layers"]), output_table(precision["outputs"])]
    return [
        "<h2>Precision</h2><p>What each layer computes in; what is left of its results, in the network and from exact "
        "inputs; its predicted time in each precision.</p>",
        *(f"<p>{escape(each['verdict'])}: {escape(each['reason'])}</p>" for each in precision["network"]),
        *(_table(each.headers, each.rows, numeric=each.numbers) for each in tables if each.rows),
    ]


def _decisions(decisions: Sequence[Document]) -> str:
    parts = []
    for (pass_name, action), group in groupby(
        sorted(decisions, key=lambda each: (each["pass"], each["action"])),
        key=lambda each: (each["pass"], each["action"]),
    ):
        members = list(group)
        total = Total.of(members)
        title = f"{escape(pass_name)}: {escape(action)} ({len(members)})"
        every = [Cells.of(each["numbers"]) for each in members]
        if not total.count:
            rows = [(each["subject"], each["reason"], cells.others) for each, cells in zip(members, every, strict=True)]
            parts.append(
                f"<details><summary>{title}</summary>{_table(('subject', 'reason', 'numbers'), rows)}</details>"
            )
            continue
        split, fused = duration(total.split), duration(total.fused)
        timed: list[Sequence[object]] = [
            (each["subject"], cells.split, cells.fused, each["reason"], cells.others)
            for each, cells in zip(members, every, strict=True)
        ]
        timed.append(("total", split, fused, f"{total.count} boundaries", ""))
        table = _table(("subject", "split", "fused", "reason", "numbers"), timed, numeric=(1, 2))
        parts.append(f"<details><summary>{title}, split {split}, fused {fused}</summary>{table}</details>")
    return "".join(parts) or "<p>None recorded.</p>"


def _table(headers: Sequence[str], rows: Iterable[Sequence[object]], numeric: Sequence[int] = ()) -> str:
    head = "".join(
        f'<th class="number">{escape(header)}</th>' if at in numeric else f"<th>{escape(header)}</th>"
        for at, header in enumerate(headers)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f'<td class="number">{escape(str(cell))}</td>' if at in numeric else f"<td>{escape(str(cell))}</td>"
            for at, cell in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'


_STYLE = """
:root{color-scheme:light dark;--ink:#1d2430;--soft:#667;--line:#dde;--back:#fff;--bar:#9db8f2}
@media(prefers-color-scheme:dark){:root{--ink:#e4e7ee;--soft:#99a;--line:#334;--back:#14171d;--bar:#3a5590}}
body{margin:0;background:var(--back);color:var(--ink);font:15px/1.45 system-ui,sans-serif}
main{max-width:1180px;margin:auto;padding:24px}
h1{font-size:26px}h1 small,td small{color:var(--soft);font-weight:400}h2{margin-top:36px;font-size:19px}
p{color:var(--soft)}
.tiles{display:flex;flex-wrap:wrap;gap:12px}
.tiles div{border:1px solid var(--line);border-radius:8px;padding:10px 16px}
.tiles b{display:block;font-size:19px}.tiles span{color:var(--soft)}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:13px}
th,td{text-align:left;padding:4px 10px;border-bottom:1px solid var(--line);vertical-align:top}
th{color:var(--soft);font-weight:500}td.number,th.number{text-align:right;font-variant-numeric:tabular-nums}
.bar{position:relative;min-width:110px;height:18px}
.bar i{position:absolute;inset:0 auto 0 0;background:var(--bar);border-radius:3px}
.bar span{position:relative;padding-left:5px;white-space:nowrap}
svg{width:100%;height:auto}svg text{font-size:11px;fill:var(--soft)}
.grid{stroke:var(--line);stroke-width:.6}.live{stroke:#d33;stroke-width:1.5;stroke-dasharray:6 4}
details{border-bottom:1px solid var(--line);padding:5px 0}summary{cursor:pointer}
"""
