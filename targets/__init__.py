"""Target descriptions (one TOML file each) and the code families they name."""

from __future__ import annotations

from pathlib import Path

#: Target name -> its description file; found through the entry-point group `mcpc.targets`.
TARGETS: dict[str, Path] = {path.stem: path for path in sorted(Path(__file__).parent.glob("*.toml"))}
