"""Depthwise convolutions with the pointwise ones around them in one kernel."""

from __future__ import annotations

import numpy as np

from mcpc.ir import dim
from mcpc.kernel_class import KernelClass
from mcpc.ops.linear import convolution_of

from ..kernel import Array, KernelBuilder
from ..region import SEPARABLE, Region
from ..separable import Bands, is_depthwise, scratch_floats
from .conv import conv_shape
from .linear import optional_weights, pack_panels, padded, weights
from .registry import emits


@emits(SEPARABLE)
def separable(b: KernelBuilder) -> None:
    stages = b.region.stages
    index = next(i for i, stage in enumerate(stages) if is_depthwise(stage))
    depthwise = stages[index]
    assert depthwise.anchor is not None
    expand = stages[0] if index == 1 else None
    project = stages[-1] if index + 1 < len(stages) else None
    part = b.part(depthwise, "depthwise")
    image, window = part.anchor.inputs[0], convolution_of(part.anchor).window
    assert image is not None
    channels = part.node.output.type.static_shape[1]
    taps = weights(part, part.anchor.input(1)).reshape(channels, -1).T
    bands = Bands.of(depthwise)
    shape = ", ".join(
        (
            conv_shape(part, image, window, channels),
            str(0 if expand is None else _columns_and_depth(expand)[1]),
            str(0 if project is None else _columns_and_depth(project)[0]),
            str(bands.band),
            str(bands.ring),
        )
    )
    b.label = f"separable {'x'.join(map(str, window.kernel))}"
    b.headers.append("separable.h")
    b.scratch = 4 * scratch_floats(depthwise, expand is not None, project is not None)
    b.operations = {KernelClass.DEPTHWISE: dim(2 * part.node.output.type.elements * len(taps))}
    first = b.part(stages[0], "").anchor.inputs[0]
    b.line(f"const separable_shape shape = {{{shape}}};")
    b.call(
        "separable_f32",
        "shape",
        b.part(stages[0], "").input(first),
        *_product(b, expand, "expand"),
        b.constant(pad_channels(taps)),
        part.epilogue_with(optional_weights(part, part.anchor.input(2))),
        *_product(b, project, "project"),
        *(b.output(), "args", b.worker_scratch if b.scratch else "0", "begin", "end"),
    )
    b.units = str(_units(depthwise, bands))
    b.grain = str(bands.grain) if expand is not None else "1"


def pad_channels(taps: Array) -> Array:
    """[taps, C] -> [taps][ceil8(C)], zero-padded (depthwise.h)."""
    return np.pad(taps, ((0, 0), (0, -taps.shape[1] % 8))).astype(np.float32)


def _units(depthwise: Region, bands: Bands) -> int:
    items, _, rows, _ = depthwise.node.output.type.static_shape
    return items * -(-rows // bands.band)


def _columns_and_depth(stage: Region) -> tuple[int, int]:
    assert stage.anchor is not None and stage.anchor.inputs[1] is not None
    columns, depth, *_ = stage.anchor.inputs[1].type.static_shape
    return columns, depth


def _product(b: KernelBuilder, stage: Region | None, name: str) -> tuple[str, str]:
    """The packed weights of a pointwise convolution and its epilogue."""
    if stage is None:
        return "0", "epilogue_none"
    part = b.part(stage, name)
    columns, depth = _columns_and_depth(stage)
    matrix = weights(part, part.anchor.input(1)).reshape(columns, depth).T
    elements = part.node.output.type.elements // columns * padded(columns, b.nr)
    assert b.operations is not None
    b.operations[KernelClass.GEMM] = dim(b.operations.get(KernelClass.GEMM, 0) + 2 * elements * depth)
    return b.constant(pack_panels(matrix, b.nr)), part.epilogue_with(optional_weights(part, part.anchor.input(2)))
