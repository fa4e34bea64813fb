"""Networks as other tools quantise them become products of integers, and compute what they did.

Each builder writes one small network in the form that a tool exports; what is common to all tools is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

import mcpc
from mcpc import onnx_reader, plugins
from mcpc.ir import Graph
from mcpc.judge import judge
from mcpc.onnx_writer import to_model
from mcpc.pipeline import PassContext, parse_pipeline, run_pipeline

Array = np.ndarray[Any, Any]

#: What runs before fusion, on every target.
PIPELINE = "fold, simplify, compress, cse, dce, widen, propagate, integer, dce"

MICROSOFT = "com.microsoft"
F16, F32 = np.float16, np.float32


class Builder:
    """Collects a model: a call adds a node and gives the name of its output."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.rng = np.random.default_rng(0)

    def __call__(self, op: str, *inputs: str, domain: str = "", **attrs: Any) -> str:
        output = f"{op}:{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [output], output, domain=domain, **attrs))
        return output

    def constant(self, array: Any) -> str:
        name = f"constant:{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def rounded(self, x: str, step: float = 0.05, zero: Any = 0, dtype: Any = np.int8, real: Any = F32) -> str:
        """A pair of QuantizeLinear and DequantizeLinear."""
        parameters = self.constant(real(step)), self.constant(dtype(zero))
        return self("DequantizeLinear", self("QuantizeLinear", x, *parameters), *parameters)

    def weights(self, *shape: int, axis: int = 0, real: Any = F32, is_stored: bool = False) -> str:
        """By a scale for each index of ``axis``: integers in the file, or floats that QuantizeLinear rounds."""
        numbers = self.rng.standard_normal(shape).astype(F32)
        others = tuple(each for each in range(len(shape)) if each != axis)
        scale = (np.abs(numbers).max(others) / 127).astype(real)
        parameters = self.constant(scale), self.constant(np.zeros(shape[axis], np.int8))
        steps = np.expand_dims(scale, others)
        whole = np.clip(np.rint(numbers / steps), -127, 127).astype(np.int8)
        if is_stored:
            return self("DequantizeLinear", self.constant(whole), *parameters, axis=axis)
        stored = self("QuantizeLinear", self.constant((whole * steps).astype(real)), *parameters, axis=axis)
        return self("DequantizeLinear", stored, *parameters, axis=axis)

    def model(self, y: str, *shape: int, real: int = TensorProto.FLOAT) -> onnx.ModelProto:
        x = helper.make_tensor_value_info("x", real, shape)
        result = helper.make_tensor_value_info(y, real, None)
        graph = helper.make_graph(self.nodes, "network", [x], [result], self.constants)
        domains = dict.fromkeys(node.domain for node in self.nodes) | {"": None}
        opsets = [helper.make_opsetid(domain, 1 if domain else self.opset) for domain in domains]
        return onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=opsets, ir_version=10))


# ---- PyTorch


def torch_export() -> onnx.ModelProto:
    """torch.export of a PT2E-quantised network: integers in the file, a Linear whose weights are transposed."""
    b = Builder(18)
    x = b.rounded("x", zero=128, dtype=np.uint8)
    y = b("Relu", b("Conv", x, b.weights(8, 4, 3, 3, is_stored=True), b.constant(np.ones(8, F32)), pads=[1] * 4))
    y = b("Flatten", b("MaxPool", b.rounded(y, dtype=np.uint8), kernel_shape=[2, 2], strides=[2, 2]))
    y = b("MatMul", y, b("Transpose", b.weights(6, 72, is_stored=True), perm=[1, 0]))
    return b.model(b.rounded(b("Add", y, b.constant(np.ones(6, F32)))), 1, 4, 6, 6)


