"""The cases of the self-test that an artifact carries, and how its GOLDEN section holds them (docs/format.md)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from mcpc import dtypes
from mcpc._schema import GoldenCaseT, GoldenTensorT, MetaT
from mcpc.container import ALIGNMENT, Kind, damaged
from mcpc.draws import Draw, drawable, is_float, random_words
from mcpc.errors import RuntimeFault

Array = np.ndarray[Any, Any]

#: Tensors of more bytes are drawn or sampled where they can be.
STORED_BYTES = 64 * 1024

#: A wrong thousandth of the output, spread anyhow, is missed by the elements of so many blocks with a chance of 2 %,
#: three thousandths with 5e-6; one that is connected and as long as two blocks never is. The means tell what is wrong
#: in between, single elements as well where they are wrong by more than the block's tolerance.
BLOCKS = 4096


@dataclass(frozen=True)
class Samples:
    """What stands for a large tensor: of every ``block`` elements, row-major, the mean and one element."""

    shape: tuple[int, ...]
    block: int
    means: Array  # float64
    elements: Array

    @classmethod
    def of(cls, array: Array, block: int) -> Self:
        flat = np.ascontiguousarray(array).reshape(-1)
        return cls(array.shape, block, block_means(flat, block)[0], flat[places(flat.size, block)])

    @property
    def nbytes(self) -> int:
        return self.means.nbytes + self.elements.nbytes


def places(size: int, block: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Which element stands for each block of a tensor of ``size`` elements: one that the block's number tells."""
    first = np.arange(0, size, block)
    return first + (random_words(0, first.size) % np.minimum(block, size - first).astype(np.uint64)).astype(np.int64)


def block_means(flat: Array, block: int) -> tuple[Array, Array]:
    """The mean of each block and of its magnitudes, float64, summed from the first element to the last as in C."""
    first = np.arange(0, flat.size, block)
    sums, magnitudes = np.zeros(first.size), np.zeros(first.size)
    for step in range(min(block, flat.size)):
        inside = first[first + step < flat.size] + step
        values = flat[inside].astype(np.float64)
        with np.errstate(invalid="ignore"):
            sums[: inside.size] += values
        magnitudes[: inside.size] += np.abs(values)
    counts = np.minimum(block, flat.size - first)
    return sums / counts, magnitudes / counts


@dataclass(frozen=True)
class Golden:
    """A case of the self-test: all inputs and outputs of the model in order, row-major, and the tolerance."""

    inputs: Sequence[Array | Draw]
    outputs: Sequence[Array | Samples]
    rtol: float = 1e-3
    atol: float = 1e-5

    def feeds(self) -> list[Array]:
        """The inputs' elements. Raises RuntimeFault E605 as :func:`elements`."""
        return [elements(each) for each in self.inputs]


def elements(tensor: Array | Draw) -> Array:
    """Those of an input. Raises RuntimeFault E605 where there is no memory for what a file says is drawn."""
    if not isinstance(tensor, Draw):
        return tensor
    try:
        return tensor.array()
    except (MemoryError, ValueError) as error:  # numpy calls the largest sizes invalid
        raise RuntimeFault("E605", f"there is no memory for an input of the self-test: {error}") from None


def compact_input(array: Array, drawn: Draw | None) -> Array | Draw:
    """``drawn``, which ``array`` is made of, where the array is too large to be stored."""
    return drawn if drawn is not None and array.nbytes > STORED_BYTES and drawable(array.dtype) else array


def compact_output(array: Array) -> Array | Samples:
    """Samples, where the array is too large to be stored."""
    if array.nbytes <= STORED_BYTES or not drawable(array.dtype):
        return array
    return Samples.of(array, math.ceil(array.size / BLOCKS))


