"""Iteration spaces: the dimensions that a loop nest runs over, with each operand's step in every one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mcpc.ir import Dim, TensorType, dim


def broadcast_strides(operand: TensorType, result: TensorType) -> tuple[Dim, ...]:
    """Elements that ``operand`` steps per dimension of ``result``; 0 where it is broadcast."""
    missing = len(result.dims) - len(operand.dims)
    own = operand.strides
    return tuple(
        0 if axis < missing or operand.dims[axis - missing] == 1 else own[axis - missing]
        for axis in range(len(result.dims))
    )


@dataclass(frozen=True)
class Space:
    """``sizes`` outermost first; ``strides[i]`` are operand i's, in elements."""

    sizes: tuple[Dim, ...]
    strides: tuple[tuple[Dim, ...], ...]


def space(result: TensorType, operands: Sequence[tuple[Dim, ...]]) -> Space:
    """``result`` in memory order with neighbours merged where that is one dimension for every operand.

    ``operands`` are strides in the order of ``result.shape``; dimensions of size 1 vanish.
    """
    sizes: list[Dim] = []
    strides: list[list[Dim]] = []
    for axis in result.order:
        size = result.dims[axis]
        if size == 1:
            continue
        steps = [operand[axis] for operand in operands]
        if sizes and all(dim(step * size) == last for step, last in zip(steps, strides[-1], strict=True)):
            sizes[-1] = dim(sizes[-1] * size)
            strides[-1] = steps
        else:
            sizes.append(size)
            strides.append(steps)
    if not sizes:
        sizes, strides = [1], [[1] * len(operands)]
    columns = list(zip(*strides, strict=True)) if operands else []
    return Space(tuple(sizes), tuple(tuple(column) for column in columns))


def rows_and_columns(result: TensorType, operand: TensorType) -> tuple[Dim, Dim] | None:
    """The steps (per row, per column) with which ``operand`` is read when ``result`` is seen as a matrix whose
    columns are the innermost dimension in memory; None where no two steps describe it."""
    steps = broadcast_strides(operand, result)
    *outer, inner = result.order if result.order else (0,)
    if not result.order:
        return (0, 0)
    rows = [(result.dims[axis], steps[axis]) for axis in outer if result.dims[axis] != 1]
    row_step: Dim = rows[-1][1] if rows else 0
    expected = row_step
    for size, step in reversed(rows):
        if step != expected:
            return None
        expected = dim(step * size)
    return row_step, steps[inner]


#: Elements from item to item of batch, heads, rows and columns.
Steps = tuple[Dim, Dim, Dim, Dim]


def steps_of(type: TensorType) -> Steps:
    """The steps of a tensor [batch, heads, rows, columns], of which leading dimensions may be missing; 0 where its
    batch or heads are broadcast."""
    leading = [0 if size == 1 else step for size, step in zip(type.dims[:-2], type.strides[:-2], strict=True)]
    steps: list[Dim] = [*[0] * (2 - len(leading)), *leading, *type.strides[-2:]]
    return steps[0], steps[1], steps[2], steps[3]
