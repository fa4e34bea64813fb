"""Cases of convolutions and pools."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from mcpc.targets.native.emit.integer import depthwise_scratch, pack_depthwise
from mcpc.targets.native.integer_winograd import FORM
from mcpc.targets.native.winograd import FORMS
from mcpc.targets.native.winograd_line import CHAIN, LINE_FORMS

from .case import ALL, Array, Case, Packable, Packed, normal, pack, untouched


@dataclass
class Window:
    """The geometry of a convolution or a pool: ``pads`` top, left, bottom, right; ``gap`` elements between pixels."""

    batch: int
    in_hw: tuple[int, int]
    in_c: int
    out_c: int
    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    groups: int = 1
    gap: int = 0

    def out_size(self, axis: int) -> int:
        padded = self.in_hw[axis] + self.pads[axis] + self.pads[axis + 2]
        return (padded - (self.kernel[axis] - 1) * self.dilation[axis] - 1) // self.stride[axis] + 1

    @property
    def out_hw(self) -> tuple[int, int]:
        return self.out_size(0), self.out_size(1)

    def input(self, rng: np.random.Generator) -> Array:
        return normal(rng, self.batch, *self.in_hw, self.in_c + self.gap)

    def output(self) -> Array:
        return untouched(self.batch, *self.out_hw, self.out_c + self.gap)

    def numbers(self) -> list[int]:
        return [
            self.batch, *self.in_hw, self.in_c, self.in_c + self.gap, *self.out_hw, self.out_c, self.out_c + self.gap,
            *self.kernel, *self.stride, *self.dilation, *self.pads[:2], self.groups,
        ]  # fmt: skip

    def taps(self, x: Array, fill: float) -> Array:
        """x[batch, h, w, c] -> [batch, out_h, out_w, kernel_h, kernel_w, c], beyond the edge ``fill``."""
        top, left, bottom, right = self.pads
        padded = np.pad(x.astype(float), ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=fill)
        rows, columns = (
            np.arange(self.out_hw[i])[:, None] * self.stride[i] + np.arange(self.kernel[i]) * self.dilation[i]
            for i in range(2)
        )
        return padded[:, rows][:, :, :, columns].transpose(0, 1, 3, 2, 4, 5)

    def convolve(self, x: Array, w: Array) -> Array:
        """x NHWC, w[out_c, in_c / groups, kernel_h, kernel_w] -> NHWC."""
        taps = self.taps(x, 0.0)
        split = taps.reshape(*taps.shape[:5], self.groups, -1)
        grouped = w.astype(float).reshape(self.groups, -1, *w.shape[1:])
        y: Array = np.einsum("bhwklgi,goikl->bhwgo", split, grouped)
        return y.reshape(*y.shape[:3], -1)

    def __str__(self) -> str:
        return (
            f"{self.batch}x{self.in_hw[0]}x{self.in_hw[1]}x{self.in_c}>{self.out_c} k{self.kernel} s{self.stride} "
            f"d{self.dilation} p{self.pads} g{self.groups}"
        )


CONV = [
    Window(1, (9, 11), 8, 16, (3, 3), pads=(1, 1, 1, 1)),
    Window(2, (7, 5), 5, 21, (3, 2), (2, 1), pads=(0, 1, 2, 1), gap=3),
    Window(1, (1, 40), 6, 8, (1, 5), (1, 2), (1, 2), (0, 4, 0, 0)),
    Window(1, (6, 6), 12, 18, (3, 3), pads=(1, 1, 1, 1), groups=3),
    Window(2, (5, 6), 4, 8, (1, 1), (2, 2)),
    Window(1, (4, 4), 3, 6, (5, 5), pads=(2, 2, 2, 2), groups=3),
    Window(1, (3, 3), 2, 40, (3, 3)),
]

CONV_FEW = [
    Window(1, (16, 16), 3, 32, (3, 3), (2, 2), pads=(0, 0, 1, 1)),
    Window(2, (9, 13), 3, 20, (3, 3), pads=(1, 1, 1, 1)),
    Window(1, (5, 20), 1, 7, (2, 5), (1, 3), (2, 1), (1, 2, 0, 2), gap=2),
    Window(1, (18, 18), 3, 16, (7, 7), (2, 2), pads=(3, 3, 3, 3)),
    Window(1, (2, 3), 4, 9, (3, 3), pads=(2, 2, 2, 2)),
    Window(1, (8, 11), 3, 40, (5, 5), pads=(2, 2, 2, 2)),
    Window(2, (9, 48), 3, 24, (3, 3), (2, 2), pads=(0, 0, 1, 1)),
    Window(1, (5, 24), 2, 48, (3, 3), (1, 1), (2, 1), (2, 1, 2, 1)),
]

DEPTHWISE = [
    Window(1, (7, 7), 16, 16, (3, 3), pads=(1, 1, 1, 1), groups=16),
    Window(2, (9, 30), 12, 12, (3, 3), (2, 2), pads=(0, 1, 1, 0), groups=12, gap=4),
    Window(1, (5, 21), 5, 5, (3, 3), pads=(1, 1, 1, 1), groups=5),
    Window(1, (6, 25), 8, 8, (5, 5), (1, 2), (1, 1), (2, 2, 2, 2), groups=8),
    Window(1, (4, 40), 9, 9, (3, 3), (1, 1), (1, 9), (1, 9, 1, 9), groups=9),
    Window(1, (1, 50), 24, 24, (1, 31), pads=(0, 15, 0, 15), groups=24),
    Window(1, (3, 17), 8, 8, (3, 3), groups=8),
    Window(1, (4, 9), 45, 45, (3, 3), pads=(1, 1, 1, 1), groups=45),
]


def convolutions(rng: np.random.Generator) -> Iterator[Case]:
    windows = [(kernel, v) for kernel, each in (("conv", CONV), ("conv_few", CONV_FEW)) for v in each]
    windows += [("depthwise", v) for v in DEPTHWISE]
    for index, (kernel, v) in enumerate(windows):
        w, x, bias = normal(rng, v.out_c, v.in_c // v.groups, *v.kernel), v.input(rng), normal(rng, v.out_c)
        addend, want = normal(rng, *v.output().shape), v.output()
        want[..., : v.out_c] = v.convolve(x[..., : v.in_c], w) + bias + addend[..., : v.out_c]
        zeros = np.zeros(v.in_c // v.groups, np.float32)
        chunk = ALL if index % 2 else 1
        packed: Packed | Array
        if kernel == "conv":
            groups = w.reshape(v.groups, -1, *w.shape[1:])
            packed = Packed([g.transpose(2, 3, 1, 0).reshape(-1, len(g)) for g in groups])
        elif kernel == "conv_few":
            packed = Packed([w.reshape(v.out_c, -1).T])
        else:
            packed = np.zeros((*v.kernel, -(-v.out_c // 8) * 8), np.float32)
            packed[..., : v.out_c] = w[:, 0].transpose(1, 2, 0)
        orders = {"": x}
        if kernel == "conv_few":
            orders = {" NCHW": x[..., : v.in_c].transpose(0, 3, 1, 2), " NHWC": x}
        for number, (order, data) in enumerate(orders.items()):
            numbers = [*v.numbers(), chunk, number]
            buffers = [data, packed, zeros, bias, addend, v.output()]
            yield Case(f"{kernel} {v}{order}", kernel, numbers, buffers, {5: want}, 1e-5, is_static=True)


DEPTHWISE_BYTES = [
    *DEPTHWISE,
    Window(1, (5, 8), 48, 48, (7, 3), (1, 2), (1, 1), (3, 1, 3, 1), groups=48),
    Window(2, (40, 1), 21, 21, (5, 1), (2, 1), (2, 1), (4, 0, 0, 0), groups=21),
    Window(1, (1, 17), 10, 10, (1, 3), (1, 1), (1, 4), (0, 4, 0, 4), groups=10),
]


#: 3x3 convolutions, and tiles of a block.
FILTERED_BYTES = [
    (Window(1, (14, 14), 32, 24, (3, 3), pads=(1, 1, 1, 1)), 6),
    (Window(2, (7, 9), 16, 33, (3, 3), gap=3), 12),
    (Window(1, (5, 30), 64, 8, (3, 3), pads=(2, 0, 1, 2)), 48),
    (Window(1, (1, 1), 16, 5, (3, 3), pads=(1, 1, 1, 1)), 6),
]


def bytes_convolutions(rng: np.random.Generator) -> Iterator[Case]:
    cases: list[tuple[Window, int]] = [*((v, 0) for v in DEPTHWISE_BYTES), *FILTERED_BYTES]
    for index, (v, block) in enumerate(cases):
        dtype, zero = (np.int8, -3) if index % 2 else (np.uint8, 130)
        x = rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, v.input(rng).shape, dtype, endpoint=True)
        w = rng.integers(-128, 127, (v.out_c, v.in_c // v.groups, *v.kernel), np.int8, endpoint=True)
        if block and index % 2:  # the largest sums that there are
            x[...], w[...] = -128, -128
        want = np.full(v.output().shape, 12345, np.int32)
        want[..., : v.out_c] = v.convolve(x[..., : v.in_c].astype(np.int32) - zero, w)
        numbers = [*v.numbers(), ALL if index % 2 else 1, index % 2, zero, block]
        result = np.full_like(want, 12345)
        if block:
            buffers = [x, FORM.weights(w), result, np.zeros(FORM.scratch(v.in_c, block), np.uint8)]
            yield Case(f"winograd_i8 {v}", "winograd_i8", numbers, buffers, {2: want}, is_static=True)
        else:
            scratch = np.zeros(depthwise_scratch(v.in_c, v.kernel, v.stride, v.dilation), np.uint8)
            buffers = [x, *pack_depthwise(w), result, scratch]
            yield Case(f"depthwise_i8 {v}", "depthwise_i8", numbers, buffers, {3: want}, is_static=True)


#: Depthwise convolutions with the channels before and behind (0: no product there), rows of a band, chunk.
SEPARABLE = [
    (Window(1, (9, 13), 24, 24, (3, 3), pads=(1, 1, 1, 1), groups=24), 7, 10, 2, ALL),
    (Window(2, (11, 10), 19, 19, (3, 3), (2, 2), pads=(0, 1, 1, 0), groups=19), 16, 33, 1, 2),
    (Window(1, (12, 9), 40, 40, (5, 5), pads=(2, 2, 2, 2), groups=40), 5, 0, 3, 1),
    (Window(1, (14, 7), 16, 16, (5, 5), (2, 1), pads=(2, 2, 1, 2), groups=16), 8, 24, 2, ALL),
    (Window(2, (7, 21), 13, 13, (3, 3), pads=(1, 1, 1, 1), groups=13), 0, 17, 2, 1),
    (Window(1, (9, 12), 8, 8, (2, 3), (3, 1), (1, 2), (0, 2, 1, 2), groups=8), 4, 9, 2, ALL),
    (Window(1, (13, 8), 12, 12, (3, 3), (1, 1), (3, 1), (3, 1, 3, 1), groups=12), 3, 12, 2, 2),
]


def separables(rng: np.random.Generator) -> Iterator[Case]:
    for v, expand_c, project_c, band, chunk in SEPARABLE:
        c, image = v.in_c, (v.batch, *v.in_hw)
        result = (v.batch, *v.out_hw)
        x = normal(rng, *image, expand_c or c)
        expand, project = normal(rng, max(expand_c, 1), c), normal(rng, c, max(project_c, 1))
        taps = normal(rng, c, 1, *v.kernel)
        biases = normal(rng, 3, max(c, project_c))
        before, behind = normal(rng, *image, c), normal(rng, *result, max(project_c, 1))
        expanded = x if not expand_c else x.astype(float) @ expand + biases[0, :c] + before
        filtered = np.clip(v.convolve(expanded, taps) + biases[1, :c], -1.0, 1.0)
        want = filtered if not project_c else filtered @ project + biases[2, :project_c] + behind
        packed = np.zeros((*v.kernel, -(-c // 8) * 8), np.float32)
        packed[..., :c] = taps[:, 0].transpose(1, 2, 0)
        rows = (band - 1) * v.stride[0] + (v.kernel[0] - 1) * v.dilation[0] + 1
        ring = 1 << (rows - 1).bit_length()
        scratch = c * ((ring * v.in_hw[1] if expand_c else 0) + (band * v.out_hw[1] if project_c else 0))
        buffers: list[Array | Packed] = [
            x, Packed([expand]), packed, Packed([project]), biases[0, :c], before, biases[1, :c],
            biases[2, : max(project_c, 1)], behind, untouched(*want.shape), untouched(scratch),
        ]  # fmt: skip
        numbers = [*v.numbers(), chunk, expand_c, project_c, band, ring]
        name = f"separable {expand_c}>{v} >{project_c}, bands of {band}"
        yield Case(name, "separable", numbers, buffers, {9: want}, 1e-5, is_static=True)


@dataclass
class PackedPoints:
    """Weights [T * T, K, N] of winograd.h, [T, K, N] of winograd_line.h, packed for the ISA that reads them."""

    matrices: Array

    def array(self, nr: int) -> Array:
        return np.stack([pack(matrix, nr) for matrix in self.matrices], axis=1)


#: Windows, and tiles of a block.
WINOGRAD = [
    (Window(1, (12, 12), 16, 32, (3, 3), pads=(1, 1, 1, 1)), 4),
    (Window(2, (9, 13), 5, 21, (3, 3), pads=(1, 1, 1, 1), gap=3), 7),
    (Window(1, (3, 3), 8, 8, (3, 3)), 12),
    (Window(1, (1, 2), 40, 70, (3, 3), pads=(1, 1, 1, 1)), 6),
    (Window(3, (7, 30), 17, 9, (3, 3), pads=(0, 2, 3, 0)), 16),
    (Window(1, (5, 4), 3, 16, (3, 3), pads=(4, 5, 6, 7)), 5),
]


def winograd_convolutions(rng: np.random.Generator) -> Iterator[Case]:
    for index, (form, (v, block)) in enumerate(itertools.product(FORMS, WINOGRAD)):
        w, x, bias = normal(rng, v.out_c, v.in_c, 3, 3), v.input(rng), normal(rng, v.out_c)
        addend, want = normal(rng, *v.output().shape), v.output()
        want[..., : v.out_c] = v.convolve(x[..., : v.in_c], w) + bias + addend[..., : v.out_c]
        points = [round(16 * point) for point in form.points]
        numbers = [
            *v.numbers(),
            ALL if index % 2 else 1,
            len(points),
            *points,
            *[0] * (3 - len(points)),
            block,
            form.chain,
        ]
        scratch = np.zeros(form.scratch(v.in_c, block) // 4, np.float32)
        buffers: list[Array | Packable] = [x, PackedPoints(form.weights(w)), scratch, bias, addend, v.output()]
        yield Case(f"{form.name} {v}", "winograd", numbers, buffers, {5: want}, 1e-4, is_static=True)


#: Windows along one axis, whose taps are the form's, and tiles of a block.
LINES = [
    (Window(1, (1, 40), 16, 32, (1, 0), pads=(0, 1, 0, 1)), 4),
    (Window(2, (3, 23), 5, 21, (1, 0), pads=(0, 2, 0, 3), gap=3), 9),
    (Window(1, (37, 1), 40, 70, (0, 1)), 12),
    (Window(3, (11, 5), 33, 9, (0, 1), pads=(2, 0, 1, 0), gap=1), 24),
    (Window(1, (7, 2), 8, 16, (0, 1)), 5),
    (Window(1, (1, 3), 3, 40, (1, 0), pads=(0, 6, 0, 7)), 6),
]


def winograd_lines(rng: np.random.Generator) -> Iterator[Case]:
    for index, (form, (line, block)) in enumerate(itertools.product(LINE_FORMS, LINES)):
        v = replace(line, kernel=(line.kernel[0] or form.taps, line.kernel[1] or form.taps))
        w, x, bias = normal(rng, v.out_c, v.in_c, *v.kernel), v.input(rng), normal(rng, v.out_c)
        addend, want = normal(rng, *v.output().shape), v.output()
        want[..., : v.out_c] = v.convolve(x[..., : v.in_c], w) + bias + addend[..., : v.out_c]
        points = [round(16 * point) for point in form.points]
        chunk, padding = ALL if index % 2 else 1, [0] * (3 - len(points))
        numbers = [*v.numbers(), chunk, form.side, *points, *padding, block, CHAIN]
        scratch = np.zeros(form.scratch(v.in_c, block) // 4, np.float32)
        buffers: list[Array | Packable] = [x, PackedPoints(form.weights(w)), scratch, bias, addend, v.output()]
        yield Case(f"{form.name} {v}", "winograd_line", numbers, buffers, {5: want}, 1e-4, is_static=True)


POOLS = [
    Window(1, (8, 9), 12, 12, (3, 3), (2, 2), pads=(1, 1, 1, 1)),
    Window(2, (5, 6), 37, 37, (2, 3), (1, 2), pads=(0, 1, 1, 0)),
    Window(1, (1, 20), 8, 8, (1, 4), (1, 4)),
    Window(1, (9, 9), 3, 3, (3, 3), dilation=(2, 2)),
    Window(1, (6, 7), 43, 43, (3, 3), pads=(1, 1, 1, 1), gap=5),
]


def pool_numbers(v: Window, out_hw: tuple[int, int], ends: tuple[int, int]) -> list[int]:
    """What harness.c's run_pool takes: the first of three axes has size 1."""
    axes = [(1, *v.in_hw), (1, *out_hw), (1, *v.kernel), (1, *v.stride), (1, *v.dilation), (0, *v.pads[:2]), (0, *ends)]
    return [v.batch, v.in_c, *itertools.chain(*axes)]


