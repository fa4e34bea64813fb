"""Self-tests that state a seed for large inputs and samples of large outputs: Python and C agree on both."""

from __future__ import annotations

import gzip
import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx.parser
import pytest

import mcpc
from mcpc import dtypes
from mcpc.artifact import Artifact, encode_metadata
from mcpc.comparison import compare, compare_samples
from mcpc.draws import Draw, bell, drawable, is_float, random_words
from mcpc.errors import FormatError, RuntimeFault
from mcpc.golden import BLOCKS, STORED_BYTES, Golden, Samples, compact_output, places
from mcpc.sample_inputs import sample_draws
from mcpc.verification import selftest
from tests.operators.runners import embed
from tests.test_artifact import reseal

DRAWABLE = [each for code, each in dtypes.BY_CODE.items() if code <= 16]


def test_words_are_those_of_splitmix64() -> None:
    """The values that its authors' program prints."""
    assert random_words(0, 1).tolist() == [0xE220A8397B1DCDAF]
    assert random_words(1234567, 3).tolist() == [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert random_words(-1, 1).tolist() == random_words(2**64 - 1, 1).tolist()


def test_floats_are_bell_shaped_and_integers_even() -> None:
    numbers = bell(np.dtype(np.float32), (100_000,), 3, 0.5).array()
    assert abs(numbers.mean()) < 0.01 and abs(numbers.std() - 0.5) < 0.01 and abs(numbers).max() < 3.5 * 0.5
    counts = np.bincount(Draw(np.dtype(np.uint8), (100_000,), 3, range=10).array())
    assert counts.shape == (10,) and counts.min() > 9_000


def identity(folder: Path, type: dtypes.ElementType) -> Path:
    text = f"i ({type.ort_name}[60, 70] x) => ({type.ort_name}[60, 70] y) {{ y = Identity (x) }}"

    model = onnx.parser.parse_model('<ir_version: 10, opset_import: ["" : 21]> ' + text)
    return mcpc.compile(model.SerializeToString(), "aarch64", folder / "i.mcp26bin", golden=0)


@pytest.mark.parametrize("type", DRAWABLE, ids=lambda type: type.name)
def test_c_draws_and_averages_as_python_does(
    type: dtypes.ElementType, tmp_path: Path, run_on_aarch64: Callable[..., Any]
) -> None:
    """Exactly, small numbers (subnormal halves) and great ones."""
    path = identity(tmp_path, type)
    dtype = type.numpy
    draws = [bell(dtype, (60, 70), 2**40 + 5, deviation) for deviation in (1.0, 1e-5, 1e4)]
    if not is_float(dtype):
        draws = [Draw(dtype, (60, 70), 77, range=2 if dtype == np.bool_ else 100)]
    for draw in draws:
        x = draw.array()
        for expected in (x, Samples.of(x, 7), Samples.of(x, 4200)):
            embed(path, Golden([draw], [expected], 0.0, 0.0))
            done = run_on_aarch64(path, "--selftest")
            assert done.returncode == 0, done.stderr
        embed(path, Golden([draw], [Samples.of(np.where(x == x[30, 30], x[0, 0], x), 7)], 0.0, 0.0))
        assert x[0, 0] == x[30, 30] or run_on_aarch64(path, "--selftest").returncode == 1


def test_sampled_inputs_are_the_draws(tmp_path: Path) -> None:
    inputs = [
        SimpleNamespace(name="image", shape=(3, 40, 50), type="tensor(float)"),
        SimpleNamespace(name="ids", shape=(7,), type="tensor(int64)"),
        SimpleNamespace(name="attention_mask", shape=(1, 16), type="tensor(int64)"),
    ]
    arrays, draws = sample_draws(inputs, 3)
    assert set(draws) == {"image", "ids"}
    for name, draw in draws.items():
        np.testing.assert_array_equal(draw.array(), arrays[name])


def test_only_large_tensors_are_sampled() -> None:
    small, large = np.zeros(STORED_BYTES, np.uint8), np.zeros(STORED_BYTES + 1, np.uint8)
    assert compact_output(small) is small
    sampled = compact_output(large)
    assert isinstance(sampled, Samples) and sampled.elements.size <= BLOCKS and sampled.nbytes < small.nbytes
    packed = large.astype(dtypes.BY_NAME["float8e5m2"].numpy)
    assert compact_output(packed) is packed and not drawable(packed.dtype)


@pytest.mark.parametrize("size", [BLOCKS * 20, BLOCKS * 20 + 1, BLOCKS * 20 - 1])
def test_wrong_parts_of_a_sampled_output_are_found(size: int) -> None:
    """A wrong run of two blocks, a wrong column, one wrong element: each by a large part of the usual magnitude."""
    want = bell(np.dtype(np.float32), (size,), 1, 1.0).array()
    samples = Samples.of(want, math.ceil(size / BLOCKS))
    assert compare_samples("y", want, samples, 0.0, 0.0).matches
    assert compare_samples("y", want * np.float32(1 + 5e-4), samples, 1e-3, 0.0).matches
    rng = np.random.default_rng(0)
    for _ in range(20):
        run, column, single = want.copy(), want.copy(), want.copy()
        first = int(rng.integers(size - 2 * samples.block))
        run[first : first + 2 * samples.block] = 0
        column[first % 85 :: 85] += 0.01
        single[first] += 0.2
        for wrong in (run, column, single):
            found = compare_samples("y", wrong, samples, 1e-3, 1e-3)
            assert not found.matches and "blocks of" in found.describe()
    nothing = want.copy()
    nothing[first] = np.nan
    assert not compare_samples("y", nothing, samples, 1e-3, 1e-3).matches
    assert compare_samples("y", want.reshape(1, -1), samples, 1e-3, 1e-3).note


def test_samples_compare_as_whole_arrays_do() -> None:
    want = np.array([1, -np.inf, np.nan, 4, 5, 6, 7], np.float32)
    samples = Samples.of(want, 3)
    assert compare_samples("y", want, samples, 0.0, 0.0).matches
    at = places(want.size, 3)
    wrong = want.copy()
    wrong[at[1]] += 1
    found, whole = compare_samples("y", wrong, samples, 0.0, 1e-3), compare("y", wrong, want, 0.0, 1e-3)
    assert found.worst_index == whole.worst_index == (at[1],) and found.worst_got == whole.worst_got
    assert (found.mismatches, found.elements, found.block) == (1, 3, 3)


def test_compiled_models_keep_their_inputs_and_outputs_short(tmp_path: Path) -> None:

    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 21]>'
        "abs (float[1, 3, 200, 200] x) => (float[1, 3, 200, 200] y) { y = Abs (x) }"
    )
    path = mcpc.compile(model.SerializeToString(), "host", tmp_path / "r.mcp26bin")
    document = mcpc.inspect(path)
    assert document["golden_tensors"] == {"stored": 0, "drawn": 1, "sampled": 1}
    assert document["golden_bytes"] <= 12 * BLOCKS
    (comparison,) = selftest(path)
    assert comparison.matches and comparison.block == math.ceil(120_000 / BLOCKS)
    given = mcpc.compile(model.SerializeToString(), "host", path, golden=[{"x": np.ones((1, 3, 200, 200), np.float32)}])
    assert mcpc.inspect(given)["golden_tensors"] == {"stored": 1, "drawn": 0, "sampled": 1}


