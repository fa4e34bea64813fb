"""Operators that sample images, and that make what they sample at."""

from __future__ import annotations

from collections.abc import Sequence

import sympy

from mcpc.ir import Dim, DType, Value, dim, product
from mcpc.ops.vision import col2im_window

from ..ctext import float_literal
from ..expression import SUFFIXES
from ..kernel import KernelBuilder, unsupported
from .move import word
from .registry import emits, finds_sizes
from .sizes import checked, element, found

#: SAMPLE_AXES of vision.h, and the axes of window_shape in conv_nd.h.
MOST_AXES = 3


def _literal(b: KernelBuilder, type: str, fields: dict[str, str | Dim]) -> str:
    parts = [f".{name} = {value if isinstance(value, str) else b.size(value)}" for name, value in fields.items()]
    return f"({type}){{{', '.join(parts)}}}"


def _array(b: KernelBuilder, sizes: Sequence[Dim]) -> str:
    return f"{{{', '.join(map(b.size, sizes))}}}"


def _suffix(b: KernelBuilder, *operands: Value) -> str:
    """That of the kernels for the operands' type."""
    dtype = operands[0].dtype
    if dtype not in (DType.float32, DType.float64) or any(value.dtype is not dtype for value in operands):
        raise unsupported(b.node, f"operands of type {', '.join(value.dtype.name for value in operands)}")
    return SUFFIXES[dtype]


@emits("GridSample")
def grid_sample(b: KernelBuilder) -> None:
    anchor = b.anchor
    x, grid = b.outer(anchor.inputs[0]), b.outer(anchor.inputs[1])
    suffix = _suffix(b, x, grid)
    items, channels, *sizes = x.type.dims
    pixels = b.node.output.type.dims[2:]
    if len(sizes) > MOST_AXES:
        raise unsupported(b.node, f"sampling along {len(sizes)} axes")
    mode = str(anchor.attrs.get("mode", "linear"))
    shape = _literal(
        b,
        "sample_shape",
        {
            "mode": f"SAMPLE_{mode.upper()}",
            "padding": f"SAMPLE_{str(anchor.attrs.get('padding_mode', 'zeros')).upper()}",
            "align_corners": int(anchor.attrs.get("align_corners", 0)),
            "items": items,
            "channels": channels,
            "axes": len(sizes),
            "in": _array(b, sizes),
            "pixels": product(pixels),
        },
    )
    b.label = f"grid sample {mode}"
    b.headers.append("vision.h")
    b.call(f"grid_sample_{suffix}", shape, b.input(x), b.input(grid), b.output(), "begin", "end")
    b.units = b.size(product((items, *pixels)))
    b.grain = "16"


@emits("AffineGrid")
def affine_grid(b: KernelBuilder) -> None:
    theta = b.outer(b.anchor.inputs[0])
    suffix = _suffix(b, theta)
    items, *sizes, axes = b.node.output.type.dims
    b.label = "affine grid"
    b.headers.append("vision.h")
    b.line(f"const int64_t size[] = {_array(b, sizes)};")
    align = int(b.anchor.attrs.get("align_corners", 0))
    b.call(f"affine_grid_{suffix}", align, axes, "size", b.input(theta), b.output(), "begin", "end")
    b.units = b.size(product((items, *sizes[:-1])))


@emits("RoiAlign")
def roi_align(b: KernelBuilder) -> None:
    anchor = b.anchor
    x, rois, items = (b.outer(value) for value in anchor.inputs)
    suffix = _suffix(b, x, rois)
    count, channels, out_h, out_w = b.node.output.type.dims
    is_half = anchor.attrs.get("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    shape = _literal(
        b,
        f"roi_shape_{suffix}",
        {
            "items": x.type.dims[0],
            "in_h": x.type.dims[2],
            "in_w": x.type.dims[3],
            "channels": channels,
            "out_h": out_h,
            "out_w": out_w,
            "samples": int(anchor.attrs.get("sampling_ratio", 0)),
            "scale": float_literal(float(anchor.attrs.get("spatial_scale", 1.0))),
            "offset": float_literal(0.5 if is_half else 0.0),
            "is_max": int(anchor.attrs.get("mode", "avg") == "max"),
            "is_index64": int(items.dtype is DType.int64),
        },
    )
    b.label = "roi align"
    b.headers.append("vision.h")
    operands = f"{b.input(x)}, {b.input(rois)}, {b.input(items)}, {b.output()}"
    b.line(f"return roi_align_{suffix}(env, {shape}, {operands}, begin, end);")
    b.units = b.size(product((count, out_h)))