def torch_fake_quant() -> onnx.ModelProto:
    """torch.onnx of FakeQuantize: float weights; activations of 7 bits for FBGEMM are clipped as integers."""
    b = Builder(13)
    parameters = b.constant(F32(0.05)), b.constant(np.uint8(64))
    stored = b("QuantizeLinear", "x", *parameters)
    x = b("DequantizeLinear", b("Clip", stored, *map(b.constant, (np.uint8(0), np.uint8(127)))), *parameters)
    y = b("Conv", x, b.weights(8, 4, 3, 3), b.constant(np.ones(8, F32)))
    y = b("Relu", b.rounded(y, zero=3))  # rounded before its bound
    return b.model(b("Conv", y, b.weights(8, 8, 1, 1)), 1, 4, 6, 6)


# ---- TensorFlow


def tf2onnx() -> onnx.ModelProto:
    """Symmetric int8, channels last: transposes lie between what is rounded and what multiplies it."""
    b = Builder(13)
    x = b("Transpose", b.rounded("x"), perm=[0, 3, 1, 2])
    x = b("Pad", x, b.constant(np.array([0, 0, 0, 0, 0, 0, 1, 1])))
    y = b("Conv", x, b("Transpose", b.weights(3, 3, 4, 8, axis=3), perm=[3, 2, 0, 1]), strides=[2, 2])
    y = b("Relu", b("Add", b("Transpose", y, perm=[0, 2, 3, 1]), b.constant(np.ones(8, F32))))
    y = b("Reshape", b.rounded(y), b.constant(np.array([1, -1])))
    return b.model(b("MatMul", y, b.weights(72, 8, axis=1)), 1, 6, 6, 4)


# ---- TensorRT's Model Optimizer


def modelopt_half() -> onnx.ModelProto:
    """Scales of float16, which are what DequantizeLinear makes then; the weights are rounded too."""
    b = Builder(19)
    y = b("Conv", b.rounded("x", real=F16), b.weights(8, 4, 3, 3, real=F16), b.constant(np.ones(8, F16)))
    return b.model(y, 1, 4, 6, 6, real=TensorProto.FLOAT16)


def modelopt_cast() -> onnx.ModelProto:
    """Scales of float32 in a network of float16."""
    b = Builder(19)
    x, w = (b("Cast", each, to=TensorProto.FLOAT16) for each in (b.rounded("x"), b.weights(8, 4, 3, 3)))
    return b.model(b("Cast", b("Conv", x, w), to=TensorProto.FLOAT), 1, 4, 6, 6)


def modelopt_microsoft() -> onnx.ModelProto:
    """The pairs in ONNX Runtime's domain, which has types for them that older opsets lack."""
    b = Builder(17)
    y = b("Gemm", b.rounded("x"), b.weights(8, 4), transB=1)
    for node in b.nodes[:-1]:
        node.domain = MICROSOFT
    return b.model(y, 5, 4)


# ---- others


def cast_and_scaled() -> onnx.ModelProto:
    """Stored weights that come to be floats by a Cast and a Mul."""
    b = Builder(17)
    whole = b("Cast", b.constant(b.rng.integers(-127, 128, (32, 8)).astype(np.int8)), to=TensorProto.FLOAT)
    weights = b("Mul", whole, b.constant(b.rng.random((1, 8)).astype(F32)))
    return b.model(b("MatMul", b.rounded("x", zero=5), weights), 5, 32)


def joined() -> onnx.ModelProto:
    """Two readers of a Concat whose parts are rounded alike, one of them behind a Resize to the nearest."""
    b = Builder(17)
    one, other = b.rounded("x", zero=9), b.rounded(b("Relu", b.rounded("x", zero=9)), zero=9)
    both = b.rounded(b("Concat", one, other, axis=1), zero=9)
    y = b("Conv", b("Resize", both, "", b.constant(np.array([1, 1, 2, 2], F32)), mode="nearest"), b.weights(4, 8, 1, 1))
    z = b("Conv", both, b.weights(4, 8, 3, 3), kernel_shape=[3, 3], pads=[1] * 4)
    z = b("Resize", z, "", b.constant(np.array([1, 1, 2, 2], F32)), mode="nearest")
    return b.model(b("Add", y, z), 1, 4, 6, 6)


