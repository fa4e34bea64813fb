"""Weights of 8 or 4 bits for products that stay products of floats: the file shrinks, and what is bound by reading
weights from memory, as a decoder is that makes one token at a time, gets faster. No samples are needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mcpc.fidelity import fidelity
from mcpc.halves import STORED_FROM
from mcpc.ir import DType, Graph, Node, TensorType, Value
from mcpc.pipeline import Pass, PassContext
from mcpc.rewrite import control_flow_graphs

from .integer import weight_axis

Array = np.ndarray[Any, Any]

#: By the bits that weights may have: their type, and the largest integer on both sides of 0.
STORED = {4: (DType.int4, 7), 8: (DType.int8, 127)}

#: The least step that has a reciprocal.
_TINY = float(np.finfo(np.float32).tiny)


@dataclass(frozen=True)
class QuantizeWeights(Pass):
    """Rounds the float32 weights of MatMul and Gemm to ``bits`` (8 or 4) and puts a DequantizeLinear before what reads
    them: round-to-nearest, symmetric, one scale for every ``block_size`` numbers that are summed (along K) of a column;
    0: one for a column. A weight moves by half a step at most, that is by 1/14 (4 bits) or 1/254 of the largest in its
    block.

    What is smaller than STORED_FROM elements, no matrix of finite numbers, or read by other operators too stays
    float32; of the last two this is recorded, as is the relative L2 error of what is rounded."""

    name: ClassVar[str] = "quantize-weights"
    tolerance: ClassVar[float | None] = None

    bits: int = 4
    block_size: int = 128

    def __post_init__(self) -> None:
        if self.bits not in STORED:
            raise ValueError(f"weights have {' or '.join(map(str, STORED))} bits, not {self.bits}")
        if self.block_size < 0:
            raise ValueError(f"a block of {self.block_size} is none")

    def __call__(self, graph: Graph, ctx: PassContext) -> Graph:
        for inner in control_flow_graphs(graph):
            weights = {node.inputs[1]: node for node in inner.nodes if node.is_op("MatMul", "Gemm")}
            with inner.edit():
                for weight, node in weights.items():
                    if weight is not None and self._is_stored(weight, node, ctx):
                        self._store(inner, weight, weight_axis(node), ctx)
        return graph

    def _is_stored(self, weight: Value, node: Node, ctx: PassContext) -> bool:
        """Whether ``weight``, which ``node`` multiplies by, is rounded."""
        if weight.data is None or weight.dtype is not DType.float32 or weight.data.size < STORED_FROM:
            return False
        reason = ""
        if weight.data.ndim != 2 or not np.isfinite(weight.data).all():
            reason = "it is no matrix of finite numbers"
        elif not all(_multiplies(user, weight) and weight_axis(user) == weight_axis(node) for user in weight.users):
            reason = "it is read in several ways"
        if reason:
            ctx.decide(weight, "keep", f"float32: {reason}")
        return not reason

    def _store(self, graph: Graph, weight: Value, columns: int, ctx: PassContext) -> None:
        """Let all that read ``weight``, whose axis ``columns`` counts columns, read it rounded."""
        data = np.asarray(weight.data)
        dtype, most = STORED[self.bits]
        depth = data.shape[1 - columns]
        block = self.block_size if 0 < self.block_size < depth else depth
        whole, steps = rounded(data.T if columns == 0 else data, block, most)
        if columns == 0:
            whole, steps = whole.T, steps.T
        attrs = {"axis": 1 - columns, "block_size": block} if block < depth else {"axis": columns}
        stored = graph.constant(f"{weight.name}.quantized", np.ascontiguousarray(whole.astype(dtype.numpy)))
        scale = graph.constant(f"{weight.name}.scale", np.ascontiguousarray(steps if block < depth else steps.ravel()))
        for user in dict.fromkeys(weight.users):
            wide = Value(graph.fresh(f"{weight.name}.rounded"), TensorType(DType.float32, data.shape))
            graph.insert_before(user, [Node("DequantizeLinear", [stored, scale], [wide], attrs, wide.name)])
            graph.set_inputs(user, [wide if each is weight else each for each in user.inputs])
        repeated = np.repeat(steps, block, 1 - columns)[tuple(slice(size) for size in data.shape)]
        error = fidelity(whole * repeated, data).relative_l2
        nbytes = float(data.size * self.bits / 8 + steps.nbytes)
        ctx.decide(weight, dtype.name, "its numbers are rounded in the file", bytes=nbytes, relative_l2=error)


def _multiplies(user: Node, weight: Value) -> bool:
    """Whether ``weight`` is the right factor of ``user``, and nothing else of it."""
    return user.is_op("MatMul", "Gemm") and [each is weight for each in user.inputs] == [
        index == 1 for index in range(len(user.inputs))
    ]


def rounded(weights: Array, block: int, most: int) -> tuple[Array, Array]:
    """Whole numbers, float32 [K, N] within ``most`` on both sides of 0, and the steps that they count, float32
    [ceil(K / block), N]: that of a block makes ``most`` of its largest magnitude, or 1 of zeros."""
    depth, columns = weights.shape
    count = -(-depth // block)
    padded = np.zeros((count * block, columns), np.float32)
    padded[:depth] = weights
    blocks = padded.reshape(count, block, columns)
    steps = np.maximum(np.abs(blocks).max(1) / np.float32(most), np.float32(_TINY))
    steps = np.where(blocks.any(1), steps, np.float32(1))
    whole = np.clip(np.rint(blocks / steps[:, None]), -most, most)
    return whole.reshape(count * block, columns)[:depth], steps