def encode_cases(cases: Sequence[Golden]) -> tuple[list[GoldenCaseT], list[Array | bytes]]:
    """The cases' metadata, and what lies behind each other in the section: tensors at multiples of its alignment."""
    chunks: list[Array | bytes] = []
    end = 0

    def place(index: int, tensor: Array | Draw | Samples) -> GoldenTensorT:
        nonlocal end
        described = GoldenTensorT(index=index, shape=list(tensor.shape))
        if isinstance(tensor, Draw):
            described.drawn, described.seed = True, tensor.seed
            described.scale, described.range = tensor.scale, tensor.range
            return described
        parts = [tensor.means, tensor.elements] if isinstance(tensor, Samples) else [tensor]
        described.block = tensor.block if isinstance(tensor, Samples) else 0
        padding = -end % ALIGNMENT[Kind.GOLDEN]
        described.offset, described.bytes = end + padding, tensor.nbytes
        chunks.extend([bytes(padding), *parts])
        end = described.offset + described.bytes
        return described

    described = [
        GoldenCaseT(
            inputs=[place(*each) for each in enumerate(case.inputs)],
            outputs=[place(*each) for each in enumerate(case.outputs)],
            rtol=case.rtol,
            atol=case.atol,
        )
        for case in cases
    ]
    return described, chunks


def decode_cases(meta: MetaT, data: bytes) -> list[Golden]:
    """The cases that ``meta`` describes and ``data``, the section's bytes, holds; FormatError E501 where one does not
    fit the other."""
    return [
        Golden(
            [_decode_input(data, *each) for each in _with_types(case.inputs or [], meta.inputs)],
            [_decode_output(data, *each) for each in _with_types(case.outputs or [], meta.outputs)],
            case.rtol,
            case.atol,
        )
        for case in meta.golden or []
    ]


def _with_types(tensors: Sequence[GoldenTensorT], declared: Sequence[Any]) -> list[tuple[GoldenTensorT, np.dtype[Any]]]:
    if [tensor.index for tensor in tensors] != list(range(len(declared))):
        raise damaged("a golden case does not hold every tensor once")
    if any(each.dtype not in dtypes.BY_CODE for each in declared):
        raise damaged("golden data are of no known type")
    if any(size < 0 for tensor in tensors for size in tensor.shape):
        raise damaged("golden data have a negative size")
    return [(tensor, dtypes.BY_CODE[each.dtype].numpy) for tensor, each in zip(tensors, declared, strict=True)]


def _decode_input(data: bytes, tensor: GoldenTensorT, dtype: np.dtype[Any]) -> Array | Draw:
    if not tensor.drawn:
        return _stored(data, tensor, dtype)
    if not drawable(dtype) or (not is_float(dtype) and tensor.range == 0):
        raise damaged("golden data cannot be drawn")
    return Draw(dtype, tuple(tensor.shape), tensor.seed, tensor.scale, tensor.range)


def _decode_output(data: bytes, tensor: GoldenTensorT, dtype: np.dtype[Any]) -> Array | Samples:
    if tensor.drawn:
        raise damaged("an expected output cannot be drawn")
    if tensor.block == 0:
        return _stored(data, tensor, dtype)
    blocks = -(-math.prod(tensor.shape) // tensor.block)
    if not drawable(dtype) or tensor.bytes != blocks * (8 + dtype.itemsize):
        raise damaged("golden data do not have the bytes of their blocks")
    means = _elements(data, tensor.offset, np.dtype(np.float64), blocks)
    elements = _elements(data, tensor.offset + means.nbytes, dtype, blocks)
    return Samples(tuple(tensor.shape), tensor.block, means, elements)


def _stored(data: bytes, tensor: GoldenTensorT, dtype: np.dtype[Any]) -> Array:
    if tensor.bytes != math.prod(tensor.shape) * dtype.itemsize:
        raise damaged("golden data do not have the bytes of their shape")
    return _elements(data, tensor.offset, dtype, math.prod(tensor.shape)).reshape(tensor.shape)


def _elements(data: bytes, offset: int, dtype: np.dtype[Any], count: int) -> Array:
    if offset + count * dtype.itemsize > len(data):
        raise damaged("golden data lie outside their section")
    return np.frombuffer(data, dtype, count, offset)
