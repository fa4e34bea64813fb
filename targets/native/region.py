"""A node as code generation sees it: an anchor operator and the elementwise operators fused behind it."""

from __future__ import annotations

from dataclasses import dataclass

from mcpc import ops
from mcpc.ir import Node, Value


def is_elementwise(node: Node) -> bool:
    return isinstance(ops.find(node.domain, node.op), ops.Elementwise)


@dataclass(frozen=True)
class Region:
    """``anchor`` is None for a purely elementwise region. ``chain`` is in topological order. ``result`` is the body's
    value that the node's output holds; ``operands`` maps the body's inputs to the node's."""

    node: Node
    anchor: Node | None
    chain: tuple[Node, ...]
    result: Value
    operands: dict[int, Value | None]

    @classmethod
    def of(cls, node: Node) -> Region:
        body = node.body
        if body is None:
            elementwise = is_elementwise(node)
            return cls(node, None if elementwise else node, (node,) if elementwise else (), node.output, {})
        anchors = [inner for inner in body.nodes if not is_elementwise(inner)]
        assert len(anchors) <= 1, f"{node!r} has several anchors"
        chain = tuple(inner for inner in body.nodes if inner not in anchors)
        operands = {id(inner): outer for inner, outer in zip(body.inputs, node.inputs, strict=True)}
        return cls(node, anchors[0] if anchors else None, chain, body.outputs[0], operands)

    def outer(self, value: Value | None) -> Value | None:
        """The graph's value that a body's value stands for (itself outside a body)."""
        return None if value is None else self.operands.get(id(value), value)

    @property
    def label(self) -> str:
        """E.g. "Conv+Clip+Add"."""
        nodes = ([self.anchor] if self.anchor is not None else []) + list(self.chain)
        return "+".join(node.op for node in nodes)
