"""Fourier transforms: of an axis that may be data, and of frames of signals."""

from __future__ import annotations

import functools

import numpy as np

from mcpc.ir import Dim, DType, Value, dim, product
from mcpc.ops.context import attribute, larger
from mcpc.ops.signal import frames_of, transform_of

from ..ctext import c_type
from ..expression import SUFFIXES
from ..kernel import Array, KernelBuilder, unsupported
from .registry import emits, finds_sizes
from .sizes import checked, element, found

#: FOURIER_WORK of fourier.h.
WORK = 40
#: Roots of unity up to which a table lies in the file; longer ones are computed in every run.
MOST_ROOTS = 1 << 16


def _number(b: KernelBuilder, index: int) -> str:
    """C text of the integer that an input holds."""
    return element(b, b.anchor.inputs[index], 0)


def _roots(length: Dim | None, dtype: DType) -> Array | None:
    """[length, 2]: cosines and sines of the parts of a turn."""
    if not isinstance(length, int) or length > MOST_ROOTS:
        return None
    angles = 2 * np.pi * np.arange(length) / length
    return np.stack([np.cos(angles), np.sin(angles)], -1).astype(dtype.numpy)


def _lines(b: KernelBuilder, length: Dim | None, window: Value | None, whole: bool) -> None:
    """Call the kernel for the shape `s`. ``whole``: in one unit, since it is not known how many there are."""
    x, y = b.outer(b.anchor.inputs[0]), b.node.output.type
    if x.dtype not in (DType.float32, DType.float64):
        raise unsupported(b.node, f"an operand of type {x.dtype.name}")
    # Eight times as many numbers as the kernel has units, whose last is not full, times the transform's length.
    longest = functools.reduce(larger, y.dims[:-1])
    room = dim(2 * (product(y.dims[:-1]) + 7 * longest) * WORK // 8 * x.dtype.itemsize)
    table, type = _roots(length, x.dtype), c_type(x.dtype)
    operands = (
        b.input(x),
        "0" if window is None else b.input(window),
        "0" if table is None else b.constant(table, type),
        b.output(),
        f"({type} *)(void *){b.workspace(room)}",
    )
    span = "0, fourier_units(s.lines)" if whole else "begin, end"
    b.line(f"fourier_{SUFFIXES[x.dtype]}(s, {', '.join(operands)}, {span});")


def _flags(b: KernelBuilder, is_onesided: bool) -> str:
    return f"{int(bool(attribute(b.anchor, 'inverse', 0)))}, {int(is_onesided)}"


def _declare_transform(b: KernelBuilder) -> None:
    """Declare what a DFT does: `in`, the sizes of its input, `axis`, and the length `n`."""
    b.headers.append("fourier.h")
    transform, sizes = transform_of(b.anchor, b.context), b.outer(b.anchor.inputs[0]).type.dims
    axis = _number(b, 2) if transform.axis is None else str(transform.axis)
    b.line(f"const int64_t in[] = {{{', '.join(map(b.size, sizes))}}};", f"int64_t axis = {axis};")
    if transform.axis is None:
        checked(b, f"fourier_axis(env, &axis, {len(sizes)})")
    if b.anchor.input(1) is not None:
        length = _number(b, 1)
    else:
        length = f"fourier_length({_flags(b, transform.is_onesided)}, in[axis])"
    b.line(f"const int64_t n = {length};")
    checked(b, "index_check(env, n, 1, MOST_BYTES)")


@emits("DFT")
def dft(b: KernelBuilder) -> None:
    transform = transform_of(b.anchor, b.context)
    _declare_transform(b)
    rank = len(b.node.output.type.dims)
    b.line(f"const fourier_shape s = fourier_along({rank}, in, axis, n, {_flags(b, transform.is_onesided)});")
    b.label = "fourier transform"
    if transform.axis is not None:
        dims = b.node.output.type.dims
        lines = product(size for axis, size in enumerate(dims[:-1]) if axis != transform.axis)
        b.units = f"({b.size(lines)} + 7) / 8"
    _lines(b, transform.length, None, transform.axis is None)


@finds_sizes("DFT")
def dft_sizes(b: KernelBuilder) -> None:
    transform = transform_of(b.anchor, b.context)
    _declare_transform(b)
    for axis, size in found(b):
        b.set_size(size, f"axis == {axis} ? fourier_bins({_flags(b, transform.is_onesided)}, n) : in[{axis}]")


def _declare_frames(b: KernelBuilder) -> bool:
    """Declare a STFT's frames: `n` samples each, `step` apart; gives whether one side is asked for."""
    b.headers.append("fourier.h")
    window = b.anchor.input(2)
    frames = frames_of(b.anchor, b.context)
    length = b.size(frames.length) if frames.length is not None else _number(b, 3)
    b.line(f"const int64_t n = {length}, step = {_number(b, 1)};")
    for number in ("n", "step"):
        checked(b, f"index_check(env, {number}, 1, MOST_BYTES)")
    if window is not None and frames.length is None:
        size = b.size(b.outer(window).type.dims[0])
        b.line(f"if (n != {size}) return sizes_differ(env, n, {size});")
    return bool(attribute(b.anchor, "onesided", 1))


@emits("STFT")
def stft(b: KernelBuilder) -> None:
    is_onesided = _declare_frames(b)
    x, window = b.outer(b.anchor.inputs[0]), b.anchor.input(2)
    batch, count, _, _ = b.node.output.type.dims
    sizes = ", ".join(map(b.size, (*x.type.dims, count)))
    b.line(f"const fourier_shape s = fourier_frames({sizes}, step, n, {int(is_onesided)});")
    b.label = "framed fourier transform"
    b.units = f"({b.size(dim(batch * count))} + 7) / 8"
    _lines(b, frames_of(b.anchor, b.context).length, window, whole=False)


@finds_sizes("STFT")
def stft_sizes(b: KernelBuilder) -> None:
    is_onesided = _declare_frames(b)
    length = b.size(b.outer(b.anchor.inputs[0]).type.dims[1])
    b.line(f"if (n > {length}) return sizes_differ(env, n, {length});")
    texts = {1: f"({length} - n) / step + 1", 2: f"fourier_bins(0, {int(is_onesided)}, n)"}
    for axis, size in found(b):
        b.set_size(size, texts[axis])
