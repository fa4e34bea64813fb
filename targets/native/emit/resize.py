"""Resize in any memory order: axes that stay as they are and are neighbours there become one."""

from __future__ import annotations

import numpy as np

from mcpc.ir import Dim, DType, dim, product
from mcpc.ops.context import same
from mcpc.ops.resize import ResizedAxis, resized_axes

from ..ctext import float_literal
from ..kernel import KernelBuilder, unsupported
from .move import word
from .registry import emits, finds_sizes
from .sizes import checked, element, found

#: RESIZE_RANK of resize.h.
MAX_RANK = 8


@emits("Resize")
def resize(b: KernelBuilder) -> None:
    anchor = b.anchor
    x, y = b.outer(anchor.inputs[0]), b.node.output
    mode = str(anchor.attrs.get("mode", "nearest"))
    resized = {item.axis: item for item in resized_axes(anchor, b.context)}
    if mode != "nearest" and x.dtype is not DType.float32:
        raise unsupported(b.node, f"an operand of type {x.dtype.name}")
    axes: list[str] = []
    sizes: list[Dim] = []
    merged: Dim = 1
    for axis in x.type.order:
        before, after = x.type.dims[axis], y.type.dims[axis]
        item = resized.get(axis)
        if item is None:
            merged = dim(merged * before)
            continue
        if not same(merged, 1):
            axes.append(f"{{.in = {b.size(merged)}, .out = {b.size(merged)}}}")
            sizes.append(merged)
        axes.append(_axis(b, item, before, after))
        sizes.append(after)
        merged = 1
    if not axes:
        axes.append("{.in = 1, .out = 1}")
        sizes.append(1)
    if len(axes) > MAX_RANK:
        raise unsupported(b.node, f"resizing {len(resized)} axes")
    b.label = f"resize {mode}"
    b.headers.append("resize.h")
    fields = {
        "mode": f"RESIZE_{mode.upper()}",
        "coordinates": f"RESIZE_{str(anchor.attrs.get('coordinate_transformation_mode', 'half_pixel')).upper()}",
        "rounding": f"RESIZE_{str(anchor.attrs.get('nearest_mode', 'round_prefer_floor')).upper()}",
        "antialias": str(int(bool(anchor.attrs.get("antialias", 0)) and mode != "nearest")),
        "exclude_outside": str(int(bool(anchor.attrs.get("exclude_outside", 0)))),
        "a": float_literal(float(anchor.attrs.get("cubic_coeff_a", -0.75))),
    }
    method = ", ".join(f".{name} = {value}" for name, value in fields.items())
    table = f"(const resize_axis[]){{{', '.join(axes)}}}"
    outside = float(anchor.attrs.get("extrapolation_value", 0.0))
    if mode == "nearest":
        type, bits = word(x.dtype)
        name = f"resize_nearest_{bits}"
        value = str(int(np.array([outside]).astype(x.dtype.numpy).view(f"uint{bits}")[0])) + (
            "ull" if bits == 64 else "u"
        )
    else:
        type, name, value = "float", "resize_f32", float_literal(outside)
    steps = [merged if each.pitch is None else each.pitch for each in (x.type, y.type)] if mode == "nearest" else []
    sizes_of_runs = ", ".join(map(b.size, (merged, *steps)))
    b.line(
        f"{name}((resize_method){{{method}}}, {len(axes)}, {table}, {sizes_of_runs}, {b.input(x, type)}, "
        f"{b.output(type=type)}, {value}, begin, end);"
    )
    b.units = f"resize_units({b.size(product(sizes[:-1]))}, {b.size(sizes[-1])})"


@finds_sizes("Resize")
def sizes(b: KernelBuilder) -> None:
    b.headers += ["sizes.h", "resize.h"]
    x = b.outer(b.anchor.inputs[0]).type
    by_axis = {item.axis: item for item in resized_axes(b.anchor, b.context)}
    for axis, size in found(b):
        item = by_axis[axis]
        if b.anchor.input(3) is None:
            text = f"resize_scaled({b.size(x.dims[axis])}, {_computed_scale(b, item)})"
        elif _keeps_ratio(b):
            text = f"resize_rounded({b.size(x.dims[axis])}, {_computed_scale(b, item)})"
        else:
            text = element(b, b.anchor.inputs[3], item.place)
        b.line(f"const int64_t size{axis} = {text};")
        checked(b, f"sizes_check(env, size{axis})")
        b.set_size(size, f"size{axis}")


def _keeps_ratio(b: KernelBuilder) -> bool:
    return str(b.anchor.attrs.get("keep_aspect_ratio_policy", "stretch")) != "stretch"


def _computed_scale(b: KernelBuilder, item: ResizedAxis) -> str:
    """C text of a scale that only the data show."""
    if b.anchor.input(3) is not None:
        dims = b.outer(b.anchor.inputs[0]).type.dims
        axes = [int(axis) % len(dims) for axis in b.anchor.attrs.get("axes") or range(len(dims))]
        wanted = ", ".join(element(b, b.anchor.inputs[3], place) for place in range(len(axes)))
        sizes = ", ".join(b.size(dims[axis]) for axis in axes)
        is_least = int(b.anchor.attrs["keep_aspect_ratio_policy"] == "not_larger")
        b.headers.append("sizes.h")
        return f"resize_common({is_least}, {len(axes)}, (const int64_t[]){{{wanted}}}, (const int64_t[]){{{sizes}}})"
    scales = b.outer(b.anchor.input(2))
    if scales.dtype is not DType.float32:
        raise unsupported(b.node, f"computed scales of type {scales.dtype.name}")
    return f"{b.input(scales)}[{item.place}]"


def _axis(b: KernelBuilder, item: ResizedAxis, before: Dim, after: Dim) -> str:
    """The resize_axis literal; a crop's borders are read as the kernel runs."""
    if item.scale is not None:
        scale = float_literal(item.scale)
    elif b.anchor.input(3) is None or _keeps_ratio(b):
        scale = _computed_scale(b, item)
    else:
        scale = f"(float){b.size(after)} / (float){b.size(before)}"
    fields = [f".in = {b.size(before)}", f".out = {b.size(after)}", ".is_resized = 1", f".scale = {scale}"]
    if b.anchor.attrs.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        roi = b.outer(b.anchor.input(1))
        count = len(b.anchor.attrs.get("axes") or b.outer(b.anchor.inputs[0]).type.dims)
        if roi.data is not None:
            numbers = [
                float_literal(float(v)) for v in np.asarray(roi.data, np.float32)[[item.place, item.place + count]]
            ]
        elif roi.dtype is DType.float32:
            numbers = [f"{b.input(roi)}[{place}]" for place in (item.place, item.place + count)]
        else:
            raise unsupported(b.node, f"a computed region of type {roi.dtype.name}")
        fields += [f".from = {numbers[0]}", f".to = {numbers[1]}"]
    return f"{{{', '.join(fields)}}}"
