"""Packed weights for processors that add two products of bytes in 16 bits, with saturation (PAIRS of gemm_i8.h)."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

#: The orders in which a tile holds each four of its columns: all ways to make two pairs of them.
ORDERS = ((0, 1, 2, 3), (0, 2, 1, 3), (0, 3, 1, 2))

#: Columns that share a list of steps, BYTE_WIDTH of gemm_i8.h: the fewer, the more often all of them fit.
COLUMNS = 8

#: Two products of a byte without sign and weights of one sign fit into 16 bits where these add up to no more.
MOST = 128


def in_steps(packed: Array) -> tuple[Array, Array, Array]:
    """What stands for int8 weights [panels, K / 4, columns, 4]: int8 steps [steps, COLUMNS, 4] none of which can
    saturate, int32 ``starts`` of the lists, one more than there are, and int32 ``places`` [steps]. The columns of a
    panel, a multiple of COLUMNS, are in as many lists one behind the other."""
    panels, groups, columns = packed.shape[:3]
    split = packed.reshape(panels, groups, columns // COLUMNS, COLUMNS, 4).swapaxes(1, 2)
    panels *= columns // COLUMNS
    packed = split.reshape(panels, groups, COLUMNS, 4)
    order = np.full((panels, groups), -1)
    for index in reversed(range(len(ORDERS))):
        order[_fits(packed[..., ORDERS[index]])] = index
    is_zero = ~packed.any((2, 3))
    count = np.where(is_zero, 0, np.where(order < 0, 2, 1))
    starts = np.concatenate([[0], np.cumsum(count.sum(1))]).astype(np.int32)
    panel, group = np.nonzero(count)
    repeats = count[panel, group]
    panel, group = np.repeat(panel, repeats), np.repeat(group, repeats)
    half = np.concatenate([np.arange(n) for n in repeats]) if len(repeats) else np.zeros(0, np.int64)
    chosen = np.maximum(order[panel, group], 0)
    steps = np.take_along_axis(packed[panel, group], np.array(ORDERS)[chosen][:, None, :], 2)
    split = order[panel, group] < 0
    steps[split & (half == 0), :, 1::2] = 0
    steps[split & (half == 1), :, 0::2] = 0
    return steps, starts, (chosen * groups + group).astype(np.int32)


def _fits(packed: Array) -> Array:
    """Which groups of four rows hold no pair that can saturate."""
    pairs = packed.reshape(*packed.shape[:-1], 2, 2).astype(np.int16)
    low, high = np.minimum(pairs, 0).sum(-1), np.maximum(pairs, 0).sum(-1)
    fits: Array = ((-low <= MOST) & (high <= MOST)).all((2, 3))
    return fits