@pytest.mark.parametrize(
    "side, change",
    [
        ("outputs", {"block": 4}),
        ("outputs", {"block": 2**63}),
        ("outputs", {"bytes": 2**62}),
        ("outputs", {"offset": 2**40}),
        ("outputs", {"drawn": True}),
        ("outputs", {"shape": [2**31, 2**20]}),
        ("outputs", {"shape": [2**62, 2**62]}),
        ("inputs", {"drawn": False}),
        ("inputs", {"block": 5, "drawn": False}),
        ("inputs", {"range": 0}),
        ("inputs", {"shape": [-1]}),
    ],
)
def test_descriptions_that_do_not_fit_are_refused(
    side: str, change: dict[str, Any], artifacts: Path, tmp_path: Path
) -> None:
    path = tmp_path / "bad.mcp26bin"
    path.write_bytes((artifacts / "drawn.mcp26bin").read_bytes())
    with Artifact.open(path) as artifact:
        meta = artifact.meta
    for field, value in change.items():
        setattr(getattr(meta.golden[0], side)[1], field, value)
    reseal(path, encode_metadata(meta))
    with pytest.raises(FormatError) as caught:
        mcpc.load(path)
    assert caught.value.code == "E501"
    with Artifact.open(path) as artifact, pytest.raises(FormatError) as caught:
        artifact.golden()
    assert caught.value.code == "E501"


def test_computed_inputs_beyond_memory_are_an_error(artifacts: Path, tmp_path: Path, run_on_aarch64: Any) -> None:
    path = tmp_path / "large.mcp26bin"
    path.write_bytes((artifacts / "drawn.mcp26bin").read_bytes())
    with Artifact.open(path) as artifact:
        meta = artifact.meta
    meta.golden[0].inputs[1].shape = [2**57]
    reseal(path, encode_metadata(meta))
    done = run_on_aarch64(path, "--selftest")
    assert done.returncode == 1 and "no memory for the inputs" in done.stderr


def test_drawn_inputs_beyond_memory_are_an_error_in_python_too() -> None:
    for size in (2**52, 2**62):
        with pytest.raises(RuntimeFault, match="no memory") as caught:
            Golden([Draw(np.dtype(np.float32), (size,), seed=0, scale=1.0)], []).feeds()
        assert caught.value.code == "E605"


@pytest.mark.parametrize("version", ["1.0"])
def test_files_of_older_formats_stay_readable(version: str, tmp_path: Path) -> None:
    """formats/ holds growing as that version wrote it."""
    path = tmp_path / "old.mcp26bin"
    path.write_bytes(gzip.decompress((Path(__file__).parent / "formats" / f"{version}.mcp26bin.gz").read_bytes()))
    assert mcpc.inspect(path)["format_version"] == version
    (comparison,) = selftest(path)
    assert comparison.matches and comparison.elements == 3
