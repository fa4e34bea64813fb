"""Conv over one or two axes with constant weights, by the kernel that :mod:`..choice` has taken."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mcpc.ir import Dim, TensorType, Value
from mcpc.ops.window import Window

from ..choice import Candidate, Method
from ..convolution import PackedConvolution
from ..kernel import KernelBuilder, unsupported
from ..winograd import Form
from ..winograd_line import LineForm
from . import quantize
from .linear import expect_float32, gemm, optional_weights, pack_panels
from .quantize import Stored


def conv(b: KernelBuilder) -> None:
    expect_float32(b)
    form, choice = PackedConvolution.of(b.region), b.choice
    assert form is not None and choice is not None
    taps = quantize.stored(b, b.anchor.input(1))
    epilogue = b.epilogue_with(optional_weights(b, b.anchor.input(2)))
    b.operations = dict(choice.operations)
    WRITERS[choice.method](b, form, choice, taps, epilogue)


def conv_shape(b: KernelBuilder, x: Value, window: Window, groups: int) -> str:
    """The conv_shape literal of conv.h; 1-D is height 1."""
    x_dims = b.outer(x).type.dims
    y_dims = b.node.output.type.dims
    if len(x_dims) not in (3, 4):
        raise unsupported(b.node, f"a {len(x_dims) - 2}-dimensional window")
    flat: list[Dim] = [1] if len(x_dims) == 3 else []
    in_hw, out_hw = [*flat, *x_dims[2:]], [*flat, *y_dims[2:]]
    kernel, stride, dilation = ([*flat, *sizes] for sizes in (window.kernel, window.strides, window.dilations))
    begins = [window.padding(axis, size)[0] for axis, size in enumerate(x_dims[2:])]
    pads = [*([0] if flat else []), *begins]
    fields: dict[str, Dim] = {
        "batch": x_dims[0], "in_h": in_hw[0], "in_w": in_hw[1], "in_c": x_dims[1], "x_pixel": pixel(b.outer(x).type),
        "out_h": out_hw[0], "out_w": out_hw[1], "out_c": y_dims[1], "y_pixel": pixel(b.node.output.type),
        "kernel_h": kernel[0], "kernel_w": kernel[1], "stride_h": stride[0], "stride_w": stride[1],
        "dilation_h": dilation[0], "dilation_w": dilation[1], "pad_top": pads[0], "pad_left": pads[1],
        "groups": groups,
    }  # fmt: skip
    text = ", ".join(f".{name} = {b.size(value)}" for name, value in fields.items())
    return f"(conv_shape){{{text}}}"


def pixel(type: TensorType) -> Dim:
    """Elements from one pixel of a channels-last image to the next."""
    return type.dims[1] if type.pitch is None else type.pitch


Writer = Callable[[KernelBuilder, PackedConvolution, Candidate, Stored, str], None]


def _planar(b: KernelBuilder, form: PackedConvolution, choice: Candidate, taps: Stored, epilogue: str) -> None:
    x = b.outer(b.anchor.inputs[0])
    b.label = f"conv planar {_kernel(form)}"
    b.headers.append("conv_few.h")
    shape = conv_shape(b, x, form.window, 1)
    packed = pack_panels(taps.floats.reshape(form.out_c, -1).T, b.nr)
    b.call("conv_nchw_in_f32", shape, b.input(x), b.constant(packed), b.output(), epilogue, "args", "begin", "end")
    b.units = f"conv_few_f32_units({shape})"


def _pointwise(b: KernelBuilder, form: PackedConvolution, choice: Candidate, taps: Stored, epilogue: str) -> None:
    matrix = taps.map(lambda a: a.reshape(form.out_c, form.in_c).T)
    x = b.outer(b.anchor.inputs[0])
    gemm(b, form.pixels, form.out_c, form.in_c, b.input(x), matrix, epilogue, "conv 1x1", pixel(x.type))


def _rows(b: KernelBuilder, form: PackedConvolution, choice: Candidate, taps: Stored, epilogue: str) -> None:
    matrix = taps.map(lambda a: a.transpose(2, 1, 0).reshape(-1, form.out_c))
    gemm(
        b, form.y.dims[2], form.out_c, len(matrix.data), b.input(b.anchor.inputs[0]), matrix, epilogue,
        f"conv row {_kernel(form)}", form.in_c * form.window.strides[0],
    )  # fmt: skip


def _depthwise(b: KernelBuilder, form: PackedConvolution, choice: Candidate, taps: Stored, epilogue: str) -> None:
    x = b.outer(b.anchor.inputs[0])
    b.label = f"depthwise {_kernel(form)}"
    b.headers.append("depthwise.h")
    shape = conv_shape(b, x, form.window, form.groups)
    packed = np.zeros((form.taps, -(-form.out_c // 8) * 8), np.float32)
    packed[:, : form.out_c] = taps.floats.reshape(form.out_c, -1).T
    b.call("depthwise_f32", shape, b.input(x), b.constant(packed), b.output(), epilogue, "args", "begin", "end")
    b.units = f"depthwise_f32_units({shape})"


def _indirect(b: KernelBuilder, form: PackedConvolution, choice: Candidate, taps: Stored, epilogue: str) -> None:
    x = b.outer(b.anchor.inputs[0])
    b.label = f"conv {_kernel(form)}"
    b.headers.append("conv.h")
    shape = conv_shape(b, x, form.window, form.groups)
    channels = form.out_c // form.groups
    flat = taps.map(lambda a: a.reshape(form.groups, channels, form.group_in, -1))
    matrices = [
        flat.map(lambda a, g=g: a[g].transpose(2, 1, 0).reshape(-1, channels))  # type: ignore[misc]
        for g in range(form.groups)
    ]
    if not taps.is_float:
        quantize.conv(b, shape, b.input(x), form.group_in, matrices, epilogue)
        return
    packed = np.stack([pack_panels(matrix.data, b.nr) for matrix in matrices])
    zeros = b.constant(np.zeros(form.group_in, np.float32))
    b.call("conv_f32", shape, b.input(x), b.constant(packed), zeros, b.output(), epilogue, "args", "begin", "end")
    b.units = f"conv_f32_units({shape})"


def _winograd(b: KernelBuilder, form: PackedConvolution, choice: Candidate, taps: Stored, epilogue: str) -> None:
    x = b.outer(b.anchor.inputs[0])
    assert isinstance(choice.form, Form | LineForm)
    kernel = "winograd" if choice.method is Method.WINOGRAD else "winograd_line"
    b.label = f"conv {choice.name}"
    b.headers.append(f"{kernel}.h")
    shape = f"({kernel}_shape){{{conv_shape(b, x, form.window, 1)}, {choice.form.literals(choice.block)}}}"
    points = choice.form.weights(taps.data)
    packed = np.stack([pack_panels(matrix, b.nr) for matrix in points], axis=1)
    b.scratch = choice.form.scratch(form.in_c, choice.block)
    arguments = (b.input(x), b.constant(packed), b.output(), epilogue, "args", b.worker_scratch)
    b.call(f"{kernel}_f32", shape, *arguments, "begin", "end")
    b.units = f"{kernel}_units({shape})"


WRITERS: dict[Method, Writer] = {
    Method.PLANAR: _planar,
    Method.POINTWISE: _pointwise,
    Method.ROWS: _rows,
    Method.DEPTHWISE: _depthwise,
    Method.INDIRECT: _indirect,
    Method.WINOGRAD: _winograd,
    Method.WINOGRAD_LINE: _winograd,
}


def _kernel(form: PackedConvolution) -> str:
    return "x".join(map(str, form.window.kernel))
