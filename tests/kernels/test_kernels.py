"""Every kernel against numpy, with run-time and with literal sizes, and one ISA against the other to the last bit."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from mcpc import plugins

from . import attention, functions, loops, moves, products, stored, volumes, windows
from .case import Array, Case
from .functions import DOUBLES, FUNCTIONS, units_in_the_last_place
from .program import build, run

FAMILIES: tuple[Callable[[np.random.Generator], Iterator[Case]], ...] = (
    products.gemms,
    products.matmuls,
    products.bytes_products,
    products.lstms,
    stored.products,
    stored.byte_products,
    attention.attentions,
    attention.strided_products,
    attention.normalizations,
    windows.convolutions,
    windows.bytes_convolutions,
    windows.separables,
    windows.winograd_convolutions,
    windows.winograd_lines,
    windows.pools,
    volumes.volumes,
    volumes.resizes,
    loops.integers,
    loops.broadcasts,
    loops.reductions,
    loops.softmaxes,
    moves.copies,
    moves.pads,
    moves.gathers,
    functions.function_cases,
    functions.double_cases,
)
CASES = [case for family in FAMILIES for case in family(np.random.default_rng(26))]
IDS = [case.name for case in CASES]
STATIC = [index for index, case in enumerate(CASES) if case.is_static]

#: What each processor made of all cases: with run-time sizes, and with literal ones.
Results = dict[str, tuple[list[dict[int, Array]], list[dict[int, Array]]]]


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = tmp_path_factory.mktemp("kernels")
    emulator = shutil.which("qemu-aarch64")
    machines: dict[str, tuple[str, list[str]]] = {"x86_64_v3": ("x86_64", [])}
    best = plugins.find_target("host").variants[0]
    if best in plugins.find_target("x86-64-v4").variants:
        machines[best.mcpu] = ("x86_64", [])
    if emulator:
        machines["cortex_a76"] = ("aarch64", [emulator, "-cpu", "cortex-a76"])

    def made_by(cpu: str) -> tuple[list[dict[int, Array]], list[dict[int, Array]]]:
        isa, prefix = machines[cpu]
        command = [*prefix, str(build(isa, cpu, CASES, folder))]
        return run(command, isa, CASES, False), run(command, isa, CASES, True)

    with ThreadPoolExecutor() as pool:
        return dict(zip(machines, pool.map(made_by, machines), strict=True))


@pytest.mark.parametrize("index", range(len(CASES)), ids=IDS)
def test_against_numpy(index: int, results: Results) -> None:
    case = CASES[index]
    for position, want in case.results.items():
        got = results["x86_64_v3"][0][index][position]
        if case.rtol == 0.0:
            np.testing.assert_array_equal(got, want)
        else:
            finite = np.abs(want[np.isfinite(want) & (np.abs(want) < 1e4)])
            scale = float(finite.max()) if finite.size else 1.0
            np.testing.assert_allclose(got, want, rtol=case.rtol, atol=case.rtol * scale)


@pytest.mark.parametrize("index", STATIC, ids=[IDS[index] for index in STATIC])
def test_literal_sizes_change_no_bit(index: int, results: Results) -> None:
    for cpu, (dynamic, static) in results.items():
        for position in CASES[index].results:
            assert_same_bits(dynamic[index][position], static[index][position], cpu)


@pytest.mark.parametrize("index", range(len(CASES)), ids=IDS)
def test_isas_agree_to_the_last_bit(index: int, results: Results) -> None:
    others = [cpu for cpu in results if cpu != "x86_64_v3"]
    if not others:
        pytest.skip("qemu-aarch64 is not installed (apt-get install qemu-user), and this processor has no AVX-512")
    for position in CASES[index].results:
        for cpu in others:
            assert_same_bits(results["x86_64_v3"][0][index][position], results[cpu][0][index][position], cpu)


def assert_same_bits(a: Array, b: Array, cpu: str) -> None:
    """The same bits, any NaN for any NaN."""
    words = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[a.itemsize]
    same = a.view(words) == b.view(words)
    if a.dtype.kind == "f":
        same |= np.isnan(a) & np.isnan(b)
    assert same.all(), f"{cpu}: {np.count_nonzero(~same)} of {same.size} differ, first {a[~same][0]} and {b[~same][0]}"


MEASURED = {f"function {name}": function for name, function in FUNCTIONS.items()} | {
    f"function double {name}": function for name, function in DOUBLES.items()
}


ROUNDED = [name for name, function in MEASURED.items() if function.ulp > 0]


@pytest.mark.parametrize("name", ROUNDED)
def test_zeros_have_the_sign_of_the_exact_result(name: str, results: Results) -> None:
    index, function = IDS.index(name), MEASURED[name]
    a, b, _ = CASES[index].arrays(16)
    want = functions.exact(function, a, b)
    zero = (want == 0) & ~np.isnan(a) & ~np.isnan(b)
    np.testing.assert_array_equal(np.signbit(results["x86_64_v3"][0][index][2])[zero], np.signbit(want)[zero])


@pytest.mark.parametrize("name", ROUNDED)
def test_accuracy(name: str, results: Results) -> None:
    index, function = IDS.index(name), MEASURED[name]
    a, b, _ = CASES[index].arrays(16)
    got = results["x86_64_v3"][0][index][2]
    error = units_in_the_last_place(got, functions.exact(function, a, b), function.least)
    worst = int(np.argmax(error))
    assert error[worst] <= function.ulp, f"{name}({a[worst]!r}, {b[worst]!r}) = {got[worst]!r}: {error[worst]:.2f} ulp"
