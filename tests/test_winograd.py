"""How far results of Winograd kernels are from exact ones, beside ONNX Runtime's, and when these kernels are chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import mcpc
from mcpc.models import yolov8n
from mcpc.reference import run_model
from mcpc.targets.native import choice
from mcpc.targets.native.choice import Candidate, Method, within_budget
from mcpc.targets.native.winograd import FORMS, Form

Array = np.ndarray[Any, Any]

#: How many times ONNX Runtime's error ours may be.
MOST = 4.0

LAYERS = {"56 pixels": (56, 64), "28 pixels": (28, 128), "14 pixels": (14, 256), "7 pixels": (7, 512)}
CHOSEN = [(name, form) for name, (_, channels) in LAYERS.items() for form in FORMS if channels <= form.deepest]


def layer(side: int, channels: int, rng: np.random.Generator) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """A convolution as it stands in a network: inputs behind a ReLU, weights that keep the variance."""
    w = rng.normal(0, np.sqrt(2 / (9 * channels)), (channels, channels, 3, 3)).astype(np.float32)
    shape = [1, channels, side, side]
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], "conv", pads=[1, 1, 1, 1])],
        "layer",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(w, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return model, {"x": np.maximum(rng.standard_normal(shape), 0).astype(np.float32)}


def in_doubles(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same network in float64, its inputs and outputs too; what Resize calls scales stays."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    kept = {name for node in graph.node if node.op_type == "Resize" for name in node.input[1:]}
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.name == "value" and attribute.t.data_type == onnx.TensorProto.FLOAT:
                doubles = numpy_helper.to_array(attribute.t).astype(np.float64)
                attribute.t.CopyFrom(numpy_helper.from_array(doubles, attribute.t.name))
    for tensor in graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT and tensor.name not in kept:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))
    for value in (*graph.input, *graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    del graph.value_info[:]
    return result


def errors(
    model: onnx.ModelProto, feeds: dict[str, Array], folder: Path
) -> tuple[list[tuple[float, float]], dict[str, int]]:
    """The largest error of each output, ours and ONNX Runtime's, against float64; how often each kernel runs."""
    ours = mcpc.compile(model.SerializeToString(), "host", folder / "float32.mcp26bin", golden=0)
    exact = mcpc.compile(in_doubles(model).SerializeToString(), "host", folder / "float64.mcp26bin", golden=0)
    theirs = run_model(model.SerializeToString(), feeds, [value.name for value in model.graph.output])
    with mcpc.load(ours) as session, mcpc.load(exact) as reference:
        got = session.run(None, feeds)
        want = reference.run(None, {name: array.astype(np.float64) for name, array in feeds.items()})
    kernels = [step["kernel"] for step in mcpc.inspect(ours)["steps"]]
    pairs = [(float(abs(a - c).max()), float(abs(b - c).max())) for a, b, c in zip(got, theirs, want, strict=True)]
    return pairs, {kernel: kernels.count(kernel) for kernel in kernels}


@pytest.mark.parametrize("name, form", CHOSEN, ids=lambda each: each if isinstance(each, str) else each.name)
def test_error_of_a_layer(name: str, form: Form, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "FORMS", (form,))
    monkeypatch.setattr(choice, "within_budget", lambda candidates, *limits: [each[-1] for each in candidates])
    model, feeds = layer(*LAYERS[name], np.random.default_rng(26))
    [(ours, theirs)], kernels = errors(model, feeds, tmp_path)
    assert kernels == {"relayout": 2, f"conv {form.name}": 1}
    assert 0 < ours <= MOST * theirs


