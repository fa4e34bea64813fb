"""The cases of numbers that fail, and why: expected_failures.toml, which only gets shorter."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path

PATH = Path(__file__).with_name("expected_failures.toml")

_HEAD = """\
# The conformance cases about tensors of numbers that fail, by the reason. Tests fail where one that is listed passes,
# or another fails. `pytest tests/conformance --bless` takes what passes from the list;
# `python -m tests.conformance --admit` adds what fails, under the compiler's words, for a reason to be written.
"""


class ExpectedFailures:
    """``reasons`` by case. Changes are written at once."""

    def __init__(self, path: Path = PATH) -> None:
        self._path = path
        groups = tomllib.loads(path.read_text(encoding="utf-8")).get("group", []) if path.exists() else []
        listed = [(case, group["reason"]) for group in groups for case in group["cases"]]
        self.reasons: dict[str, str] = dict(listed)
        assert len(self.reasons) == len(listed), "a case is listed twice"

    def remove(self, case: str) -> None:
        del self.reasons[case]
        self._write()

    def admit(self, case: str, reason: str) -> None:
        self.reasons[case] = reason
        self._write()

    def _write(self) -> None:
        parts = [_HEAD]
        for reason, cases in by_reason(self.reasons).items():
            lines = "".join(f"    {json.dumps(case)},\n" for case in cases)
            parts.append(f"[[group]]\nreason = {json.dumps(reason, ensure_ascii=False)}\ncases = [\n{lines}]\n")
        self._path.write_text("\n".join(parts), encoding="utf-8")


def by_reason(reasons: Mapping[str, str]) -> dict[str, list[str]]:
    """Cases by reason, both in alphabetical order."""
    result: dict[str, list[str]] = {}
    for case, reason in sorted(reasons.items(), key=lambda item: (item[1], item[0])):
        result.setdefault(reason, []).append(case)
    return result
