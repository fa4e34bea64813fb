"""How far noise as small as rounding moves outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mcpc.sensitivity import NOISE, TRIES, moved_by_rounding

Array = np.ndarray[Any, Any]


def identity(feeds: Mapping[str, Array]) -> list[Array]:
    return list(feeds.values())


def test_noise_is_that_of_rounding_and_repeats() -> None:
    x = {"x": np.full(1000, 8.0, np.float32)}
    moved = moved_by_rounding(identity, x, identity(x), 1.0)
    assert 2 * 8 * NOISE < moved < 6 * 8 * NOISE
    assert moved == moved_by_rounding(identity, x, identity(x), 1.0)


def test_ill_conditioned_networks_are_tried_more_often_and_move_far() -> None:
    calls: list[Mapping[str, Array]] = []

    def steps(feeds: Mapping[str, Array]) -> list[Array]:
        """Rounding decides the step of a whole number."""
        calls.append(feeds)
        return [np.floor(feeds["x"]), np.zeros(3, np.int64)]

    on_edge = {"x": np.arange(1, 9, dtype=np.float32)}
    between = {"x": on_edge["x"] + np.float32(0.5)}
    assert moved_by_rounding(steps, on_edge, steps(on_edge), 0.1) == 1
    assert len(calls) == 1 + TRIES
    assert moved_by_rounding(steps, between, steps(between), 0.1) == 0
    assert len(calls) == 1 + TRIES + 2


def test_integers_and_infinities_stay_what_they_are() -> None:
    feeds: dict[str, Array] = {"i": np.arange(3), "x": np.array([np.inf, np.nan, 0.0], np.float32)}
    assert moved_by_rounding(identity, feeds, identity(feeds), 0.0) == 0
