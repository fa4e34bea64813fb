"""Numbers with units, for people."""

from __future__ import annotations


def size(count: float) -> str:
    """Bytes: '17 B', '4.2 KiB', '13.5 MiB'."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def duration(microseconds: float) -> str:
    """'3.2 µs', '1.25 ms'."""
    return f"{microseconds:.1f} µs" if microseconds < 1000 else f"{microseconds / 1000:.2f} ms"
