"""What compare.py measured, as a page of tables and as a chart."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from xml.sax.saxutils import escape

#: One colour a peer, in their order.
COLOURS = ("#3572a5", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#999999")


def markdown(document: dict[str, Any]) -> str:
    """Latencies, then what surrounds them: starts, memory, size, accuracy."""
    peers = document["peers"]
    names = ("mcpc", *peers)
    versions = ", ".join(f"{name} {version}" for name, version in document["versions"].items())
    lines = [
        f"# {document['machine']['processor']}, {document['machine']['cores']} cores",
        "",
        f"`{document['command']}`; {versions}.",
        "",
        "## Latency",
        "",
        "Milliseconds, median (least) of all runs; then how many times longer each peer takes, by medians, and the "
        "range over the rounds. Batch 1, all in turns in one run, each in a process of its own.",
        "",
        *table_head(["model", "threads", "mcpc", *(f"{peer} ms | ×" for peer in peers), "fastest peer ×"]),
    ]
    for row in document["results"]:
        cells = [row["model"], row["threads"], _milliseconds(row["latency"]["mcpc"])]
        for peer in peers:
            if peer in row["ratio"]:
                ratio = row["ratio"][peer]
                span = f"{ratio['lowest_round']:.2f}–{ratio['highest_round']:.2f}"
                cells += [_milliseconds(row["latency"][peer]), f"**{ratio['median']:.2f}** ({span})"]
            else:
                cells += ["–", "–"]
        lines.append(table_row([*cells, f"{min(each['median'] for each in row['ratio'].values()):.2f}"]))
    lines += [
        "",
        "## Starts, memory, size, accuracy",
        "",
        "Load and first run in milliseconds, the file in the page cache; peak resident memory of the process, Python "
        "and all, MiB; size of the artifact by that of the weights; largest error against float64 as a part of the "
        "largest output, mcpc's and ONNX Runtime's.",
        "",
        *table_head(
            ["model", "threads", *(f"{name} load + first, RSS" for name in names), "size", "error", "errors' ratio"]
        ),
    ]
    for row in document["results"]:
        cells = [row["model"], row["threads"]]
        for name in names:
            if name in row["starts"]:
                start = row["starts"][name]
                cells.append(f"{start['load_ms']:.1f} + {start['first_ms']:.1f}, {row['peak_rss_mib'][name]:.0f}")
            else:
                cells.append("–")
        cells.append(f"{row['artifact_bytes'] / row['weights_bytes']:.2f}" if row["weights_bytes"] else "–")
        if errors := row["error"]:
            ratio = f"{errors['ratio']:.2f}" if errors["ratio"] is not None else "–"
            cells += [f"{errors['mcpc']:.1e} / {errors['onnxruntime']:.1e}", ratio]
        else:
            cells += ["–", "–"]
        lines.append(table_row(cells))
    for name, reason in document["failures"].items():
        lines += ["", f"{name} is not measured: {reason}"]
    return "\n".join(lines) + "\n"


def plot(document: dict[str, Any]) -> str:
    """The ratios of medians, SVG: a group of bars a measurement, a bar a peer, a whisker over the range of rounds."""
    rows, peers = document["results"], document["peers"]
    label, width, bar, top = 160, 560, 12, 56
    step = bar * len(peers) + 10
    ratios = [ratio for row in rows for ratio in row["ratio"].values()]
    # A peer that is far off must not flatten the others: its bar is cut, its number is not.
    right = min(max((ratio["median"] for ratio in ratios), default=1.0), 4.0) * 1.1
    scale = width / max(right, 1.5)
    height = top + step * len(rows) + 30
    shapes = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{label + width + 60}" height="{height}" '
        'font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{label}" y="18">latency of a peer / latency of mcpc; right of the line mcpc is faster</text>',
    ]
    for index, peer in enumerate(peers):
        x = label + 100 * index
        shapes.append(f'<path d="M{x} 32H{x + 14}" stroke="{COLOURS[index % len(COLOURS)]}" stroke-width="10"/>')
        shapes.append(f'<text x="{x + 18}" y="36">{escape(peer)}</text>')
    for index, row in enumerate(rows):
        y = top + index * step
        name = escape(f"{row['model']}, {row['threads']} thr.")
        shapes.append(f'<text x="{label - 8}" y="{y + step / 2:.0f}" text-anchor="end">{name}</text>')
        for position, peer in enumerate(peers):
            if peer not in row["ratio"]:
                continue
            ratio, line = row["ratio"][peer], y + position * bar
            low, middle, high = (min(ratio[key] * scale, width) for key in ("lowest_round", "median", "highest_round"))
            shapes += [
                f'<rect x="{label}" y="{line}" width="{middle:.1f}" height="{bar - 2}" '
                f'fill="{COLOURS[position % len(COLOURS)]}"/>',
                f'<path d="M{label + low:.1f} {line + 5}H{label + high:.1f}" stroke="black"/>',
                f'<text x="{label + high + 4:.1f}" y="{line + 9}" font-size="9">{ratio["median"]:.2f}</text>',
            ]
    one = label + scale
    shapes += [
        f'<path d="M{one:.1f} {top - 8}V{height - 24}" stroke="black" stroke-dasharray="3 3"/>',
        f'<text x="{one:.1f}" y="{height - 8}" text-anchor="middle">1</text>',
        "</svg>",
    ]
    return "\n".join(shapes) + "\n"


def table_head(heads: Iterable[str]) -> list[str]:
    head = table_row(heads)
    return [head, "|" + "---|" * (head.count("|") - 1)]


def table_row(cells: Iterable[Any]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _milliseconds(latency: dict[str, Any]) -> str:
    return f"{latency['median']:.3f} ({latency['min']:.3f})"
