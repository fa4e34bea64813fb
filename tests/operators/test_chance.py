"""Operators that draw random numbers: their distributions, their streams, and what must not happen to them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import mcpc
from mcpc.artifact import Artifact
from mcpc.errors import ModelError, UsageError
from mcpc.golden import Golden
from mcpc.verification import verify

from . import runners
from .graphs import Array, Graph, serialize_untyped
from .graphs import Weight as W

COUNT = 60_000
#: Standard errors that a mean may be off by.
SIGMAS = 6


def compiled(graph: Graph, folder: Path, target: str = "host", **options: Any) -> Path:
    return mcpc.compile(serialize_untyped(graph), target, folder / f"{target}.mcp26bin", **options)


def run(path: Path, feeds: dict[str, Array], times: int = 1) -> list[list[Array]]:
    with mcpc.load(path) as session:
        return [session.run(None, feeds) for _ in range(times)]


def one(folder: Path, op: str, *operands: Any, **attrs: Any) -> Array:
    graph = Graph("")
    graph.output(graph(op, *operands, **attrs))
    return run(compiled(graph, folder), graph.feeds)[0][0]


def check_moments(values: Array, moments: list[float]) -> None:
    """The means of the powers of ``values``, which are independent, are near ``moments``."""
    wide = values.astype(np.float64).ravel()
    for power, moment in enumerate(moments, 1):
        error = (wide**power).std() / np.sqrt(wide.size)
        assert abs((wide**power).mean() - moment) < SIGMAS * error, power


def philox(key: int, block: int) -> list[int]:
    """The words of a block, as J. Salmon et al. (2011) define them."""
    low, high = key & 0xFFFFFFFF, key >> 32
    words = [block & 0xFFFFFFFF, block >> 32, 0, 0]
    for _ in range(10):
        a, b = words[0] * 0xD2511F53, words[2] * 0xCD9E8D57
        words = [b >> 32 ^ words[1] ^ low, b & 0xFFFFFFFF, a >> 32 ^ words[3] ^ high, a & 0xFFFFFFFF]
        low, high = (low + 0x9E3779B9) & 0xFFFFFFFF, (high + 0xBB67AE85) & 0xFFFFFFFF
    return words


def test_philox(tmp_path: Path) -> None:
    assert philox(0, 0) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]  # from the authors' known answers
    got = one(tmp_path, "RandomUniform", shape=[35], dtype=TensorProto.DOUBLE, seed=2.5)
    key = int(np.array(2.5).view(np.uint64))
    want = []
    for i in range(35):
        words = philox(key, i // 16 * 8 + i % 8)[i // 8 % 2 * 2 :]
        want.append(((words[0] >> 5) * 2**26 + (words[1] >> 6)) / 2**53)
    np.testing.assert_array_equal(got, want)


FLOATS = {"float": np.float32, "double": np.float64, "float16": np.float16}


@pytest.mark.parametrize("name", FLOATS)
def test_uniform(name: str, tmp_path: Path) -> None:
    dtype = getattr(TensorProto, name.upper())
    got = one(tmp_path, "RandomUniform", shape=[3, COUNT // 3], low=-1.0, high=3.0, dtype=dtype, seed=1.0)
    assert (got.dtype, got.shape) == (FLOATS[name], (3, COUNT // 3))
    assert got.min() >= -1 and got.max() <= 3
    check_moments(got, [1.0, 7 / 3, 5.0])
    like = one(tmp_path, "RandomUniformLike", np.zeros(COUNT, FLOATS[name]))
    assert like.dtype == FLOATS[name] and like.min() >= 0 and like.max() < 1
    check_moments(like, [1 / 2, 1 / 3])


@pytest.mark.parametrize("name", FLOATS)
def test_normal(name: str, tmp_path: Path) -> None:
    got = one(tmp_path, "RandomNormalLike", np.zeros((COUNT, 1), np.int8), mean=1.0, scale=2.0, seed=3.0,
              dtype=getattr(TensorProto, name.upper()))  # fmt: skip
    assert (got.dtype, got.shape) == (FLOATS[name], (COUNT, 1))
    standard = (got.astype(np.float64).ravel() - 1) / 2
    check_moments(standard, [0, 1, 0, 3])
    assert abs(np.corrcoef(standard[:-8], standard[8:])[0, 1]) < SIGMAS / np.sqrt(COUNT)  # pairs of one radius
    wide = one(tmp_path, "RandomNormal", shape=[COUNT])
    assert wide.dtype == np.float32
    check_moments(wide, [0, 1, 0, 3])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_multinomial(dtype: type, tmp_path: Path) -> None:
    """A class of probability 0 never comes, nor does what makes the logarithms larger change anything."""
    shares = np.array([[0.1, 0.2, 0, 0.7], [0.5, 0.25, 0.25, 0]])
    with np.errstate(divide="ignore"):
        logs = (np.log(shares) + np.array([[0], [5]])).astype(dtype)
    got = one(tmp_path, "Multinomial", logs, sample_size=COUNT, dtype=TensorProto.INT64, seed=4.0)
    assert (got.dtype, got.shape) == (np.int64, (2, COUNT))
    for row, share in zip(got, shares, strict=True):
        counts = np.bincount(row, minlength=4)
        assert (np.abs(counts - COUNT * share) <= SIGMAS * np.sqrt(COUNT * share * (1 - share))).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_bernoulli(dtype: type, tmp_path: Path) -> None:
    p: Array = np.repeat(np.array([[0.0, 1.0, 0.25, 0.75]], dtype), COUNT, 0)
    got = one(tmp_path, "Bernoulli", p, seed=5.0)
    assert got.dtype == dtype and set(np.unique(got)) == {0, 1}
    assert (got[:, 0] == 0).all() and (got[:, 1] == 1).all()
    check_moments(got[:, 2], [0.25])
    check_moments(got[:, 3], [0.75])
    assert one(tmp_path, "Bernoulli", p, dtype=TensorProto.BOOL).dtype == np.bool_


@pytest.mark.parametrize("training", [W(np.array(True)), np.array(True)], ids=["constant", "computed"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_dropout(training: Any, dtype: type, tmp_path: Path) -> None:
    graph = Graph("")
    x = graph.input(np.linspace(1, 2, COUNT).astype(dtype))
    graph.output(*graph("Dropout", x, W(np.array(0.2, np.float32)), training, outputs=2, seed=6))
    ((y, mask),) = run(compiled(graph, tmp_path), graph.feeds)
    check_moments(mask, [0.8])
    want = np.where(mask, graph.feeds[x].astype(np.float32) / np.float32(0.8), 0)
    np.testing.assert_allclose(y.astype(np.float32), want, rtol=1e-6 if dtype is np.float32 else 1e-3)


def streams(seed: float | None) -> Graph:
    """The numbers of two equal nodes, which no pass may take for one, nor for constants."""
    graph = Graph("")
    attrs = {} if seed is None else {"seed": seed}
    graph.output(*(graph("RandomNormal", shape=[3, 5], **attrs) for _ in range(2)))
    return graph


def test_seeded_streams(tmp_path: Path) -> None:
    """They begin alike in every session, go on from run to run, and begin anew when the state is reset."""
    path = compiled(streams(7.0), tmp_path)
    with mcpc.load(path) as session:
        first, second = session.run(None, {}), session.run(None, {})
        session.reset_state()
        again = session.run(None, {})
    np.testing.assert_array_equal(first[0], first[1])
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first, run(path, {})[0])
    assert not (first[0] == second[0]).any()


def test_streams_by_chance(tmp_path: Path) -> None:
    """No two nodes, runs or sessions draw the same."""
    path = compiled(streams(None), tmp_path)
    drawn = [array.tobytes() for _ in range(3) for results in run(path, {}, 3) for array in results]
    assert len(set(drawn)) == len(drawn)


def test_streams_in_a_loop(tmp_path: Path) -> None:
    """Each turn draws on."""
    turn, goes, goes_on, drawn = (
        helper.make_tensor_value_info(name, dtype, shape)
        for name, dtype, shape in (("i", 7, []), ("c", 9, []), ("d", 9, []), ("drawn", 1, [4]))
    )
    nodes = [
        helper.make_node("RandomNormal", [], ["drawn"], shape=[4], seed=1.0),
        helper.make_node("Identity", ["c"], ["d"]),
    ]
    body = helper.make_graph(nodes, "body", [turn, goes], [goes_on, drawn])
    graph = Graph("")
    graph.output(graph("Loop", np.array(3), None, body=body))
    ((turns,),) = run(compiled(graph, tmp_path), graph.feeds)
    assert turns.shape == (3, 4) and len({row.tobytes() for row in turns}) == 3


@pytest.mark.skipif(bool(runners.missing_for_aarch64()), reason=runners.missing_for_aarch64())
def test_aarch64(tmp_path: Path) -> None:
    """Seeded streams are the same to the last bit on both instruction sets."""
    graph = Graph("")
    x = graph.input(np.random.default_rng(0).random((4, 9), np.float32))
    for dtype in (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16):
        for op in ("RandomNormalLike", "RandomUniformLike"):
            graph.output(graph(op, x, dtype=dtype, seed=8.0))
    graph.output(graph("Multinomial", x, sample_size=20, seed=9.0), graph("Bernoulli", x, seed=10.0))
    want = run(compiled(graph, tmp_path), graph.feeds)[0]
    path = compiled(graph, tmp_path, "rock5b")
    runners.embed(path, Golden([graph.feeds[x]], want, 0.0, 0.0))
    command = [runners.QEMU, "-cpu", "max", runners.device_tool(tmp_path), path, "--selftest"]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    chance = compiled(streams(None), tmp_path, "rock5b")
    command[-2:] = [chance, "--bench", "1"]
    subprocess.run(command, check=True, capture_output=True, timeout=300)


def test_nothing_judges_chance(tmp_path: Path) -> None:
    """There is no self-test, a wish for one and a comparison with ONNX Runtime are refused; passes are checked."""
    graph = streams(None)
    path = compiled(graph, tmp_path, verify_passes=True)
    with Artifact.open(path) as artifact:
        assert artifact.golden() == []
    with pytest.raises(ModelError, match="random numbers"):
        compiled(graph, tmp_path, golden=1)
    model = tmp_path / "model.onnx"
    model.write_bytes(serialize_untyped(graph))
    with pytest.raises(UsageError, match="random numbers"):
        verify(path, model)
