"""Networks at ``--precision fp16`` on targets that compute in float16: kernels, types and what is recorded.

The same kernels run on the host, where sums are float32, and on AArch64 with float16 arithmetic and without."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mcpc
from mcpc import plugins
from mcpc.ir import OPSET
from mcpc.models import digits
from mcpc.reference import run_model

from .conftest import DeviceRun

Array = np.ndarray[Any, Any]

#: Outputs may differ by this much of their largest number: some roundings to float16, of 2^-11 each.
TOLERANCE = 2.0**-7


class Builder:
    """A model whose nodes follow each other, and inputs for it."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []
        self.feeds: dict[str, Array] = {}
        self.rng = np.random.default_rng(7)

    def input(self, *shape: int, names: tuple[str | int, ...] = ()) -> str:
        name = f"x{len(self.inputs)}"
        self.feeds[name] = self.rng.standard_normal(shape, np.float32)
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, names or shape))
        return name

    def weight(self, *shape: int) -> str:
        name = f"w{len(self.constants)}"
        depth = int(np.prod(shape[1:])) if len(shape) > 2 else shape[0]
        data = self.rng.standard_normal(shape, np.float32) / np.sqrt(depth)
        self.constants.append(numpy_helper.from_array(data.astype(np.float32), name))
        return name

    def constant(self, data: Array) -> str:
        name = f"w{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(data, name))
        return name

    def __call__(self, op: str, *inputs: str, **attrs: Any) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name, **attrs))
        return name

    def conv(self, x: str, in_c: int, out_c: int, *kernel: int, groups: int = 1, **attrs: Any) -> str:
        w, bias = self.weight(out_c, in_c // groups, *kernel), self.weight(out_c)
        return self("Conv", x, w, bias, group=groups, **attrs)

    def output(self, name: str, rank: int) -> None:
        self.outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * rank))

    def model(self) -> bytes:
        graph = helper.make_graph(self.nodes, "halves", self.inputs, self.outputs, self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=12)
        return bytes(onnx.shape_inference.infer_shapes(model).SerializeToString())


