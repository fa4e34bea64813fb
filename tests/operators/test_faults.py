"""Data that lead out of bounds: a fault that says where, after which the session goes on."""

from __future__ import annotations

from pathlib import Path

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
