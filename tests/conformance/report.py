"""What the cases and those of them that fail come to: docs/conformance.md. Failures are reasons by case."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import onnx

from .cases import KINDS, OUTSIDE, Case
from .expected import by_reason

PATH = Path(__file__).parents[2] / "docs" / "conformance.md"


@dataclass(frozen=True)
class Count:
    """Cases of a kind: all, those about ``numbers``, and of these the ones that pass."""

    kind: str
    cases: int
    numbers: int
    passed: int

    @property
    def percent(self) -> float:
        return round(100 * self.passed / self.numbers, 1)


def counts(cases: Sequence[Case], failures: Mapping[str, str]) -> list[Count]:
    result = []
    for kind in KINDS:
        own = [case for case in cases if case.kind == kind]
        numbers = [case for case in own if not case.outside]
        failed = [case for case in numbers if str(case) in failures]
        result.append(Count(kind, len(own), len(numbers), len(numbers) - len(failed)))
    return result


def as_json(cases: Sequence[Case], failures: Mapping[str, str]) -> dict[str, Any]:
    return {
        "onnx": onnx.__version__,
        "kinds": [asdict(count) | {"percent": count.percent} for count in counts(cases, failures)],
        "outside": dict(Counter(case.outside for case in cases if case.outside)),
        "failures": by_reason(failures),
    }


def as_markdown(cases: Sequence[Case], failures: Mapping[str, str]) -> str:
    outside = Counter(case.outside for case in cases if case.outside)
    lines = [
        "# Conformance",
        "",
        f"The backend tests of onnx {onnx.__version__} through `mcpc.backend`: models are compiled for this machine",
        "and run by the C runtime; nothing is evaluated in Python. `make conformance` runs all and writes this page.",
        "",
        "| kind | cases | of numbers | passed | |",
        "|---|---|---|---|---|",
        *(f"| {c.kind} | {c.cases} | {c.numbers} | {c.passed} | {c.percent} % |" for c in counts(cases, failures)),
        "",
        "Tests run a sample as AArch64 code too, under qemu, which must give the same numbers to the last bit; "
        "`make conformance` runs all.",
        "",
        "## Not about tensors of numbers",
        "",
        "These are left out:",
        "",
        *(f"- {outside[what]}: {text}" for what, text in OUTSIDE.items() if outside[what]),
        "",
        "The kind `real` is left out: nine image networks without their weights; [models](models.md) has real ones.",
        "",
        "## What fails",
        "",
    ]
    if not failures:
        lines += ["Nothing.", ""]
    for reason, names in by_reason(failures).items():
        lines += [f"**{reason}** ({len(names)})", "", ", ".join(f"`{name}`" for name in names), ""]
    return "\n".join(lines)
