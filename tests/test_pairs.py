"""Steps of packed weights in which no pair of products can saturate 16 bits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpc.plugins import find_target
from mcpc.targets.native.pairs import COLUMNS, ORDERS, in_steps


@given(
    st.integers(0, 3), st.integers(0, 5), st.integers(0, 2**32), st.sampled_from([(-128, 127), (-60, 60), (127, 127)])
)
def test_steps_add_up_to_the_weights(panels: int, groups: int, seed: int, limits: tuple[int, int]) -> None:
    rng = np.random.default_rng(seed)
    packed = rng.integers(*limits, (panels, groups, 16, 4), np.int8, endpoint=True)
    packed[rng.random((panels, groups)) < 0.2] = 0
    steps, starts, places = in_steps(packed)
    assert steps.shape == (len(places), COLUMNS, 4) and starts[-1] == len(places) and len(starts) == 2 * panels + 1
    pairs = steps.reshape(-1, 2, 2).astype(int)
    assert (np.minimum(pairs, 0).sum(-1) * 255 >= -(2**15)).all() and (np.maximum(pairs, 0).sum(-1) * 255 < 2**15).all()
    whole = np.zeros(packed.shape, int)
    for index in range(2 * panels):
        panel, columns = index // 2, slice(COLUMNS) if index % 2 == 0 else slice(COLUMNS, 16)
        for step in range(starts[index], starts[index + 1]):
            order, group = divmod(int(places[step]), groups)
            whole[panel, group, columns][:, list(ORDERS[order])] += steps[step]
    assert (whole == packed).all()


def test_small_weights_are_one_step_a_group() -> None:
    packed = np.random.default_rng(0).integers(-64, 65, (3, 9, 16, 4)).astype(np.int8)
    assert np.array_equal(in_steps(packed)[1], 9 * np.arange(7))


@pytest.mark.parametrize("name", ["x86-64-v3", "x86-64-v4", "aarch64", "rock5b", "rpi5"])
def test_targets_say_whether_their_processors_saturate(name: str) -> None:
    """All variants of a target share its weights: AVX2 has pmaddubsw only, AVX-512 and AArch64 do without."""
    target = find_target(name)
    saturates = {"avx2" in each.features and "avx512bw" not in each.features for each in target.variants}
    assert saturates == {target.saturating_pairs}