def images(b: Builder) -> None:
    """Convolutions of all kinds, pools, moves, chains in float16 and in float32, a classifier."""
    x = b.input(1, 3, 19, 23)
    first = b("Relu", b.conv(x, 3, 24, 3, 3, strides=[2, 2], pads=[1, 1, 1, 1]))
    low, high = (b.constant(np.array(value, np.float32)) for value in (0, 2))
    deep = b("Clip", b.conv(first, 24, 24, 3, 3, groups=24, pads=[1, 1, 1, 1]), low, high)
    point = b.conv(deep, 24, 20, 1, 1)
    wide = b.conv(point, 20, 20, 3, 3, dilations=[2, 2], pads=[2, 2, 2, 2])
    sum_ = b("Add", wide, point)
    b.output(b("Neg", sum_), 4)
    most = b("MaxPool", sum_, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    mean = b("AveragePool", sum_, kernel_shape=[2, 2], strides=[2, 2])
    joined = b("Concat", most, b("Pad", mean, b.constant(np.array([0] * 6 + [0, 0]))), axis=1)
    gate = b("Mul", joined, b("Sigmoid", joined))
    grouped = b.conv(gate, 40, 36, 3, 3, groups=2, pads=[1, 1, 1, 1])
    large = b("Relu", b.conv(grouped, 36, 9, 5, 5, pads=[2, 2, 2, 2]))
    uneven = b.conv(large, 9, 12, 1, 1, strides=[2, 2])
    strided = b.conv(uneven, 12, 12, 5, 5, groups=12, strides=[2, 1], pads=[2, 2, 2, 2])
    flat = b("Flatten", b("GlobalAveragePool", strided))
    b.output(b("Gemm", flat, b.weight(37, 12), b.weight(37), transB=1), 2)


def first_layers(b: Builder) -> None:
    """Row-major images of few channels: strides, kernels, strips of more than 64 pixels, edges."""
    for channels, kernel, stride, pad, width in ((2, 5, 1, 2, 70), (3, 7, 3, 0, 200), (1, 3, 2, 1, 9), (4, 1, 1, 0, 5)):
        x = b.input(2, channels, 9, width)
        y = b.conv(x, channels, 21, kernel, kernel, strides=[stride] * 2, pads=[pad] * 4)
        b.output(b.conv(b("LeakyRelu", y, alpha=0.1), 21, 16, 1, 1), 4)


def rows(b: Builder) -> None:
    """Products of one row to many, some longer than a block of sums, with rows that can be packed and that cannot; 1-D
    convolutions."""
    for count, wide in ((1, 300), (2, 300), (3, 300), (4, 304), (9, 304), (13, 300), (67, 304)):
        x = b.input(count, 40)
        up = b("Relu", b("Add", b("MatMul", x, b.weight(40, wide)), b.weight(wide)))
        root, one, half = (b.constant(np.array(value, np.float32)) for value in (np.sqrt(2), 1, 0.5))
        inner = b("MatMul", up, b.weight(wide, 530))
        gelu = b("Mul", b("Mul", inner, b("Add", b("Erf", b("Div", inner, root)), one)), half)
        b.output(b("MatMul", gelu, b.weight(530, 70)), 2)
    x = b.input(1, 40, 50)
    b.output(b.conv(b("Relu", b.conv(x, 40, 24, 9, pads=[4, 4])), 24, 30, 4, strides=[2]), 3)


def open_sizes(b: Builder) -> None:
    """Sizes that are known at run time only."""
    x = b.input(1, 3, 11, 30, names=(1, 3, "height", "width"))
    y = b("Relu", b.conv(x, 3, 16, 3, 3, pads=[1, 1, 1, 1]))
    z = b.conv(y, 16, 16, 3, 3, groups=16, pads=[1, 1, 1, 1])
    b.output(b.conv(b("Add", z, y), 16, 33, 3, 3, strides=[2, 2]), 4)
    t = b.input(5, 64, names=("tokens", 64))
    b.output(b("MatMul", b("Tanh", b("MatMul", t, b.weight(64, 64))), b.weight(64, 24)), 2)


NETWORKS = {each.__name__: each for each in (images, first_layers, rows, open_sizes)}


@pytest.fixture(scope="module", params=NETWORKS)
def network(request: pytest.FixtureRequest) -> Builder:
    builder = Builder()
    NETWORKS[request.param](builder)
    return builder


@pytest.fixture
def host_with_halves(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    target = dataclasses.replace(plugins.find_target("host"), half_arithmetic=True)
    monkeypatch.setattr(plugins, "find_target", lambda name: target)
    yield


def test_kernels_on_the_host(network: Builder, host_with_halves: None, tmp_path: Path) -> None:
    model = network.model()
    path = mcpc.compile(model, "host", tmp_path / "half", precision="fp16", golden=0)
    wanted = run_model(model, network.feeds, [output.name for output in network.outputs])
    with mcpc.load(path, threads=1) as alone, mcpc.load(path, threads=3) as together:
        got = alone.run(None, network.feeds)
        for one, several in zip(got, together.run(None, network.feeds), strict=True):
            assert np.array_equal(one, several)
    for want, ours in zip(wanted, got, strict=True):
        assert np.abs(ours - want).max() <= TOLERANCE * np.abs(want).max()
    products = [
        step["kernel"] for step in mcpc.inspect(path)["steps"] if "Conv" in step["op"] or "MatMul" in step["op"]
    ]
    assert products and all("float16" in kernel for kernel in products)


@pytest.mark.parametrize("stored", ["weights", "all"])
def test_digits_are_told_apart_as_at_full_precision(
    stored: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The labels of all images that training never saw, with float16 weights and with float16 all over."""
    images, labels = digits.held_out()
    full = mcpc.compile(digits.build_trained("N").SerializeToString(), "host", tmp_path / "full", golden=0)
    if stored == "all":
        request.getfixturevalue("host_with_halves")
    half = mcpc.compile(
        digits.build_trained("N").SerializeToString(), "host", tmp_path / "half", precision="fp16", golden=0
    )
    answers = []
    for path in (full, half):
        with mcpc.load(path) as session:
            answers.append(session.run(None, {session.get_inputs()[0].name: images})[0])
    want, got = answers
    assert np.array_equal(want.argmax(1), got.argmax(1))
    assert (got.argmax(1) == labels).mean() > 0.95
    assert 0 < np.abs(want - got).max() < 0.02  # of probabilities


@pytest.mark.parametrize("cpu", ["cortex-a76", "cortex-a72"])
def test_kernels_on_aarch64(network: Builder, cpu: str, run_on_aarch64: DeviceRun, tmp_path: Path) -> None:
    """With float16 arithmetic, and by the variant without."""
    path = mcpc.compile(network.model(), "aarch64", tmp_path / "half", precision="fp16", golden=[network.feeds])
    done = run_on_aarch64(path, "--selftest", cpu=cpu)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_lies_between_products_is_float16(tmp_path: Path) -> None:
    builder = Builder()
    images(builder)
    path = mcpc.compile(builder.model(), "rock5b", tmp_path / "half", precision="fp16", golden=0)
    report = mcpc.inspect(path)
    wide = [step["op"] for step in report["steps"] if step["shape"].startswith("float32")]
    assert sorted(wide) == ["Gemm+Cast", "Identity", "Neg+Cast"]  # the outputs, one of them in two steps
    full = mcpc.inspect(mcpc.compile(builder.model(), "rock5b", tmp_path / "full", golden=0))
    assert report["arena_bytes"] < 0.75 * full["arena_bytes"]


def test_float32_stays_where_weights_are_beyond_the_range(tmp_path: Path) -> None:
    b = Builder()
    x = b.input(3, 40)
    data = np.random.default_rng(1).standard_normal((40, 40)).astype(np.float32)
    data[0, 0] = 7e4
    b.output(b("MatMul", b("MatMul", x, b.constant(data)), b.weight(40, 40)), 2)
    path = mcpc.compile(b.model(), "rock5b", tmp_path / "half", precision="fp16", golden=0)
    report = mcpc.inspect(path)
    assert [step["kernel"] for step in report["steps"] if "MatMul" in step["op"]] == ["gemm", "gemm, float16"]
    kept = [each["reason"] for each in report["decisions"] if each["pass"] == "compute-halves"]
    assert "float32: a weight is beyond float16's range" in kept
