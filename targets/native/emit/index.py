"""Operators that read or write at places that are data."""

from __future__ import annotations

from mcpc.ir import Dim, DType, Value, dim, product
from mcpc.ops.index import tuple_length

from ..ctext import c_type
from ..expression import SUFFIXES
from ..kernel import SELF, KernelBuilder, unsupported
from .move import RUN, word
from .registry import emits, finds_sizes

MAX_RANK = 16

SCATTER_KINDS = {
    "none": "SCATTER_NONE",
    "add": "SCATTER_ADD",
    "mul": "SCATTER_MUL",
    "max": "SCATTER_MAX",
    "min": "SCATTER_MIN",
}


def index_operand(b: KernelBuilder, value: Value | None) -> str:
    """The arguments `indices, is_index64` of a kernel."""
    dtype = b.outer(value).dtype
    return f"{b.input(value, c_type(dtype))}, {int(dtype is DType.int64)}"


def places(b: KernelBuilder, sizes: tuple[Dim, ...], strides: tuple[Dim, ...]) -> None:
    """Declare the arrays `sizes` and `strides`."""
    if len(sizes) > MAX_RANK:
        raise unsupported(b.node, f"a tensor of rank {len(sizes)}")
    columns = [", ".join(map(b.size, column)) for column in (sizes, strides)]
    b.line(f"const int64_t sizes[] = {{{columns[0]}}}, strides[] = {{{columns[1]}}};")


@emits("GatherElements")
def gather_elements(b: KernelBuilder) -> None:
    source, indices = b.outer(b.anchor.inputs[0]), b.outer(b.anchor.inputs[1])
    axis = int(b.anchor.attrs.get("axis", 0)) % len(source.type.dims)
    type, bits = word(source.dtype)
    own = source.type.strides
    b.label = "gather elements"
    b.headers.append("index.h")
    places(b, indices.type.dims, (*own[:axis], 0, *own[axis + 1 :]))
    b.line(
        f"return gather_elements_{bits}(env, {len(own)}, sizes, strides, {b.size(own[axis])}, "
        f"{b.size(source.type.dims[axis])}, {b.input(source, type)}, {index_operand(b, indices)}, "
        f"{b.output(type=type)}, begin, end);"
    )
    b.units = b.size(product(indices.type.dims[:-1]))


@emits("GatherND")
def gather_nd(b: KernelBuilder) -> None:
    source, indices = b.outer(b.anchor.inputs[0]), b.outer(b.anchor.inputs[1])
    batch = int(b.anchor.attrs.get("batch_dims", 0))
    k = tuple_length(b.anchor, indices.type)
    type, bits = word(source.dtype)
    dims, strides = source.type.dims, source.type.strides
    tuples, inner = product(indices.type.dims[batch:-1]), product(dims[batch + k :])
    b.label = "gather nd"
    b.headers.append("index.h")
    places(b, dims[batch : batch + k], strides[batch : batch + k])
    b.line(
        f"return gather_nd_{bits}(env, {b.size(tuples)}, {b.size(product(dims[batch:]))}, {k}, sizes, strides, "
        f"{b.size(inner)}, {b.input(source, type)}, {index_operand(b, indices)}, {b.output(type=type)}, begin, end);"
    )
    b.units = b.size(dim(product(dims[:batch]) * tuples))
    b.grain = str(RUN // 64)


def _scatter(b: KernelBuilder) -> tuple[str, str, str]:
    """The kernel's suffix, the kind and the C type; emits the copy of the data that the updates change, unless it is
    made in place."""
    source = b.outer(b.anchor.inputs[0])
    kind = SCATTER_KINDS[str(b.anchor.attrs.get("reduction", "none"))]
    type, bits = word(source.dtype)
    b.headers.append("index.h")
    to, data = b.output(type=type), b.input(source, type)
    b.line(f"if ({to} != {data}) move_run_{bits}({to}, {data}, {b.size(source.type.elements)});")
    if kind == "SCATTER_NONE":
        return f"u{bits}", kind, type
    if source.dtype not in SUFFIXES:
        raise unsupported(b.node, f"a reduction of {source.dtype.name}")
    return SUFFIXES[source.dtype], kind, c_type(source.dtype)


@emits("ScatterElements")
def scatter_elements(b: KernelBuilder) -> None:
    """One unit: updates are applied in order."""
    source, indices, updates = (b.outer(value) for value in b.anchor.inputs[:3])
    axis = int(b.anchor.attrs.get("axis", 0)) % len(source.type.dims)
    own = source.type.strides
    b.label = "scatter elements"
    suffix, kind, type = _scatter(b)
    places(b, indices.type.dims, (*own[:axis], 0, *own[axis + 1 :]))
    b.line(
        f"return scatter_elements_{suffix}(env, {kind}, {len(own)}, sizes, strides, {b.size(own[axis])}, "
        f"{b.size(source.type.dims[axis])}, {b.size(indices.type.elements)}, {index_operand(b, indices)}, "
        f"{b.input(updates, type)}, {b.output(type=type)});"
    )


@emits("ScatterND")
def scatter_nd(b: KernelBuilder) -> None:
    """One unit: updates are applied in order."""
    source, indices, updates = (b.outer(value) for value in b.anchor.inputs[:3])
    k = tuple_length(b.anchor, indices.type)
    b.label = "scatter nd"
    suffix, kind, type = _scatter(b)
    places(b, source.type.dims[:k], source.type.strides[:k])
    b.line(
        f"return scatter_nd_{suffix}(env, {kind}, {b.size(product(indices.type.dims[:-1]))}, {k}, sizes, strides, "
        f"{b.size(product(source.type.dims[k:]))}, {index_operand(b, indices)}, {b.input(updates, type)}, "
        f"{b.output(type=type)});"
    )


@emits("OneHot")
def one_hot(b: KernelBuilder) -> None:
    indices, values = b.outer(b.anchor.inputs[0]), b.outer(b.anchor.inputs[2])
    out = b.node.output.type
    axis = int(b.anchor.attrs.get("axis", -1)) % len(out.dims)
    type, bits = word(values.dtype)
    element = f"((const {c_type(indices.dtype)} *)indices)[i]"
    number = f"index_from_double((double){element})" if indices.dtype.is_float else f"(int64_t){element}"
    b.function(f"MCP26_INLINE int64_t {SELF}_index(const void *indices, int64_t i) {{\n    return {number};\n}}")
    b.label = "one hot"
    b.headers.append("index.h")
    depth, inner = out.dims[axis], product(out.dims[axis + 1 :])
    b.call(
        f"one_hot_{bits}",
        *(depth, inner, b.input(indices, c_type(indices.dtype)), f"{SELF}_index", b.input(values, type)),
        *(b.output(type=type), "begin", "end"),
    )
    b.units = b.size(product(out.dims[: axis + 1]))


@finds_sizes("OneHot")
def one_hot_size(b: KernelBuilder) -> None:
    """The depth, of any type."""
    depth, out = b.outer(b.anchor.inputs[1]), b.node.output.type
    axis = int(b.anchor.attrs.get("axis", -1)) % len(out.dims)
    number = f"*{b.input(depth)}"
    b.headers.append("index.h")
    value = f"index_from_double((double){number})" if depth.dtype.is_float else f"(int64_t){number}"
    b.line(
        f"const int64_t depth = {value};",
        "if (index_check(env, depth, 0, INT64_MAX) < 0) return MCP26_STEP_DATA;",
    )
    b.set_size(out.dims[axis], "depth")