def vectors_of_one() -> onnx.ModelProto:
    """Scales and zero points of one element, which mean the whole tensor; weights of unsigned bytes around 128."""
    b = Builder(17)
    parameters = b.constant(np.array([0.05], F32)), b.constant(np.array([7], np.uint8))
    x = b("DequantizeLinear", b("QuantizeLinear", "x", *parameters), *parameters)
    whole = b.constant(b.rng.integers(0, 256, (4, 8)).astype(np.uint8))
    return b.model(b("MatMul", x, b("DequantizeLinear", whole, b.constant(F32(0.1)), b.constant(np.uint8(128)))), 5, 4)


NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {
    each.__name__: each
    for each in (
        torch_export,
        torch_fake_quant,
        tf2onnx,
        modelopt_half,
        modelopt_cast,
        modelopt_microsoft,
        cast_and_scaled,
        joined,
        vectors_of_one,
    )
}


def lowered(model: onnx.ModelProto) -> tuple[Graph, PassContext]:
    ctx = PassContext()
    return run_pipeline(onnx_reader.read(model), parse_pipeline(PIPELINE, plugins.passes()), ctx), ctx


def floats(graph: Graph) -> list[str]:
    """The products that are left to floats."""
    return [node.op for node in graph.nodes if node.is_op("Conv", "ConvTranspose", "Gemm", "MatMul")]


def sample(model: onnx.ModelProto) -> dict[str, Array]:
    """Numbers of which none lies in the middle between two steps of 0.05, where the rounding of a quotient decides."""
    [x] = model.graph.input
    shape = [size.dim_value for size in x.type.tensor_type.shape.dim]
    numbers = 0.05 * np.rint(40 * np.random.default_rng(1).standard_normal(shape))
    return {x.name: numbers.astype(helper.tensor_dtype_to_np_dtype(x.type.tensor_type.elem_type))}


@pytest.mark.parametrize("name", NETWORKS)
def test_products_are_of_integers(name: str, tmp_path: Path) -> None:
    """And their results those of the model; one that computes in float16 rounds more itself than they do."""
    model = NETWORKS[name]()
    graph, _ = lowered(model)
    assert floats(graph) == [] and any(node.is_op("ConvInteger", "MatMulInteger") for node in graph.nodes)
    feeds, names = sample(model), [value.name for value in model.graph.output]
    [want] = judge(model.SerializeToString(), names)(feeds)
    with mcpc.load(mcpc.compile(model.SerializeToString(), "host", tmp_path / "x", golden=0)) as session:
        [got] = session.run(None, feeds)
    most = float(np.abs(want).max())
    assert most > 1
    close = (2e-3 if "modelopt" in name else 1e-6) * most
    np.testing.assert_allclose(got, want, rtol=0, atol=close)
    if name != "modelopt_half":  # ONNX's own evaluator divides in float16 there
        [defined] = ReferenceEvaluator(to_model(graph)).run(names, feeds)
        np.testing.assert_allclose(np.asarray(defined), want, rtol=0, atol=close)


def test_pairs_that_meet_are_gone() -> None:
    """A tensor stays in bytes from one product to the next, whatever moves it on its way."""
    for name, count in (("torch_export", 3), ("tf2onnx", 2), ("joined", 1)):
        ops = [node.op for node in lowered(NETWORKS[name]())[0].nodes]
        assert ops.count("QuantizeLinear") == count, (name, ops)
        assert ops.count("DequantizeLinear") == (name == "torch_export"), (name, ops)


# ---- what is left to floats


def attention() -> onnx.ModelProto:
    b = Builder(19)
    x = b.rounded("x")
    return b.model(b("MatMul", x, b.rounded(b("Transpose", x, perm=[0, 2, 1]))), 2, 6, 8)


def blocks() -> onnx.ModelProto:
    """Weights of 4 bits with a scale for every 32 rows, and a float activation."""
    b = Builder(21)
    b.constants.append(helper.make_tensor("w", TensorProto.INT4, (64, 16), b.rng.integers(-8, 8, 1024).tolist()))
    weights = b("DequantizeLinear", "w", b.constant(np.full((2, 16), 0.1, F16)), axis=0, block_size=32)
    return b.model(b("MatMul", "x", weights), 3, 64, real=TensorProto.FLOAT16)


