"""A node as code generation sees it: an anchor operator and the elementwise operators fused behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from mcpc import ops
from mcpc.ir import DType, Graph, Node, Value
from mcpc.ops.quantize import has_packed_weights

from .expression import NARROW

#: The types from which kernels expand weights, and how gemm_q8.h calls them.
EXPANDED: dict[DType, str] = {
    DType.int8: "i8",
    DType.uint8: "u8",
    **{dtype: name for dtype, name in NARROW.items() if dtype is not DType.float8e8m0},
}


#: The kind of fused nodes whose body holds a depthwise convolution and pointwise ones around it.
SEPARABLE = "separable"


def is_expansion(node: Node | None) -> bool:
    """Whether ``node`` makes a float32 weight from constants of fewer bytes, as a kernel can do while it reads them."""
    if node is None or not node.inputs or not all(value is None or value.is_constant for value in node.inputs):
        return False
    source = node.inputs[0]
    is_one = node.is_op("Cast", "DequantizeLinear") and node.output.dtype is DType.float32
    return is_one and source is not None and source.dtype in EXPANDED


def is_weight(value: Value) -> bool:
    """Whether a kernel can read ``value`` as packed weights: a constant, or one that it expands."""
    return value.is_constant or is_expansion(value.producer)


@dataclass(frozen=True)
class Region:
    """``anchor`` is None for a purely elementwise region. ``chain`` is in topological order. ``result`` is the body's
    value that the node's output holds; ``operands`` maps the body's inputs to the node's. ``expansions`` make the
    anchor's weights from smaller constants (:func:`is_expansion`). ``is_attention``: no anchor, but two products with a
    softmax between them; the chain is what happens to the first product's result before it. A node of kind "cache" has
    its TensorScatter for an anchor. A node of kind "separable" has neither anchor nor chain but
    ``stages``, regions that each read the one before."""

    node: Node
    anchor: Node | None
    chain: tuple[Node, ...]
    result: Value
    operands: dict[int, Value | None]
    expansions: tuple[Node, ...] = ()
    is_attention: bool = False
    stages: tuple[Region, ...] = ()

    @property
    def is_packed(self) -> bool:
        """Whether the anchor is a product of integers whose weights kernels pack."""
        anchor = self.anchor
        return anchor is not None and has_packed_weights(anchor, [self.outer(value) for value in anchor.inputs])

    @classmethod
    def of(cls, node: Node) -> Region:
        body = node.body
        if body is None:
            elementwise = ops.is_elementwise(node)
            return cls(node, None if elementwise else node, (node,) if elementwise else (), node.output, {})
        operands = {id(inner): outer for inner, outer in zip(body.inputs, node.inputs, strict=True)}
        if node.attrs["kind"] == "attention":
            return cls(node, None, _score_of(body), body.outputs[0], operands, is_attention=True)
        if node.attrs["kind"] == SEPARABLE:
            stages = tuple(_stage(inner, operands) for inner in body.nodes)
            return cls(node, None, (), body.outputs[0], operands, stages=stages)
        if node.attrs["kind"] == "cache":
            return cls(node, body.nodes[-1], (), body.outputs[0], operands)
        anchors = [n for n in body.nodes if not ops.is_elementwise(n) and not n.is_op("DequantizeLinear")]
        assert len(anchors) <= 1, f"{node!r} has several anchors"
        made = {id(value.producer) for anchor in anchors for value in anchor.inputs if value is not None}
        expansions = tuple(inner for inner in body.nodes if id(inner) in made)
        chain = tuple(inner for inner in body.nodes if inner not in anchors and inner not in expansions)
        return cls(node, anchors[0] if anchors else None, chain, body.outputs[0], operands, expansions)

    def outer(self, value: Value | None) -> Value | None:
        """The graph's value that a body's value stands for (itself outside a body)."""
        return None if value is None else self.operands.get(id(value), value)

    def is_computed(self, value: Value | None) -> bool:
        """Whether an operand of the anchor that is usually packed when the code is made is not known until it runs."""
        outer = self.outer(value)
        return outer is not None and not is_weight(outer) and outer.producer not in self.expansions

    @property
    def label(self) -> str:
        """E.g. "Conv+Clip+Add"."""
        if self.is_attention:
            return "Attention"
        if self.stages:
            return " > ".join(stage.label for stage in self.stages)
        nodes = ([self.anchor] if self.anchor is not None else []) + list(self.chain)
        return "+".join(node.op for node in nodes)


def _stage(node: Node, outer: Mapping[int, Value | None]) -> Region:
    """A node of a body as a region whose operands are those of the body's node."""
    region = Region.of(node)
    own = {key: outer.get(id(value), value) for key, value in region.operands.items()}
    return replace(region, operands={**outer, **own})


def _score_of(body: Graph) -> tuple[Node, ...]:
    """The elementwise nodes between the first product and the Softmax."""
    first, end = (next(i for i, node in enumerate(body.nodes) if node.is_op(op)) for op in ("MatMul", "Softmax"))
    return tuple(body.nodes[first + 1 : end])
