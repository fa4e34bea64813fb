"""Products of integers that ONNX Runtime computes exactly on every processor."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from mcpc.judge import judge
from mcpc.saturation import EXACT, without_saturation

Array = np.ndarray[Any, Any]

RNG = np.random.default_rng(0)


def bytes_of(dtype: Any, *shape: int) -> Array:
    """The ends of the type, whose products are the largest."""
    limits = np.iinfo(dtype)
    return RNG.choice(np.array([limits.min, limits.max, limits.max - 1], dtype), shape)


def model(op: str, weights: Array, zero: Array | None, *, in_node: bool = False) -> onnx.ModelProto:
    """a of uint8 times weights; the second of two nodes reads the same constants."""
    constants = {"w": weights} if zero is None else {"w": weights, "z": zero}
    names = ["a", "w", "", "z"][: 4 if zero is not None else 2]
    nodes = [helper.make_node(op, names, [output]) for output in ("y", "y2")]
    tensors = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    if in_node:
        nodes = [*(helper.make_node("Constant", [], [each.name], value=each) for each in tensors), *nodes]
    shape = (3, weights.shape[0]) if op == "MatMulInteger" else (1, weights.shape[1], 6, 6)
    a = helper.make_tensor_value_info("a", TensorProto.UINT8, shape)
    outputs = [helper.make_tensor_value_info(name, TensorProto.INT32, None) for name in ("y", "y2")]
    graph = helper.make_graph(nodes, "products", [a], outputs, [] if in_node else tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def sample(product: onnx.ModelProto) -> dict[str, Array]:
    [a] = product.graph.input
    return {"a": bytes_of(np.uint8, *(size.dim_value for size in a.type.tensor_type.shape.dim))}


@pytest.mark.parametrize("in_node", [False, True])
@pytest.mark.parametrize("zero", [None, 3, "columns"])
@pytest.mark.parametrize(
    ("op", "dtype", "shape"), [("MatMulInteger", np.int8, (64, 5)), ("ConvInteger", np.uint8, (5, 16, 3, 3))]
)
def test_the_same_sums_of_bytes_of_one_type(
    op: str, dtype: Any, shape: tuple[int, ...], zero: Any, in_node: bool
) -> None:
    if zero == "columns":
        point: Array | None = np.arange(5).astype(dtype) if op == "MatMulInteger" else None
    else:
        point = None if zero is None else np.array(zero, dtype)
    product = model(op, bytes_of(dtype, *shape), point, in_node=in_node)
    feeds = sample(product)
    changed = without_saturation(product.SerializeToString())
    assert isinstance(changed, bytes)
    result = onnx.load_from_string(changed)
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in result.graph.initializer}
    products = [node for node in result.graph.node if node.op_type == op]
    assert {constants[node.input[1]].dtype for node in products} == {np.dtype(EXACT[op][3])}
    want = ReferenceEvaluator(product).run(None, feeds)
    for got in (judge(product.SerializeToString(), ["y", "y2"])(feeds), judge(changed, ["y", "y2"])(feeds)):
        assert all(np.array_equal(a, b) for a, b in zip(got, want, strict=True))


def test_models_that_are_exact_stay_as_they_are() -> None:
    for op, dtype, shape in (("MatMulInteger", np.uint8, (64, 5)), ("ConvInteger", np.int8, (5, 16, 3, 3))):
        data = model(op, bytes_of(dtype, *shape), None).SerializeToString()
        assert without_saturation(data) is data
