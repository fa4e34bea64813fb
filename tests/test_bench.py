"""The comparison with ONNX Runtime measures, and writes what it measured."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

SCRIPT = Path(__file__).parent.parent / "bench" / "compare.py"


def test_comparison_writes_numbers_a_table_and_a_chart(tmp_path: Path) -> None:
    options = ["--models", "digits", "--rounds", "2", "--name", "r", "--output", str(tmp_path)]
    done = subprocess.run([sys.executable, str(SCRIPT), *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    document = json.loads((tmp_path / "r.json").read_text())
    assert [(row["model"], row["threads"]) for row in document["results"]] == [("digits", 1), ("digits", 2)]
    for row in document["results"]:
        ours, theirs, ratio = row["latency"]["mcpc"], row["latency"]["onnxruntime"], row["latency_ratio"]
        assert abs(ratio["median"] * ours["median"] / theirs["median"] - 1) < 0.05  # the times are rounded
        assert ratio["lowest_round"] <= ratio["highest_round"] and 0 < ours["min"] <= ours["median"]
        assert row["relative_difference"] < 1e-4
    assert "| digits | 1 |" in (tmp_path / "r.md").read_text()
    chart = ElementTree.parse(tmp_path / "r.svg").getroot()
    assert sum(each.tag.endswith("rect") for each in chart) == 1 + len(document["results"])
