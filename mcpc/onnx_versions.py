"""Which opsets the operators of a graph need, by ONNX's own schemas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx
from onnx.defs import OpSchema, SchemaError

from mcpc.ir import MCPC, OPSET, DType, Graph, Node
from mcpc.ops.registry import find

#: The names of types in ONNX's schemas, where they are not the same.
_SCHEMA_TYPES = {DType.float32: "float", DType.float64: "double"}


def needed_opsets(graph: Graph) -> dict[str, int]:
    """The version of each domain that has the operators of ``graph``, those of all bodies included, with their
    attributes and types: of ai.onnx :data:`OPSET` or, where that lacks one, the first that has it."""
    result = {"": OPSET}
    for node in _all_nodes(graph.nodes):
        if node.domain != MCPC:
            result[node.domain] = max(result.get(node.domain, 1), _version(node))
    return result


def _all_nodes(nodes: Iterable[Node]) -> Iterator[Node]:
    for node in nodes:
        yield node
        for value in node.attrs.values():
            if isinstance(value, Graph):
                yield from _all_nodes(value.nodes)


def _version(node: Node) -> int:
    definition = find(node.domain, node.op)
    first = max(OPSET if node.domain == "" else 1, definition.versions[0] if definition is not None else 1)
    try:
        newest = onnx.defs.get_schema(node.op, node.domain)
    except SchemaError:  # nobody's, or no longer there
        return first
    for version in range(first, newest.since_version):
        if _takes(onnx.defs.get_schema(node.op, version, node.domain), node):
            return version
    return max(first, newest.since_version)


def _takes(schema: OpSchema, node: Node) -> bool:
    if not node.attrs.keys() <= schema.attributes.keys():
        return False
    return all(
        value is None or _schema_type(value.dtype) in schema.inputs[min(index, len(schema.inputs) - 1)].types
        for index, value in enumerate(node.inputs)
    )


def _schema_type(dtype: DType) -> str:
    return f"tensor({_SCHEMA_TYPES.get(dtype, dtype.name)})"
