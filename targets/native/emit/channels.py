"""Normalisations per channel, of channels-last activations; BatchNormalization in any memory order."""

from __future__ import annotations

import numpy as np

from mcpc.ir import Dim, product

from ..ctext import float_literal
from ..kernel import KernelBuilder
from .linear import expect_float32
from .registry import emits

LRN_DEFAULTS = {"alpha": 1e-4, "beta": 0.75, "bias": 1.0}


def _epsilon(b: KernelBuilder) -> str:
    return float_literal(float(b.anchor.attrs.get("epsilon", 1e-5)))


def _image(b: KernelBuilder) -> tuple[Dim, Dim, Dim]:
    """Items, pixels and channels."""
    items, channels, *spatial = b.outer(b.anchor.inputs[0]).type.dims
    return items, product(spatial), channels


@emits("BatchNormalization")
def batch_normalization(b: KernelBuilder) -> None:
    expect_float32(b)
    x = b.outer(b.anchor.inputs[0]).type
    sizes = [x.dims[axis] for axis in x.order]
    place = x.order.index(1) if len(sizes) > 1 else len(sizes)
    outer, channels, inner = product(sizes[:place]), product(sizes[place : place + 1]), product(sizes[place + 1 :])
    b.label = "batch normalization"
    b.headers.append("channels.h")
    operands = [b.input(value) for value in b.anchor.inputs[:5]]
    b.call("batch_norm_f32", channels, inner, _epsilon(b), *operands, b.output(), "begin", "end")
    b.units = f"batch_norm_units({', '.join(map(b.size, (outer, channels, inner)))})"


@emits("InstanceNormalization", "GroupNormalization")
def image_normalization(b: KernelBuilder) -> None:
    expect_float32(b)
    items, pixels, channels = _image(b)
    b.label = b.anchor.op
    b.headers.append("channels.h")
    operands = [b.input(value) for value in b.anchor.inputs[:3]]
    tail = (pixels, channels, _epsilon(b), *operands, b.output(), "begin", "end")
    if b.anchor.op == "InstanceNormalization":
        b.call("instance_norm_f32", *tail)
        b.units = f"instance_norm_units({b.size(items)}, {b.size(channels)})"
    else:
        groups = int(b.anchor.attrs["num_groups"])
        b.call("group_norm_f32", groups, *tail)
        b.units = b.size(product((items, groups)))


@emits("LRN")
def local_response_normalization(b: KernelBuilder) -> None:
    expect_float32(b)
    items, pixels, channels = _image(b)
    size = int(b.anchor.attrs["size"])
    numbers = {name: float(b.anchor.attrs.get(name, default)) for name, default in LRN_DEFAULTS.items()}
    scale = float(np.float32(numbers["alpha"]) / np.float32(size))
    b.label = "lrn"
    b.headers.append("channels.h")
    window = (channels, (size - 1) // 2, size // 2)
    factors = map(float_literal, (scale, numbers["bias"], numbers["beta"]))
    b.call("lrn_f32", *window, *factors, b.input(b.anchor.inputs[0]), b.output(), "begin", "end")
    b.units = b.size(product((items, pixels)))
    b.grain = "16"
