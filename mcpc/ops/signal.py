"""Fourier transforms, and the tables that belong to them: windows and mel filters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mcpc.ir import OPSET, Dim, DType, Node, TensorType, Value, dim
from mcpc.ops.context import (
    FLOATS,
    INDEX,
    InferContext,
    attribute,
    axis_of,
    expect,
    expect_rank,
    fail,
    floor_div,
    optional_type,
    same_dtype,
    show,
    type_of,
    unify,
)
from mcpc.ops.contrib import Expansion, stands_for
from mcpc.ops.registry import ACCUMULATED, Cost, OpDef, register, traffic


def _number(node: Node, context: InferContext, index: int) -> Dim | None:
    """The integer that an input holds; None where it is left out, or only data can show it."""
    value = node.input(index)
    if value is None:
        return None
    type = expect(node, index, INDEX)
    expect_rank(node, index, 0, 1)
    contents = context.contents(value)
    if contents is None:
        return None
    if contents.size != 1:
        fail(node, f"input {index} is {show(type)}, one number is needed")
    number: Dim | None = contents.item()
    return number


@dataclass(frozen=True)
class Transform:
    """A DFT over ``axis``, of ``length`` and with ``bins`` results; each None where only data can show it."""

    axis: int | None
    length: Dim | None
    bins: Dim | None
    is_inverse: bool
    is_onesided: bool


def _bins(length: Dim, one_side: bool) -> Dim:
    return dim(floor_div(length, 2) + 1) if one_side else length


def transform_of(node: Node, context: InferContext) -> Transform:
    """What a DFT (input of known rank) does."""
    x = type_of(node, 0)
    rank, parts = len(x.dims), x.dims[-1] if x.dims else 0
    is_inverse, is_onesided = bool(attribute(node, "inverse", 0)), bool(attribute(node, "onesided", 0))
    if rank < 2 or parts not in (1, 2):
        fail(node, f"{show(x)} holds no real or complex signals")
    if is_onesided and parts != 1 + is_inverse:
        fail(node, f"a one-sided transform of {show(x)}")
    given, axis = _number(node, context, 2), None
    if node.input(2) is None or isinstance(given, int):
        axis = axis_of(node, -2 if given is None else int(given), rank)
        if axis == rank - 1:
            fail(node, "a transform over the parts of complex numbers")
    length = _number(node, context, 1)
    if node.input(1) is None and axis is not None:
        length = dim(2 * (x.dims[axis] - 1)) if is_inverse and is_onesided else x.dims[axis]
    if isinstance(length, int) and length < 1:
        fail(node, f"a transform of length {length}")
    bins = None if length is None else _bins(length, is_onesided and not is_inverse)
    return Transform(axis, length, bins, is_inverse, is_onesided)


def infer_dft(node: Node, context: InferContext) -> list[TensorType]:
    """[..., n, ..., parts] → [..., bins, ..., parts]."""
    x = expect(node, 0, FLOATS)
    if x.shape is None:
        return [TensorType(x.dtype, None)]
    transform = transform_of(node, context)
    shape = [*x.shape[:-1], 1 if transform.is_inverse and transform.is_onesided else 2]
    if transform.axis is not None:
        changed = [transform.axis]
    elif node.input(1) is None and not transform.is_onesided:
        changed = []  # whichever axis it is, its size stays
    else:
        changed = list(range(len(shape) - 1))
    for axis in changed:
        is_known = transform.axis is not None and transform.bins is not None
        shape[axis] = transform.bins if is_known else context.data_size(node, 0, axis)
    return [TensorType(x.dtype, tuple(shape))]


@dataclass(frozen=True)
class Frames:
    """A STFT's frames: ``length`` and ``step`` in samples, None where only data can show them."""

    length: Dim | None
    step: Dim | None


def frames_of(node: Node, context: InferContext) -> Frames:
    """The frames of a STFT (signal of known rank)."""
    x, window = type_of(node, 0), optional_type(node, 2)
    length, step = _number(node, context, 3), _number(node, context, 1)
    if node.input(3) is None:
        length = x.dims[1] if window is None else window.dims[0]
    elif window is not None and window.shape is not None and length is not None:
        length = unify(node, window.shape[0], length, "the lengths of window and frames")
    for number in (length, step):
        if isinstance(number, int) and number < 1:
            fail(node, f"frames of {length} samples, {step} apart")
    return Frames(length, step)


def infer_stft(node: Node, context: InferContext) -> list[TensorType]:
    """signal [batch, length, parts], window [n] → [batch, frames, bins, 2]."""
    x = expect(node, 0, FLOATS)
    if node.input(2) is not None:
        same_dtype(node, 0, 2)
        expect_rank(node, 2, 1)
    type_of(node, 1)
    expect_rank(node, 0, 3)
    if x.shape is None:
        return [TensorType(x.dtype, None)]
    is_onesided = bool(attribute(node, "onesided", 1))
    if x.shape[-1] not in (1, 2):
        fail(node, f"{show(x)} is no batch of real or complex signals")
    frames = frames_of(node, context)
    bins = context.data_size(node, 0, 2) if frames.length is None else _bins(frames.length, is_onesided)
    if frames.length is None or not isinstance(frames.step, int):
        count: Dim = context.data_size(node, 0, 1)
    else:
        count = dim(floor_div(dim(x.shape[1] - frames.length), frames.step) + 1)
    if isinstance(count, int) and count < 1:
        fail(node, f"frames of {frames.length} samples in {show(x)}")
    return [TensorType(x.dtype, (x.shape[0], count, bins, 2))]


