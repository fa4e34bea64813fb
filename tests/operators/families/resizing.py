"""Resize: every mode, every way to compute coordinates, any axes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from onnx import TensorProto

from ..case import ONNX, ORT, Family
from ..graphs import Graph
from ..graphs import Weight as W

FAMILY = Family("resizing")
op = FAMILY.op

COORDINATES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")
BY_ORT = {"judges": (ORT,)}
BY_ONNX = {"judges": (ONNX,)}
CROP = "tf_crop_and_resize"


def floats(*numbers: float) -> W:
    return W(np.array(numbers, np.float32))


def ints(*numbers: int) -> W:
    return W(np.array(numbers, np.int64))


X = (1, 9, 5, 6)
UNEVEN = {**BY_ORT, "because": "onnx.reference aligns with a width that is not rounded down"}

# ---- sizes and scales, few channels and many
for mode, channels in itertools.product(("nearest", "linear", "cubic"), (1, 3, 20)):
    op(
        f"{mode}, sizes, {channels} channels",
        "Resize",
        (2, channels, 4, 5),
        None,
        None,
        ints(2, channels, 9, 3),
        mode=mode,
    )
    op(f"{mode}, scales, {channels} channels", "Resize", (2, channels, 4, 5), None, floats(1, 1, 2, 0.6), mode=mode)
for mode, kind in itertools.product(("nearest", "linear", "cubic"), COORDINATES):
    attrs: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": kind}
    op(f"{mode}, {kind}, sizes", "Resize", X, None, None, ints(1, 9, 8, 4), **attrs)
    case = UNEVEN if kind == "align_corners" else None
    op(f"{mode}, {kind}, scales", "Resize", X, None, floats(1, 1, 0.7, 1.7), **attrs, case=case)
    one = (
        {**BY_ORT, "because": "onnx.reference starts half a pixel before the image"}
        if kind == "pytorch_half_pixel"
        else None
    )
    op(f"{mode}, {kind}, to one pixel", "Resize", X, None, None, ints(1, 9, 1, 1), **attrs, case=one)
    op(f"{mode}, {kind}, from one pixel", "Resize", (1, 9, 1, 1), None, None, ints(1, 9, 4, 3), **attrs)
for kind, rounding in itertools.product(COORDINATES, ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")):
    attrs = {"coordinate_transformation_mode": kind, "nearest_mode": rounding}
    op(f"nearest, {kind}, {rounding}", "Resize", (1, 2, 4, 6), None, floats(1, 1, 2, 3), **attrs)
    op(f"nearest, {kind}, {rounding}, smaller", "Resize", (1, 2, 8, 6), None, floats(1, 1, 0.5, 0.5), **attrs)

# ---- long lines: several blocks
op("nearest, long lines", "Resize", (1, 2, 3, 70), None, floats(1, 1, 1, 2))
op("linear, long lines", "Resize", (1, 1, 2, 90), None, floats(1, 1, 1.5, 2), mode="linear")
op("linear, long lines, many channels", "Resize", (1, 8, 1, 70), None, floats(1, 1, 3, 2), mode="linear")

# ---- which axes
op("nearest, all axes", "Resize", (2, 3, 2, 3), None, floats(2, 1.5, 2, 1))
op("linear, one axis", "Resize", (2, 7, 4), None, floats(1, 1, 2.5), mode="linear")
op("linear, rank 2", "Resize", (3, 4), None, floats(2, 1.5), mode="linear")
op("linear, three axes", "Resize", (1, 5, 3, 4, 3), None, floats(1, 1, 2, 0.5, 3), mode="linear")
op("nearest, three axes", "Resize", (1, 5, 3, 4, 3), None, None, ints(1, 5, 4, 2, 7))
op("linear, rows only", "Resize", X, None, floats(1, 1, 2, 1), mode="linear")
op("cubic, columns only", "Resize", X, None, floats(1, 1, 1, 1.5), mode="cubic")
op("nothing to do", "Resize", X, None, floats(1, 1, 1, 1), mode="linear")
op("axes, sizes", "Resize", X, None, None, ints(7, 11), axes=[2, 3], mode="linear")
op("axes in another order", "Resize", X, None, floats(0.5, 2), axes=[3, 2], mode="linear")
op(
    "negative axes",
    "Resize",
    X,
    None,
    floats(2, 0.5),
    axes=[-2, -1],
    mode="cubic",
    case={**BY_ORT, "because": "onnx.reference does not count axes from the end"},
)
op("channels last", "Resize", (1, 4, 5, 8), None, floats(1, 2, 2, 1), mode="linear")
op("empty batch", "Resize", (0, 3, 2, 2), None, floats(1, 1, 2, 2))
for policy in ("not_larger", "not_smaller"):
    attrs = {"keep_aspect_ratio_policy": policy, "axes": [2, 3]}
    op(f"{policy}, nearest", "Resize", (1, 2, 4, 8), None, None, ints(7, 9), **attrs)
    op(f"{policy}, linear", "Resize", (1, 2, 4, 8), None, None, ints(3, 16), mode="linear", **attrs)

# ---- between convolutions, which want channels last
for mode, channels in itertools.product(("nearest", "linear", "cubic"), (3, 6, 20)):
    FAMILY.graph(
        f"{mode} between Convs, {channels} channels",
        lambda g, mode=mode, channels=channels: g(
            "Conv",
            g("Resize", g("Conv", (2, 4, 5, 6), W((channels, 4, 2, 2))), None, floats(1, 1, 2, 1.6), mode=mode),
            W((3, channels, 3, 2)),
        ),
    )

# ---- the rest of the attributes
op("exclude_outside", "Resize", X, None, floats(1, 1, 2, 0.8), mode="cubic", exclude_outside=1, cubic_coeff_a=-0.5)
for mode in ("linear", "cubic"):
    op(f"antialias, {mode}", "Resize", X, None, floats(1, 1, 0.6, 0.5), mode=mode, antialias=1)
    op(f"antialias, {mode}, sizes", "Resize", (2, 3, 12, 10), None, None, ints(2, 3, 3, 15), mode=mode, antialias=1)
    op(
        f"antialias, {mode}, exclude_outside",
        "Resize",
        (1, 2, 9, 9),
        None,
        floats(1, 1, 0.4, 0.6),
        mode=mode,
        antialias=1,
        exclude_outside=1,
    )
for mode, place in itertools.product(("nearest", "linear", "cubic"), ("inside", "beyond")):
    roi = np.array(
        [0, 0, 0.2, 0.1, 1, 1, 0.8, 0.7] if place == "inside" else [0, 0, -0.3, 0.2, 1, 1, 1.2, 1.4], np.float32
    )
    attrs = {"mode": mode, "coordinate_transformation_mode": CROP, "extrapolation_value": 7.5}
    op(f"crop {place}, {mode}", "Resize", X, W(roi), None, ints(1, 9, 4, 7), **attrs)
    op(f"computed crop {place}, {mode}", "Resize", (1, 2, 5, 6), roi, None, ints(1, 2, 3, 4), **attrs)


# ---- sizes and scales that are computed
def exported(g: Graph) -> Any:
    """What exporters write for a factor of 1.5 of an image of any size."""
    x = g.input((1, 3, 4, 6))
    shape = g("Cast", g("Slice", g("Shape", x), ints(2), ints(4)), to=TensorProto.FLOAT)
    image = g("Cast", g("Floor", g("Mul", shape, floats(1.5))), to=TensorProto.INT64)
    return g(
        "Resize", x, None, None, g("Concat", g("Slice", g("Shape", x), ints(0), ints(2)), image, axis=0), mode="linear"
    )


FAMILY.graph("sizes by way of floats", exported)
for mode in ("nearest", "linear"):
    op(f"{mode}, sizes are data", "Resize", X, None, None, np.array([1, 9, 4, 11]), mode=mode)
    op(f"{mode}, scales are data", "Resize", X, None, np.array([1, 1, 1.25, 0.55], np.float32), mode=mode)
for policy in ("not_larger", "not_smaller"):
    attrs = {"keep_aspect_ratio_policy": policy, "axes": [2, 3]}
    op(
        f"linear, {policy}, sizes are data",
        "Resize",
        (1, 2, 4, 8),
        None,
        None,
        np.array([7, 9]),
        mode="linear",
        **attrs,
    )
op("linear, sizes of axes are data", "Resize", X, None, None, np.array([3, 11]), mode="linear", axes=[3, 2])

# ---- element types
for type in (np.int8, np.uint8, np.int32, np.int64, np.float64, np.float16):
    numbers = np.arange(24).reshape(1, 2, 3, 4).astype(type)
    case = {**BY_ONNX, "because": "ONNX Runtime has no such Resize"} if type in (np.int64, np.float64) else None
    op(f"nearest, {np.dtype(type).name}", "Resize", numbers, None, floats(1, 1, 2, 1.5), case=case)
