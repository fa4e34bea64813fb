"""Measured kernels: what is measured, kept and chosen by."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import numpy as np
import pytest

import mcpc
from mcpc import tuning
from mcpc.errors import UsageError
from mcpc.targets.native import choice

from .test_winograd import layer


def test_measured_times_are_kept_and_decide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCPC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(choice, "MOST_GROWTH", 10.0)
    model, feeds = layer(12, 32, np.random.default_rng(0))
    path = mcpc.compile(model.SerializeToString(), "host", tmp_path / "a.mcp26bin", golden=0, tune=True)
    [kept] = (tmp_path / "cache" / "tuning").glob("*.json")
    times = json.loads(kept.read_text())
    kernels = {key.rpartition("|")[2]: us for key, us in times.items()}
    assert set(kernels) == {"indirect", "winograd 2x2", "winograd 4x4", "winograd 6x6"}
    assert all(us > 0 for us in kernels.values())
    [decision] = [each for each in mcpc.inspect(path)["decisions"] if each["pass"] == "kernels"]
    assert decision["numbers"] == {**{f"{name} us": us for name, us in kernels.items()}, "bytes": pytest.approx(
        decision["numbers"]["bytes"])}  # fmt: skip

    # What is kept is not measured again, and decides: the other way round now.
    kept.write_text(json.dumps({key: 1e6 if "indirect" in key else 1.0 for key in times}))
    monkeypatch.setattr(tuning, "_profile", None)
    again = mcpc.compile(model.SerializeToString(), "host", tmp_path / "b.mcp26bin", golden=0, tune=True)
    [step] = [each for each in mcpc.inspect(again)["steps"] if each["op"] == "Conv"]
    assert step["kernel"] == "conv winograd 2x2"
    kept.write_text(json.dumps({key: 1.0 if "indirect" in key else 1e6 for key in times}))
    other = mcpc.compile(model.SerializeToString(), "host", tmp_path / "c.mcp26bin", golden=0, tune=True)
    [step] = [each for each in mcpc.inspect(other)["steps"] if each["op"] == "Conv"]
    assert step["kernel"] == "conv 3x3"
    with mcpc.load(again, threads=1) as a, mcpc.load(other, threads=1) as b:
        np.testing.assert_allclose(a.run(None, feeds)[0], b.run(None, feeds)[0], atol=1e-5)


def test_another_processor_cannot_be_measured(tmp_path: Path) -> None:
    model, _ = layer(4, 4, np.random.default_rng(0))
    elsewhere = "rock5b" if platform.machine() == "x86_64" else "x86-64-v3"
    with pytest.raises(UsageError, match="--tune"):
        mcpc.compile(model.SerializeToString(), elsewhere, tmp_path / "a.mcp26bin", golden=0, tune=True)
