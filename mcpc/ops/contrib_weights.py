"""ONNX Runtime's operators on weights of few bits in blocks (domain com.microsoft), see :mod:`mcpc.ops.contrib`. The
weights become constants of their own type that DequantizeLinear expands, which kernels do while they read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mcpc.ir import DType, Value
from mcpc.ops.context import attribute, axis_of, fail, show
from mcpc.ops.contrib import Expansion, stands_for

Array = np.ndarray[Any, Any]

#: What numbers of so many bits are stored as, and where their zero point is the middle.
_TYPES = {2: (DType.uint2, DType.int2), 4: (DType.uint4, DType.int4), 8: (DType.uint8, DType.int8)}


def _bits(packed: Array, bits: int, count: int) -> Array:
    """The first ``count`` numbers of ``bits`` bits of each row, the lowest bits first."""
    parts = [(packed >> shift) & (2**bits - 1) for shift in range(0, 8, bits)]
    return np.stack(parts, axis=-1).reshape(*packed.shape[:-1], -1)[..., :count]


def _constant(e: Expansion, index: int) -> Array:
    data = e.input(index).data
    if data is None:
        fail(e.node, f"input {index} must be constant", "E102")
    return data


@dataclass(frozen=True)
class _Blocks:
    """B [N, K]: ``stored`` less ``zero`` (None for 0), times ``scale`` [N, blocks], for blocks of ``size`` along K.
    ``shift`` [N, blocks] is what is missing where zero points are no integers."""

    stored: Array
    scale: Array
    zero: Array | None
    size: int
    shift: Array | None = None


def _blocks(e: Expansion) -> _Blocks:
    depth, columns, bits = (attribute(e.node, name, 4 if name == "bits" else 0) for name in ("K", "N", "bits"))
    size = attribute(e.node, "block_size", 0)
    if bits not in _TYPES or min(depth, columns, size) < 1:
        fail(e.node, f"K {depth}, N {columns}, {bits} bits in blocks of {size}", "E102")
    if attribute(e.node, "weight_prepacked", 0):
        e.refuse("weights that are packed for one device (weight_prepacked)")
    count = -(-depth // size)
    packed, scale = _constant(e, 1), _constant(e, 2)
    if packed.size != columns * count * size * bits // 8 or scale.size != columns * count:
        fail(e.node, f"weights of {packed.size} bytes with {scale.size} scales do not fit K {depth}, N {columns}")
    stored = _bits(packed.reshape(columns, -1), bits, depth)
    scale = scale.reshape(columns, count).astype(np.float32)
    middle, zero, shift = 2 ** (bits - 1), None, None
    if e.node.input(3) is not None:
        given = _constant(e, 3)
        if given.size != columns * (-(-count * bits // 8) if given.dtype == np.uint8 else count):
            fail(e.node, f"zero points {show(e.input(3).type)} do not fit {columns} columns of {count} blocks")
        rows = given.reshape(columns, -1)
        exact = _bits(rows, bits, count) if given.dtype == np.uint8 else rows.astype(np.float32)
        if (exact == np.rint(exact)).all() and exact.min() >= 0 and exact.max() < 2**bits:
            zero = None if (exact == middle).all() else exact
        else:
            shift = (middle - exact) * scale
    plain, centred = _TYPES[bits]
    if zero is None:
        return _Blocks((stored.astype(np.int16) - middle).astype(centred.numpy), scale, None, size, shift)
    return _Blocks(stored.astype(plain.numpy), scale, zero.astype(plain.numpy), size)


@stands_for("MatMulNBits")
def matmul_bits(e: Expansion) -> Sequence[Value | None]:
    """A [.., K] times the transpose of B [N, K], which lies in blocks along K of 2, 4 or 8 bits a number."""
    b, a, bias = _blocks(e), e.input(0), e.node.input(5)
    if a.dtype is not DType.float32:
        a = e("Cast", a, to=DType.float32)
    if e.node.input(4) is not None:
        a, b = _sorted(e, a, b)
    parts = {"stored": b.stored, "scale": b.scale, "zero": b.zero}
    operands = [e.graph.constant(f"{e.node.name}.{name}", data) for name, data in parts.items() if data is not None]
    weights = e("DequantizeLinear", *operands, axis=1, block_size=b.size)
    product = e("MatMul", a, e("Transpose", weights, perm=[1, 0]))
    if b.shift is not None:
        shift = e.graph.constant(f"{e.node.name}.shift", np.ascontiguousarray(b.shift.T))
        product = e("Add", product, e("MatMul", _block_sums(e, a, b), shift))
    if e.input(0).dtype is not product.dtype:
        product = e("Cast", product, to=e.input(0).dtype)
    return [product if bias is None else e("Add", product, bias)]


def _sorted(e: Expansion, a: Value, b: _Blocks) -> tuple[Value, _Blocks]:
    """Where g_idx says which block's parameters a row of B has: rows and A's columns by block."""
    groups = _constant(e, 4).reshape(-1)[: b.stored.shape[1]]
    order = np.argsort(groups, kind="stable")
    if len(groups) != b.stored.shape[1] or (groups[order] != np.arange(len(order)) // b.size).any():
        e.refuse("blocks of several sizes (g_idx)")
    if (order == np.arange(len(order))).all():
        return a, b
    columns = e.graph.constant(f"{e.node.name}.order", order.astype(np.int64))
    return e("Gather", a, columns, axis=-1), _Blocks(b.stored[:, order], b.scale, b.zero, b.size, b.shift)


def _block_sums(e: Expansion, a: Value, b: _Blocks) -> Value:
    """The sums of A [.., K] over each block, [.., blocks]."""
    rank, depth, count = a.type.rank, b.stored.shape[1], b.scale.shape[1]
    if rank is None:
        fail(e.node, f"the rank of %{a.name} is not known", "E108")
    padding = [0] * (2 * rank - 1) + [count * b.size - depth]
    whole = e("Pad", a, e.ints(*padding)) if padding[-1] else a
    blocks = e("Reshape", whole, e.ints(*[0] * (rank - 1), count, b.size))
    return e("ReduceSum", blocks, e.ints(-1), keepdims=0)


@stands_for("GatherBlockQuantized")
def gather_blocks(e: Expansion) -> Sequence[Value | None]:
    """Rows of a table whose numbers lie in blocks along the last axis; those of few bits stay packed in bytes until
    they are picked."""
    data, scale, indices = _constant(e, 0), _constant(e, 2), e.input(1)
    bits, size = attribute(e.node, "bits", 4), attribute(e.node, "block_size", 128)
    where = [axis_of(e.node, attribute(e.node, f"{name}_axis", i), data.ndim) for i, name in enumerate(_AXES)]
    if data.ndim < 2 or where != [0, data.ndim - 1] or indices.type.rank is None:
        e.refuse("axes other than the first and the last")
    zeros = None if e.node.input(3) is None else _constant(e, 3)
    if DType.of(data) in (DType.int4, DType.uint4):
        bits, low = 4, 8 if DType.of(data) is DType.int4 else 0
        data = _packed(data.astype(np.int16) + low)
        zeros = np.full(scale.shape, low) if zeros is None else zeros.astype(np.int16) + low
    elif data.dtype == np.uint8 and bits in _TYPES:
        zeros = np.full(scale.shape, 2 ** (bits - 1)) if zeros is None else _bits(zeros, bits, scale.shape[-1])
    else:
        e.refuse(f"{bits} bits of {show(e.input(0).type)}")
    depth, count = data.shape[-1] * 8 // bits, scale.shape[-1]
    if size < 1 or depth != count * size or {scale.shape[:-1], zeros.shape[:-1]} != {data.shape[:-1]}:
        fail(e.node, f"scales {show(e.input(2).type)} do not fit {show(e.input(0).type)} in blocks of {size}")
    lead = [0] * (indices.type.rank + data.ndim - 2)

    def picked(name: str, table: Array) -> Value:
        return e("Gather", e.graph.constant(f"{e.node.name}.{name}", np.ascontiguousarray(table)), indices, axis=0)

    def parameter(name: str, table: Array) -> Value:
        return e("Unsqueeze", e("Cast", picked(name, table), to=DType.float32), e.ints(-1))

    rows = picked("stored", data)
    shifted = [e("BitShift", rows, e.scalar(at, rows), direction="RIGHT") for at in range(0, 8, bits)]
    parts = [e("Unsqueeze", e("BitwiseAnd", part, e.scalar(2**bits - 1, part)), e.ints(-1)) for part in shifted]
    numbers = e("Reshape", e("Concat", *parts, axis=-1), e.ints(*lead, count, size))
    steps = e("Sub", e("Cast", numbers, to=DType.float32), parameter("zero", zeros.astype(np.uint8)))
    result = e("Reshape", e("Mul", steps, parameter("scale", scale)), e.ints(*lead, depth))
    return [result if scale.dtype == np.float32 else e("Cast", result, to=e.input(2).dtype)]


_AXES = ("gather", "quantize")


def _packed(nibbles: Array) -> Array:
    """Numbers of four bits two a byte, the first in the low half."""
    pairs = nibbles.astype(np.uint8).reshape(*nibbles.shape[:-1], -1, 2)
    return pairs[..., 0] | pairs[..., 1] << 4
