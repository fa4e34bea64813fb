"""Fourier transforms and windows, declared by the products with constant matrices that they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mcpc.ir import OPSET, Dim, DType, Value
from mcpc.ops.context import attribute, axis_of, fail, show
from mcpc.ops.contrib import Expansion, stands_for

Array = np.ndarray[Any, Any]

#: Elements of the largest matrix: a transform of 4,096 real samples to one side of the spectrum.
MOST_ELEMENTS = 1 << 24


def _number(e: Expansion, index: int) -> int | None:
    """The integer that an input holds; None where it is left out, E108 where only data can show."""
    value = e.node.input(index)
    if value is None:
        return None
    contents = e.context.contents(value)
    if contents is None or contents.size != 1 or not isinstance(contents.item(), int):
        fail(e.node, f"input {index} (%{value.name}) must be constant", "E108")
    return int(contents.item())


def _length(e: Expansion, size: Dim) -> int:
    if not isinstance(size, int):
        fail(e.node, f"the length of the transform is not known: {size}", "E108", hint="fix it with --input-shape")
    return size


def fourier_matrix(n: int, samples: int, bins: int, parts: int) -> Array:
    """[samples, parts, bins, 2]: what each part (real, imaginary) of a sample adds to each part of a bin of a transform
    of length ``n``."""
    turns = np.outer(np.arange(samples), np.arange(bins)) % n
    cosine, sine = np.cos(2 * np.pi * turns / n), np.sin(2 * np.pi * turns / n)
    rows = [np.stack([cosine, -sine], -1), np.stack([sine, cosine], -1)]
    return np.stack(rows[:parts], 1)


def inverse_matrix(n: int, samples: int) -> Array:
    """[samples, 2, n, 2]: from the whole spectrum."""
    forward = fourier_matrix(n, samples, n, 2)
    result: Array = forward * np.array([[[1, -1]], [[-1, 1]]]) / n  # the sign of every sine
    return result


def real_inverse_matrix(n: int, samples: int) -> Array:
    """[samples, 2, n, 1]: from one side of the spectrum of a real signal. What has a mirror image counts twice."""
    weight = np.array([1 if 2 * k in (0, n) else 2 for k in range(samples)])
    result: Array = inverse_matrix(n, samples)[..., :1] * weight[:, None, None, None]
    return result


def _constant(e: Expansion, matrix: Array, like: DType) -> Value:
    if matrix.size > MOST_ELEMENTS:
        e.refuse(f"a matrix of {matrix.size} elements, more than {MOST_ELEMENTS},")
    return e.graph.constant(f"{e.node.name}.matrix", matrix.astype(like.numpy))


@stands_for("DFT", domain="", versions=(17, OPSET))
def dft(e: Expansion) -> Sequence[Value | None]:
    """[..., n, ..., parts] → [..., bins, ..., parts]: one product with a constant matrix."""
    x = e.input(0)
    if x.type.rank is None:
        fail(e.node, f"the rank of %{x.name} is not known", "E108")
    rank, parts = x.type.rank, x.type.dims[-1] if x.type.dims else 0
    if rank < 2 or parts not in (1, 2):
        fail(e.node, f"{show(x.type)} holds no real or complex signals")
    given = _number(e, 2)
    axis = axis_of(e.node, -2 if given is None else given, rank)
    if axis == rank - 1:
        fail(e.node, "a transform over the parts of complex numbers")
    is_inverse, is_onesided = attribute(e.node, "inverse", 0), attribute(e.node, "onesided", 0)
    if is_onesided and parts != 1 + bool(is_inverse):
        fail(e.node, f"a one-sided transform of {show(x.type)}")
    size = x.type.dims[axis]
    n = _number(e, 1)
    if n is None:
        n = 2 * (_length(e, size) - 1) if is_inverse and is_onesided else _length(e, size)
    if n < 1:
        fail(e.node, f"a transform of length {n}")
    used = min(n // 2 + 1 if is_inverse and is_onesided else n, _length(e, size))
    if is_inverse:
        matrix = real_inverse_matrix(n, used) if is_onesided else inverse_matrix(n, used)[:, : int(parts)]
    else:
        matrix = fourier_matrix(n, used, n // 2 + 1 if is_onesided else n, int(parts))
    perm = [*(other for other in range(rank - 1) if other != axis), axis, rank - 1]
    back = [*range(axis), rank - 2, *range(axis, rank - 2), rank - 1]
    moved = x if axis == rank - 2 else e("Transpose", x, perm=perm)
    if used != size:
        moved = e("Slice", moved, e.ints(0), e.ints(used), e.ints(rank - 2))
    leading = [0] * (rank - 2)
    flat = e("Reshape", moved, e.ints(*leading, used * int(parts)))
    *_, bins, kinds = matrix.shape
    result = e("MatMul", flat, _constant(e, matrix.reshape(used * int(parts), bins * kinds), x.dtype))
    result = e("Reshape", result, e.ints(*leading, bins, kinds))
    return [result if axis == rank - 2 else e("Transpose", result, perm=back)]


@stands_for("STFT", domain="", versions=(17, OPSET))
def stft(e: Expansion) -> Sequence[Value | None]:
    """signal [batch, length, parts] → [batch, frames, bins, 2]: a convolution whose channels are the bins' parts."""
    x, window = e.input(0), e.node.input(2)
    if x.type.rank != 3 or x.type.dims[-1] not in (1, 2):
        fail(e.node, f"{show(x.type)} is no batch of real or complex signals")
    parts = int(x.type.dims[-1])
    step, n = _number(e, 1), _number(e, 3)
    if n is None:
        n = _length(e, x.type.dims[1] if window is None else window.type.dims[0])
    if step is None or step < 1 or n < 1:
        fail(e.node, f"frames of {n} samples, {step} apart")
    bins = n // 2 + 1 if attribute(e.node, "onesided", 1) else n
    matrix = fourier_matrix(n, n, bins, parts).reshape(n, parts, 2 * bins).transpose(2, 1, 0)
    if window is not None and window.data is not None:
        matrix = matrix * window.data
    weights = _constant(e, matrix, x.dtype)
    if window is not None and window.data is None:
        weights = e("Mul", weights, window)
    result = e("Conv", e("Transpose", x, perm=[0, 2, 1]), weights, strides=[step])
    return [e("Reshape", e("Transpose", result, perm=[0, 2, 1]), e.ints(0, 0, bins, 2))]


