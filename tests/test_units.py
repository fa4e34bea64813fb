"""Numbers as people read them."""

from __future__ import annotations

from mcpc.units import duration, size


def test_size() -> None:
    sizes = [size(count) for count in (0, 1023, 1024, 1536 * 1024, 5 * 1024**3)]
    assert sizes == ["0 B", "1023 B", "1.0 KiB", "1.5 MiB", "5.0 GiB"]


def test_duration() -> None:
    assert [duration(us) for us in (0.25, 999.9, 1250)] == ["0.2 µs", "999.9 µs", "1.25 ms"]
