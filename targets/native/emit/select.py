"""Operators whose results are as large as the data say."""

from __future__ import annotations

from mcpc.ir import Dim, DType, dim
from mcpc.ops.select import selected_axis

from ..expression import SUFFIXES
from ..kernel import KernelBuilder
from .index import places
from .move import word
from .reduce import collapsed
from .registry import emits, finds_sizes


def _elements(b: KernelBuilder) -> str:
    """The arguments `n, x, mask` of NonZero's kernels; the suffix is that of :func:`word`."""
    x = b.outer(b.anchor.inputs[0])
    type, bits = word(x.dtype)
    mask = 2 ** (bits - 1) - 1 if x.dtype.is_float else 2**bits - 1
    return f"{b.size(x.type.elements)}, {b.input(x, type)}, {mask}ull"


@finds_sizes("NonZero")
def count_non_zero(b: KernelBuilder) -> None:
    _, bits = word(b.outer(b.anchor.inputs[0]).dtype)
    b.headers.append("select.h")
    b.set_size(b.node.output.type.dims[1], f"count_nonzero_{bits}({_elements(b)})")


@emits("NonZero")
def non_zero(b: KernelBuilder) -> None:
    """One unit: where an element goes depends on those before it."""
    x = b.outer(b.anchor.inputs[0])
    _, bits = word(x.dtype)
    b.label = "nonzero"
    b.headers.append("select.h")
    places(b, x.type.dims or (1,), x.type.strides or (1,))
    count = b.size(b.node.output.type.dims[1])
    b.line(f"nonzero_{bits}({len(x.type.dims)}, sizes, {_elements(b)}, {count}, {b.output()});")


def _slices(b: KernelBuilder) -> tuple[Dim, Dim, Dim]:
    """(outer, n, inner) of the operand whose n slices are selected."""
    x, axis = b.outer(b.anchor.inputs[0]), selected_axis(b.anchor)
    return (1, x.type.elements, 1) if axis is None else collapsed(x.type, [axis])


@finds_sizes("Compress")
def count_kept(b: KernelBuilder) -> None:
    flags = b.outer(b.anchor.inputs[1])
    _, n, _ = _slices(b)
    b.headers.append("select.h")
    number = f"mcp26_min({b.size(n)}, {b.size(flags.type.elements)})"
    b.set_size(_new_size(b), f"count_nonzero_8({number}, {b.input(flags)}, 1)")


def _new_size(b: KernelBuilder) -> Dim:
    """The size of the first output that the data say."""
    axis, out = selected_axis(b.anchor), b.node.outputs[0]
    assert out is not None
    return out.type.dims[0 if axis is None else axis]


@emits("Compress")
def compress(b: KernelBuilder) -> None:
    x, flags = b.outer(b.anchor.inputs[0]), b.outer(b.anchor.inputs[1])
    type, bits = word(x.dtype)
    outer, n, inner = _slices(b)
    b.label = "compress"
    b.headers.append("select.h")
    sizes = (flags.type.elements, b.input(flags), _new_size(b))
    b.call(f"compress_{bits}", n, inner, b.input(x, type), *sizes, b.output(type=type), "begin", "end")
    b.units = b.size(outer)


def _unique_suffix(b: KernelBuilder) -> str:
    dtype = b.outer(b.anchor.inputs[0]).dtype
    return "u8" if dtype is DType.bool else SUFFIXES[dtype]


@finds_sizes("Unique")
def count_unique(b: KernelBuilder) -> None:
    x = b.outer(b.anchor.inputs[0])
    outer, n, inner = _slices(b)
    order = f"(int64_t *)(void *){b.workspace(dim(8 * n))}"
    b.headers.append("select.h")
    sizes = ", ".join(map(b.size, (outer, n, inner)))
    b.set_size(_new_size(b), f"unique_{_unique_suffix(b)}_sort({sizes}, {b.input(x)}, {order})")


@emits("Unique")
def unique(b: KernelBuilder) -> None:
    """One unit: it sorts."""
    x = b.outer(b.anchor.inputs[0])
    outer, n, inner = _slices(b)
    b.label = "unique"
    b.headers.append("select.h")
    present = [index < len(b.node.outputs) and b.node.outputs[index] is not None for index in range(4)]
    outputs = [b.output(index) if is_there else "0" for index, is_there in enumerate(present)]
    work = f"(int64_t *)(void *){b.workspace(dim(16 * n))}"
    is_sorted = str(int(bool(b.anchor.attrs.get("sorted", 1))))
    sizes = (is_sorted, outer, n, inner)
    b.call(f"unique_{_unique_suffix(b)}", *sizes, b.input(x), _new_size(b), *outputs, work)
