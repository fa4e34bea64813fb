"""ArgMax, ArgMin and TopK."""

from __future__ import annotations

from mcpc.ir import dim, product
from mcpc.ops.search import top_k_count

from ..expression import SUFFIXES
from ..kernel import KernelBuilder, unsupported
from .reduce import collapsed
from .registry import emits, finds_sizes


def _suffix(b: KernelBuilder) -> str:
    dtype = b.outer(b.anchor.inputs[0]).dtype
    if dtype not in SUFFIXES:
        raise unsupported(b.node, f"an operand of type {dtype.name}")
    return SUFFIXES[dtype]


@emits("ArgMax", "ArgMin")
def arg_extreme(b: KernelBuilder) -> None:
    x = b.outer(b.anchor.inputs[0])
    axes = [int(b.anchor.attrs.get("axis", 0)) % len(x.type.dims)] if x.type.dims else []
    outer, count, inner = collapsed(x.type, axes)
    kind = "REDUCE_MAX" if b.anchor.op == "ArgMax" else "REDUCE_MIN"
    b.label = b.anchor.op
    b.headers.append("search.h")
    is_last = int(bool(b.anchor.attrs.get("select_last_index", 0)))
    b.call(f"arg_extreme_{_suffix(b)}", kind, str(is_last), count, inner, b.input(x), b.output(), "begin", "end")
    b.units = f"arg_extreme_units({b.size(outer)}, {b.size(inner)})"


@emits("TopK")
def top_k(b: KernelBuilder) -> None:
    x = b.outer(b.anchor.inputs[0])
    axis = int(b.anchor.attrs.get("axis", -1)) % len(x.type.dims)
    outer, count, inner = collapsed(x.type, [axis])
    outputs = [b.anchor.outputs[index] if index < len(b.anchor.outputs) else None for index in range(2)]
    kept = next(value for value in outputs if value is not None).type
    values = "0" if outputs[0] is None else b.output(0)
    spare = f"(int64_t *)(void *){b.workspace(dim(8 * kept.elements))}" if outputs[1] is None else ""
    places = spare or b.output(1)
    b.label = "top k"
    b.headers.append("search.h")
    is_largest = int(bool(b.anchor.attrs.get("largest", 1)))
    sizes = (count, kept.dims[axis], inner)
    b.call(f"top_k_{_suffix(b)}", str(is_largest), *sizes, b.input(x), values, places, "begin", "end")
    b.units = b.size(product((outer, inner)))


@finds_sizes("TopK")
def top_k_size(b: KernelBuilder) -> None:
    x, k = b.outer(b.anchor.inputs[0]), b.outer(b.anchor.inputs[1])
    assert top_k_count(b.anchor, b.context) is None
    axis = int(b.anchor.attrs.get("axis", -1)) % len(x.type.dims)
    kept = next(value for value in b.anchor.outputs if value is not None).type
    size = b.size(x.type.dims[axis])
    b.headers.append("index.h")
    b.line(f"if (index_check(env, *{b.input(k)}, 0, {size}) < 0) return MCP26_STEP_DATA;")
    b.set_size(kept.dims[axis], f"*{b.input(k)}")
