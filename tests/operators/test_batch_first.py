"""Layout 1 of the recurrent operators, which no judge knows in full, is layout 0 with its tensors transposed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mcpc

from .families.recurrent import FORMS
from .graphs import Graph, serialize_untyped
from .graphs import Weight as W

TIME, BATCH, SIZE, HIDDEN = 5, 3, 4, 9


def swapped(array: Any) -> Any:
    return np.ascontiguousarray(np.swapaxes(array, 0, 1))


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op", FORMS)
def test_batch_first(op: str, direction: str, tmp_path: Path) -> None:
    gates, states = FORMS[op]
    directions = 2 if direction == "bidirectional" else 1
    g = Graph(f"{op} {direction}/")
    x, *first = (g.draw(*shape) for shape in [(TIME, BATCH, SIZE), *[(directions, BATCH, HIDDEN)] * states])
    weights = [
        W(g.draw(directions, *shape))
        for shape in ((gates * HIDDEN, SIZE), (gates * HIDDEN, HIDDEN), (2 * gates * HIDDEN,))
    ]
    lengths = g.input(np.array([2, 5, 0], np.int32))
    attrs = {"hidden_size": HIDDEN, "direction": direction, "outputs": 1 + states}
    g.output(*g(op, x, *weights, lengths, *first, **attrs))
    g.output(*g(op, swapped(x), *weights, lengths, *map(swapped, first), layout=1, **attrs))
    path = mcpc.compile(serialize_untyped(g), "host", tmp_path / "a.mcp26bin", golden=0)
    with mcpc.load(path) as session:
        results = session.run(None, g.feeds)
    y, *last = results[: 1 + states]
    np.testing.assert_array_equal(results[1 + states], y.transpose(2, 0, 1, 3))
    for got, want in zip(results[2 + states :], last, strict=True):
        np.testing.assert_array_equal(got, swapped(want))
