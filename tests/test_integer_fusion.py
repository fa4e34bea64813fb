"""Products of 8-bit integers with what follows them: one kernel, from bytes to whatever type the chain ends in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mcpc
from mcpc.golden import Golden
from mcpc.ir_text import parse_graph
from mcpc.onnx_writer import to_model
from mcpc.verification import selftest

from .conftest import DeviceRun

Array = np.ndarray[Any, Any]

RNG = np.random.default_rng(5)

#: What follows sums of shape S, by the type it ends in. Scales and steps are powers of two, so that floats are exact.
CHAINS = {
    "int32": "%y: int32[S] = Add(%sums, %bias)",
    "float32": "%f: float32[S] = Cast(%sums) {to = float32} %y: float32[S] = Mul(%f, %scale)",
    "uint8": """%f: float32[S] = Cast(%sums) {to = float32}
      %m: float32[S] = Mul(%f, %scale)
      %r: float32[S] = Relu(%m)
      %y: uint8[S] = QuantizeLinear(%r, %step, %point)""",
    "int8": """%b: int32[S] = Add(%sums, %bias)
      %f: float32[S] = Cast(%b) {to = float32}
      %m: float32[S] = Mul(%f, %scale)
      %d: float32[S] = DequantizeLinear(%z, %step, %signed)
      %a: float32[S] = Add(%m, %d)
      %y: int8[S] = QuantizeLinear(%a, %step, %signed)""",
}


def scaled(sums: Array, scale: Array) -> Array:
    return sums.astype(np.float32) * scale


def stored(real: Array, zero: int, dtype: type) -> Array:
    limits = np.iinfo(dtype)
    return np.asarray(np.clip(np.rint(real / np.float32(0.25)) + zero, limits.min, limits.max)).astype(dtype)


def wanted(chain: str, sums: Array, bias: Array, scale: Array, z: Array) -> Array:
    """What numpy makes of the sums."""
    if chain == "int32":
        return sums + bias
    if chain == "int8":
        return stored(scaled(sums + bias, scale) + np.float32(0.25) * (z.astype(np.float32) + 3), -3, np.int8)
    if chain == "uint8":
        return stored(np.maximum(scaled(sums, scale), 0), 7, np.uint8)
    return scaled(sums, scale).astype(chain)


class Product:
    """A product of bytes [7, 13] or [1, 8, 5, 6] with 21 columns, and a chain behind it that reads ``z`` of the
    result's shape. The zero point of ``x`` is "constant" or "computed"."""

    def __init__(self, is_conv: bool, chain: str, dtype: str = "uint8", zero: str = "constant") -> None:
        ones = [1, 1] if is_conv else []
        self.is_conv, self.chain = is_conv, chain
        self.x = RNG.integers(0, 256, (1, 8, 5, 6) if is_conv else (7, 13)).astype(np.uint8).view(dtype)
        self.zero = np.array(131, np.uint8).view(dtype)
        self.w = RNG.integers(-128, 128, (21, 8, 3, 3) if is_conv else (13, 21)).astype(np.int8)
        self.bias = RNG.integers(-9000, 9000, (21, *ones)).astype(np.int32)
        self.scale = (2.0 ** RNG.integers(-12, -8, (21, *ones))).astype(np.float32)
        self.z = RNG.integers(-128, 128, (1, 21, 5, 6) if is_conv else (7, 21)).astype(np.int8)
        shape = ", ".join(map(str, self.z.shape))
        op, attributes = ("ConvInteger", "{pads = [1, 1, 1, 1]}") if is_conv else ("MatMulInteger", "")
        self.text = f"""graph "product" {{
          input %x: {dtype}{list(self.x.shape)}
          input %z: int8{list(self.z.shape)}
          {"input" if zero == "computed" else "const"} %zero: {dtype}[]{"" if zero == "computed" else f" = {self.zero}"}
          const %w: int8{list(self.w.shape)} = {self.w.ravel().tolist()}
          const %bias: int32{list(self.bias.shape)} = {self.bias.ravel().tolist()}
          const %scale: float32{list(self.scale.shape)} = {self.scale.ravel().tolist()}
          const %step: float32[] = 0.25
          const %point: uint8[] = 7
          const %signed: int8[] = -3
          %sums: int32[{shape}] = {op}(%x, %w, %zero) {attributes}
          {CHAINS[chain].replace("S", shape)}
          output %y
        }}"""

    def compile(self, target: str, path: Path, **options: Any) -> Path:
        model = to_model(parse_graph(self.text)).SerializeToString()
        return mcpc.compile(model, target, path, passes="fuse, dce", **options)

    def feeds(self) -> dict[str, Array]:
        everything = {"x": self.x, "z": self.z, "zero": self.zero}
        return {name: array for name, array in everything.items() if f"input %{name}:" in self.text}

    def wanted(self) -> Array:
        x, w = self.x.astype(np.int32) - self.zero, self.w.astype(np.int32)
        if not self.is_conv:
            return wanted(self.chain, x @ w, self.bias, self.scale, self.z)
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
        return wanted(self.chain, np.einsum("nchwij,ocij->nohw", windows, w), self.bias, self.scale, self.z)


