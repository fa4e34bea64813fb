"""Operators and forms without native code: refused at compile time, by code and node, never computed wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import mcpc
from mcpc.errors import ErrorGroup, McpcError, ModelError
from mcpc.ir import OPSET, DType

from .graphs import IR_VERSION, Graph, serialize_untyped
from .graphs import Weight as W

X = (1, 4, 6, 6)


@dataclass(frozen=True)
class Declined:
    name: str
    code: str
    build: Callable[[Graph], Any]


def op(name: str, code: str, op: str, *operands: Any, **options: Any) -> Declined:
    return Declined(name, code, lambda g: g(op, *operands, **options))


def lstm(name: str, code: str = "E102", **attrs: Any) -> Declined:
    weights = W((1, 16, 3)), W((1, 16, 4))
    return op(name, code, "LSTM", (5, 2, 3), *weights, outputs=3, hidden_size=4, **attrs)


def contrib(op: str, code: str, *operands: Any, **options: Any) -> Declined:
    """An operator of ONNX Runtime's."""
    what = [name for name in options if name not in ("num_heads", "hidden_size", "K", "N", "bits", "block_size")]
    name = f"{op} of {len(operands)} inputs, {', '.join(what)}, {options.get('bits')} bits"
    return Declined(name, code, lambda g: g(op, *operands, domain="com.microsoft", **options))


PROJECTED = (2, 4, 8), W((8, 24)), W((24,))
#: Queries, keys, values, caches; lengths.
GROUPS = {"num_heads": 2, "kv_num_heads": 1}
GROUPED = (1, 2, 32), (1, 2, 16), (1, 2, 16), (1, 1, 4, 16), (1, 1, 4, 16)
SINGLE = np.array([5], np.int32), np.array(6, np.int32)
PACKED, BITS = W(np.ones((6, 1, 16), np.uint8)), {"K": 32, "N": 6, "bits": 4, "block_size": 32}
ROW = np.arange(6, dtype=np.float32)
CASES = [
    # operators that are not known, and what the reader declines
    op("BatchNormalization, statistics of inference", "E102", "BatchNormalization", X, *[(4,)] * 4, outputs=3),
    op("RandomNormal of integers", "E109", "RandomNormal", shape=[2], dtype=TensorProto.INT32),
    op("a power of two by an unknown rule", "E102", "Cast", ROW, to=TensorProto.FLOAT8E8M0, round_mode="odd"),
    op(
        "DequantizeLinear to the type of a scale that is no number's",
        "E102",
        "DequantizeLinear",
        *(np.ones(3, np.int8), W(np.ones(1, np.float32).astype(DType.float8e8m0.numpy))),
    ),
    # forms
    op("Conv over four axes", "E102", "Conv", (1, 2, 3, 3, 3, 3), W((3, 2, 2, 2, 2, 2))),
    op("MaxPool over four axes", "E102", "MaxPool", (1, 2, 3, 3, 3, 3), kernel_shape=[2, 2, 2, 2]),
    op("Resize, linear, float64", "E102", "Resize", np.ones(X), None, W(np.float32([1, 1, 2, 2])), mode="linear"),
    lstm("LSTM, activation that does not exist", activations=["Sigmoid", "Softsine", "Tanh"]),
    op("Attention, heads of many components", "E102", "Attention", *[(1, 1, 1, 2049)] * 3),
    op("LayerNormalization, scale by batch", "E102", "LayerNormalization", (2, 3, 5), (2, 1, 1)),
    # types
    op("ReduceLogSumExp, int32", "E102", "ReduceLogSumExp", np.ones((2, 3), np.int32)),
]


