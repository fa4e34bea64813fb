"""Operators of 16-bit floats computed in float32."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from mcpc import ops
from mcpc.ir import DType, Graph, Node, Value
from mcpc.ops.registry import moves
from mcpc.pipeline import Pass, PassContext
from mcpc.rewrite import control_flow_graphs, remove_dead, substitute

#: The 16-bit floats, and what rounding to them changes at most, relatively.
ROUNDING = {DType.float16: 2.0**-11, DType.bfloat16: 2.0**-8}
HALVES = tuple(ROUNDING)

#: The key of a graph's metadata, and of an artifact's provenance, that names the precision where it is not the model's;
#: several, of different layers, with + between.
PRECISION = "precision"

#: Elements from which a weight stays in 16 bits in the file: code expands it while it reads it.
STORED_FROM = 1024
_WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul")

#: Operators that give all elements of their inputs, or some of them, whatever the type.
_MOVING = (
    *("Concat", "DepthToSpace", "Expand", "Flatten", "Identity", "Pad", "Reshape", "Resize", "SpaceToDepth", "Squeeze"),
    *("Tile", "Transpose", "Unsqueeze"),
)
_PICKING = ("Gather", "GatherElements", "GatherND", "Slice", "Split")

#: Operators that compute, but whose results are elements of their inputs.
_CHOOSING = ("GlobalMaxPool", "MaxPool", "MaxRoiPool", "ReduceMax", "ReduceMin", "TopK")


def coarser(rounding: float, metadata: Mapping[str, str]) -> float:
    """The relative rounding of a model that alone rounds by ``rounding``, computed at the precision that ``metadata``
    name."""
    return max(rounding, ROUNDING[DType.float16]) if names_fp16(metadata) else rounding


def names_fp16(metadata: Mapping[str, str]) -> bool:
    """Whether a graph has layers of float16 precision."""
    return "fp16" in metadata.get(PRECISION, "").split("+")


def is_half(value: Value | None) -> bool:
    return value is not None and value.dtype in HALVES


def computes_halves(node: Node) -> bool:
    """Whether an operator does arithmetic on 16-bit floats beyond one element at a time: elementwise code converts in
    registers, and what only moves elements does not look at them."""
    if node.domain or node.bodies:
        return False
    definition = ops.find(node.domain, node.op)
    if definition is None or isinstance(definition, ops.Elementwise) or not any(map(is_half, node.inputs)):
        return False
    reduces = node.attrs.get("reduction", "none") != "none"  # what scattering may do
    interpolates = node.is_op("Resize") and node.attrs.get("mode", "nearest") != "nearest"
    return definition.cost is not moves or reduces or interpolates


@dataclass(frozen=True)
class Widen(Pass):
    """Puts Cast nodes around every operator that computes 16-bit floats, which then computes float32. Its results are
    rounded as before, what is beyond their range included; sums inside it are not.

    Values between such operators are held in memory as float32 (see :func:`_held`), so that the operator before writes
    what the one behind reads: the Casts end up inside fused nodes, where they are rounding in registers. Run once more
    after fusion, it lets fused nodes give float32 as well.
    """

    name: ClassVar[str] = "widen"

    def __call__(self, graph: Graph, ctx: PassContext) -> Graph:
        for inner in control_flow_graphs(graph):
            with inner.edit():
                _Widening(inner).run()
        return graph


class _Widening:
    """The work on one graph. ``wide`` holds the float32 copies of values."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.held, self.moved = _held(graph)
        self.wide: dict[Value, Value] = {}

    def run(self) -> None:
        for node in list(self.graph.nodes):
            if computes_halves(node) or node in self.moved:
                self._widen(node)
            elif _is_widening(node) and node.inputs[0] in self.held and not self.graph.is_output(node.output):
                self.graph.replace_uses(node.output, self._wide(node, node.inputs[0]))
                self.graph.remove(node)
            elif node.body is not None and node.attrs["kind"] == "epilogue" and is_half(node.output):
                self._widen_result(node)
            elif ops.is_elementwise(node):
                self._narrow(node)
        remove_dead(self.graph, [value.producer for value in self.wide if value.producer is not None])

    def _widen(self, node: Node) -> None:
        inputs = [self._copy(node, index) for index in range(len(node.inputs))]
        outputs, casts, old = [], [], []
        for value in node.outputs:
            if value is None or not is_half(value):
                made = None if value is None else Value(self.graph.fresh(value.name), value.type)
                result = made
            else:
                made = Value(self.graph.fresh(f"{value.name}.float32"), replace(value.type, dtype=DType.float32))
                result = Value(self.graph.fresh(value.name), value.type)
                casts.append(_cast(made, result))
                if value in self.held:
                    self.held.add(result)
                    if not computes_halves(node) or node.is_op(*_CHOOSING):
                        self.wide[result] = made
            outputs.append(made)
            if value is not None and result is not None:
                old.append((value, result))
        computed = Node(node.op, inputs, outputs, node.attrs, node.name, node.domain)
        self.graph.insert_before(node, [computed, *casts])
        for value, result in old:
            substitute(self.graph, value, result, rename=True)
        self.graph.remove(node)

    def _narrow(self, node: Node) -> None:
        """Let an elementwise node read what float32 holds, through Casts of its own that it can be fused with."""
        inputs: list[Value | None] = list(node.inputs)
        for value in dict.fromkeys(inputs):
            if value is not None and value in self.held:
                narrow = Value(self.graph.fresh(value.name), value.type)
                cast = _cast(self._wide(node, value), narrow)
                self.graph.insert_before(node, [cast])
                inputs = [narrow if each is value else each for each in inputs]
        self.graph.set_inputs(node, inputs)

    def _widen_result(self, node: Node) -> None:
        """Let a fused node give float32: kernels of what anchors it write nothing else."""
        body, value = node.body, node.output
        assert body is not None
        last = body.outputs[0].producer
        before = last.inputs[0] if last is not None and last.is_op("Cast") else None
        if last is not None and before is not None and before.dtype is DType.float32:
            body.outputs = [before]
            body.remove(last)
        else:
            wide = Value(body.fresh(f"{value.name}.float32"), replace(body.outputs[0].type, dtype=DType.float32))
            body.append(_cast(body.outputs[0], wide))
            body.outputs = [wide]
        made = Value(self.graph.fresh(f"{value.name}.float32"), replace(value.type, dtype=DType.float32))
        result = Value(self.graph.fresh(value.name), value.type)
        fused = Node(node.op, node.inputs, [made], node.attrs, node.name, node.domain)
        self.graph.insert_before(node, [fused, _cast(made, result)])
        substitute(self.graph, value, result, rename=True)
        self.graph.remove(node)

    def _copy(self, node: Node, index: int) -> Value | None:
        """Operand ``index`` of ``node`` as float32 if it is of 16 bits."""
        value = node.inputs[index]
        if value is None or not is_half(value):
            return value
        is_weight = node.is_op(*_WEIGHTED) and index == 1 and value.data is not None and value.data.size >= STORED_FROM
        if value.data is not None and not is_weight and value not in self.wide:
            self.wide[value] = self.graph.constant(f"{value.name}.float32", value.data.astype(np.float32))
        return self._wide(node, value)

    def _wide(self, node: Node, value: Value) -> Value:
        """The float32 copy of ``value``, made before ``node`` where there is none yet."""
        if value not in self.wide:
            copy = Value(self.graph.fresh(f"{value.name}.float32"), replace(value.type, dtype=DType.float32))
            self.graph.insert_before(node, [_cast(value, copy)])
            self.wide[value] = copy
        return self.wide[value]


