"""The pass ``requantize``: whole layers from bytes to bytes, judged by float64, the same bits on all processors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mcpc
from mcpc import plugins
from mcpc.golden import Golden
from mcpc.ir_text import parse_graph
from mcpc.onnx_writer import to_model
from mcpc.pipeline import PassContext, parse_pipeline, run_pipeline
from mcpc.reference import open_session

from .conftest import DeviceRun

Array = np.ndarray[Any, Any]

#: How far from the middle between two steps float32 may decide for the other one.
TIE = 1e-4


class Block:
    """A residual block of products [rows, 64] of uint8 with 64 columns, biases, a bound, and a sum of two branches that
    are rounded apart: ``layers`` products in each. Scales are any numbers."""

    def __init__(self, seed: int, rows: int = 50) -> None:
        rng = np.random.default_rng(seed)
        self.x = rng.integers(0, 256, (rows, 64)).astype(np.uint8)
        self.zeros = {"x": 117, "a": 0, "b": 131, "y": int(rng.integers(0, 200))}
        self.scales = {name: np.float32(rng.uniform(0.5, 2) * scale) for name, scale in SCALES.items()}
        self.w = {name: rng.integers(-127, 128, (64, 64)).astype(np.int8) for name in "ab"}
        self.w_scales = {name: rng.uniform(0.5, 2, 64).astype(np.float32) / 127 for name in "ab"}
        self.bias = {name: rng.integers(-20000, 20000, 64).astype(np.int32) for name in "ab"}
        self.limit = np.float32(rng.uniform(3, 5))

    def text(self) -> str:
        lines = [f"input %x: uint8{list(self.x.shape)}"]
        for name, zero in self.zeros.items():
            lines.append(
                f"const %s{name}: float32[] = {self.scales[name]!r}".replace("np.float32(", "").replace(")", "")
            )
            lines.append(f"const %z{name}: uint8[] = {zero}")
        rows = self.x.shape[0]
        lines.append(f"%xr: float32[{rows}, 64] = DequantizeLinear(%x, %sx, %zx)")
        for name in "ab":
            biases = self.scales["x"] * self.w_scales[name]
            lines += [
                f"const %w{name}: int8[64, 64] = {self.w[name].ravel().tolist()}",
                f"const %ws{name}: float32[64] = {self.w_scales[name].tolist()}",
                f"const %i{name}: int32[64] = {self.bias[name].tolist()}",
                f"const %bs{name}: float32[64] = {biases.tolist()}",
                f"%wr{name}: float32[64, 64] = DequantizeLinear(%w{name}, %ws{name}) {{axis = 1}}",
                f"%br{name}: float32[64] = DequantizeLinear(%i{name}, %bs{name}) {{axis = 0}}",
                f"%g{name}: float32[{rows}, 64] = Gemm(%xr, %wr{name}, %br{name})",
            ]
        lines += [
            f"const %least: float32[] = 0.0 const %most: float32[] = {float(self.limit)}",
            f"%ra: float32[{rows}, 64] = Clip(%ga, %least, %most)",
            f"%qa: uint8[{rows}, 64] = QuantizeLinear(%ra, %sa, %za)",
            f"%qb: uint8[{rows}, 64] = QuantizeLinear(%gb, %sb, %zb)",
            f"%da: float32[{rows}, 64] = DequantizeLinear(%qa, %sa, %za)",
            f"%db: float32[{rows}, 64] = DequantizeLinear(%qb, %sb, %zb)",
            f"%sum: float32[{rows}, 64] = Add(%da, %db)",
            f"%y: uint8[{rows}, 64] = QuantizeLinear(%sum, %sy, %zy)",
            "output %qa output %qb output %y",
        ]
        return 'graph "block" {\n' + "\n".join(lines) + "\n}"

    def compile(self, target: str, path: Path, **options: Any) -> Path:
        return mcpc.compile(to_model(parse_graph(self.text())).SerializeToString(), target, path, **options)

    def real(self, name: str, x: Array) -> Array:
        """A product in float64."""
        scale = float(self.scales["x"]) * self.w_scales[name].astype(float)
        return np.asarray((x.astype(float) - self.zeros["x"]) @ self.w[name].astype(float) + self.bias[name]) * scale

    def check(self, qa: Array, qb: Array, y: Array) -> int:
        """Each of three results by what it is computed from, within half a step of float64; how many were ties."""
        real = {"a": np.clip(self.real("a", self.x), 0, self.limit), "b": self.real("b", self.x)}
        read = {"a": qa, "b": qb}
        addends = [(each.astype(float) - self.zeros[name]) * float(self.scales[name]) for name, each in read.items()]
        real["y"] = addends[0] + addends[1]
        ties = 0
        for name, stored in {**read, "y": y}.items():
            steps = np.clip(real[name] / float(self.scales[name]) + self.zeros[name], 0, 255)
            assert np.abs(stored - steps).max() <= 0.5 + TIE, name
            ties += int((np.abs(stored - steps) > 0.5).sum())
        return ties


SCALES = {"x": 1 / 40, "a": 1 / 60, "b": 1 / 20, "y": 1 / 18}


@pytest.mark.parametrize("seed", range(4))
def test_steps_are_those_of_float64(tmp_path: Path, seed: int) -> None:
    block = Block(seed)
    with mcpc.load(block.compile("host", tmp_path / "x", golden=0)) as session:
        results = session.run(None, {"x": block.x})
    assert block.check(*results) <= 2  # of 9,600
    assert all(len(np.unique(each)) > 30 for each in results)


def test_nodes_keep_names_of_their_own() -> None:
    """ONNX Runtime takes no others: the DequantizeLinear of ``x`` is read by two products, which want it apart."""
    text = Block(3).text().replace("DequantizeLinear(%x, %sx, %zx)", 'DequantizeLinear(%x, %sx, %zx) "shared"')
    graph = run_pipeline(parse_graph(text), parse_pipeline("requantize", plugins.passes()), PassContext())
    names = [node.name for node in graph.nodes if node.name]
    assert len(names) == len(set(names))
    open_session(to_model(graph).SerializeToString())


def test_nothing_is_divided(tmp_path: Path) -> None:
    block = Block(9)
    path = block.compile("host", tmp_path / "x", golden=0, emit=tmp_path / "emit")
    kernels = "".join(file.read_text() for file in (tmp_path / "emit" / "c").glob("*.c"))
    assert "_from_steps(" in kernels and " / " not in kernels.split("_finish(")[1]
    assert [step["op"].split("+")[0] for step in mcpc.inspect(path)["steps"]].count("MatMulInteger") == 2


@pytest.mark.parametrize("target", ["aarch64", "rock5b"])
def test_the_same_bits_on_both_processors(
    tmp_path: Path, run_on_aarch64: DeviceRun, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    block = Block(11, rows=500)
    with mcpc.load(block.compile("host", tmp_path / "host", golden=0)) as session:
        case = Golden([block.x], session.run(None, {"x": block.x}), rtol=0.0, atol=0.0)
    monkeypatch.setattr("mcpc.compiler.golden_cases", lambda *given: [case])
    done = run_on_aarch64(block.compile(target, tmp_path / target, golden=1), "--selftest")
    assert done.returncode == 0, done.stdout + done.stderr
