"""Time models with the partition that the cost model chose beside those with nothing fused, in turns.

    python bench/fusion.py [--models resnet50,minilm] [--target host] [--rounds 5] [--keep FOLDER] [--name fusion-NAME]

Both artifacts are for the shapes of the sample inputs, and run on one thread. The ratio of medians says how many times
longer the unfused one takes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import tempfile
from pathlib import Path

from artifacts import artifact
from compare import RESULTS

from mcpc import processor
from mcpc.benchmark import take_turns
from mcpc.coefficients import digest
from mcpc.loader import load
from mcpc.models import samples
from mcpc.models.networks import NAMES
from mcpc.plugins import find_target


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(NAMES), help="names separated by commas")
    parser.add_argument("--target", default="host", help="a target that this machine runs")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each artifact")
    parser.add_argument("--keep", type=Path, help="folder of artifacts: made there where missing, only measured else")
    parser.add_argument("--name", default="fusion-host", help="stem of the result files")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of the result files")
    options = parser.parse_args()
    target = find_target(options.target)
    pipelines = {
        policy: re.sub(r"\bfuse\b", f"fuse{{policy={policy}}}", target.pipeline) for policy in ("roofline", "none")
    }
    rows = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name in options.models.split(","):
            fused, unfused = (
                artifact(name, options.target, folder / f"{name}.{policy}.mcp26bin", pipeline)
                for policy, pipeline in pipelines.items()
            )
            with load(fused, threads=1) as first, load(unfused, threads=1) as second:
                feeds = samples.feeds(name)
                times = take_turns(
                    {"fused": lambda: first.run(None, feeds), "unfused": lambda: second.run(None, feeds)},  # noqa: B023
                    options.rounds,
                )
            ratio = times["unfused"].median / times["fused"].median
            rows[name] = {**{who: each.to_json() for who, each in times.items()}, "ratio": round(ratio, 4)}
            print(f"{name}: unfused takes {ratio:.3f} of fused", flush=True)
    document = {
        "command": f"python bench/fusion.py --target {options.target} --rounds {options.rounds}",
        "machine": {"processor": processor.name(), "cores": os.cpu_count()},
        "coefficients": digest(target),
        "models": rows,
    }
    lines = [
        f"# Fused by the cost model and not fused: {document['machine']['processor']}",  # type: ignore[index]
        "",
        f"`{document['command']}`, one thread, milliseconds.",
        "",
        "| model | fused median (min) | unfused median (min) | ratio |",
        "|---|---|---|---|",
    ]
    for name, row in rows.items():
        texts = [f"{row[who]['median']:.3f} ({row[who]['min']:.3f})" for who in ("fused", "unfused")]  # type: ignore[index]
        lines.append(f"| {name} | {texts[0]} | {texts[1]} | {row['ratio']:.3f} |")
    options.output.mkdir(exist_ok=True)
    stem = options.output / options.name
    stem.with_suffix(".json").write_text(json.dumps(document, indent=2) + "\n")
    stem.with_suffix(".md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
