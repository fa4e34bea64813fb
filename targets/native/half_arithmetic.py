"""Which tensors of a float32 network are stored, and which operators computed, in float16 (``--precision fp16``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import networkx as nx
import numpy as np

from mcpc.halves import names_fp16
from mcpc.ir import MCPC, DType, Graph, Node, Value
from mcpc.pipeline import Pass, PassContext, describe
from mcpc.rewrite import control_flow_graphs

from .convolution import reads_planar
from .region import Region

#: Operators on single elements that are computed in float16 as they are: one rounding, no range that float16 has not.
#: Chains with others (exponentials, roots, quotients) are computed in float32 between float16 operands and results.
NARROW_CHAIN = (
    *("Abs", "Add", "Clip", "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Max", "Min", "Mul", "Neg", "PRelu"),
    *("Relu", "Sub"),
)
#: Operators whose result is of the type of their data.
POOLS = ("AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool")
MOVES = ("Concat", "Flatten", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze")

#: Taps of all channels of a first layer that conv_nchw_in_f16 has room for.
PLANAR_TAPS = 256


@dataclass(frozen=True)
class ComputeHalves(Pass):
    """Products with constant weights become float16 ones; what lies between them, pools, moves and elementwise
    operators is stored as float16. All else keeps float32 (softmax, normalisation, attention, recurrent networks, and
    what reduces or grows exponentially), and so do inputs and outputs. It runs on targets that compute in float16, for
    graphs that say ``precision: fp16``; where ``ctx.options["layer_precisions"]`` lists layers, for those that are
    "fp16" there. Layouts stay as they are."""

    name: ClassVar[str] = "compute-halves"
    tolerance: ClassVar[float | None] = None

    def __call__(self, graph: Graph, ctx: PassContext) -> Graph:
        if names_fp16(graph.metadata) and ctx.target is not None and ctx.target.half_arithmetic:
            for inner in control_flow_graphs(graph):
                _Halving(inner, ctx).run()
        return graph


class _Halving:
    def __init__(self, graph: Graph, ctx: PassContext) -> None:
        self.graph = graph
        self.ctx = ctx
        self.listed: Mapping[str, str] = ctx.options.get("layer_precisions", {})
        self.regions = {node: Region.of(node) for node in graph.nodes}
        self.products = {node for node in graph.nodes if self._is_product(node)}
        self.rounded: dict[Value, Value] = {}
        self.copies: dict[Value, Value] = {}
        self.halves: set[Value] = set()

    def run(self) -> None:
        self.halves = set(self._halves())
        for value in self.halves:
            value.type = replace(value.type, dtype=DType.float16)
        for node in list(self.graph.nodes):
            if node in self.products or self._is_elementwise(node):
                _Rebuilding(self, node).run()
            elif node.is_op(*MOVES) and _is_half(node.output):
                inputs = [self.constant(v) if v is not None and _is_stored_float(v) else v for v in node.inputs]
                self.graph.set_inputs(node, inputs)
        for node in self.graph.nodes:
            region = Region.of(node)
            anchor = region.anchor
            if anchor is not None and anchor.is_op(*_PRODUCTS) and not _is_half(anchor.output):
                self.ctx.decide(node, "keep", "float32: no float16 kernel has this form")

    # ---- which

    def _is_elementwise(self, node: Node) -> bool:
        region = self.regions[node]
        return region.anchor is None and not region.is_attention

    def _is_product(self, node: Node) -> bool:
        region = self.regions[node]
        anchor = region.anchor
        if anchor is None or not anchor.is_op(*_PRODUCTS) or anchor.output.dtype is not DType.float32:
            return False
        if self.listed and self.listed.get(anchor.name) != "fp16":
            return False
        x = region.outer(anchor.inputs[0])
        constants = [self.stored(region, value) for value in anchor.inputs[1:] if value is not None]
        if x is None or x.producer in region.expansions or any(data is None for data in constants):
            return False
        if not all(_fits(data) for data in constants if data is not None):
            self.ctx.decide(node, "keep", "float32: a weight is beyond float16's range")
            return False
        weight = constants[0]
        assert weight is not None
        if anchor.is_op("Conv"):
            if weight.ndim not in (3, 4):
                return False
            return not _is_row_major(x) or (reads_planar(anchor, x.type) and weight[0].size <= PLANAR_TAPS)
        if weight.ndim != 2 or any(anchor.attrs.get(key, 1.0) != 1.0 for key in ("alpha", "beta")):
            return False
        bias = constants[1] if len(constants) > 1 else None
        return bias is None or bias.ndim <= 1 or bias.shape[0] == 1

    @staticmethod
    def stored(region: Region, value: Value) -> np.ndarray[tuple[int, ...], np.dtype[np.floating]] | None:
        """The float16 or float32 constant that an operand of the anchor is, or is a Cast of."""
        made = value.producer
        if made in region.expansions:
            assert made is not None
            outer = region.outer(made.inputs[0]) if made.is_op("Cast") else None
        else:
            outer = region.outer(value)
        return outer.data if outer is not None and outer.dtype in (DType.float16, DType.float32) else None

    def _reads(self, node: Node, value: Value) -> bool:
        """Whether a node reads ``value`` as float16, if that is what it is."""
        if node in self.products:
            region = self.regions[node]
            assert region.anchor is not None
            return region.outer(region.anchor.inputs[0]) is not value or not is_planar(region.anchor, value)
        return self._is_elementwise(node) or node.is_op(*POOLS, *MOVES)

    def _writes(self, node: Node) -> bool:
        return node in self.products or self._is_elementwise(node) or node.is_op(*POOLS, *MOVES)

    def _halves(self) -> list[Value]:
        """The values that become float16: between operators that can, where at least one end is a product. A pool or a
        move has one type on all its sides."""
        ends = {id(value) for value in (*self.graph.inputs, *self.graph.outputs)}
        sides = nx.Graph()
        able: set[Value] = set()
        for node in self.graph.nodes:
            for value in node.outputs:
                if value is None or value.dtype is not DType.float32 or value.shape is None:
                    continue
                sides.add_node(value)
                if (
                    id(value) not in ends
                    and self._writes(node)
                    and all(self._reads(user, value) for user in value.users)
                ):
                    able.add(value)
            if node.is_op(*POOLS, *MOVES):
                data = [v for v in (*node.inputs, *node.outputs) if v is not None and v.dtype is DType.float32]
                nx.add_path(sides, [value for value in data if value.data is None])
                if any(value.data is not None and not _fits(value.data) for value in data):
                    able.difference_update(data)
                    ends.update(map(id, data))
        result: list[Value] = []
        for group in nx.connected_components(sides):
            near = any(v.producer in self.products or any(user in self.products for user in v.users) for v in group)
            if near and group <= able:
                result.extend(group)
        return result

    # ---- operands

    def constant(self, value: Value) -> Value:
        """``value``, a constant, as float16."""
        if value.dtype is DType.float16:
            return value
        if value not in self.rounded:
            assert value.data is not None
            with np.errstate(over="ignore"):
                data = value.data.astype(np.float16)
            copy = self.graph.constant(f"{value.name}.half", data)
            copy.type = replace(value.type, dtype=DType.float16)
            self.rounded[value] = copy
        return self.rounded[value]

    def copy(self, node: Node, value: Value) -> Value:
        """``value``, float32 that is computed, as float16: a step of its own before ``node``."""
        if value not in self.copies:
            half = Value(self.graph.fresh(f"{value.name}.half"), replace(value.type, dtype=DType.float16))
            cast = Node("Cast", [value], [half], {"to": DType.float16}, f"{value.name} to float16")
            self.graph.insert_before(node, [cast])
            self.copies[value] = half
        return self.copies[value]


class _Rebuilding:
    """One product or elementwise node in the types that its operands and results have."""

    def __init__(self, halving: _Halving, node: Node) -> None:
        self.halving = halving
        self.node = node
        self.region = Region.of(node)  # its operands are those that nodes before it were rebuilt to give
        self.body = Graph(f"half:{node.output.name}")
        self.operands: list[Value] = []
        self.inner: dict[int, Value] = {}
        self.made: dict[tuple[int, DType], Value] = {}

    def run(self) -> None:
        node, region = self.node, self.region
        floats = [
            v for n in region.chain for v in (*n.inputs, *n.outputs) if v is not None and v.dtype is DType.float32
        ]
        outer = [value for value in (*node.inputs, *node.outputs) if value is not None]
        if region.anchor is None and self.halving.halves.isdisjoint(outer):
            return
        is_narrow = all(each.is_op(*NARROW_CHAIN) for each in region.chain) and bool(floats)
        computed = DType.float16 if is_narrow else DType.float32
        if region.anchor is not None:
            self._anchor(region.anchor)
            if region.chain and not is_narrow:
                self.halving.ctx.decide(node, "widen", "what is fused behind the product is computed in float32")
        for each in region.chain:
            self._append(each, computed)
        results = [value for value in node.outputs if value is not None]
        inner = node.body.outputs if node.body is not None else results
        self.body.outputs = [self._get(old, new.dtype) for old, new in zip(inner, results, strict=True)]
        kind = node.attrs["kind"] if node.body is not None else "elementwise" if region.anchor is None else "epilogue"
        copies = [Value(self.halving.graph.fresh(value.name), value.type) for value in results]
        fused = Node(
            "Fused", self.operands, copies, {"kind": kind, "body": self.body}, node.name or describe(node), MCPC
        )
        self.halving.graph.insert_before(node, [fused])
        for value, copy in zip(results, copies, strict=True):
            self.halving.graph.replace_uses(value, copy)
            if value in self.halving.halves:
                self.halving.halves.add(copy)
        self.halving.graph.remove(node)

    def _anchor(self, anchor: Node) -> None:
        x = anchor.inputs[0]
        source = self.region.outer(x)
        assert x is not None and source is not None
        if _is_half(source) or not is_planar(anchor, source):
            half = source if _is_half(source) else self.halving.copy(self.node, source)
            inputs: list[Value | None] = [self._operand(half)]
        else:
            inputs = [self._get(x, DType.float16)]
        for value in anchor.inputs[1:]:
            made = value.producer if value is not None else None
            stored = made.inputs[0] if made is not None and made in self.region.expansions else value
            outer = self.region.outer(stored)
            inputs.append(None if outer is None else self._operand(self.halving.constant(outer)))
        self._emit(anchor, inputs, DType.float16, dict(anchor.attrs))

    def _append(self, node: Node, computed: DType) -> None:
        inputs = [None if v is None else self._get(v, computed if _is_float(v) else v.dtype) for v in node.inputs]
        self._emit(node, inputs, computed, dict(node.attrs))

    def _emit(self, node: Node, inputs: Iterable[Value | None], computed: DType, attrs: dict[str, object]) -> None:
        outputs: list[Value | None] = []
        for old in node.outputs:
            if old is None:
                outputs.append(None)
                continue
            dtype = computed if _is_float(old) else old.dtype
            new = Value(self.body.fresh(old.name), replace(old.type, dtype=dtype))
            self.made[id(old), dtype] = new
            self.inner[id(old)] = new
            outputs.append(new)
        if node.is_op("Cast") and node.attrs["to"] in (DType.float32, DType.float16):
            attrs["to"] = computed
        self.body.append(Node(node.op, list(inputs), outputs, attrs, node.name, node.domain))

    def _operand(self, outer: Value) -> Value:
        """The body's input for a value outside."""
        if not any(outer is known for known in self.operands):
            self.operands.append(outer)
            self.made[id(outer), outer.dtype] = self.body.add_input(outer.name, outer.type)
        return self.made[id(outer), outer.dtype]

    def _get(self, old: Value, dtype: DType) -> Value:
        """What stands for ``old`` in the body, as ``dtype``."""
        if (id(old), dtype) in self.made:
            return self.made[id(old), dtype]
        if id(old) in self.inner:
            source = self.inner[id(old)]
        else:
            outer = self.region.outer(old)
            assert outer is not None
            if outer.data is not None and outer is old and self.node.body is not None:  # the old body's own
                outer = self.halving.graph.constant(old.name, outer.data)
            if outer.data is not None and outer.dtype is DType.float32 and dtype is DType.float16:
                outer = self.halving.constant(outer)
            source = self._operand(outer)
        if source.dtype is not dtype:
            cast = Value(self.body.fresh(f"{source.name}.{dtype.name}"), replace(source.type, dtype=dtype))
            self.body.append(Node("Cast", [source], [cast], {"to": dtype}))
            source = cast
        self.made[id(old), dtype] = source
        return source


_PRODUCTS = ("Conv", "Gemm", "MatMul")


def is_planar(anchor: Node, x: Value) -> bool:
    """Whether the kernel of a product reads ``x`` row-major, as float32."""
    return anchor.is_op("Conv") and _is_row_major(x)


def _is_row_major(x: Value) -> bool:
    """Whether an activation lies neither channels-last nor in the same way as if it did."""
    spatial = x.type.dims[2:]
    return x.type.layout is None and x.type.dims[1] != 1 and any(size != 1 for size in spatial)


def _fits(data: np.ndarray[tuple[int, ...], np.dtype[np.floating]]) -> bool:
    """Whether rounding to float16 leaves finite numbers finite."""
    with np.errstate(over="ignore"):
        return bool((np.isinf(data.astype(np.float16)) == np.isinf(data)).all())


def _is_half(value: Value) -> bool:
    return value.dtype is DType.float16


def _is_float(value: Value) -> bool:
    return value.dtype in (DType.float16, DType.float32)


def _is_stored_float(value: Value) -> bool:
    return value.data is not None and value.dtype is DType.float32
