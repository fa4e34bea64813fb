"""The cases that an artifact carries for its self-test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest

import mcpc
from mcpc.artifact import Artifact
from mcpc.errors import ModelError, UsageError

Array = np.ndarray[Any, Any]

#: Of the Split nobody reads the first part.
MODEL = """
    <ir_version: 10, opset_import: ["" : 21]>
    golden (float[4, 3] x, int64[2] i) => (float[2, 3] y) {
        first, second = Split <axis = 0, num_outputs = 2> (x)
        y = Gather (second, i)
    }
"""


@pytest.fixture(scope="module")
def model() -> bytes:
    serialized: bytes = onnx.parser.parse_model(MODEL).SerializeToString()
    return serialized


def feeds(offset: int, *indices: int) -> dict[str, Array]:
    x = np.arange(12, dtype=np.float32).reshape(4, 3) + np.float32(offset)
    return {"i": np.array(indices, np.int64), "x": x}


def test_given_inputs(model: bytes, tmp_path: Path) -> None:
    given = [feeds(0, 1, 0), feeds(100, -1, -1)]
    path = mcpc.compile(model, output=tmp_path / "a.mcp26bin", golden=given)
    with Artifact.open(path) as artifact:
        cases = artifact.golden()
    assert len(cases) == 2
    for case, each in zip(cases, given, strict=True):
        np.testing.assert_array_equal(case.inputs[0], each["x"])
        np.testing.assert_array_equal(case.inputs[1], each["i"])
        np.testing.assert_array_equal(case.outputs[0], each["x"][2:][each["i"]])


def test_number_of_cases(model: bytes, tmp_path: Path) -> None:
    for count in (0, 2):
        path = mcpc.compile(model, output=tmp_path / "a.mcp26bin", golden=count)
        with Artifact.open(path) as artifact:
            assert len(artifact.golden()) == count


@pytest.mark.parametrize(
    "wrong",
    [
        {"x": feeds(0)["x"]},
        {**feeds(0, 1, 0), "z": np.zeros(1)},
        {**feeds(0, 1, 0), "x": np.zeros((4, 3))},
        {**feeds(0, 1, 0), "x": np.zeros((4, 4), np.float32)},
        feeds(0, 1, 9),
    ],
    ids=["missing", "unknown", "type", "shape", "index"],
)
def test_inputs_that_are_not_the_models(model: bytes, wrong: dict[str, Array], tmp_path: Path) -> None:
    output = tmp_path / "a.mcp26bin"
    with pytest.raises(UsageError) as refused:
        mcpc.compile(model, output=output, golden=[wrong])
    assert refused.value.code == "E002"
    assert not output.exists()


def test_a_model_that_no_sampled_input_fits_is_advised_to_go_without(tmp_path: Path) -> None:
    text = MODEL.replace("y = Gather", "one = Constant <value = int64[1] {1000}> ()\n j = Add (i, one)\n y = Gather")
    serialized = onnx.parser.parse_model(text.replace("(second, i)", "(second, j)")).SerializeToString()
    with pytest.raises(ModelError, match="sampled for its self-test") as caught:
        mcpc.compile(serialized, output=tmp_path / "a.mcp26bin", golden=1)
    assert "--no-golden" in caught.value.hint and not list(tmp_path.iterdir())
    mcpc.compile(serialized, output=tmp_path / "a.mcp26bin", golden=0)


def test_where_nobody_asks_for_cases_it_goes_without_and_says_so(tmp_path: Path) -> None:
    text = MODEL.replace("y = Gather", "one = Constant <value = int64[1] {1000}> ()\n j = Add (i, one)\n y = Gather")
    serialized = onnx.parser.parse_model(text.replace("(second, i)", "(second, j)")).SerializeToString()
    document = mcpc.inspect(mcpc.compile(serialized, output=tmp_path / "a.mcp26bin"))
    [note] = [each for each in document["decisions"] if each["pass"] == "self-test"]
    assert document["golden_cases"] == 0 and note["action"] == "omit" and "sampled for its self-test" in note["reason"]
