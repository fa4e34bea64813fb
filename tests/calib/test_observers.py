"""Observers: the ranges they find, counts that depend on neither order nor batches, and odd numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from mcpc.calib.histogram import Histogram
from mcpc.calib.observers import OBSERVERS, Percentile, squared_error

Array = np.ndarray[Any, Any]

FLOATS = arrays.arrays(
    np.float32, st.integers(1, 50), elements=st.floats(-(2.0**100), 2.0**100, width=32, allow_nan=False)
)


def found(method: str, samples: Sequence[Array]) -> tuple[float, float] | None:
    observer = OBSERVERS[method]()
    for each in samples:
        observer.observe(each)
    return observer.range()


def rounded(x: Array, low: float, high: float) -> Array:
    """x by 255 even steps from low to high, 0 among them."""
    step = (high - low) / 255
    return np.asarray(np.clip(np.round(x / step), np.round(low / step), np.round(high / step)) * step)


@pytest.mark.parametrize("method", OBSERVERS)
def test_ranges_lie_within_what_was_seen(method: str) -> None:
    rng = np.random.default_rng(1)
    samples = [rng.normal(1.0, 2.0, 500).astype(np.float32) for _ in range(8)]
    low, high = found(method, samples) or (np.nan, np.nan)
    assert min(each.min() for each in samples) <= low < -2 and 4 < high <= max(each.max() for each in samples)


def test_minmax_is_the_extremes_and_moving_average_their_means() -> None:
    samples = [np.array([-1.0, 0.0, 3.0], np.float32), np.array([-3.0, 1.0], np.float32)]
    assert found("minmax", samples) == (-3.0, 3.0)
    assert found("moving-average", samples) == (-2.0, 2.0)


def test_percentile_leaves_out_the_outermost() -> None:
    x = np.arange(100_000, dtype=np.float32)
    low, high = found("percentile", [x]) or (np.nan, np.nan)
    assert low == pytest.approx(5, abs=1) and high == pytest.approx(99_994, rel=1e-3)


def test_percentile_takes_no_notice_of_one_huge_outlier() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=100_000).astype(np.float32)
    low, high = found("percentile", [x, np.array([1e30], np.float32)]) or (np.nan, np.nan)
    assert -5 < low < -3 and 3 < high < 5


@pytest.mark.parametrize("draw", ["normal", "laplace", "exponential"])
def test_mse_errs_less_than_all_other_methods(draw: str) -> None:
    x = getattr(np.random.default_rng(3), draw)(size=200_000).astype(np.float32)
    errors = {}
    for method in OBSERVERS:
        low, high = found(method, [x]) or (np.nan, np.nan)
        errors[method] = float(np.square(rounded(x, min(low, 0.0), max(high, 0.0)) - x).mean())
    assert errors["mse"] <= 1.01 * min(errors.values()), errors


def test_entropy_clips_a_long_thin_tail() -> None:
    rng = np.random.default_rng(4)
    x = np.concatenate([rng.normal(size=100_000), rng.uniform(50, 400, 20)]).astype(np.float32)
    _, high = found("entropy", [x]) or (np.nan, np.nan)
    assert 3 < high < 100


@pytest.mark.parametrize("method", OBSERVERS)
def test_constant_zero_and_non_finite_numbers(method: str) -> None:
    assert found(method, [np.full((2, 3), 2.5, np.float32)]) == (2.5, 2.5)
    assert found(method, [np.zeros(5, np.float32)]) == (0.0, 0.0)
    assert found(method, [np.array([np.nan, np.inf, -np.inf], np.float32)]) is None
    assert found(method, [np.zeros(0, np.float32)]) is None
    observer = OBSERVERS[method]()
    observer.observe(np.array([1.0, np.nan, -2.0, np.inf], np.float32))
    assert observer.ignored == 2
    low, high = observer.range() or (np.nan, np.nan)
    assert -2 <= low <= high <= 1


@pytest.mark.parametrize("method", OBSERVERS)
@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_other_float_types(method: str, dtype: Any) -> None:
    low, high = found(method, [np.linspace(-1, 1, 1001).astype(dtype)]) or (np.nan, np.nan)
    assert -1 <= low < -0.9 and 0.9 < high <= 1


@given(st.lists(FLOATS, min_size=1, max_size=5))
def test_counts_depend_on_neither_order_nor_batches(samples: list[Array]) -> None:
    one, other = Histogram(), Histogram()
    for each in samples:
        one.add(each)
    other.add(np.concatenate(samples)[::-1])
    for mine, theirs in zip(one.bins(), other.bins(), strict=True):
        assert np.array_equal(mine, theirs)


@given(FLOATS)
def test_every_number_lies_in_a_bin(x: Array) -> None:
    histogram = Histogram()
    histogram.add(x)
    lower, upper, counts = histogram.bins()
    assert counts.sum() == x.size
    assert ((lower <= upper).all()) and (lower[1:] >= lower[:-1]).all()
    wide = x.astype(np.float64)[:, None]
    assert ((lower <= wide) & (wide <= upper)).any(axis=1).all()
    assert float(x.min()) <= histogram.quantile(0.5) <= float(x.max())


@given(FLOATS, st.integers(1, 8))
def test_a_spread_loses_nothing(x: Array, parts: int) -> None:
    histogram = Histogram()
    histogram.add(x)
    borders = np.linspace(float(x.min()), max(float(x.max()), float(x.min()) + 1e-3), parts + 1)
    assert histogram.spread(borders).sum() == pytest.approx(x.size)


def test_what_is_usual_is_told_apart_from_outliers() -> None:
    x = np.random.default_rng(7).uniform(-1, 1, 30_000).astype(np.float32)
    for method in OBSERVERS:
        observer = OBSERVERS[method]()
        observer.observe(x * np.float32(0.9))
        assert observer.usual() == 1.0
        observer.observe(np.array([1e30, np.inf, np.nan], np.float32))
        observer.observe(np.zeros(1_000_000, np.float32))
        assert observer.usual() == 1.0, method
    observer = OBSERVERS["minmax"]()
    assert observer.usual() == 0.0
    for largest in (np.finfo(np.float32).max, np.finfo(np.float32).tiny):
        observer = OBSERVERS["minmax"]()
        observer.observe(np.array([largest]))
        assert float(largest) < observer.usual() <= 2 * float(largest)
    observer = OBSERVERS["minmax"]()
    observer.observe(np.array([1e-44], np.float32))
    assert observer.usual() == 0.0


def test_squared_error_is_that_of_rounding() -> None:
    x = np.random.default_rng(5).normal(size=100_000).astype(np.float32)
    histogram = Histogram()
    histogram.add(x)
    for low, high in ((-4.0, 4.0), (-1.0, 2.0), (0.0, 3.0), (-0.5, 0.25)):
        exact = float(np.square(rounded(x, low, high) - x.astype(np.float64)).sum())
        assert squared_error(histogram.bins(), low, high) == pytest.approx(exact, rel=0.02)


def test_an_observer_takes_no_more_memory_with_more_samples() -> None:
    import tracemalloc

    observer = Percentile()
    x = np.random.default_rng(6).normal(size=10_000).astype(np.float32)
    observer.observe(x)
    tracemalloc.start()
    for _ in range(1000):
        observer.observe(x)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 100_000
