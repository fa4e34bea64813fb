"""Calibration finds the coefficients of a machine that is made up, and what it finds is used, on that machine only."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from mcpc import coefficients, processor, target_calibration
from mcpc.cli.targets import targets
from mcpc.cost_model import Work, memory_us, roofline
from mcpc.errors import TargetError
from mcpc.kernel_class import KernelClass
from mcpc.plugins import find_target
from mcpc.target import Core, Measured, Target
from mcpc.target_calibration import MIXED, PROBES, Mixture, Probe, calibrate, mixed_rates, operations


class Machine:
    """Takes for every step the time that its core says; networks for a class run at the rate of that class."""

    def __init__(self, target: Target, core: Core, launch_us: float) -> None:
        self.target = dataclasses.replace(target, cores=(core,), launch_us=launch_us, parallel_us=0.37)
        self.core = core
        self.classes = {}
        for kind, build in PROBES.items():
            probe = Probe()
            build(probe)
            self.classes[probe.model()] = kind

    def __call__(self, model: bytes) -> dict[str, float]:
        counts = operations(model)
        kind = self.classes.get(model)
        times = {}
        for name, count in counts.items():
            if kind is not None:
                times[name] = roofline(Work({kind: count}), self.target).us / 1e3
            else:  # a sum of two tensors, or a step of no size
                nbytes = 12 * count if name.startswith("Add") else 0
                times[name] = (memory_us(nbytes, nbytes, self.core) + self.target.launch_us) / 1e3
        return {**times, "": sum(times.values()) + 0.01}

    def mixtures(self, model: bytes) -> list[Mixture]:
        mixed = [dict(zip(MIXED, (share * 10**6, 10**6), strict=True)) for share in (2, 5, 11, 23)]
        direct: list[dict[KernelClass, int]] = [{KernelClass.CONV: 10**7}]
        return [Mixture(counts, roofline(Work(counts), self.target).us / 1e3) for counts in [*direct, *mixed]]

    def handed_over(self, model: bytes) -> tuple[float, float]:
        steps, work = len(operations(model)), 0.8
        return steps * work / 1e3 + 0.01, steps * (work / 2 + self.target.parallel_us) / 1e3 + 0.01


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[Target, Core]:
    """What calibration says of a machine, and the truth."""
    monkeypatch.setenv("MCPC_CONFIG_DIR", str(tmp_path))
    target = find_target("host")
    rates = {kind: 3.0 + 7 * index for index, kind in enumerate(KernelClass)}
    core = dataclasses.replace(
        target.big_core,
        rates=rates,
        l1_gbps=90.0,
        l2_gbps=55.0,
        l3_gbps=21.0 if target.big_core.l3_kib else 0.0,
        gbps=9.0,
    )
    return calibrate(target, Machine(target, core, 0.25)), core


def test_coefficients_are_found(found: tuple[Target, Core]) -> None:
    target, truth = found
    assert target.launch_us == pytest.approx(0.25, rel=0.01)
    assert target.parallel_us == pytest.approx(0.37, rel=0.01)
    for kind in KernelClass:
        assert target.big_core.rates[kind] == pytest.approx(truth.rates[kind], rel=0.01), kind
    for name in coefficients.BANDWIDTHS:
        assert getattr(target.big_core, name) == pytest.approx(getattr(truth, name), rel=0.02), name


def test_every_class_is_measured(found: tuple[Target, Core]) -> None:
    assert found[0].measured is not None and set(found[0].measured.classes) == set(KernelClass)


def test_times_that_tell_no_rates_scale_the_described_ones() -> None:
    """Layers whose shares are all the same, layers that get faster with more transforms, and no layers."""
    first, second = MIXED
    alike = [Mixture({first: 10**6 * k, second: 10**6 * k}, 1.0 * k) for k in (1, 2)]
    found = mixed_rates(alike, 0.0, [40.0, 10.0])
    assert sum(1e6 / found[kind] / 1e6 for kind in MIXED) == pytest.approx(1.0, rel=1e-3)
    odd = [Mixture({first: 10**6, second: 10**6 * k}, 1.0 / k) for k in (1, 2, 4)]
    found = mixed_rates(odd, 0.0, [40.0, 10.0])
    assert found[first] == pytest.approx(4 * found[second])
    assert mixed_rates([Mixture({first: 10**6}, 1.0)], 0.0, [40.0, 10.0]) == {}


def test_probes_offer_kernels_that_mix_classes_in_different_shares() -> None:
    probe = Probe()
    target_calibration._minimal_filters(probe)
    graph, family = target_calibration.Stopwatch(find_target("host"))._shaped(probe.model())
    shares = [
        step.operations[MIXED[0]] / step.operations[MIXED[1]]
        for steps in family.tunable(graph, find_target("host")).values()
        for step in steps.values()
        if set(step.operations) == set(MIXED)
    ]
    assert len(shares) >= 5 and max(shares) > 3 * min(shares)


def test_what_is_kept_is_what_is_used(found: tuple[Target, Core]) -> None:
    target, _ = found
    before = coefficients.digest(find_target("host"))
    assert target.measured is not None
    path = coefficients.save(target, target.measured)
    again = find_target("host")
    assert again == target and coefficients.digest(again) == coefficients.digest(target) != before
    shown = CliRunner().invoke(targets, ["show", "host"]).output
    assert f"measured  {target.measured.date} on {target.measured.processor}" in shown
    assert "but for" not in shown and f"gemm {target.big_core.rates[KernelClass.GEMM]:g}" in shown
    path.unlink()
    assert find_target("host").measured is None
    assert "measured  nothing" in CliRunner().invoke(targets, ["show", "host"]).output


def test_another_processor_is_left_alone(found: tuple[Target, Core], monkeypatch: pytest.MonkeyPatch) -> None:
    target, _ = found
    coefficients.save(target, Measured("2026-01-01", "another processor", ("gemm",)))
    assert find_target("host").measured is None
    monkeypatch.setattr(processor, "name", lambda: "another processor")
    assert find_target("host").measured == Measured("2026-01-01", "another processor", ("gemm",))


@pytest.mark.parametrize("text", ["rates = 1", "date = ", "[rates]\ngemm = 1.0", ""])
def test_a_file_that_is_no_calibration_is_named(text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MCPC_CONFIG_DIR", str(tmp_path))
    path = coefficients.path_of("host")
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(TargetError, match=r"host\.toml") as caught:
        find_target("host")
    assert caught.value.code == "E303" and "calibrate host" in caught.value.hint


def test_code_of_another_machine_cannot_be_measured() -> None:
    other = "rock5b" if find_target("host").isa == "x86-64" else "x86-64-v3"
    result = CliRunner().invoke(targets, ["calibrate", other])
    assert result.exit_code != 0


def test_command(found: tuple[Target, Core], monkeypatch: pytest.MonkeyPatch) -> None:
    target, core = found
    monkeypatch.setattr(target_calibration, "Stopwatch", lambda _: Machine(find_target("host"), core, 0.25))
    result = CliRunner().invoke(targets, ["calibrate", "host", "--json"])
    document = json.loads(result.output)
    assert document["file"] == str(coefficients.path_of("host")) and document["name"] == "host"
    assert document["digest"] == coefficients.digest(find_target("host"))
    assert document["cores"][0]["rates"]["conv"] == target.big_core.rates[KernelClass.CONV]


def test_artifacts_say_by_which_coefficients_they_were_made(
    found: tuple[Target, Core], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import mcpc
    from mcpc.models import digits

    model = Path(digits.__file__).parent / "digits.onnx"
    target, _ = found
    plain = mcpc.inspect(mcpc.compile(model, output=tmp_path / "a.mcp26bin", golden=0))
    assert plain["provenance"]["target.coefficients"] == coefficients.digest(find_target("host"))
    assert "target.measured" not in plain["provenance"]
    assert target.measured is not None
    coefficients.save(target, target.measured)
    fitted = mcpc.inspect(mcpc.compile(model, output=tmp_path / "b.mcp26bin", golden=0))
    assert fitted["provenance"]["target.coefficients"] == coefficients.digest(target)
    assert fitted["provenance"]["target.measured"] == target.measured.date
    assert fitted["predicted_us"] != plain["predicted_us"]
