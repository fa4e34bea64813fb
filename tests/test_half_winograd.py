"""Winograd kernels of float16: their results in any shape, and their errors beside those of the direct convolution."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mcpc
from mcpc.reference import run_model
from mcpc.targets.native import choice
from mcpc.targets.native.choice import Candidate
from mcpc.targets.native.winograd import HALF_FORMS, Form

from .conftest import DeviceRun
from .test_half_arithmetic import TOLERANCE, Builder, host_with_halves
from .test_winograd import MOST, layer

__all__ = ["host_with_halves"]

#: Channels, pixels along an axis.
LAYERS = ((64, 12), (256, 8))

Take = Callable[[Form | None], None]


@pytest.fixture
def take(monkeypatch: pytest.MonkeyPatch) -> Take:
    """Makes one form the choice of all convolutions that have it; of none, the direct kernel."""

    def patch(form: Form | None) -> None:
        def chosen(candidates: list[list[Candidate]], *limits: float) -> list[Candidate]:
            return [next((each for each in rivals if each.form is form), rivals[0]) for rivals in candidates]

        monkeypatch.setattr(choice, "within_budget", chosen)

    return patch


def network() -> Builder:
    """Several images, tiles and panels that are not full, uneven padding, sizes of a run, what follows a product."""
    b = Builder()
    x = b.input(2, 24, 13, 9)
    first = b("Relu", b.conv(x, 24, 40, 3, 3, pads=[1, 1, 1, 1]))
    second = b.conv(first, 40, 40, 3, 3, pads=[1, 1, 1, 1])
    third = b.conv(b("Add", second, first), 40, 21, 3, 3, pads=[0, 2, 1, 3])
    b.output(b("Mul", third, b("Sigmoid", third)), 4)
    y = b.input(1, 16, 11, 30, names=(1, 16, "height", "width"))
    b.output(b("LeakyRelu", b.conv(y, 16, 33, 3, 3, pads=[1, 1, 1, 1]), alpha=0.1), 4)
    return b


def filtered(path: Path) -> list[str]:
    return [step["kernel"] for step in mcpc.inspect(path)["steps"] if "winograd" in step["kernel"]]


@pytest.mark.parametrize("form", HALF_FORMS, ids=lambda form: form.name)
def test_results_on_the_host(form: Form, take: Take, host_with_halves: None, tmp_path: Path) -> None:
    take(form)
    b = network()
    path = mcpc.compile(b.model(), "host", tmp_path / "half", precision="fp16", golden=0)
    assert filtered(path) == [f"conv {form.name}, float16"] * 4
    wanted = run_model(b.model(), b.feeds, [output.name for output in b.outputs])
    with mcpc.load(path, threads=1) as alone, mcpc.load(path, threads=3) as together:
        got = alone.run(None, b.feeds)
        for one, several, want in zip(got, together.run(None, b.feeds), wanted, strict=True):
            assert np.array_equal(one, several)
            assert np.abs(one - want).max() <= TOLERANCE * np.abs(want).max()


@pytest.mark.parametrize("cpu", ["cortex-a76", "cortex-a72"])
@pytest.mark.parametrize("form", HALF_FORMS, ids=lambda form: form.name)
def test_results_on_aarch64(form: Form, cpu: str, take: Take, run_on_aarch64: DeviceRun, tmp_path: Path) -> None:
    take(form)
    b = network()
    path = mcpc.compile(b.model(), "aarch64", tmp_path / "half", precision="fp16", golden=[b.feeds])
    done = run_on_aarch64(path, "--selftest", cpu=cpu)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("channels", "side"), LAYERS)
def test_errors_beside_those_of_the_direct_convolution(
    channels: int, side: int, take: Take, run_on_aarch64: DeviceRun, tmp_path: Path
) -> None:
    model, feeds = layer(side, channels, np.random.default_rng(26))

    def error(form: Form | None) -> float:
        take(form)
        path = mcpc.compile(model.SerializeToString(), "rock5b", tmp_path / "half", precision="fp16", golden=[feeds])
        assert len(filtered(path)) == (form is not None)
        found = re.search(r"max difference ([\d.e-]+)", run_on_aarch64(path, "--selftest").stdout)
        assert found is not None
        return float(found[1])

    direct = error(None)
    for form in HALF_FORMS:
        assert 0 < error(form) <= MOST * direct


def test_weights_beyond_the_range_are_not_transformed() -> None:
    taps: Any = np.full((1, 1, 3, 3), 6e4, np.float16)
    assert [form.fits(taps) for form in HALF_FORMS] == [False, False]
    assert all(form.fits(taps / 100) for form in HALF_FORMS)
