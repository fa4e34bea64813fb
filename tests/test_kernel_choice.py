"""What kernels of convolutions are predicted to execute."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import mcpc


def predicted_us(outputs: int, folder: Path) -> float:
    """Of a 5x5 convolution of 64 channels, from the artifact."""
    w = np.zeros((outputs, 64, 5, 5), np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], "conv")],
        "layer",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 64, 24, 24])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, outputs, 20, 20])],
        [numpy_helper.from_array(w, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    path = mcpc.compile(model.SerializeToString(), "x86-64-v4", folder / "a.mcp26bin", golden=0)
    [step] = [step for step in mcpc.inspect(path)["steps"] if step["kernel"] == "conv 5x5"]
    return float(step["predicted_us"])


def test_up_to_eight_columns_take_half_the_time_of_a_panel(tmp_path: Path) -> None:
    whole = predicted_us(16, tmp_path)
    assert predicted_us(9, tmp_path) == pytest.approx(whole, rel=0.02)
    assert predicted_us(8, tmp_path) == pytest.approx(whole / 2, rel=0.05)
    assert predicted_us(1, tmp_path) == pytest.approx(whole / 2, rel=0.05)
