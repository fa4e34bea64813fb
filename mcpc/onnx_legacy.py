"""Old forms of operators that ONNX's version converter takes for new ones, written as what they mean."""

from __future__ import annotations

from onnx import GraphProto, NodeProto, helper

from mcpc.onnx_structure import label, subgraphs


def rewrite_legacy(graph: GraphProto, opset: int) -> None:
    """Rewrite the nodes of ``graph``, which is of this opset of ai.onnx, and of its subgraphs."""
    for node in graph.node:
        for inner in subgraphs(node):
            rewrite_legacy(inner, opset)
    taken = {name for node in graph.node for name in node.output}
    for index in reversed(range(len(graph.node))):
        node = graph.node[index]
        if node.domain == "" and node.op_type == "Hardmax" and opset < 13:
            replacement = _flattened(node, taken)
            del graph.node[index]
            for new in reversed(replacement):
                graph.node.insert(index, new)


def _flattened(node: NodeProto, taken: set[str]) -> list[NodeProto]:
    """Until opset 12, Hardmax saw its operand as a matrix whose rows are the dimensions before ``axis``."""
    axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 1)
    x, y = node.input[0], node.output[0]

    def fresh(stem: str) -> str:
        name = f"{y}.{stem}"
        while name in taken:
            name += "'"
        taken.add(name)
        return name

    rows, peaks, shape = fresh("rows"), fresh("peaks"), fresh("shape")
    name = label(node)
    return [
        helper.make_node("Flatten", [x], [rows], f"{name}.flatten", axis=axis),
        helper.make_node("Hardmax", [rows], [peaks], node.name, axis=1),
        helper.make_node("Shape", [x], [shape], f"{name}.shape"),
        helper.make_node("Reshape", [peaks, shape], [y], f"{name}.reshape"),
    ]