def pools(rng: np.random.Generator) -> Iterator[Case]:
    for v, kind in itertools.product(POOLS, range(4)):
        x, want = v.input(rng), v.output()
        if kind == 0:
            x.reshape(-1)[7] = np.nan
            want[..., : v.in_c] = v.taps(x, -np.inf).max((3, 4))[..., : v.in_c]
        elif kind == 3:
            want[..., : v.in_c] = (np.abs(v.taps(x, 0.0)) ** 3).sum((3, 4))[..., : v.in_c] ** (1 / 3)
        else:
            inside = v.taps(np.ones_like(x), 0.0).sum((3, 4))
            count = inside if kind == 1 else math.prod(v.kernel)
            want[..., : v.in_c] = (v.taps(x, 0.0).sum((3, 4)) / count)[..., : v.in_c]
        numbers = [*pool_numbers(v, v.out_hw, v.pads[2:]), 1, kind, 3, v.gap]
        rtol = 2e-6 if kind else 0.0
        yield Case(f"pool {kind} {v}", "pool", numbers, [x, v.output()], {1: want}, rtol, is_static=kind == 0)
    # Ceil mode: what hangs over the padded image does not count, and the last window holds nothing but padding.
    x = normal(rng, 1, 5, 1, 4)
    means = np.stack([x[0, :2, 0].sum(0) / 3, x[0, 2:5, 0].mean(0), np.zeros(4, np.float32)])[None, :, None]
    over = Window(1, (5, 1), 4, 4, (3, 1), (3, 1), pads=(1, 0, 1, 0))
    numbers = [*pool_numbers(over, (3, 1), (1, 0)), ALL, 2, 0, 0]
    yield Case("pool ceil mode", "pool", numbers, [x, untouched(1, 3, 1, 4)], {1: means}, 1e-6)
    for batch, pixels, channels, kind in [(2, 49, 40, 1), (1, 5, 7, 0), (3, 1, 33, 1), (2, 6, 35, 3)]:
        x = normal(rng, batch, pixels, channels)
        wide = x.astype(float)
        want = wide.mean(1) if kind == 1 else wide.max(1) if kind == 0 else np.sqrt((wide**2).sum(1))
        numbers = [kind, 2, batch, pixels, channels, 1]
        name = f"pool_global {kind} {batch}x{pixels}x{channels}"
        yield Case(name, "pool_global", numbers, [x, untouched(batch, channels)], {1: want}, 1e-6)
