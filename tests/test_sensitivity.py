"""How far noise as small as rounding moves outputs, and what that makes of tolerances."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from mcpc import sensitivity
from mcpc.comparison import ATOL_OF_RANGE
from mcpc.errors import UsageError
from mcpc.ir_text import parse_graph
from mcpc.judge import judge
from mcpc.onnx_writer import to_model
from mcpc.sensitivity import FLOAT32, ROUNDINGS, TRIES, coarsest_rounding, shaken, tolerances, with_noise

Array = np.ndarray[Any, Any]

NOISE = sensitivity.NOISE * FLOAT32


def test_a_tame_network_keeps_the_usual_tolerance_after_one_try() -> None:
    calls: list[Mapping[str, Array]] = []

    def run(feeds: Mapping[str, Array]) -> list[Array]:
        calls.append(feeds)
        return [3 * feeds["x"], np.arange(3)]

    feeds = {"x": np.linspace(1, 8, 1000, dtype=np.float32)}
    assert tolerances(run, feeds, run(feeds)) == pytest.approx([ATOL_OF_RANGE * 24, ATOL_OF_RANGE * 2])
    assert len(calls) == 2
    noise = calls[1]["x"] / feeds["x"] - 1
    assert NOISE / 2 < noise.std() < 2 * NOISE


def test_an_output_that_rounding_moves_may_move() -> None:
    def run(feeds: Mapping[str, Array]) -> list[Array]:
        """Rounding decides the step of a whole number; the difference of near numbers is little but rounding."""
        x = feeds["x"]
        return [np.floor(x), x[:1] - np.float32(0.99999), np.floor(x + np.float32(0.5))]

    feeds = {"x": np.arange(1, 9, dtype=np.float32)}
    first, second, third = tolerances(run, feeds, run(feeds))
    assert first == ROUNDINGS  # a step of 1
    assert ROUNDINGS * NOISE / 2 < second < ROUNDINGS * NOISE * 4
    assert third == pytest.approx(ATOL_OF_RANGE * 8)


def test_a_step_that_one_try_misses_is_found() -> None:
    tries = 0

    def run(feeds: Mapping[str, Array]) -> list[Array]:
        nonlocal tries
        tries += 1
        return [feeds["x"] + np.float32(0.01 * (tries == 1 + TRIES) + 1e-4 * (tries > 1))]

    feeds = {"x": np.ones(1, np.float32)}
    assert tolerances(run, feeds, run(feeds)) == pytest.approx([ROUNDINGS * 0.0101], rel=1e-3)


def test_inputs_that_mean_sizes_leave_the_usual_tolerance() -> None:
    def run(feeds: Mapping[str, Array]) -> list[Array]:
        if feeds["sizes"][0] != 2:
            raise UsageError("E002", "not a size")
        return [np.ones(2, np.float32)]

    feeds = {"sizes": np.array([2.0], np.float32)}
    assert tolerances(run, feeds, run(feeds)) == [ATOL_OF_RANGE]


def test_integers_and_infinities_stay_what_they_are() -> None:
    feeds: dict[str, Array] = {"i": np.arange(3), "x": np.array([np.inf, np.nan, 0.0], np.float32)}
    assert tolerances(lambda given: list(given.values()), feeds, list(feeds.values())) == [2 * ATOL_OF_RANGE, 0]


def test_what_computes_in_16_bits_is_given_its_roundings() -> None:
    """An output moves by the noise of float16 inputs, and is allowed some roundings where it does not."""

    def run(feeds: Mapping[str, Array]) -> list[Array]:
        return [feeds["x"][:1], np.ones(3, np.float16)]

    feeds = {"x": np.full(1000, 2, np.float16)}
    moved, still = tolerances(run, feeds, run(feeds), 2.0**-11)
    assert still == ROUNDINGS * sensitivity.NOISE * 2.0**-11
    assert still < moved < 2**-3


def model(*nodes: onnx.NodeProto, type: int = TensorProto.FLOAT, initializer: int = TensorProto.FLOAT) -> bytes:
    x, y = (helper.make_tensor_value_info(name, type, [2]) for name in ("x", "y"))
    weight = helper.make_tensor("w", initializer, [2], [1.0, 2.0])
    return bytes(helper.make_model(helper.make_graph(nodes, "g", [x], [y], [weight])).SerializeToString())


def test_the_coarsest_rounding_is_that_of_a_type_that_is_computed_in() -> None:
    plain, half, brain = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16
    add = helper.make_node("Add", ["x", "w"], ["y"])
    widened = (helper.make_node("Cast", ["w"], ["v"], to=plain), helper.make_node("Add", ["x", "v"], ["y"]))
    through = (helper.make_node("Cast", ["x"], ["v"], to=brain), helper.make_node("Cast", ["v"], ["y"], to=plain))
    assert coarsest_rounding(model(add)) == FLOAT32
    assert coarsest_rounding(model(*widened, initializer=half)) == FLOAT32
    assert coarsest_rounding(model(add, type=half, initializer=half)) == 2.0**-11
    assert coarsest_rounding(model(*through)) == 2.0**-8


def test_what_is_rounded_to_integers_is_shaken() -> None:
    """The input lies in the middle between steps of the second rounding, far from those of the first."""
    text = """graph "g" {
      input %x: float32[N]
      const %first: float32[] = 0.25
      const %second: float32[] = 0.5
      const %zero: int8[] = 0
      %q: int8[N] = QuantizeLinear(%x, %first, %zero)
      %d: float32[N] = DequantizeLinear(%q, %first, %zero)
      %r: int8[N] = QuantizeLinear(%d, %second, %zero)
      %y: float32[N] = DequantizeLinear(%r, %second, %zero)
      output %y
    }"""
    model = to_model(parse_graph(text)).SerializeToString()
    x = np.full(1000, 0.75, np.float32)
    still, moving = judge(model, ["y"]), shaken(model, ["y"])
    (want,) = still({"x": x})
    assert tolerances(still, {"x": x}, [want]) == pytest.approx([ATOL_OF_RANGE])
    assert moving is not None
    one, other = (moving({"x": x})[0] for _ in range(2))
    assert all(set(each) == {0.5, 1.0} for each in (one, other)) and not np.array_equal(one, other)
    assert tolerances(moving, {"x": x}, [want]) == pytest.approx([ROUNDINGS * 0.5])


def network(*, in_nodes: bool) -> onnx.ModelProto:
    """x in the middle between two steps, whose scale is in a Constant or an initializer, times a large weight."""
    constants: dict[str, Array] = {
        "scale": np.array(0.5, np.float32),
        "zero": np.array(0, np.int8),
        "w": np.eye(64, dtype=np.float32),
    }
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
        helper.make_node("MatMul", ["d", "w"], ["y"]),
    ]
    if in_nodes:
        nodes = [*(helper.make_node("Constant", [], [each.name], value=each) for each in tensors), *nodes]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 64]) for name in "xy")
    graph = helper.make_graph(nodes, "g", [x], [y], [] if in_nodes else tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


@pytest.mark.parametrize("kind", ["in nodes", "in a file of its own"])
def test_scales_in_nodes_and_weights_in_other_files_are_shaken_too(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "model.onnx"
    is_apart = kind == "in a file of its own"
    onnx.save(
        network(in_nodes=not is_apart), path, save_as_external_data=is_apart, location="weights", size_threshold=0
    )
    run = shaken(path, ["y"])
    assert run is not None
    x = np.full((1, 64), 0.25, np.float32)
    assert not np.array_equal(run({"x": x})[0], run({"x": x})[0])


def test_integers_that_are_rounded_are_exact() -> None:
    text = """graph "g" {
      input %x: int32[N]
      const %scale: float32[] = 0.5
      const %zero: int8[] = 0
      %y: int8[N] = QuantizeLinear(%x, %scale, %zero)
      output %y
    }"""
    assert shaken(to_model(parse_graph(text)).SerializeToString(), ["y"]) is None


def test_models_that_round_to_no_integers_stay_as_they_are() -> None:
    model = to_model(
        parse_graph("""graph "g" {
      input %x: float32[N]
      %y: float32[N] = Exp(%x)
      output %y
    }""")
    ).SerializeToString()
    assert with_noise(model, 0) is model and shaken(model, ["y"]) is None
