"""The demonstration, with the model that is in the package, and what it says where the other cannot be had."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from mcpc.benchmark import percentiles, take_turns
from mcpc.cli import main


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        main(["demo", *arguments])
    captured = capsys.readouterr()
    assert not caught.value.code, captured.err
    return captured.out


def test_offline_demo_reads_the_digits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "-o", str(tmp_path / "out"), "--offline")
    assert "450 handwritten digits" in text and "ONNX Runtime" in text and "silero-vad, was left out" in text
    assert (tmp_path / "out" / "digits.mcp26bin").is_file()
    assert f"inspect {tmp_path / 'out' / 'digits.mcp26bin'}" in text


def test_what_to_do_next_can_be_typed_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", [".venv/bin/mcpc", "demo"])
    for folder, program in ((str(tmp_path), ".venv/bin/mcpc"), (str(Path(sys.executable).parent), "mcpc")):
        monkeypatch.setenv("PATH", folder)
        text = run(capsys, "-o", str(tmp_path / "out"), "--offline")
        assert f"  {program} compile model.onnx " in text


def test_demo_says_plainly_what_it_cannot_fetch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MCPC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    document = json.loads(run(capsys, "-o", str(tmp_path), "--json"))
    assert "cannot download silero-vad" in document["skipped"]["silero-vad"]
    (digits,) = document["models"]
    assert "99.78% right (ONNX Runtime 99.78%)" in digits["answers"] and digits["max_difference"] < 1e-4
    assert set(digits["latency"]) == set(digits["open"]) == {"mcpc", "onnxruntime"}
    assert digits["artifact_bytes"] == (tmp_path / "digits.mcp26bin").stat().st_size


def test_contestants_take_turns() -> None:
    calls: list[str] = []
    result = take_turns({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, rounds=3, turn_ms=0)
    assert "".join(calls) == ("a" * 4 + "b" * 4) * 3  # one call that does not count, then three that do
    assert all(len(timing.turns) == 3 and timing.minimum <= timing.median for timing in result.values())


def test_percentiles() -> None:
    assert percentiles(list(range(101))) == {"min": 0, "p50": 50, "p90": 90, "p99": 99}
