"""Sample inputs stay inside the ranges that their names, types and uses allow."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import mcpc
from mcpc.errors import UsageError
from mcpc.ir import DType, Graph, TensorType, symbol
from mcpc.sample_inputs import artifact_inputs, sample_inputs


def argument(name: str, shape: Any, type: str = "tensor(float)") -> Any:
    return SimpleNamespace(name=name, shape=shape, type=type)


def test_same_seed_same_numbers_other_seed_other_numbers() -> None:
    inputs = [argument("x", [2, 3]), argument("y", [2, 3])]
    first, again, other = sample_inputs(inputs, 1), sample_inputs(inputs, 1), sample_inputs(inputs, 2)
    np.testing.assert_array_equal(first["x"], again["x"])
    assert not np.array_equal(first["x"], other["x"])
    assert not np.array_equal(first["x"], first["y"])
    assert first["x"].dtype == np.float32 and first["x"].shape == (2, 3)


def test_token_ids_stay_inside_the_table_they_index() -> None:
    graph = Graph("g")
    ids = graph.add_input("input_ids", TensorType(DType.int64, (1, 500)))
    table = graph.constant("table", np.zeros((7, 4), np.float32))
    (cast,) = graph.emit("Cast", [ids], [TensorType(DType.int32, (1, 500))], {"to": DType.int32})
    graph.emit("Gather", [table, cast], [TensorType(DType.float32, (1, 500, 4))], {"axis": 0})
    sample = sample_inputs(graph.inputs, 0)["input_ids"]
    assert sample.dtype == np.int64
    assert set(np.unique(sample)) == set(range(7))


def test_places_in_caches_and_positions_stay_inside_them() -> None:
    graph = Graph("g")
    ids, starts, lengths = (graph.add_input(name, TensorType(DType.int64, (300,))) for name in ("a", "b", "c"))
    x, cache = (graph.add_input(name, TensorType(DType.float32, (300, 2, 9, 4))) for name in ("x", "cache"))
    new = graph.add_input("new", TensorType(DType.float32, (300, 2, 3, 4)))
    table = graph.constant("table", np.zeros((5, 2), np.float32))
    graph.emit("RotaryEmbedding", [x, table, table, ids], [x.type])
    graph.emit("TensorScatter", [cache, new, starts], [cache.type])
    graph.emit("Attention", [x, cache, cache, None, None, None, lengths], [x.type])
    sample = sample_inputs(graph.inputs, 0)
    assert [int(sample[name].max()) for name in "abc"] == [4, 6, 9]


def test_an_artifacts_token_ids_stay_inside_those_of_its_selftest(tmp_path: Path) -> None:
    """A session's description does not show the table; 20,000 ids that only the type bounds would leave it."""
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, [1, 20000])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    table = numpy_helper.from_array(np.zeros((7, 2), np.float32), "table")
    graph = helper.make_graph([helper.make_node("Gather", ["table", "ids"], ["y"])], "g", [ids], [result], [table])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = mcpc.compile(model.SerializeToString(), "host", tmp_path / "m.mcp26bin")
    with mcpc.load(path, threads=1) as session:
        sample = artifact_inputs(path, session, 3)
        assert set(np.unique(sample["ids"])) == set(range(7))
        session.run(None, sample)


def test_one_symbol_has_one_value_and_stays_in_bounds() -> None:
    graph = Graph("g")
    length = symbol("sequence")
    graph.add_input("a", TensorType(DType.float32, (symbol("batch"), length)))
    graph.add_input("b", TensorType(DType.float32, (symbol("batch"), length + 1)))
    sample = sample_inputs(graph.inputs, 0, bounds={"sequence": (1, 9)})
    assert sample["a"].shape == (1, 9) and sample["b"].shape == (1, 10)
    assert sample_inputs(graph.inputs, 0, sizes={"sequence": 5})["b"].shape == (1, 6)


def test_names_say_what_integers_mean() -> None:
    int64 = "tensor(int64)"
    sample = sample_inputs(
        [
            argument("attention_mask", [2, 16], int64),
            argument("token_type_ids", [1, 400], int64),
            argument("position_ids", [2, 5], int64),
            argument("bytes", [1, 4000], "tensor(int32)"),
            argument("pixels", [1, 4000], "tensor(uint8)"),
            argument("sr", [], int64),
            argument("position", [], int64),
        ],
        3,
    )
    assert set(np.unique(sample["attention_mask"])) <= {0, 1} and sample["attention_mask"][:, :12].all()
    assert set(np.unique(sample["token_type_ids"])) == {0, 1}
    np.testing.assert_array_equal(sample["position_ids"][1], np.arange(5))
    assert sample["bytes"].min() >= 0 and 200 < sample["bytes"].max() < 256
    assert sample["pixels"].dtype == np.uint8 and sample["pixels"].max() > 200
    assert sample["position"].shape == () and sample["position"] == 0
    assert sample["sr"].shape == () and sample["sr"] == 16000


@pytest.mark.parametrize("type", ["tensor(bool)", "tensor(int64)", "tensor(uint8)", "tensor(float16)", "tensor(float)"])
def test_one_element_is_an_array_too(type: str) -> None:
    assert isinstance(sample_inputs([argument("x", [], type)], 0)["x"], np.ndarray)


def test_images_of_unknown_size_are_whole_strides() -> None:
    shape = sample_inputs([argument("x", ["n", "c", "?1", "?2"])], 0)["x"].shape
    assert shape == (1, 3, 64, 64)


def test_unknown_rank_is_refused() -> None:
    with pytest.raises(UsageError) as caught:
        sample_inputs([argument("x", None)], 0)
    assert caught.value.code == "E002"
