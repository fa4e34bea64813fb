"""Every case on every runner. A family is compiled once for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from mcpc.targets.native import family as native

from . import runners
from .case import Case, Family
from .conftest import Once
from .families import FAMILIES
from .graphs import Array

needs_qemu = pytest.mark.skipif(bool(runners.missing_for_aarch64()), reason=runners.missing_for_aarch64())

#: The families that run in AArch64's baseline code too: it comes from the same C, and compiling all twice takes long.
BASELINE = ("elementwise", "halves", "reductions", "storage")

CASES = [case for family in FAMILIES.values() for case in family]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("operators")


@pytest.fixture(scope="session")
def host(once: Once, folder: Path) -> Callable[[Family, str | None], Mapping[str, Array]]:
    def results(family: Family, passes: str | None) -> Any:
        """Without passes the steps call their kernels directly, with them all go through the thread pool."""
        gain = native.PARALLEL_GAIN if passes == "" else 0.0
        return once(("host", family.name, passes), lambda: runners.on_host(family, folder, passes, gain))

    return results


def check(case: Case, results: Mapping[str, Array]) -> None:
    compared = [case.compare(name, results[name]) for name in case.expected]
    faults = [comparison.describe() for comparison in compared if not comparison.matches]
    assert not faults, "; ".join(faults)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_reference(case: Case, once: Once) -> None:
    """All judges agree, and the graph that code is generated from still computes what they say."""
    for judge in case.judges[1:]:
        check(case, case.verdict(judge))
    family = FAMILIES[case.family]
    check(case, once(("reference", family.name), lambda: runners.written_back(family)))


@pytest.mark.parametrize("passes", [None, ""], ids=["default", "none"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_host(case: Case, passes: str | None, host: Any) -> None:
    check(case, host(FAMILIES[case.family], passes))


@needs_qemu
@pytest.mark.parametrize("case", CASES, ids=str)
def test_aarch64(case: Case, host: Any, once: Once, folder: Path) -> None:
    """AArch64 code, as Rock 5B runs it, gives the host's numbers to the last bit."""
    check_on_aarch64(case, "rock5b", "max", host, once, folder)


@needs_qemu
@pytest.mark.parametrize("case", [case for case in CASES if case.family in BASELINE], ids=str)
def test_aarch64_baseline(case: Case, host: Any, once: Once, folder: Path) -> None:
    """So does the code variant that a processor without Rock 5B's features gets."""
    check_on_aarch64(case, "aarch64", "cortex-a53", host, once, folder)


def check_on_aarch64(case: Case, target: str, cpu: str, host: Any, once: Once, folder: Path) -> None:
    def results() -> dict[str, str]:
        artifact = runners.for_aarch64(family, target, folder, host(family, None))
        return runners.on_aarch64(family, artifact, cpu)

    family = FAMILIES[case.family]
    said = once((target, family.name), results)
    faults = [f"{name}: {said[name]}" for name in case.expected if said[name]]
    assert not faults, "; ".join(faults)
