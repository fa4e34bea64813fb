"""Data that lead out of bounds: a fault that says where, after which the session goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mcpc
from mcpc.errors import RuntimeFault

from .graphs import Graph, serialize_untyped
from .graphs import Weight as W


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of a table that has 7, by index."""
    g = Graph("")
    indices = g.input(np.zeros(4, np.int64))
    rows = g("Gather", W((7, 3)), indices)
    g.output(g("Softmax", rows))
    path: Path = mcpc.compile(serialize_untyped(g), "host", tmp_path_factory.mktemp("faults") / "a.mcp26bin", golden=0)
    return path


@pytest.mark.parametrize("index", [7, -8, 2**40, -(2**63)])
def test_index_out_of_bounds(artifact: Path, index: int) -> None:
    with mcpc.load(artifact) as session:
        (name,) = (each.name for each in session.get_inputs())
        with pytest.raises(RuntimeFault) as fault:
            session.run(None, {name: np.array([0, 6, index, 1], np.int64)})
        assert fault.value.code == "E603"
        assert str(index) in fault.value.message
        assert "7" in fault.value.message
        (y,) = session.run(None, {name: np.array([0, 6, -7, 1], np.int64)})
        np.testing.assert_array_equal(y[0], y[2])


def test_division_by_zero_is_no_fault(tmp_path: Path) -> None:
    """ONNX leaves it open; the process must live."""
    g = Graph("")
    a, b = (g.input(np.array(values, np.int32)) for values in ([5, -5, -(2**31), 0], [0, 0, -1, 0]))
    g.output(g("Div", a, b), g("Mod", a, b))
    path = mcpc.compile(serialize_untyped(g), "host", tmp_path / "a.mcp26bin", golden=0)
    with mcpc.load(path) as session:
        quotient, rest = session.run(None, g.feeds)
    assert quotient.tolist() == [0, 0, -(2**31), 0]
    assert rest.tolist() == [0, 0, 0, 0]


INDICES = np.array([[0], [3], [1]])
#: Operator, what comes before its indices, its indices, what comes after; 4 is the first index that is too large.
INDEXED = {
    "GatherElements": ((4, 2), np.zeros((3, 2), np.int64), ()),
    "GatherND": ((4, 2), INDICES, ()),
    "ScatterElements": ((4, 2), np.zeros((3, 2), np.int64), ((3, 2),)),
    "ScatterND": ((4, 2), INDICES, ((3, 2),)),
}


@pytest.mark.parametrize("index", [4, -5, 2**62, -(2**63)])
@pytest.mark.parametrize("op", INDEXED)
def test_places_out_of_bounds(op: str, index: int, tmp_path: Path) -> None:
    data, indices, updates = INDEXED[op]
    g = Graph("")
    indices = indices.copy()
    places = g.input(indices)
    g.output(g(op, g.input(data), places, *(g.input(shape) for shape in updates)))
    path = mcpc.compile(serialize_untyped(g), "host", tmp_path / "a.mcp26bin", golden=0)
    with mcpc.load(path) as session:
        for good in (0, 3, -4):
            indices[1] = good
            session.run(None, {**g.feeds, places: indices})
        indices[1] = index
        with pytest.raises(RuntimeFault) as fault:
            session.run(None, {**g.feeds, places: indices})
    assert fault.value.code == "E603"
    assert str(index) in fault.value.message


