"""LinearAttention and CausalConvWithState: what their operands must be, when compiled and, of open sizes, in a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import mcpc
from mcpc.errors import ModelError, RuntimeFault

from .graphs import Array

Dims = Sequence[int | str] | None

HEADS = {"q_num_heads": 6, "kv_num_heads": 3}
#: query, key, value, past_state, decay, beta
FIT: list[Dims] = [[2, 3, 24], [2, 3, 12], [2, 3, 15], [2, 3, 4, 5], [2, 3, 12], [2, 3, 3]]


def model(op: str, operands: Sequence[Dims], **attrs: Any) -> bytes:
    names = [f"x{index}" if dims is not None else "" for index, dims in enumerate(operands)]
    node = helper.make_node(op, names, ["y", "state"], "n", **attrs)
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)
        for name, dims in zip(names, operands, strict=True)
        if dims is not None
    ]
    outputs = [helper.make_empty_tensor_value_info(name) for name in node.output]
    graph = helper.make_graph([node], "g", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 27)], ir_version=12).SerializeToString()


def changed(index: int, dims: Dims) -> list[Dims]:
    return [*FIT[:index], dims, *FIT[index + 1 :]]


@pytest.mark.parametrize(
    ("operands", "attrs", "code", "what"),
    [
        (FIT, {"q_num_heads": 5, "kv_num_heads": 3}, "E102", "a multiple of kv_num_heads, 3"),
        (FIT, {"q_num_heads": 0, "kv_num_heads": 0}, "E102", "q_num_heads is 0"),
        (FIT, {**HEADS, "update_rule": "squared"}, "E102", "update_rule"),
        (FIT, {**HEADS, "update_rule": "linear"}, "E104", "rule linear takes no decay"),
        (changed(5, None), HEADS, "E104", "rule gated_delta needs beta"),
        (changed(0, [2, 3, 25]), HEADS, "E104", "25 components do not divide into 6 heads"),
        (changed(1, [2, 3, 15]), HEADS, "E104", "the head sizes of query and key"),
        (changed(1, [2, 4, 12]), HEADS, "E104", "the lengths of query and key"),
        (changed(2, [1, 3, 15]), HEADS, "E104", "the batches of query and value"),
        (changed(3, [2, 3, 4, 6]), HEADS, "E104", "past_state"),
        (changed(4, [2, 3, 6]), HEADS, "E104", "the head sizes of key and decay"),
        (changed(5, [2, 3, 2]), HEADS, "E104", "the heads of key and beta"),
        (changed(2, [2, 3, 3, 5]), HEADS, "E104", "input 2 has rank 4"),
    ],
    ids=str,
)
def test_operands_that_do_not_fit(
    operands: list[Dims], attrs: dict[str, Any], code: str, what: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=what) as error:
        mcpc.compile(model("LinearAttention", operands, **attrs), "host", tmp_path / "m.mcp26bin")
    assert error.value.code == code


@pytest.mark.parametrize(
    ("operands", "attrs", "what"),
    [
        ([[2, 4, 9], [3, 1, 4]], {}, "the channels of input and weight"),
        ([[2, 4, 9], [4, 2, 4]], {}, "second dimension"),
        ([[2, 4, 9], [4, 1, 0]], {}, "the kernel is empty"),
        ([[2, 4, 9], [4, 1, 3], [3]], {}, "the channels of input and bias"),
        ([[2, 4, 9], [4, 1, 3], None, [2, 4, 3]], {}, "past_state"),
        ([[2, 4, 9], [4, 1, 3]], {"activation": "relu"}, "activation"),
    ],
    ids=str,
)
def test_convolutions_that_do_not_fit(operands: list[Dims], attrs: dict[str, Any], what: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=what):
        mcpc.compile(model("CausalConvWithState", operands, **attrs), "host", tmp_path / "m.mcp26bin")


def test_sizes_that_do_not_fit_in_a_run(tmp_path: Path) -> None:
    """Every size is open: what does not fit is a fault, after which the session goes on."""
    names = [
        [f"{letter}{axis}" for axis, _ in enumerate(dims or ())] for letter, dims in zip("qkvpgb", FIT, strict=True)
    ]
    path = mcpc.compile(model("LinearAttention", names, **HEADS), "host", tmp_path / "m.mcp26bin", golden=0)
    rng = np.random.default_rng(0)

    def feeds(index: int = 0, dims: Dims = FIT[0]) -> dict[str, Array]:
        shapes = changed(index, dims)
        return {f"x{i}": -np.abs(rng.standard_normal(shape or (), np.float32)) for i, shape in enumerate(shapes)}

    wrong = [
        *((0, [2, 3, size]) for size in (25, 18)),
        *((1, [2, 3, 13]), (1, [2, 2, 12]), (1, [1, 3, 12]), (2, [2, 3, 16])),
        *((3, [2, 3, 4, 6]), (3, [2, 3, 3, 5]), (3, [1, 3, 4, 5]), (3, [2, 2, 4, 5])),
        *((4, [2, 3, 3]), (4, [2, 3, 11]), (5, [2, 3, 1]), (5, [2, 4, 3])),
    ]
    with mcpc.load(path) as session:
        for index, dims in wrong:
            with pytest.raises(RuntimeFault):
                session.run(None, feeds(index, dims))
        y, state = session.run(None, feeds())
    assert y.shape == (2, 3, 30) and state.shape == (2, 3, 4, 5)