def cost_transform(node: Node) -> Cost:
    """n log n, for lengths of hundreds."""
    return Cost(dim(40 * node.output.type.elements), traffic(node))


register(
    OpDef("DFT", infer_dft, cost_transform, ACCUMULATED, (17, OPSET)),
    OpDef("STFT", infer_stft, cost_transform, ACCUMULATED, (17, OPSET)),
)


# ---- tables, which are folded where their parameters are constant


def _datatype(e: Expansion) -> DType:
    dtype = e.node.attrs.get("output_datatype", DType.float32)
    if not isinstance(dtype, DType):
        fail(e.node, "attribute output_datatype names no supported type", "E109")
    return dtype


class Formula:
    """Arithmetic in float64, or on int64, as nodes of an expansion."""

    def __init__(self, e: Expansion, value: Value) -> None:
        self.e, self.value = e, value

    def __call__(self, op: str, *others: Formula | float) -> Formula:
        operands = [other.value if isinstance(other, Formula) else self.e.scalar(other, self.value) for other in others]
        return Formula(self.e, self.e(op, self.value, *operands))

    def cast(self, dtype: DType) -> Formula:
        return Formula(self.e, self.e("Cast", self.value, to=dtype))

    def __add__(self, other: Formula | float) -> Formula:
        return self("Add", other)

    def __sub__(self, other: Formula | float) -> Formula:
        return self("Sub", other)

    def __mul__(self, other: Formula | float) -> Formula:
        return self("Mul", other)

    def __truediv__(self, other: Formula | float) -> Formula:
        return self("Div", other)


def _scalar(e: Expansion, index: int, dtype: DType) -> Formula:
    """An input that is one number, as a tensor of rank 0."""
    value = e.input(index)
    expect_rank(e.node, index, 0, 1)
    scalar = value if value.type.rank == 0 else e("Reshape", value, e.ints())
    return Formula(e, scalar).cast(dtype)


def _count(e: Expansion, number: Formula) -> Formula:
    """0 … number - 1 in float64."""
    zero, one = (e.scalar(item, number.value) for item in (0, 1))
    return Formula(e, e("Range", zero, number.value, one)).cast(DType.float64)


#: Windows: the weights of the cosines of 0, 1, 2 turns.
WINDOWS = {
    "HannWindow": (0.5, -0.5, 0.0),
    "HammingWindow": (25 / 46, -21 / 46, 0.0),
    "BlackmanWindow": (0.42, -0.5, 0.08),
}


@stands_for(*WINDOWS, domain="", versions=(17, OPSET))
def window(e: Expansion) -> Sequence[Value | None]:
    """size → [size]: a sum of cosines."""
    expect(e.node, 0, INDEX)
    size = _scalar(e, 0, DType.int64)
    length = size.cast(DType.float64)
    period = length if attribute(e.node, "periodic", 1) else (length - 1)("Max", 1)
    angle = _count(e, size) * (2 * np.pi) / period
    first, second, third = WINDOWS[e.node.op]
    result = angle("Cos") * second + first
    if third:
        result = result + (angle * 2)("Cos") * third
    return [result.cast(_datatype(e)).value]


@stands_for("MelWeightMatrix", domain="", versions=(17, OPSET))
def mel_weight_matrix(e: Expansion) -> Sequence[Value | None]:
    """bands, length of the transform, sample rate, lowest and highest frequency → [length / 2 + 1, bands]: triangles
    whose corners are evenly spaced on the mel scale, in whole bins of the spectrum."""
    for index in range(3):
        expect(e.node, index, INDEX)
    bands, length = (_scalar(e, index, DType.int64) for index in range(2))
    rate, lowest, highest = (_scalar(e, index, DType.float64) for index in range(2, 5))
    log10 = np.log(10)
    low, high = ((frequency / 700 + 1)("Log") * (2595 / log10) for frequency in (lowest, highest))
    points = bands + 2
    mels = _count(e, points) * (high - low) / points.cast(DType.float64) + low
    hertz = ((mels * (log10 / 2595))("Exp") - 1) * 700
    corners = ((length + 1).cast(DType.float64) * hertz / rate)("Floor")
    bins = Formula(e, e("Unsqueeze", _count(e, length("Div", 2) + 1).value, e.ints(1)))

    def corner(first: int) -> Formula:
        """Of each band: its left, centre or right corner."""
        last = e("Reshape", (bands + first).value, e.ints(1))
        return Formula(e, e("Slice", corners.value, e.ints(first), last, e.ints(0)))

    left, centre, right = map(corner, range(3))
    width = centre - left
    one, zero = (e.scalar(number, width.value) for number in (1.0, 0.0))
    rising = e("Where", width("Greater", 0).value, ((bins - left) / width).value, one)
    falling = ((right - bins) / (right - centre)).value
    is_rising = bins("GreaterOrEqual", left)("And", bins("LessOrEqual", centre)).value
    is_falling = bins("GreaterOrEqual", centre)("And", bins("Less", right)).value
    matrix = e("Where", is_falling, falling, e("Where", is_rising, rising, zero))
    return [Formula(e, matrix).cast(_datatype(e)).value]