#: Windows: the weights of the cosines of 0, 1, 2 turns.
WINDOWS = {
    "HannWindow": (0.5, -0.5, 0.0),
    "HammingWindow": (25 / 46, -21 / 46, 0.0),
    "BlackmanWindow": (0.42, -0.5, 0.08),
}


@stands_for(*WINDOWS, domain="", versions=(17, OPSET))
def window(e: Expansion) -> Sequence[Value | None]:
    size = _number(e, 0)
    if size is None:
        fail(e.node, "input 0 is missing")
    turns = np.arange(size) / max(size if attribute(e.node, "periodic", 1) else size - 1, 1)
    weights = sum(weight * np.cos(2 * np.pi * k * turns) for k, weight in enumerate(WINDOWS[e.node.op]))
    return [e.graph.constant(e.node.name, np.asarray(weights).astype(_datatype(e).numpy))]


@stands_for("MelWeightMatrix", domain="", versions=(17, OPSET))
def mel_weight_matrix(e: Expansion) -> Sequence[Value | None]:
    """bands, length of the transform, sample rate, lowest and highest frequency → [length / 2 + 1, bands]: triangles
    whose corners are evenly spaced on the mel scale, in whole bins of the spectrum."""
    numbers = [value.data.item() for value in e.node.inputs if value is not None and value.data is not None]
    if len(numbers) != 5:
        fail(e.node, "all inputs must be constant", "E108")
    bands, length, rate, lowest, highest = numbers
    low, high = (2595 * np.log10(1 + frequency / 700) for frequency in (lowest, highest))
    mels = low + np.arange(bands + 2) * (high - low) / (bands + 2)
    corners = ((length + 1) * 700 * (10 ** (mels / 2595) - 1) // rate).astype(int)
    bins = np.arange(length // 2 + 1)
    matrix = np.zeros((len(bins), bands))
    for band, (left, center, right) in enumerate(zip(corners, corners[1:], corners[2:], strict=False)):
        rising, falling = (bins >= left) & (bins <= center), (bins >= center) & (bins < right)
        matrix[rising, band] = (bins[rising] - left) / (center - left) if center > left else 1
        matrix[falling, band] = (right - bins[falling]) / (right - center) if right > center else 0
    return [e.graph.constant(e.node.name, matrix.astype(_datatype(e).numpy))]


def _datatype(e: Expansion) -> DType:
    dtype = e.node.attrs.get("output_datatype", DType.float32)
    if not isinstance(dtype, DType):
        fail(e.node, "attribute output_datatype names no supported type", "E109")
    return dtype
