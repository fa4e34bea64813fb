"""The same model gives the same bytes, wherever and however it is compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mcpc.models import digits

MODEL = Path(digits.__file__).parent / "digits.onnx"


def compile_in(folder: Path, target: str, hash_seed: str, jobs: str) -> bytes:
    """Compile with an empty cache in a folder of its own, in a process with its own hash seed."""
    folder.mkdir()
    (folder / "model.onnx").write_bytes(MODEL.read_bytes())
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "MCPC_CACHE_DIR": str(folder / "cache")}
    arguments = ["compile", "model.onnx", "--target", target, "-j", jobs, "-o", "out.mcp26bin"]
    subprocess.run(
        [sys.executable, "-m", "mcpc", *arguments], cwd=folder, env=environment, check=True, capture_output=True
    )
    return (folder / "out.mcp26bin").read_bytes()


@pytest.mark.parametrize("target", ("host", "aarch64"))
def test_same_bytes(tmp_path: Path, target: str) -> None:
    first = compile_in(tmp_path / "here", target, "1", "1")
    second = compile_in(tmp_path / "elsewhere and deeper", target, "77", "4")
    assert first == second
