"""A network of int8 weights stays as small as its ONNX file, and says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import mcpc
from mcpc.ir import OPSET
from mcpc.reference import run_model

TOKENS, WIDTH, HIDDEN = 16384, 128, 512
RNG = np.random.default_rng(3)


def network(is_spelled: bool) -> bytes:
    """An embedding and two layers for any number of tokens. Weights are expanded by Cast and Mul if ``is_spelled``, by
    DequantizeLinear otherwise."""
    nodes, constants = [], []

    def constant(name: str, data: np.ndarray[Any, Any]) -> str:
        constants.append(numpy_helper.from_array(data, name))
        return name

    def weight(name: str, rows: int, columns: int, axis: int) -> str:
        stored = constant(f"{name}.stored", RNG.integers(-127, 128, (rows, columns)).astype(np.int8))
        scale = (RNG.random((rows, columns)[axis], np.float32) + 0.5) / 700
        if is_spelled:
            constant(f"{name}.scale", scale.reshape([-1, 1] if axis == 0 else [1, -1]))
            nodes.append(helper.make_node("Cast", [stored], [f"{name}.real"], to=TensorProto.FLOAT))
            nodes.append(helper.make_node("Mul", [f"{name}.real", f"{name}.scale"], [name]))
        else:
            constant(f"{name}.scale", scale)
            nodes.append(helper.make_node("DequantizeLinear", [stored, f"{name}.scale"], [name], axis=axis))
        return name

    table = weight("table", TOKENS, WIDTH, 0)
    nodes.append(helper.make_node("Gather", [table, "tokens"], ["embedded"], "embed"))
    nodes.append(helper.make_node("MatMul", ["embedded", weight("up", WIDTH, HIDDEN, 1)], ["high"], "up"))
    nodes.append(
        helper.make_node("Add", ["high", constant("bias", RNG.standard_normal(HIDDEN, np.float32))], ["shifted"])
    )
    nodes.append(helper.make_node("Relu", ["shifted"], ["positive"]))
    nodes.append(helper.make_node("MatMul", ["positive", weight("down", HIDDEN, WIDTH, 1)], ["y"], "down"))
    graph = helper.make_graph(
        nodes,
        "stored",
        [helper.make_tensor_value_info("tokens", TensorProto.INT64, ["n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", WIDTH])],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=12)
    return bytes(model.SerializeToString())


@pytest.mark.parametrize("is_spelled", [True, False], ids=["Cast and Mul", "DequantizeLinear"])
def test_int8_weights_stay_small(is_spelled: bool, tmp_path: Path) -> None:
    model = network(is_spelled)
    path = mcpc.compile(model, "host", tmp_path / "stored.mcp26bin", golden=0)
    assert path.stat().st_size <= 1.1 * len(model)
    with mcpc.load(path) as session:
        for count in (1, 2, 67):
            tokens = {"tokens": RNG.integers(0, TOKENS, count)}
            (want,), (got,) = run_model(model, tokens, ["y"]), session.run(None, tokens)
            np.testing.assert_allclose(got, want, atol=1e-5 * np.abs(want).max())
    report = mcpc.inspect(path)
    products = [step["kernel"] for step in report["steps"] if "Gem" in step["op"] or "MatMul" in step["op"]]
    assert products == ["gemm, int8 weights"] * 2
    kept = [decision["reason"] for decision in report["decisions"] if decision["pass"] == "absorb-weights"]
    assert kept == ["%up stays int8 in the file", "%down stays int8 in the file"]