@pytest.mark.parametrize(
    ("op", "operands", "bad"),
    [
        ("TopK", [(3, 4), np.array([4])], [5, -1, 2**62, -(2**63)]),
        ("ReduceSum", [(3, 4), np.array([1])], [2, -3, 2**62]),
        ("CumSum", [(3, 4), np.array(1)], [2, -3, 2**62]),
        ("OneHot", [np.array([1, 2]), np.array(4), np.array([0, 1], np.float32)], [-1, -(2**63)]),
        ("Range", [np.array(0), np.array(9), np.array(3)], [0]),
        ("Slice", [(3, 4), *map(np.array, ([0], [1], [1]))], [2, -3, 2**62, -(2**63)]),
        ("Slice", [(3, 4), *map(np.array, ([0, 0], [1, 1], [0, 1]))], [0, 1]),
        ("Pad", [(3, 4), np.array([1, 1]), np.array(0, np.float32), np.array([1])], [2, -3, 2**62]),
        ("Pad", [(3, 4), np.array([1, 1, 1, 1])], [-5, 2**62, -(2**63)]),
        ("Squeeze", [(3, 1, 2), np.array([1])], [0, 3, -4, 2**62]),
        ("Unsqueeze", [(3, 4), np.array([1])], [3, -4, 2**62]),
        ("Unsqueeze", [(3, 4), np.array([1, 2])], [1, 2]),
        ("DFT", [(2, 8, 1), np.array(8), np.array(1)], [-1, 2, -4, 2**62]),
        ("DFT", [(2, 8, 1), np.array(8)], [0, -1, -(2**63)]),
        ("STFT", [(1, 32, 1), np.array(4), np.ones(8, np.float32)], [0, -1, -(2**63)]),
        ("STFT", [(1, 32, 1), np.array(4), np.ones(8, np.float32), np.array(8)], [7, 0, -1, 2**62]),
        ("Col2Im", [(1, 4, 9), np.array([4, 4]), np.array([2, 2])], [0, -1, 3, 1, 2**62]),
    ],
    ids=str,
)
def test_operands_out_of_bounds(op: str, operands: list[Any], bad: list[int], tmp_path: Path) -> None:
    """What an operator is told to do, at run time, by its last integer operand."""
    g = Graph("")
    names = [g.input(operand) for operand in operands]
    outputs = g(op, *names, outputs=2 if op == "TopK" else 1)
    g.output(*([outputs] if isinstance(outputs, str) else outputs))
    path = mcpc.compile(serialize_untyped(g), "host", tmp_path / "a.mcp26bin", golden=0)
    told = next(name for name in reversed(names) if g.feeds[name].dtype.kind == "i")
    with mcpc.load(path) as session:
        session.run(None, g.feeds)
        for number in bad:
            with pytest.raises(RuntimeFault) as fault:
                session.run(None, {**g.feeds, told: np.full_like(g.feeds[told], number)})
            assert fault.value.code == "E603"
        session.run(None, g.feeds)


@pytest.mark.parametrize("place", [-1, 16, 2**60])
def test_places_beyond_an_image(place: int, tmp_path: Path) -> None:
    g = Graph("")
    places = g.input(np.arange(4).reshape(1, 1, 2, 2))
    g.output(g("MaxUnpool", (1, 1, 2, 2), places, kernel_shape=[2, 2], strides=[2, 2]))
    path = mcpc.compile(serialize_untyped(g), "host", tmp_path / "a.mcp26bin", golden=0)
    with mcpc.load(path) as session, pytest.raises(RuntimeFault, match=str(place)):
        session.run(None, {**g.feeds, places: np.array([[[[0, 1], [place, 2]]]])})


@pytest.mark.parametrize("item", [-1, 2, 2**40])
def test_regions_of_no_image(item: int, tmp_path: Path) -> None:
    g = Graph("")
    items = g.input(np.zeros(1, np.int64))
    g.output(g("RoiAlign", (2, 3, 4, 4), np.array([[0, 0, 2, 2]], np.float32), items))
    path = mcpc.compile(serialize_untyped(g), "host", tmp_path / "a.mcp26bin", golden=0)
    with mcpc.load(path) as session, pytest.raises(RuntimeFault, match=str(item)):
        session.run(None, {**g.feeds, items: np.array([item])})


@pytest.mark.parametrize("scale", [np.nan, -1.0, 1e30])
def test_scales_that_give_no_size(scale: float, tmp_path: Path) -> None:
    g = Graph("")
    scales = g.input(np.ones(2, np.float32))
    g.output(g("Resize", (3, 4), None, scales))
    path = mcpc.compile(serialize_untyped(g), "host", tmp_path / "a.mcp26bin", golden=0)
    with mcpc.load(path) as session:
        with pytest.raises(RuntimeFault) as fault:
            session.run(None, {**g.feeds, scales: np.array([1, scale], np.float32)})
        assert fault.value.code == "E603"
        assert session.run(None, g.feeds)[0].shape == (3, 4)
