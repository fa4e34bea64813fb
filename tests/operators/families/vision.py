"""Operators on images: normalisations per channel, samplers, blocks."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from ..case import ONNX, ORT, Family
from ..graphs import Weight as W

FAMILY = Family("vision")
op = FAMILY.op
case = FAMILY.graph


def ints(*numbers: int) -> W:
    return W(np.array(numbers, np.int64))


# ---- normalisations
LRN_ORT = {"judges": (ORT,), "because": "onnx.reference leaves channels beyond the batch's size out"}
LRN_ONNX = {"judges": (ONNX,), "because": "ONNX Runtime takes odd sizes only"}
for channels, size in ((6, 5), (20, 3), (8, 1), (3, 11)):
    attrs: dict[str, Any] = {"size": size, "alpha": 0.3, "beta": 0.5, "bias": 1.5}
    op(f"LRN, {size} of {channels} channels", "LRN", (2, channels, 3, 2), **attrs, case=LRN_ORT)
for channels, size in ((9, 4), (3, 12)):
    op(f"LRN, {size} of {channels} channels", "LRN", (channels, channels, 3, 2), size=size, case=LRN_ONNX)
op("LRN, default factors", "LRN", (1, 16, 3, 3), size=5)
op("LRN, any power", "LRN", (1, 16, 3, 3), size=3, alpha=2.0, beta=1.3, bias=0.7, case=LRN_ORT)
op("LRN, power 1", "LRN", (1, 5, 7, 1), size=3, alpha=2.0, beta=1.0, case=LRN_ORT)
case(
    "Conv, LRN, Conv",
    lambda g: g("Conv", g("LRN", g("Conv", (1, 3, 6, 6), W((12, 3, 3, 3))), size=5, alpha=0.1), W((4, 12, 2, 2))),
    **LRN_ORT,
)
POSITIVE = np.array([0.5, 2, 1.5, 0.25, 3], np.float32)
for shape in ((2, 5, 3, 4), (3, 5), (2, 5, 7), (1, 5, 2, 3, 2)):
    op(f"BatchNormalization {shape}", "BatchNormalization", shape, (5,), (5,), (5,), POSITIVE, epsilon=0.01)
case(
    "Conv, BatchNormalization with computed numbers",
    lambda g: g("BatchNormalization", g("Conv", (2, 3, 5, 5), W((5, 3, 2, 2))), (5,), (5,), (5,), POSITIVE),
)
for channels in (3, 16, 37):
    for shape in ((2, channels, 5, 6), (1, channels, 9), (2, channels, 2, 3, 4)):
        op(f"InstanceNormalization {shape}", "InstanceNormalization", shape, (channels,), W((channels,)), epsilon=0.1)
for channels, groups in ((6, 3), (24, 2), (20, 20), (18, 1), (32, 4)):
    attrs = {"num_groups": groups, "epsilon": 1e-3}
    op(
        f"GroupNormalization, {channels} in {groups}",
        "GroupNormalization",
        (2, channels, 4, 5),
        W((channels,)),
        (channels,),
        **attrs,
    )
op("GroupNormalization 1-D", "GroupNormalization", (2, 12, 9), (12,), (12,), num_groups=3)
case(
    "Conv, GroupNormalization, Relu, Conv",
    lambda g: g(
        "Conv",
        g("Relu", g("GroupNormalization", g("Conv", (1, 3, 6, 6), W((12, 3, 3, 3))), W((12,)), W((12,)), num_groups=4)),
        W((4, 12, 2, 2)),
    ),
)

EQUAL = {"judges": (ONNX,), "because": "ONNX Runtime divides by zero"}
ROWS = np.array([[3, 4, 0], [0, 0, 0], [-1, 2, -2]], np.float32)
for p in (1, 2):
    sized = {"judges": (ORT,), "because": "onnx.reference adds up numbers, not their magnitudes"} if p == 1 else None
    op(f"LpNormalization, p {p}", "LpNormalization", ROWS, p=p, axis=1, case=sized)
    op(f"LpNormalization, p {p}, axis 1 of 4", "LpNormalization", (2, 5, 3, 4), p=p, axis=1, case=sized)
op("MeanVarianceNormalization", "MeanVarianceNormalization", (2, 5, 3, 4))
op("MeanVarianceNormalization, axes", "MeanVarianceNormalization", (2, 5, 3, 4), axes=[2, 3])
op(
    "MeanVarianceNormalization of equal numbers",
    "MeanVarianceNormalization",
    np.ones((2, 3, 2, 2), np.float32),
    case=EQUAL,
)

# ---- samplers
CLAMPED = {"judges": (ORT,), "because": "onnx.reference moves points onto the border before it takes cubic taps"}
ROI = {"judges": (ONNX,), "because": "ONNX Runtime has no RoiAlign of this opset"}
GRID = np.array(
    [[-1, -1], [1, 1], [0, 0], [0.3, -0.7], [-1.4, 0.2], [1.2, 1.9], [-3.7, 2.6], [0.999, -0.999], [-1.05, 5.3]],
    np.float32,
).reshape(1, 3, 3, 2)
for mode, padding, align in itertools.product(
    ("linear", "nearest", "cubic"), ("zeros", "border", "reflection"), (0, 1)
):
    attrs = {"mode": mode, "padding_mode": padding, "align_corners": align}
    differs = CLAMPED if (mode, padding) == ("cubic", "border") else None
    op(f"GridSample {mode}, {padding}, align_corners {align}", "GridSample", (1, 11, 4, 5), GRID, **attrs, case=differs)
for mode, align in itertools.product(("linear", "nearest"), (0, 1)):
    attrs = {"mode": mode, "padding_mode": "border", "align_corners": align}
    places = np.linspace(-1.3, 1.3, 2 * 2 * 3 * 2 * 3, dtype=np.float32).reshape(2, 2, 3, 2, 3)
    op(f"GridSample 3-D, {mode}, align_corners {align}", "GridSample", (2, 5, 3, 4, 2), places, **attrs)
case(
    "Conv, GridSample, Conv",
    lambda g: g("Conv", g("GridSample", g("Conv", (1, 3, 5, 5), W((9, 3, 2, 2))), GRID), W((4, 9, 2, 2))),
)
op("GridSample of one pixel", "GridSample", (1, 2, 1, 1), GRID, padding_mode="reflection")
for align in (0, 1):
    op(f"AffineGrid 2-D, align_corners {align}", "AffineGrid", (2, 2, 3), ints(2, 3, 4, 5), align_corners=align)
    op(f"AffineGrid 3-D, align_corners {align}", "AffineGrid", (2, 3, 4), ints(2, 3, 2, 4, 3), align_corners=align)
case("AffineGrid, GridSample", lambda g: g("GridSample", (2, 3, 4, 4), g("AffineGrid", (2, 2, 3), ints(2, 3, 5, 6))))

ROIS = np.array([[1, 1, 9, 8], [0, 2, 4, 11], [-3, -2, 5, 20], [6, 6, 6.2, 6.1], [11, 0, 14, 3]], np.float32)
ITEMS = np.array([0, 1, 1, 0, 1])
for mode, kind, samples in itertools.product(("avg", "max"), ("half_pixel", "output_half_pixel"), (0, 2)):
    op(
        f"RoiAlign {mode}, {kind}, sampling_ratio {samples}",
        "RoiAlign",
        (2, 10, 6, 6),
        ROIS,
        ITEMS,
        mode=mode,
        coordinate_transformation_mode=kind,
        sampling_ratio=samples,
        output_height=2,
        output_width=3,
        spatial_scale=0.5,
        case=ROI,
    )
op("RoiAlign, no rois", "RoiAlign", (2, 3, 6, 6), ROIS[:0], ITEMS[:0], output_height=2, output_width=2, case=ROI)

# ---- blocks
op("Col2Im, overlapping", "Col2Im", (2, 18, 12), ints(5, 6), ints(3, 3))
op("Col2Im, strides, pads", "Col2Im", (1, 8, 12), ints(4, 6), ints(2, 2), strides=[2, 2], pads=[1, 0, 1, 2])
op("Col2Im 1-D", "Col2Im", (1, 6, 5), ints(7), ints(3))
op("CenterCropPad, crop and pad", "CenterCropPad", (5, 4, 7), ints(3, 9, 7))
op("CenterCropPad, odd differences", "CenterCropPad", (5, 4, 7), ints(2, 5, 4))
op("CenterCropPad, sizes are data", "CenterCropPad", (5, 4, 7), np.array([8, 3]), axes=[2, 0])
op("AffineGrid, sizes are data", "AffineGrid", (2, 2, 3), np.array([2, 1, 3, 4]))
op("Col2Im, image_shape is data", "Col2Im", (2, 18, 12), np.array([5, 6]), ints(3, 3))
op("Col2Im, block_shape is data", "Col2Im", (2, 18, 12), ints(5, 6), np.array([3, 3]))
op("Col2Im as told", "Col2Im", (2, 18, 12), np.array([5, 6]), np.array([3, 3]))
op(
    "Col2Im as told, strides, pads",
    "Col2Im",
    *((1, 8, 12), np.array([4, 6]), np.array([2, 2])),
    strides=[2, 2],
    pads=[1, 0, 1, 2],
)
op("Col2Im 1-D as told", "Col2Im", (1, 6, 5), np.array([7]), np.array([3]))
op("CenterCropPad, axes", "CenterCropPad", np.arange(60).reshape(3, 4, 5), ints(8, 2), axes=[-1, 1])
for block, mode in itertools.product((2, 3), ("DCR", "CRD")):
    op(f"DepthToSpace {mode}, {block}", "DepthToSpace", (2, 2 * block * block, 3, 2), blocksize=block, mode=mode)
op("SpaceToDepth 3", "SpaceToDepth", (2, 2, 6, 9), blocksize=3)
case(
    "pixel shuffle by Reshape and Transpose",
    lambda g: g(
        "Reshape",
        g("Transpose", g("Reshape", (1, 12, 2, 3), ints(1, 3, 2, 2, 2, 3)), perm=[0, 1, 4, 2, 5, 3]),
        ints(1, 3, 4, 6),
    ),
)

# ---- NonMaxSuppression
CORNERS = np.array(
    [[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [1, 11.1, 0, 10.1], [0, 100, 1, 101]]],
    np.float32,
)
SCORES = np.array([[[0.9, 0.75, 0.6, 0.95, 0.5, 0.3], [0.5, 0.5, 0.5, 0.5, 0.5, 0.5]]], np.float32)


def number(value: float) -> W:
    return W(np.array([value], np.float32))


def nms(name: str, boxes: Any, scores: Any, *scalars: Any, **attrs: Any) -> None:
    op(f"NonMaxSuppression, {name}", "NonMaxSuppression", boxes, scores, *scalars, **attrs)


nms("threshold", CORNERS, SCORES, ints(3), number(0.5), number(0.4))
nms("ties, all boxes", CORNERS, SCORES, ints(10), number(0.5))
nms("no overlap allowed", CORNERS, SCORES, ints(10), number(0), number(0))
nms("one box a class", CORNERS, SCORES, ints(1), number(0.5), number(0))
nms("no box", CORNERS, SCORES, ints(3), number(0.5), number(2))
nms("numbers are data", CORNERS, SCORES, np.array([2]), np.array([0.3], np.float32), np.array([0.55], np.float32))
nms(
    "two items",
    np.concatenate([CORNERS, CORNERS[:, ::-1] * 2]),
    np.concatenate([SCORES, SCORES[:, ::-1]]),
    ints(4),
    number(0.4),
)
CENTERS = np.random.default_rng(3).random((2, 300, 4), np.float32) * np.array([10, 10, 3, 3], np.float32)
MANY = np.random.default_rng(4).random((2, 3, 300), np.float32)
nms("many centred boxes", CENTERS, MANY, ints(40), number(0.3), number(0.1), center_point_box=1)
case(
    "NonMaxSuppression, Gather",
    lambda g: g(
        "Gather",
        boxes := g.input(CORNERS[0]),
        g(
            "Squeeze",
            g(
                "Slice",
                g("NonMaxSuppression", g("Unsqueeze", boxes, ints(0)), SCORES[:, :1], ints(3), number(0.5)),
                ints(2),
                ints(3),
                ints(1),
            ),
            ints(1),
        ),
    ),
)