CASES = [
    *((is_conv, chain, "uint8", "constant") for chain in CHAINS for is_conv in (False, True)),
    (False, "int8", "int8", "constant"),
    (True, "uint8", "int8", "computed"),
    (False, "uint8", "uint8", "computed"),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_product_and_its_chain_are_one_kernel(tmp_path: Path, case: tuple[bool, str, str, str]) -> None:
    product = Product(*case)
    path = product.compile("host", tmp_path / "x", golden=0)
    (step,) = (step for step in mcpc.inspect(path)["steps"] if step["kernel"] != "relayout")
    assert step["op"].split("+")[0] == ("ConvInteger" if product.is_conv else "MatMulInteger")
    with mcpc.load(path) as session:
        (y,) = session.run(None, product.feeds())
    np.testing.assert_array_equal(y, product.wanted(), strict=True)


@pytest.mark.parametrize("target", ["aarch64", "rock5b"])
@pytest.mark.parametrize("is_conv", [False, True])
def test_the_same_on_aarch64(
    tmp_path: Path, run_on_aarch64: DeviceRun, monkeypatch: pytest.MonkeyPatch, target: str, is_conv: bool
) -> None:
    """With a dot product and without."""
    for chain in ("float32", "uint8", "int8"):
        product = Product(is_conv, chain, "uint8" if chain == "int8" else "int8")
        case = Golden(list(product.feeds().values()), [product.wanted()], rtol=0.0, atol=0.0)
        monkeypatch.setattr("mcpc.compiler.golden_cases", lambda *given, case=case: [case])
        path = product.compile(target, tmp_path / chain, golden=1)
        for cpu in ("cortex-a76", "cortex-a72") if target == "aarch64" else ("cortex-a76",):
            done = run_on_aarch64(path, "--selftest", cpu=cpu)
            assert done.returncode == 0, done.stdout + done.stderr


def test_a_product_of_computed_weights_is_a_kernel_of_its_own(tmp_path: Path) -> None:
    graph = parse_graph("""graph "g" {
      input %x: uint8[2, 4, 3]
      input %v: int8[4, 4, 1]
      const %zero: uint8[] = 3
      %sums: int32[2, 4, 3] = ConvInteger(%x, %v, %zero)
      %f: float32[2, 4, 3] = Cast(%sums) {to = float32}
      %y: float32[2, 4, 3] = Relu(%f)
      output %y
    }""")
    path = mcpc.compile(to_model(graph).SerializeToString(), "host", tmp_path / "x", passes="fuse, dce")
    labels = [step["op"] for step in mcpc.inspect(path)["steps"] if step["op"] != "Identity"]
    assert labels == ["ConvInteger", "Cast+Relu"]
    assert all(each.matches for each in selftest(path))