def test_error_of_a_network(tmp_path: Path) -> None:
    model = yolov8n.build(size=160)
    feeds = {"images": np.random.default_rng(0).uniform(0, 1, (1, 3, 160, 160)).astype(np.float32)}
    pairs, kernels = errors(model, feeds, tmp_path)
    assert sum(count for kernel, count in kernels.items() if "winograd" in kernel) > 10
    for ours, theirs in pairs:
        assert 0 < ours <= MOST * theirs


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_products_at_the_points_are_the_convolution(form: Form) -> None:
    """In float64, by the definitions: a tile's values at the points, those of the taps, and back."""
    rng = np.random.default_rng(3)
    taps, tile = rng.integers(-8, 8, (1, 1, 3, 3)).astype(np.float32), rng.integers(-8, 8, (form.side, form.side))
    points = [0.0, *(sign * point for point in form.points for sign in (1.0, -1.0))]
    # Polynomials of degree T - 1 that are zero at all points but one; for infinity, at all points.
    forth = np.zeros((form.side, form.side))
    for row, point in enumerate([*points, None]):
        others = np.poly([p for p in points if p != point])[::-1]
        forth[row, : len(others)] = others
    back = np.array([[p**k for p in points] + [float(k == form.size - 1)] for k in range(form.size)])
    u = form.weights(taps).astype(np.float64).reshape(form.side, form.side)
    got = back @ (u * (forth @ tile @ forth.T)) @ back.T
    want = np.array([[(tile[i : i + 3, j : j + 3] * taps[0, 0]).sum() for j in range(form.size)]
                     for i in range(form.size)])  # fmt: skip
    np.testing.assert_allclose(got, want, atol=1e-3)


# ---- the choice


def candidate(us: float, nbytes: int, form: Form | None = None, is_exact: bool = True) -> Candidate:
    method = Method.INDIRECT if form is None else Method.WINOGRAD
    return Candidate(method, {}, nbytes, us, form, is_exact=is_exact)


TWO, FOUR, SIX = FORMS


def test_bytes_go_where_they_save_most() -> None:
    """Of two layers the second saves more a byte, and the budget is for one of them."""
    large = [candidate(1000, 9000), candidate(500, 36000, FOUR)]
    small = [candidate(1000, 900), candidate(500, 3600, FOUR)]
    assert within_budget([large, small], 1e3, 30000) == [large[1], small[1]]
    assert within_budget([large, small], 1e3, 28000) == [large[0], small[1]]
    assert within_budget([large, small], 1e3, 100) == [large[0], small[0]]


def test_a_larger_form_follows_a_smaller_one_while_bytes_last() -> None:
    layers = [[candidate(1000, 900), candidate(600, 1600, TWO), candidate(400, 3600, FOUR)]] * 2
    assert within_budget(layers, 1e3, 5400) == [layers[0][2], layers[1][2]]
    assert within_budget(layers, 1e3, 4000) == [layers[0][2], layers[1][1]]


def test_reading_bytes_takes_time_and_small_gains_do_not_count() -> None:
    layer = [candidate(1000, 9 << 20), candidate(600, 36 << 20, FOUR)]
    assert within_budget([layer], 1e3, 1 << 30) == [layer[1]]
    assert within_budget([layer], 10, 1 << 30) == [layer[0]]
    close = [candidate(1000, 900), candidate(1000 * (1 - choice.MARGIN / 2), 3600, FOUR)]
    assert within_budget([close], 1e3, 1 << 30) == [close[0]]


def test_a_form_whose_error_is_too_large_is_never_taken() -> None:
    layer = [candidate(1000, 900), candidate(100, 6400, SIX, is_exact=False)]
    assert within_budget([layer], 1e3, 1 << 30) == [layer[0]]
    assert "error" in choice.reason(layer, layer[0])


def test_decisions_show_what_was_weighed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "MOST_GROWTH", 10.0)
    model, _ = layer(28, 128, np.random.default_rng(0))
    path = mcpc.compile(model.SerializeToString(), "x86-64-v3", tmp_path / "a.mcp26bin", golden=0)
    [decision] = [each for each in mcpc.inspect(path)["decisions"] if each["pass"] == "kernels"]
    assert decision["subject"] == "conv" and decision["action"] == "winograd 4x4"
    assert set(decision["numbers"]) == {"indirect us", *(f"{form.name} us" for form in FORMS), "bytes"}
    assert decision["numbers"]["indirect us"] > decision["numbers"]["winograd 4x4 us"] > 0


def test_winograd_off_stores_weights_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "MOST_GROWTH", 10.0)
    model, _ = layer(28, 128, np.random.default_rng(0))
    path = mcpc.compile(model.SerializeToString(), "host", tmp_path / "a.mcp26bin", golden=0, winograd="off")
    facts = mcpc.inspect(path)
    assert not any("winograd" in step["kernel"] for step in facts["steps"])
    assert facts["weights_bytes"] <= 1.05 * 4 * 9 * 128 * 128
