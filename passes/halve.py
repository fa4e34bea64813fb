"""Weights of products and tables, stored as float16."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from mcpc.halves import PRECISION, STORED_FROM
from mcpc.ir import DType, Graph, Node, Value
from mcpc.pipeline import Pass, PassContext
from mcpc.rewrite import control_flow_graphs, substitute

from .compress import READERS

LARGEST = float(np.finfo(np.float16).max)


@dataclass(frozen=True)
class Halve(Pass):
    """Rounds the float32 weights of products (and tables that rows are gathered from) to float16 and puts a Cast before
    what reads them: what computes is as before, the file holds half the bytes.

    A weight with a number beyond 65504, which float16 has not, stays float32, which is recorded. So does what is
    smaller than STORED_FROM elements. The graph's metadata say ``precision: fp16`` (behind others that they have), for
    the passes of a target that computes in float16 itself, and for whoever compares results.

    ``listed``: only layers that ``ctx.options["layer_precisions"]`` has as "fp16", by the names of nodes; the graph
    stays as it is where there are none."""

    name: ClassVar[str] = "halve"
    tolerance: ClassVar[float | None] = None

    listed: bool = False

    def __call__(self, graph: Graph, ctx: PassContext) -> Graph:
        named = {name for name, each in ctx.options.get("layer_precisions", {}).items() if each == "fp16"}
        if self.listed and not named:
            return graph
        others = [each for each in (graph.metadata.get(PRECISION),) if each]
        graph.metadata[PRECISION] = "+".join([*others, "fp16"])
        halves: dict[Value, Value | None] = {}
        for inner in control_flow_graphs(graph):
            with inner.edit():
                for node in list(inner.nodes):
                    if node.domain == "" and node.op in READERS and (not self.listed or node.name in named):
                        _halve(inner, node, halves, ctx)
        return graph


def _halve(graph: Graph, node: Node, halves: dict[Value, Value | None], ctx: PassContext) -> None:
    index = READERS[node.op]
    weight = node.inputs[index]
    if weight is None or weight.data is None or weight.dtype is not DType.float32 or weight.data.size < STORED_FROM:
        return
    if weight not in halves:
        halves[weight] = _rounded(graph, weight, ctx)
    stored = halves[weight]
    if stored is None:
        return
    if node.is_op("Gather"):  # rows are picked first: few are read
        old = node.output
        picked = Value(graph.fresh(f"{old.name}.half"), replace(old.type, dtype=DType.float16))
        widened = Value(graph.fresh(old.name), old.type)
        rows = Node("Gather", [stored, node.inputs[1]], [picked], dict(node.attrs), node.name)
        graph.insert_before(node, [rows, Node("Cast", [picked], [widened], {"to": DType.float32})])
        substitute(graph, old, widened, rename=True)
        graph.remove(node)
        return
    wide = Value(graph.fresh(f"{weight.name}.float32"), weight.type)
    graph.insert_before(node, [Node("Cast", [stored], [wide], {"to": DType.float32})])
    graph.set_inputs(node, [wide if at == index else value for at, value in enumerate(node.inputs)])


def _rounded(graph: Graph, weight: Value, ctx: PassContext) -> Value | None:
    """A float16 constant; None, which is recorded, where a finite number is beyond the range."""
    data: np.ndarray[Any, Any] = np.asarray(weight.data)
    finite = np.abs(data[np.isfinite(data)])
    most = float(finite.max(initial=0.0))
    with np.errstate(over="ignore"):
        half = data.astype(np.float16)
    if np.isinf(half).sum() != np.isinf(data).sum():
        ctx.decide(weight, "keep", f"float32: its largest number, {most:g}, is beyond float16's {LARGEST:g}", most=most)
        return None
    moved = np.abs(data - half.astype(np.float32))[np.isfinite(data)].max(initial=0.0)
    error = float(moved) / most if most else 0.0
    ctx.decide(weight, "halve", "float16 in the file", bytes=float(half.nbytes), error=error)
    return graph.constant(f"{weight.name}.half", half)
