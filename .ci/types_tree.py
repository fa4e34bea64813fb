"""Link the folders of pyproject's package table below build/types as the package they become, for mypy."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TREE = ROOT / "build" / "types"

packages: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["scikit-build"]["wheel"][
    "packages"
]
shutil.rmtree(TREE, ignore_errors=True)
main = packages.pop("mcpc")
(TREE / "mcpc").mkdir(parents=True)
for entry in (ROOT / main).iterdir():
    (TREE / "mcpc" / entry.name).symlink_to(entry)
for name, folder in packages.items():
    (TREE / name).symlink_to(ROOT / folder, target_is_directory=True)
