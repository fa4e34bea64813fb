"""Where buffers lie in the arena: offline dynamic storage allocation.

A buffer is live over an interval of steps; two buffers that are live at once must not overlap. The largest sum of
live sizes is a lower bound of the arena. Greedy best fit over a few orders reaches it on most networks (Pisarchyk, Lee:
"Efficient Memory Management for Deep Neural Net Inference", 2020); where it does not, a seeded local search over
the order goes on until the bound or its budget is reached.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

ALIGNMENT = 64
#: How many orders the local search tries.
SEARCH_BUDGET = 400


@dataclass(frozen=True)
class Lifetime:
    """A buffer of ``nbytes`` that steps ``first`` to ``last`` (inclusive) use."""

    nbytes: int
    first: int
    last: int

    @property
    def padded(self) -> int:
        return -(-self.nbytes // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True)
class Plan:
    """``offsets[i]`` places buffer i; ``live_set`` is the lower bound of ``arena``; both in bytes."""

    offsets: tuple[int, ...]
    arena: int
    live_set: int


def live_set(buffers: Sequence[Lifetime]) -> int:
    """The largest sum of sizes (rounded up to the alignment) that are live at one step."""
    changes: dict[int, int] = {}
    for buffer in buffers:
        changes[buffer.first] = changes.get(buffer.first, 0) + buffer.padded
        changes[buffer.last + 1] = changes.get(buffer.last + 1, 0) - buffer.padded
    current = peak = 0
    for step in sorted(changes):
        current += changes[step]
        peak = max(peak, current)
    return peak


def _place(buffers: Sequence[Lifetime], order: Sequence[int]) -> tuple[list[int], int]:
    """First fit in the given order: each buffer goes to the smallest gap that holds it among those it is live with."""
    offsets = [0] * len(buffers)
    placed: list[tuple[int, int, int, int]] = []  # offset, end, first, last; sorted by offset
    arena = 0
    for index in order:
        buffer = buffers[index]
        size = buffer.padded
        best, best_gap, cursor = -1, -1, 0
        for offset, end, first, last in placed:
            if last < buffer.first or first > buffer.last:
                continue
            gap = offset - cursor
            if gap >= size and (best < 0 or gap < best_gap):
                best, best_gap = cursor, gap
            cursor = max(cursor, end)
        if best < 0:
            best = cursor
        offsets[index] = best
        entry = (best, best + size, buffer.first, buffer.last)
        low, high = 0, len(placed)
        while low < high:
            middle = (low + high) // 2
            if placed[middle][0] < best:
                low = middle + 1
            else:
                high = middle
        placed.insert(low, entry)
        arena = max(arena, best + size)
    return offsets, arena


def plan(buffers: Sequence[Lifetime]) -> Plan:
    """Place ``buffers``; the same input gives the same plan."""
    bound = live_set(buffers)
    if not buffers:
        return Plan((), 0, 0)
    indices = range(len(buffers))
    orders = [
        sorted(indices, key=lambda i: (-buffers[i].padded, buffers[i].first)),
        sorted(indices, key=lambda i: (-(buffers[i].last - buffers[i].first), -buffers[i].padded)),
        sorted(indices, key=lambda i: (-buffers[i].padded * (buffers[i].last - buffers[i].first + 1), i)),
        sorted(indices, key=lambda i: (buffers[i].first, -buffers[i].padded)),
    ]
    best_order, (best, arena) = min(((o, _place(buffers, o)) for o in orders), key=lambda entry: entry[1][1])
    rng = random.Random(len(buffers))
    order = list(best_order)
    for _ in range(SEARCH_BUDGET if len(buffers) > 1 else 0):
        if arena <= bound:
            break
        candidate = list(order)
        moved = candidate.pop(rng.randrange(len(candidate)))
        candidate.insert(rng.randrange(len(candidate) + 1), moved)
        offsets, size = _place(buffers, candidate)
        if size <= arena:
            order, best, arena = candidate, offsets, size
    return Plan(tuple(best), arena, bound)