def lopsided() -> onnx.ModelProto:
    b = Builder(17)
    whole = b.constant(b.rng.integers(0, 256, (8, 4, 1, 1)).astype(np.uint8))
    weights = b("DequantizeLinear", whole, b.constant(F32(0.1)), b.constant(np.uint8(100)))
    return b.model(b("Conv", b.rounded("x"), weights), 1, 4, 6, 6)


def rows() -> onnx.ModelProto:
    """Scales of input channels, which no sum can be multiplied by."""
    b = Builder(17)
    return b.model(b("MatMul", b.rounded("x"), b.weights(4, 8, axis=0)), 5, 4)


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (attention, "its right operand is not constant"),
        (blocks, "its left operand is not quantised"),
        (lopsided, "its weights less their zero point are no signed bytes"),
        (rows, "its weights have scales of input channels"),
    ],
)
def test_products_that_stay_floats_are_told_with_the_reason(build: Callable[[], onnx.ModelProto], reason: str) -> None:
    graph, ctx = lowered(build())
    assert len(floats(graph)) == 1
    assert [each.reason for each in ctx.decisions if each.pass_name == "integer"] == [f"float32: {reason}"]


# ---- ONNX Runtime


class _Samples(CalibrationDataReader):
    def __init__(self) -> None:
        rng = np.random.default_rng(2)
        self._left = iter([{"x": rng.standard_normal((1, 4, 8, 8)).astype(F32)} for _ in range(4)])

    def get_next(self) -> dict[str, Array] | None:
        return next(self._left, None)


def network() -> onnx.ModelProto:
    """All that ONNX Runtime has operators of its own domain for."""
    b = Builder(17)

    def conv(x: str, *shape: int) -> str:
        weights, bias = b.rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:])), b.rng.standard_normal(shape[0])
        return b("Conv", x, b.constant(weights.astype(F32)), b.constant(bias.astype(F32)))

    one, other = b("LeakyRelu", conv("x", 8, 4, 1, 1), alpha=0.1), b("Sigmoid", conv("x", 8, 4, 1, 1))
    both = b("Concat", b("Mul", one, other), b("Add", one, other), axis=1)
    pooled = b("AveragePool", b("MaxPool", both, kernel_shape=[2, 2]), kernel_shape=[2, 2])
    flat = b("Flatten", b("GlobalAveragePool", conv(pooled, 8, 16, 3, 3)))
    weights, bias = b.rng.standard_normal((8, 4)).astype(F32), np.ones(4, F32)
    y = b("Softmax", b("Gemm", flat, b.constant(weights), b.constant(bias)), axis=-1)
    return b.model(y, 1, 4, 8, 8)


@pytest.mark.parametrize("form", [QuantFormat.QDQ, QuantFormat.QOperator])
@pytest.mark.parametrize("dtype", [QuantType.QInt8, QuantType.QUInt8])
def test_what_onnxruntime_quantises(form: QuantFormat, dtype: QuantType, tmp_path: Path) -> None:
    onnx.save(network(), tmp_path / "floats.onnx")
    quantize_static(
        tmp_path / "floats.onnx", tmp_path / "q.onnx", _Samples(), quant_format=form, per_channel=True,
        activation_type=dtype, weight_type=QuantType.QInt8,
    )  # fmt: skip
    model = onnx.load(tmp_path / "q.onnx")
    own = {node.op_type for node in model.graph.node if node.domain == MICROSOFT}
    assert (form is QuantFormat.QOperator) == (len(own) > 5), own
    graph, _ = lowered(model)
    assert floats(graph) == []
    feeds, names = sample(model), [value.name for value in model.graph.output]
    [want] = judge(tmp_path / "q.onnx", names)(feeds)
    with mcpc.load(mcpc.compile(tmp_path / "q.onnx", "host", tmp_path / "x", golden=0)) as session:
        [got] = session.run(None, feeds)
    assert want.max() > 0.3
    np.testing.assert_allclose(got, want, rtol=0, atol=2 / 255)
