"""Functions of one byte are looked up: what the judge says of all 256, on every processor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mcpc
from mcpc.golden import Golden
from mcpc.ir_text import parse_graph
from mcpc.judge import judge
from mcpc.onnx_writer import to_model

from .conftest import DeviceRun

Array = np.ndarray[Any, Any]

FUNCTIONS = {
    "sigmoid": "%r: float32[S] = Sigmoid(%f)",
    "gelu": "%r: float32[S] = Gelu(%f)",
    "silu": "%g: float32[S] = Sigmoid(%f) %r: float32[S] = Mul(%f, %g)",
    "clipped": "%e: float32[S] = Exp(%f) %r: float32[S] = Min(%e, %most)",
}


def model(function: str, source: str = "uint8", target: str = "uint8", shape: str = "3, 7, 301") -> bytes:
    """``function`` makes %r of %f, between bytes and bytes."""
    graph = parse_graph(f"""graph "function" {{
          input %x: {source}[{shape}]
          const %scale: float32[] = 0.04
          const %zero: {source}[] = {"-9" if source == "int8" else "117"}
          const %step: float32[] = 0.019
          const %point: {target}[] = {"-20" if target == "int8" else "30"}
          const %most: float32[1, 1, 1] = [2.5]
          %f: float32[{shape}] = DequantizeLinear(%x, %scale, %zero)
          {function.replace("[S]", f"[{shape}]")}
          %y: {target}[{shape}] = QuantizeLinear(%r, %step, %point)
          output %y
        }}""")
    return bytes(to_model(graph).SerializeToString())


def everything(dtype: str, *shape: int) -> Array:
    return np.resize(np.random.default_rng(3).permutation(256), shape).astype(np.uint8).view(dtype)


def kernels(path: Path) -> list[str]:
    return [step["kernel"] for step in mcpc.inspect(path)["steps"]]


@pytest.mark.parametrize(
    ("name", "source", "target"),
    [*((name, "uint8", "uint8") for name in FUNCTIONS), ("gelu", "int8", "uint8"), ("silu", "uint8", "int8")],
)
def test_functions_of_a_byte_are_looked_up(tmp_path: Path, name: str, source: str, target: str) -> None:
    network, x = model(FUNCTIONS[name], source, target), everything(source, 3, 7, 301)
    path = mcpc.compile(network, "host", tmp_path / "x", golden=0, passes="fuse, dce")
    assert kernels(path) == ["table of bytes"]
    with mcpc.load(path) as session:
        (got,) = session.run(None, {"x": x})
    np.testing.assert_array_equal(got, judge(network, ["y"])({"x": x})[0], strict=True)


def test_the_same_on_aarch64(tmp_path: Path, run_on_aarch64: DeviceRun, monkeypatch: pytest.MonkeyPatch) -> None:
    network, x = model(FUNCTIONS["gelu"], "int8"), everything("int8", 3, 7, 301)
    case = Golden([x], judge(network, ["y"])({"x": x}), rtol=0.0, atol=0.0)
    monkeypatch.setattr("mcpc.compiler.golden_cases", lambda *given: [case])
    done = run_on_aarch64(mcpc.compile(network, "aarch64", tmp_path / "x", golden=1, passes="fuse, dce"), "--selftest")
    assert done.returncode == 0, done.stdout + done.stderr


def test_any_number_of_rows(tmp_path: Path) -> None:
    path = mcpc.compile(model(FUNCTIONS["silu"], shape="n, 5"), "host", tmp_path / "x", golden=0, passes="fuse, dce")
    assert kernels(path) == ["table of bytes"]
    with mcpc.load(path) as session:
        for rows in (1, 6, 7, 2000):
            x = everything("uint8", rows, 5)
            (want,) = judge(model(FUNCTIONS["silu"], shape=f"{rows}, 5"), ["y"])({"x": x})
            np.testing.assert_array_equal(session.run(None, {"x": x})[0], want)


def test_short_chains_are_computed(tmp_path: Path) -> None:
    path = mcpc.compile(model("%r: float32[S] = Relu(%f)"), "host", tmp_path / "x", golden=0, passes="fuse, dce")
    assert "table of bytes" not in kernels(path)


def test_a_function_of_two_tensors_is_computed(tmp_path: Path) -> None:
    graph = parse_graph("""graph "two" {
      input %x: uint8[40]
      input %z: uint8[40]
      const %scale: float32[] = 0.04
      %f: float32[40] = DequantizeLinear(%x, %scale)
      %g: float32[40] = DequantizeLinear(%z, %scale)
      %s: float32[40] = Sigmoid(%f)
      %r: float32[40] = Mul(%s, %g)
      %y: uint8[40] = QuantizeLinear(%r, %scale)
      output %y
    }""")
    network = to_model(graph).SerializeToString()
    path = mcpc.compile(network, "host", tmp_path / "x", golden=0, passes="fuse, dce")
    assert kernels(path) == ["elementwise 5 ops"]
