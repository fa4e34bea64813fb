"""Cases of conv_nd.h (convolutions over three axes, with loose weights, transposed) and of resize.h."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .case import ALL, Array, Case, Packed, normal, untouched

Three = tuple[int, int, int]


@dataclass
class Volume:
    """A convolution over three axes, or a transposed one, with output sizes given."""

    batch: int
    in_c: int
    out_c: int
    sizes: Three
    out: Three
    kernel: Three
    stride: Three = (1, 1, 1)
    dilation: Three = (1, 1, 1)
    pad: Three = (0, 0, 0)
    groups: int = 1
    is_transposed: bool = False

    def numbers(self) -> list[int]:
        axes = (self.sizes, self.out, self.kernel, self.stride, self.dilation, self.pad)
        head = [self.batch, self.in_c, self.out_c, self.groups]
        return [*head, *itertools.chain(*axes), int(self.is_transposed)]

    def compute(self, x: Array, w: Array) -> Array:
        """x[batch][sizes][in_c], w[groups][taps][in_c / groups][out_c / groups]; tap by tap, output by output."""
        y = np.zeros((self.batch, *self.out, self.groups, self.out_c // self.groups))
        split = x.astype(float).reshape(self.batch, *self.sizes, self.groups, -1)
        for tap, k in enumerate(np.ndindex(self.kernel)):
            for o in np.ndindex(self.out):
                at = [self._source(axis, o[axis], k[axis]) for axis in range(3)]
                if None not in at:
                    y[(slice(None), *o)] += np.einsum("bgi,gio->bgo", split[(slice(None), *at)], w[:, tap])
        return y.reshape(self.batch, *self.out, self.out_c)

    def _source(self, axis: int, o: int, k: int) -> int | None:
        if not self.is_transposed:
            at = o * self.stride[axis] - self.pad[axis] + k * self.dilation[axis]
        else:
            at, rest = divmod(o + self.pad[axis] - k * self.dilation[axis], self.stride[axis])
            at = -1 if rest else at
        return at if 0 <= at < self.sizes[axis] else None

    def __str__(self) -> str:
        kind = "transposed" if self.is_transposed else "conv"
        return f"{kind} {self.batch}x{self.sizes}x{self.in_c}>{self.out_c} k{self.kernel} g{self.groups}"


VOLUMES = [
    Volume(1, 5, 20, (4, 3, 5), (4, 3, 5), (3, 3, 3), pad=(1, 1, 1)),
    Volume(2, 6, 9, (3, 5, 6), (2, 2, 5), (2, 3, 2), (1, 2, 1), (1, 1, 2), (0, 0, 1), groups=3),
    Volume(1, 10, 10, (3, 3, 4), (3, 3, 4), (3, 3, 3), pad=(1, 1, 1), groups=10),
    Volume(2, 7, 18, (1, 5, 6), (1, 10, 12), (1, 2, 2), (1, 2, 2), is_transposed=True),
    Volume(2, 9, 3, (1, 3, 7), (1, 6, 21), (1, 2, 3), (1, 2, 3), is_transposed=True),
    Volume(1, 4, 6, (2, 3, 3), (3, 7, 8), (2, 3, 1), (1, 3, 3), (1, 2, 1), (0, 1, 0), groups=2, is_transposed=True),
    Volume(1, 12, 12, (1, 4, 4), (1, 8, 8), (1, 4, 4), (1, 2, 2), pad=(0, 1, 1), groups=12, is_transposed=True),
]


def volumes(rng: np.random.Generator) -> Iterator[Case]:
    for index, v in enumerate(VOLUMES):
        taps, depth, width = math.prod(v.kernel), v.in_c // v.groups, v.out_c // v.groups
        x, w = normal(rng, v.batch, *v.sizes, v.in_c), normal(rng, v.groups, taps, depth, width)
        bias, addend = normal(rng, v.out_c), normal(rng, v.batch, *v.out, v.out_c)
        want = v.compute(x, w) + bias + addend
        loose = w.transpose(1, 2, 0, 3).reshape(taps, depth, v.out_c)
        forms: dict[int, Array | Packed] = {0: Packed([g.reshape(-1, width) for g in w]), 1: loose}
        if v.groups == v.in_c == v.out_c:
            channels = np.zeros((taps, -(-v.out_c // 8) * 8), np.float32)
            channels[:, : v.out_c] = w[:, :, 0, 0].T
            forms[2] = channels
        if v.is_transposed and v.kernel == v.stride and v.groups == 1:
            forms[3] = Packed([w[0].transpose(1, 0, 2).reshape(depth, -1)])
        for form, weights in forms.items():
            numbers = [*v.numbers(), ALL if index % 2 else 1, form]
            buffers = [x, weights, np.zeros(depth, np.float32), bias, addend, untouched(*want.shape)]
            yield Case(f"{v} form {form}", "window", numbers, buffers, {5: want}, 1e-5, is_static=form in (0, 3))


NEAREST, LINEAR, CUBIC = range(3)
#: Of a resize: sizes before and after of each axis, the innermost size that stays.
SHAPES = [
    ([(2, 2), (4, 7), (5, 3)], 19),
    ([(1, 1), (6, 4), (70, 93)], 1),
    ([(3, 3), (5, 9), (4, 2)], 3),
    ([(3, 5), (2, 3), (4, 6)], 8),
    ([(9, 40)], 2),
]


def matrix(mode: int, before: int, after: int, is_filter: bool) -> Array:
    """[after, before]: what each output element takes of each input element; half_pixel, edges repeated."""
    at = (np.arange(after) + 0.5) * before / after - 0.5
    taps = np.arange(-200, 200)
    distance = np.abs((taps - at[:, None]) * (min(1.0, after / before) if is_filter else 1.0))
    if mode == LINEAR:
        weights = np.clip(1 - distance, 0, None)
    else:
        a = -0.75
        near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
        far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
        weights = np.where(distance < 1, near, np.where(distance < 2, far, 0))
    result = np.zeros((after, before))
    np.add.at(result.T, np.clip(taps, 0, before - 1), (weights / weights.sum(1, keepdims=True)).T)
    return result


def resizes(rng: np.random.Generator) -> Iterator[Case]:
    for (axes, inner), mode, is_filter in itertools.product(SHAPES, (LINEAR, CUBIC), (False, True)):
        x = normal(rng, *(before for before, _ in axes), inner)
        want = x.astype(float)
        for axis, (before, after) in enumerate(axes):
            if before != after:
                want = np.moveaxis(np.tensordot(matrix(mode, before, after, is_filter), want, (1, axis)), 0, axis)
        lines = math.prod(after for _, after in axes[:-1])
        table = [number for before, after in axes for number in (before, after, int(before != after))]
        numbers = [mode, 0, 0, int(is_filter), 0, 1, lines, inner, len(axes), *table]
        name = f"resize {mode} {axes} x {inner}{' filtered' if is_filter else ''}"
        yield Case(name, "resize", numbers, [x, untouched(*want.shape)], {1: want}, 1e-5, is_static=not is_filter)
    x = normal(rng, 3, 4, 5)
    want = x[[0, 0, 1, 1, 2, 2]][:, [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]]
    numbers = [NEAREST, 4, 2, 0, 0, 1, 6, 5, 2, 3, 6, 1, 4, 12, 1]
    yield Case("resize nearest", "resize", [*numbers, 0, 0], [x, untouched(6, 12, 5)], {1: want}, is_static=True)
    wide, among = np.pad(x, ((0, 0), (0, 0), (0, 2))), untouched(6, 12, 9)
    among[..., :5] = want
    yield Case("resize nearest pieces", "resize", [*numbers, 2, 4], [wide, untouched(6, 12, 9)], {1: among})
