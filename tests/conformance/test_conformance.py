"""Every case of onnx's backend tests about tensors of numbers passes, but for those that are listed, which fail."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import mcpc.backend

from ..operators import runners
from . import report, runs
from .batch import Batch, Outcome, batches
from .cases import OUTSIDE, Case, all_cases
from .expected import ExpectedFailures

needs_qemu = pytest.mark.skipif(bool(runners.missing_for_aarch64()), reason=runners.missing_for_aarch64())

EXPECTED = ExpectedFailures()
CASES = [case for case in all_cases() if not case.outside]
GOOD = [case for case in CASES if str(case) not in EXPECTED.reasons]

#: What fails is compiled alone, or it would take others along.
BATCHES = [*batches(GOOD), *(Batch((case,)) for case in CASES if str(case) in EXPECTED.reasons)]

#: Every tenth case, and one of each operator: AArch64 code comes from the same C, and qemu is slow.
FIRST = {op: case for case in reversed(GOOD) for op in case.ops}
SAMPLE = [case for index, case in enumerate(GOOD) if index % 10 == 0 or case in FIRST.values()]

Results = Callable[[Case], Outcome]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("conformance")


def by_case(parts: list[Batch], run: Callable[[Batch], Mapping[str, Outcome]]) -> Results:
    """Runs a batch when the first of its cases is asked for."""
    batch_of = {case: batch for batch in parts for case in batch.cases}
    run_once = functools.cache(run)
    return lambda case: run_once(batch_of[case])[str(case)]


@pytest.fixture(scope="session")
def host(folder: Path) -> Results:
    return by_case(BATCHES, lambda batch: runs.on_host(batch, folder))


@pytest.fixture(scope="session")
def aarch64(folder: Path, host: Results) -> Results:
    def run(batch: Batch) -> Mapping[str, Outcome]:
        return runs.on_aarch64(batch, folder, {str(case): host(case) for case in batch.cases})

    return by_case(batches(SAMPLE), run)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_host(case: Case, host: Results, request: pytest.FixtureRequest) -> None:
    fault, reason = host(case).fault, EXPECTED.reasons.get(str(case))
    if reason is None:
        assert not fault, fault
    elif fault:
        pytest.xfail(reason)
    elif request.config.getoption("bless"):
        EXPECTED.remove(str(case))
    else:
        pytest.fail(f"it passes, but is listed to fail ({reason}): --bless removes it from the list")


@needs_qemu
@pytest.mark.parametrize("case", SAMPLE, ids=str)
def test_aarch64(case: Case, aarch64: Results) -> None:
    """AArch64 code gives the host's numbers to the last bit."""
    fault = aarch64(case).fault
    assert not fault, fault


@pytest.mark.parametrize("case", [case for case in all_cases() if case.outside == "random"], ids=str)
def test_random_numbers_have_type_and_shape(case: Case) -> None:
    rep = mcpc.backend.prepare(case.proto)
    for inputs, outputs in case.sets:
        got = rep.run(inputs)
        assert [(array.dtype, array.shape) for array in got] == [(array.dtype, array.shape) for array in outputs]


def test_the_list_names_cases_of_numbers() -> None:
    assert EXPECTED.reasons.keys() <= set(map(str, CASES))


def test_what_is_left_out() -> None:
    """The rules see what a model is about: types that go in and out, domains, operators, and what inputs say."""
    about = {str(case): case.outside for case in all_cases()}
    examples = {
        "node/test_equal_string": "strings",
        "node/test_sequence_map_identity_1_sequence": "sequences",
        "simple/test_sequence_model1": "",
        "node/test_optional_get_element_optional_tensor": "optionals",
        "node/test_adam": "training",
        "node/test_image_decoder_decode_png_rgb": "images",
        "node/test_bernoulli_expanded": "random",
        "node/test_training_dropout": "random",
        "node/test_training_dropout_zero_ratio": "",
        "node/test_add": "",
    }
    assert {name: about[name] for name in examples} == examples
    assert set(about.values()) <= {"", *OUTSIDE}


def test_the_document_is_current(request: pytest.FixtureRequest) -> None:
    text = report.as_markdown(all_cases(), EXPECTED.reasons)
    if request.config.getoption("bless"):
        report.PATH.write_text(text, encoding="utf-8")
    assert report.PATH.read_text(encoding="utf-8") == text, "--bless rewrites docs/conformance.md"
