"""How far results of one-dimensional Winograd kernels are from exact ones, beside ONNX Runtime's, and when they run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import mcpc
from mcpc.reference import run_model
from mcpc.targets.native import choice
from mcpc.targets.native.choice import Candidate
from mcpc.targets.native.winograd_line import LINE_FORMS, LineForm

Array = np.ndarray[Any, Any]

#: How many times ONNX Runtime's error ours may be.
MOST = 4.0


def layer(channels: int, taps: int, rng: np.random.Generator) -> tuple[onnx.ModelProto, Array, Array]:
    """A convolution down a column as it stands in a network, its input behind a ReLU, and its weights."""
    w = rng.normal(0, np.sqrt(2 / (taps * channels)), (128, channels, taps, 1)).astype(np.float32)
    x = np.maximum(rng.standard_normal((1, channels, 512, 1)), 0).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], "conv")],
        "layer",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, (1, 128, 513 - taps, 1))],
        [numpy_helper.from_array(w, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), x, w


@pytest.mark.parametrize("channels", (16, 512))
@pytest.mark.parametrize("form", LINE_FORMS, ids=lambda form: form.name)
def test_error_of_a_layer(form: LineForm, channels: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def this(candidates: list[list[Candidate]], *limits: float) -> list[Candidate]:
        return [next(c for c in each if c.form == form) for each in candidates]

    monkeypatch.setattr(choice, "within_budget", this)
    model, x, w = layer(channels, form.taps, np.random.default_rng(26))
    path = mcpc.compile(model.SerializeToString(), "host", tmp_path / "a.mcp26bin", golden=0)
    assert f"conv {form.name}" in [step["kernel"] for step in mcpc.inspect(path)["steps"]]
    [theirs] = run_model(model.SerializeToString(), {"x": x}, ["y"])
    with mcpc.load(path) as session:
        [ours] = session.run(None, {"x": x})
    windows = np.lib.stride_tricks.sliding_window_view(x[0, :, :, 0].astype(np.float64), form.taps, 1)
    exact = np.einsum("ilt,oit->ol", windows, w[..., 0].astype(np.float64), optimize=True)[None, :, :, None]
    assert 0 < abs(ours - exact).max() <= MOST * abs(theirs - exact).max()


@pytest.mark.parametrize("form", LINE_FORMS, ids=lambda form: form.name)
def test_products_at_the_points_are_the_convolution(form: LineForm) -> None:
    """In float64, by the definitions: a tile's values at the points, those of the taps, and back."""
    rng = np.random.default_rng(3)
    taps = rng.integers(-8, 8, (1, 1, form.taps)).astype(np.float32)
    tile = rng.integers(-8, 8, form.side)
    finite = [0.0, *(sign * point for point in form.points for sign in (1.0, -1.0))]
    points = [*finite, None][: form.side]
    # Polynomials of degree T - 1 that are zero at all points but one; for infinity, at all points.
    forth = np.zeros((form.side, form.side))
    for row, point in enumerate(points):
        others = np.poly([p for p in finite if p != point])[::-1]
        forth[row, : len(others)] = others
    back = np.array([[float(k == form.size - 1) if p is None else p**k for p in points] for k in range(form.size)])
    got = back @ (form.weights(taps)[:, 0, 0].astype(np.float64) * (forth @ tile))
    want = [(tile[i : i + form.taps] * taps[0, 0]).sum() for i in range(form.size)]
    np.testing.assert_allclose(got, want, atol=1e-3)


def test_a_long_line_is_filtered_where_bytes_allow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, _, w = layer(512, 5, np.random.default_rng(0))

    def kernels(winograd: str = "auto") -> list[str]:
        path = mcpc.compile(model.SerializeToString(), "host", tmp_path / "a.mcp26bin", golden=0, winograd=winograd)
        facts = mcpc.inspect(path)
        assert facts["weights_bytes"] <= (1.05 if winograd == "off" else 1.5) * w.nbytes
        return [step["kernel"] for step in facts["steps"]]

    assert "conv winograd F(3,5)" in kernels()
    assert not any("winograd" in kernel for kernel in kernels("off"))
    monkeypatch.setattr(choice, "MOST_GROWTH", 0.3)
    assert "conv winograd F(2,5)" in kernels()