#: ONNX Runtime's operators, which the reader declines.
CONTRIB = [
    contrib("MoE", "E101", (2, 8), (2, 4), W((4, 8, 16))),
    contrib("Attention", "E102", *PROJECTED, num_heads=2, do_rotary=1),
    contrib("Attention", "E102", *PROJECTED, num_heads=2, past_present_share_buffer=1),
    contrib("Attention", "E102", *PROJECTED, np.ones(3, np.int32), num_heads=2),
    contrib("MultiHeadAttention", "E102", (2, 4, 8), num_heads=2),
    contrib("MultiHeadAttention", "E102", *[(2, 4, 8)] * 3, *[None] * 6, np.zeros((2, 1, 4), np.int32), num_heads=2),
    contrib("GroupQueryAttention", "E102", *GROUPED, *SINGLE, **GROUPS, local_window_size=4, sliding_window_cache=1),
    contrib("GroupQueryAttention", "E102", *GROUPED, *SINGLE, *[None] * 5, np.ones(1, np.float32), **GROUPS),
    contrib("GroupQueryAttention", "E102", *GROUPED, *SINGLE, *[None] * 9, np.ones(1, np.int32), **GROUPS),
    contrib("RotaryEmbedding", "E102", (1, 2, 3, 8), np.zeros((1, 3), np.int64), (9, 4), (9, 4), is_packed_batching=1),
    contrib("SkipSimplifiedLayerNormalization", "E102", (2, 8), (2, 8), (8,), outputs=3),
    contrib("BiasDropout", "E102", (2, 8), (8,), outputs=2),
    contrib("MatMulNBits", "E102", (3, 32), PACKED.values, W((6, 1)), **BITS),
    contrib("MatMulNBits", "E102", (3, 32), PACKED, W((6, 1)), **BITS, weight_prepacked=1),
    contrib("MatMulNBits", "E102", (3, 32), PACKED, W((6, 1)), **{**BITS, "bits": 3}),
    contrib("MatMulNBits", "E102", (3, 32), PACKED, W((6, 1)), None, W(np.arange(32, dtype=np.int32)), **BITS),
    contrib("GatherBlockQuantized", "E102", PACKED, np.array([1]), W((6, 1)), block_size=32, gather_axis=1),
    contrib(
        "DynamicQuantizeLSTM",
        "E102",
        (4, 2, 5),
        np.ones((1, 5, 12), np.int8),
        np.ones((1, 3, 12), np.int8),
        *[None] * 5,
        *[(1,), np.zeros(1, np.int8)] * 2,
        hidden_size=3,
    ),
]


def compile_errors(model: bytes, folder: Path, passes: str | None) -> list[McpcError]:
    with pytest.raises((ModelError, ErrorGroup)) as caught:
        mcpc.compile(model, "host", folder / "declined.mcp26bin", passes=passes, golden=0)
    return caught.value.errors if isinstance(caught.value, ErrorGroup) else [caught.value]


@pytest.mark.parametrize("passes", [None, ""], ids=["default", "none"])
@pytest.mark.parametrize("case", [*CASES, *CONTRIB], ids=lambda case: case.name)
def test_declined(case: Declined, passes: str | None, tmp_path: Path) -> None:
    graph = Graph("")
    result = case.build(graph)
    graph.output(*([result] if isinstance(result, str) else [name for name in result if name]))
    (error,) = compile_errors(serialize_untyped(graph), tmp_path, passes)
    assert error.code == case.code, error
    assert error.node == graph.nodes[0].name, error
    assert error.op == graph.nodes[0].op_type, error


@pytest.mark.parametrize("cases", [[*CASES[:4], *CONTRIB], CASES[4:]], ids=["read", "coded"])
def test_all_are_named_at_once(cases: list[Declined], tmp_path: Path) -> None:
    graph = Graph("")
    names = []
    for case in cases:
        result = case.build(graph)
        graph.output(*([result] if isinstance(result, str) else [name for name in result if name]))
        names.append(graph.nodes[-1].name)
    assert [error.node for error in compile_errors(serialize_untyped(graph), tmp_path, None)] == names


def test_unknown_rank(tmp_path: Path) -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, None)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    (error,) = compile_errors(model.SerializeToString(), tmp_path, None)
    assert error.code == "E108"
    assert "--input-shape x:1x3" in error.hint


@pytest.mark.parametrize("size", [1 << 30, 1 << 40])
def test_tensors_beyond_memory(tmp_path: Path, size: int) -> None:
    """2⁶² and 2⁸² bytes: the first fits into 64 bits, the second does not."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [])
    shape = helper.make_tensor("shape", TensorProto.INT64, [2], [size, size])
    nodes = [helper.make_node("Expand", ["x", "shape"], ["m"], "blow"), helper.make_node("ReduceSum", ["m"], ["y"])]
    graph = helper.make_graph(nodes, "g", [x], [y], [shape])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    (error,) = compile_errors(model.SerializeToString(), tmp_path, None)
    assert (error.code, error.node) == ("E111", "blow")
