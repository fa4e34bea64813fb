"""The golden files: what passes make of small graphs, as text, and that the numbers stay the same.

A file holds cases, separated by ``// -----`` lines. A case is a pipeline behind ``// RUN:``, the ranges of tensors
behind ``// RANGES:`` where passes ask for them (``x -1 3, y 0 1``), a graph, and behind ``// CHECK`` the graph that is
expected; behind ``// DECISIONS``, where the case has that line, what was decided.
``pytest --bless`` rewrites what is expected.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from mcpc import plugins
from mcpc.graph_check import check_graph
from mcpc.ir_text import format_graph, parse_graph
from mcpc.pipeline import Decision, PassContext, parse_pipeline, run_pipeline
from mcpc.ranges import Range, RangeTable

FOLDER = Path(__file__).parent / "golden"
SEPARATOR, CHECK, DECISIONS = "// -----\n", "// CHECK\n", "// DECISIONS\n"


@dataclass(frozen=True)
class Case:
    """``source`` is everything before the expectation; ``decisions`` is None where they are not compared."""

    path: Path
    index: int
    source: str
    graph: str
    decisions: str | None

    @classmethod
    def parse(cls, path: Path, index: int, text: str) -> Case:
        source, _, expected = text.partition(CHECK)
        graph, separator, decisions = expected.partition(DECISIONS)
        return cls(path, index, source, graph, decisions if separator else None)

    @property
    def run_line(self) -> str:
        match = re.search(r"^// RUN: (.+)$", self.source, re.MULTILINE)
        assert match, f"{self.path.name}: a case has no '// RUN:' line"
        return match[1]

    @property
    def ranges(self) -> RangeTable:
        match = re.search(r"^// RANGES: (.+)$", self.source, re.MULTILINE)
        entries = [entry.split() for entry in match[1].split(",")] if match else []
        return RangeTable({name: Range(float(low), float(high)) for name, low, high in entries})

    def text(self) -> str:
        decisions = "" if self.decisions is None else DECISIONS + self.decisions
        return self.source + CHECK + self.graph + decisions


def read_cases(path: Path) -> list[Case]:
    texts = path.read_text(encoding="utf-8").split(SEPARATOR)
    return [Case.parse(path, index, text) for index, text in enumerate(texts)]


def all_cases() -> Iterator[Case]:
    for path in sorted(FOLDER.glob("*.mcir")):
        yield from read_cases(path)


def run(case: Case) -> Case:
    """The case with what the passes make now as its expectation. ONNX Runtime checks the numbers of every pass."""
    graph = parse_graph(case.source)
    check_graph(graph)
    ctx = PassContext(verify_passes=True, options={"ranges": lambda graph, tensors: case.ranges})
    lowering = {each.name: type(each) for each in plugins.find_family("native").passes(plugins.find_target("aarch64"))}
    result = run_pipeline(graph, parse_pipeline(case.run_line, {**lowering, **plugins.passes()}), ctx)
    decisions = None if case.decisions is None else "".join(map(shown, ctx.decisions))
    return replace(case, graph=format_graph(result), decisions=decisions)


def shown(decision: Decision) -> str:
    numbers = "".join(f" {name}={value:g}" for name, value in decision.numbers.items())
    return f"// [{decision.pass_name}] {decision.action} {decision.subject}: {decision.reason}{numbers}\n"


@pytest.mark.parametrize("case", list(all_cases()), ids=lambda case: f"{case.path.stem}-{case.index}")
def test_golden(case: Case, request: pytest.FixtureRequest) -> None:
    result = run(case)
    if request.config.getoption("--bless"):
        cases = read_cases(case.path)
        cases[case.index] = result
        case.path.write_text(SEPARATOR.join(each.text() for each in cases), encoding="utf-8")
        return
    diff = difflib.unified_diff(case.text().splitlines(), result.text().splitlines(), "expected", "made", lineterm="")
    difference = "\n".join(diff)
    assert not difference, f"{case.path.name}, case {case.index} (accept it with pytest --bless):\n{difference}"


def test_every_rule_of_simplify_is_covered() -> None:
    """A rule that no golden file names in its decisions would be untested."""
    from mcpc.passes.simplify import RULES

    blessed = "".join(path.read_text(encoding="utf-8") for path in FOLDER.glob("*.mcir"))
    assert [rule.__name__ for rule in RULES if f"apply {rule.__name__}:" not in blessed] == []
