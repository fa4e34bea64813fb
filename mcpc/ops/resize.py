"""Resize: which axes change, by what factor, and to what size."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import sympy

from mcpc.ir import OPSET, Dim, Node, TensorType, dim, product
from mcpc.ops.context import (
    FLOATS,
    INDEX,
    InferContext,
    attribute,
    axes_of,
    choice,
    expect,
    fail,
    floor_div,
    integers,
    optional_type,
    same,
    show,
    type_of,
    vector,
)
from mcpc.ops.registry import ACCUMULATED, Cost, OpDef, moves, register, traffic

MODES = ("nearest", "linear", "cubic")
COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
)
NEAREST_MODES = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
POLICIES = ("stretch", "not_larger", "not_smaller")


@dataclass(frozen=True)
class ResizedAxis:
    """``size`` is the output's, None where only data can show it. ``scale`` is the factor that coordinates are computed
    with; None for output / input. ``place`` is where the axis stands among those that the inputs describe."""

    axis: int
    size: Dim | None
    scale: float | None
    place: int


def resized_axes(node: Node, context: InferContext) -> list[ResizedAxis]:
    """The axes that a Resize (input of known rank) changes or may change, in no particular order."""
    x = type_of(node, 0)
    rank = len(x.dims)
    axes = axes_of(node, integers(node, "axes") or range(rank), rank)
    scales, sizes = optional_type(node, 2), optional_type(node, 3)
    if scales is not None and scales.shape == (0,):
        scales = None  # exporters give an empty tensor for an input that is left out
    if (scales is None) == (sizes is None):
        fail(node, "either scales or sizes is needed, not both")
    crops = node.attrs.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    resized = _by_scales(node, axes) if sizes is None else _by_sizes(node, context, axes)

    def stays(item: ResizedAxis) -> bool:
        return not crops and item.scale in (None, 1.0) and item.size is not None and same(item.size, x.dims[item.axis])

    return [item for item in resized if not stays(item)]


def _by_scales(node: Node, axes: list[int]) -> list[ResizedAxis]:
    expect(node, 2, FLOATS)
    value = node.inputs[2]
    assert value is not None
    if value.data is None:
        return [ResizedAxis(axis, None, None, place) for place, axis in enumerate(axes)]
    scales = np.asarray(value.data, np.float32).reshape(-1)
    if len(scales) != len(axes):
        fail(node, f"{len(scales)} scales for {len(axes)} axes")
    if not (np.isfinite(scales) & (scales > 0)).all():
        fail(node, f"scales are {scales.tolist()}, positive numbers are needed")
    dims = type_of(node, 0).dims
    return [ResizedAxis(a, scaled(dims[a], s), float(s), i) for i, (a, s) in enumerate(zip(axes, scales, strict=True))]


def scaled(size: Dim, scale: np.float32) -> Dim:
    """floor(size * scale), computed in float32 as ONNX Runtime does; a factor that looks like a simple fraction is one
    where the size is a symbol."""
    if isinstance(size, int):
        return math.floor(np.float32(size) * scale)
    simple = Fraction(float(scale)).limit_denominator(1000)
    factor = simple if np.float32(float(simple)) == scale else Fraction(float(scale))
    return floor_div(dim(size * factor.numerator), factor.denominator)


def _by_sizes(node: Node, context: InferContext, axes: list[int]) -> list[ResizedAxis]:
    expect(node, 3, INDEX)
    sizes = vector(node, context, 3)
    if sizes is None:
        sizes = [None] * len(axes)
    if len(sizes) != len(axes):
        fail(node, f"{len(sizes)} sizes for {len(axes)} axes")
    if any(isinstance(size, int) and size < 0 for size in sizes):
        fail(node, f"sizes {sizes} are negative")
    policy = choice(node, "keep_aspect_ratio_policy", "stretch", POLICIES)
    if policy == "stretch":
        return [
            ResizedAxis(axis, size, None, place) for place, (axis, size) in enumerate(zip(axes, sizes, strict=True))
        ]
    dims = [type_of(node, 0).dims[axis] for axis in axes]
    if not all(isinstance(a, int) and isinstance(b, int) and b > 0 for a, b in zip(sizes, dims, strict=True)):
        return [ResizedAxis(axis, None, None, place) for place, axis in enumerate(axes)]
    ratios = [np.float32(a) / np.float32(b) for a, b in zip(sizes, dims, strict=True)]
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    return [
        ResizedAxis(axis, math.floor(float(scale) * int(size) + 0.5), float(scale), place)
        for place, (axis, size) in enumerate(zip(axes, dims, strict=True))
    ]


def infer_resize(node: Node, context: InferContext) -> list[TensorType]:
    x = type_of(node, 0)
    mode = choice(node, "mode", "nearest", MODES)
    coordinates = choice(node, "coordinate_transformation_mode", "half_pixel", COORDINATES)
    choice(node, "nearest_mode", "round_prefer_floor", NEAREST_MODES)
    if mode != "nearest":
        expect(node, 0, FLOATS)
    if x.shape is None:
        return [TensorType(x.dtype, None)]
    shape = list(x.shape)
    for item in resized_axes(node, context):
        size = context.data_size(node, 0, item.axis) if item.size is None else item.size
        if x.shape[item.axis] == 0 and size != 0:
            fail(node, f"axis {item.axis} of {show(x)} is empty")
        shape[item.axis] = size
    if coordinates == "tf_crop_and_resize":
        _check_roi(node, len(integers(node, "axes") or x.shape))
    return [TensorType(x.dtype, tuple(shape))]


def _check_roi(node: Node, axes: int) -> None:
    roi = expect(node, 1, FLOATS)
    if roi.shape is not None and (len(roi.shape) != 1 or (isinstance(roi.shape[0], int) and roi.shape[0] != 2 * axes)):
        fail(node, f"roi is {show(roi)}, start and end of {axes} axes are needed")


def cost_resize(node: Node) -> Cost:
    """One multiply-add per tap of every output element; a filter against aliasing has one per input element of its
    window, copies of the nearest element have none."""
    mode = str(node.attrs.get("mode", "nearest"))
    if mode == "nearest":
        return moves(node)
    taps: Dim = 1
    width = 2 if mode == "linear" else 4
    for before, after in zip(type_of(node, 0).dims, node.output.type.dims, strict=True):
        if not same(before, after):
            is_wider = attribute(node, "antialias", 0) and isinstance(before, int) and isinstance(after, int)
            taps = dim(taps * (max(width, -(-width * before // max(after, 1))) if is_wider else width))
    return Cost(dim(sympy.Integer(2) * product(node.output.type.dims) * taps), traffic(node))


register(OpDef("Resize", infer_resize, cost_resize, ACCUMULATED, (10, OPSET)))