@emits("MaxRoiPool")
def max_roi_pool(b: KernelBuilder) -> None:
    x, rois = (b.outer(value) for value in b.anchor.inputs)
    suffix = _suffix(b, x, rois)
    count, channels, out_h, out_w = b.node.output.type.dims
    fields: dict[str, str | Dim] = {
        "items": x.type.dims[0],
        "in_h": x.type.dims[2],
        "in_w": x.type.dims[3],
        "channels": channels,
        "out_h": out_h,
        "out_w": out_w,
        "scale": float_literal(float(b.anchor.attrs.get("spatial_scale", 1.0))),
    }
    shape = _literal(b, f"roi_shape_{suffix}", fields)
    b.label = "max roi pool"
    b.headers.append("vision.h")
    b.line(f"return max_roi_pool_{suffix}(env, {shape}, {b.input(x)}, {b.input(rois)}, {b.output()}, begin, end);")
    b.units = b.size(product((count, out_h)))


@emits("Col2Im")
def col2im(b: KernelBuilder) -> None:
    """The transposed window that moves each block to its place."""
    x, y = b.outer(b.anchor.inputs[0]), b.node.output.type
    suffix = _suffix(b, x)
    window, sizes = col2im_window(b.anchor, b.context), y.dims[2:]
    missing = MOST_AXES - len(sizes)
    if missing < 0:
        raise unsupported(b.node, f"blocks along {len(sizes)} axes")
    before = [window.padding(axis, size)[0] for axis, size in enumerate(sizes)]
    shape = _literal(
        b,
        "window_shape",
        {
            "batch": x.type.dims[0],
            "in_c": y.dims[1],
            "out_c": y.dims[1],
            "groups": 1,
            "in": _array(b, [*[1] * missing, *window.output(b.anchor, sizes)]),
            "out": _array(b, [*[1] * missing, *sizes]),
            "kernel": _array(b, [*[1] * missing, *window.kernel]),
            "stride": _array(b, [*[1] * missing, *window.strides]),
            "dilation": _array(b, [*[1] * missing, *window.dilations]),
            "pad": _array(b, [*[0] * missing, *before]),
            "is_transposed": 1,
        },
    )
    b.label = "col2im"
    b.headers.append("vision.h")
    b.call(f"col2im_{suffix}", shape, b.input(x), b.output(), "begin", "end")
    b.units = f"col2im_units({shape})"


@emits("CenterCropPad")
def center_crop_pad(b: KernelBuilder) -> None:
    """A Pad that cuts off where the result is smaller; C's division rounds both towards the middle."""
    x, y = b.outer(b.anchor.inputs[0]).type, b.node.output.type
    type, bits = word(x.dtype)
    before = [f"({b.size(dim(to - size))} / 2)" for size, to in zip(x.dims, y.dims, strict=True)]
    b.label = "center crop or pad"
    b.headers.append("move.h")
    b.line(f"const int64_t sizes[] = {_array(b, x.dims)}, before[] = {{{', '.join(before)}}};")
    b.line(f"const int64_t padded[] = {_array(b, y.dims)};")
    operands = (b.input(b.anchor.inputs[0], type), b.output(type=type), "0", "begin", "end")
    b.call(f"pad_nd_{bits}", "PAD_CONSTANT", len(y.dims), "sizes", "before", "padded", *operands)
    b.units = b.size(y.dims[0])


@finds_sizes("AffineGrid", "Col2Im", "CenterCropPad", "MaxUnpool")
def sizes(b: KernelBuilder) -> None:
    """Each size is an element of an input, the second of all but MaxUnpool."""
    b.headers.append("sizes.h")
    anchor, rank = b.anchor, len(b.node.output.type.dims)
    places, source = {axis: axis for axis in range(rank)}, anchor.input(2 if anchor.op == "MaxUnpool" else 1)
    if anchor.op == "AffineGrid":
        places = {axis: axis + 1 if axis else 0 for axis in range(rank)}
    elif anchor.op == "Col2Im":
        places = {axis: axis - 2 for axis in range(2, rank)}
    elif anchor.attrs.get("axes"):
        places = {axis % rank: place for place, axis in enumerate(anchor.attrs["axes"])}
    for axis, size in found(b):
        b.line(f"const int64_t size{axis} = {element(b, source, places[axis])};")
        checked(b, f"sizes_check(env, size{axis})")
        b.set_size(size, f"size{axis}")
    if anchor.op == "Col2Im":
        for place, size in enumerate(col2im_window(anchor, b.context).kernel):
            text = element(b, anchor.inputs[2], place)
            if isinstance(size, sympy.Symbol) and "sizes_at" in text:
                b.set_size(size, text)
