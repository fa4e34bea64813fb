"""Runs the whole suite; writes docs/conformance.md where only those cases fail that are listed.

python -m tests.conformance [--json] [--admit]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TypeVar

from ..operators import runners
from . import report, runs
from .batch import Outcome, batches
from .cases import Case, all_cases
from .expected import ExpectedFailures

T = TypeVar("T")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--admit", action="store_true", help="list what fails as expected, under what is said of it")
    arguments = parser.parse_args()
    expected = ExpectedFailures()
    cases = [case for case in all_cases() if not case.outside]
    host = run_on_host(cases)
    passed = [case for case in cases if not host[str(case)].fault]
    device = {} if runners.missing_for_aarch64() else run_on_aarch64(passed, host)

    for case in passed:
        if str(case) in expected.reasons:
            expected.remove(str(case))
    faults = [
        (str(case), where, outcome.fault)
        for case in cases
        for where, outcome in (("host", host[str(case)]), (runs.AARCH64, device.get(str(case), Outcome())))
        if outcome.fault and str(case) not in expected.reasons
    ]
    if arguments.admit:
        for name, _, fault in faults:
            expected.admit(name, fault.splitlines()[0])
    failures = {name: fault for name, _, fault in faults} | expected.reasons
    if failures.keys() == expected.reasons.keys():
        report.PATH.write_text(report.as_markdown(all_cases(), failures), encoding="utf-8")
    if arguments.json:
        print(json.dumps(report.as_json(all_cases(), failures), indent=2))
    else:
        for count in report.counts(all_cases(), failures):
            print(f"{count.kind:20} {count.passed:5} of {count.numbers:5}  {count.percent} %")
    for name, where, fault in faults:
        print(f"{name} on {where}: {fault}", file=sys.stderr)
    if not device:
        print(f"not run as AArch64 code: {runners.missing_for_aarch64()}", file=sys.stderr)
    return 1 if faults and not arguments.admit else 0


def run_on_host(cases: list[Case]) -> dict[str, Outcome]:
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        found = _watched("host", len(cases), pool.map(runs.alone, cases, chunksize=8))
        return dict(zip(map(str, cases), found, strict=True))


def run_on_aarch64(cases: list[Case], host: dict[str, Outcome]) -> dict[str, Outcome]:
    with tempfile.TemporaryDirectory() as folder:
        todo = batches(cases)
        done = _watched(runs.AARCH64, len(todo), (runs.on_aarch64(batch, Path(folder), host) for batch in todo))
        return {name: outcome for part in done for name, outcome in part.items()}


def _watched(what: str, count: int, steps: Iterable[T]) -> Iterable[T]:
    for index, step in enumerate(steps, 1):
        if sys.stderr.isatty():
            print(f"\r{what} {index}/{count}", end="\n" if index == count else "", file=sys.stderr, flush=True)
        yield step


if __name__ == "__main__":
    sys.exit(main())