def _cast(source: Value, target: Value) -> Node:
    return Node("Cast", [source], [target], {"to": target.dtype})


def moved_halves(node: Node) -> set[Value]:
    """The 16-bit floats that a node moves as they are, which it could move as float32; constants are not among them."""
    values = {value for value in (*node.inputs, *node.outputs) if value is not None and is_half(value)}
    stored = [value.data for value in values if value.data is not None]
    if not node.is_op(*_MOVING, *_PICKING) or computes_halves(node) or any(d.size >= STORED_FROM for d in stored):
        return set()
    return {value for value in values if value.data is None}


def _held(graph: Graph) -> tuple[set[Value], set[Node]]:
    """The 16-bit floats that float32 holds in memory, and the nodes that move such.

    They are what an operator that computes float32 reads, or writes (elementwise operators behind it included, since
    these are fused with it), and what is made of it by moving; inputs and outputs of the graph are not. A value on its
    way to the one elementwise operator that it can be fused with is never in memory."""
    kept = {value for value in (*graph.inputs, *graph.outputs) if is_half(value)}
    read: set[Value] = set()
    written: set[Value] = set()
    moving: list[Node] = []
    for node in graph.nodes:
        halves = [value for value in node.inputs if value is not None and is_half(value) and value.data is None]
        made = [value for value in node.outputs if value is not None and is_half(value)]
        if computes_halves(node):
            read.update(halves)
            written.update(made)
        elif ops.is_elementwise(node):
            if any(value in written and _is_passed_on(value) for value in halves):
                written.update(made)
            if _is_widening(node) and not all(map(ops.is_elementwise, node.output.users)):
                read.update(halves)
        elif moved_halves(node) and not kept.intersection((*made, *halves) if node.is_op(*_PICKING) else made):
            moving.append(node)
        else:
            kept.update(made)
    held = {*read, *(value for value in written if not _is_passed_on(value))}
    moved: set[Node] = set()
    while more := [node for node in moving if node not in moved and (moved_halves(node) - kept) & held]:
        moved.update(more)
        held.update(value for node in more for value in moved_halves(node))
    return held - kept, moved


def _is_widening(node: Node) -> bool:
    return node.is_op("Cast") and node.output.dtype is DType.float32 and is_half(node.inputs[0])


def _is_passed_on(value: Value) -> bool:
    readers = set(value.users)
    return len(readers) == 1 and all(ops.is_elementwise(node) and node.output.shape == value.shape for node in readers)
