"""Old forms of operators that ONNX's version converter takes for new ones, written as what they mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnx import GraphProto, NodeProto, TensorProto, helper

from mcpc.errors import ModelError
from mcpc.onnx_structure import label, subgraphs

#: The domain of operators that the conversion shall not look at.
HIDDEN = "mcpc.hidden"

Rewrite = Callable[[NodeProto, "Names"], list[NodeProto]]


def rewrite_before_conversion(graph: GraphProto, opset: int) -> None:
    """Rewrite the nodes of ``graph``, which is of this opset of ai.onnx, and of its subgraphs, into others of it."""
    if opset < 13:
        _rewrite(graph, "Hardmax", _flattened)
    if opset < 9:
        _rewrite(graph, "Scan", _scan_of_each)
    _rewrite(graph, "Loop", _with_both_limits)


def rewrite_after_conversion(graph: GraphProto, opset: int) -> None:
    """Rewrite the nodes of ``graph`` and its subgraphs that the conversion from this opset left as they were."""
    if opset < 7:
        _rewrite(graph, "PRelu", _slopes_per_channel)


def _rewrite(graph: GraphProto, op: str, by: Rewrite) -> None:
    names = Names(graph)
    for index in reversed(range(len(graph.node))):
        node = graph.node[index]
        for inner in subgraphs(node):
            _rewrite(inner, op, by)
        if node.domain == "" and node.op_type == op:
            del graph.node[index]
            for new in reversed(by(node, names)):
                graph.node.insert(index, new)


class Names:
    """Names for new tensors of a graph."""

    def __init__(self, graph: GraphProto) -> None:
        self._taken = {name for node in graph.node for name in node.output}

    def fresh(self, stem: str) -> str:
        while stem in self._taken:
            stem += "'"
        self._taken.add(stem)
        return stem


def _with_both_limits(node: NodeProto, names: Names) -> list[NodeProto]:
    """The converter looks for the trip count and the condition of a Loop also where a node ends before them."""
    node.input.extend([""] * (2 - len(node.input)))
    return [node]


def _flattened(node: NodeProto, names: Names) -> list[NodeProto]:
    """Until opset 12, Hardmax saw its operand as a matrix whose rows are the dimensions before ``axis``."""
    axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 1)
    x, y = node.input[0], node.output[0]
    rows, peaks, shape = (names.fresh(f"{y}.{stem}") for stem in ("rows", "peaks", "shape"))
    name = label(node)
    return [
        helper.make_node("Flatten", [x], [rows], f"{name}.flatten", axis=axis),
        helper.make_node("Hardmax", [rows], [peaks], node.name, axis=1),
        helper.make_node("Shape", [x], [shape], f"{name}.shape"),
        helper.make_node("Reshape", [peaks, shape], [y], f"{name}.reshape"),
    ]


def _slopes_per_channel(node: NodeProto, names: Names) -> list[NodeProto]:
    """Until opset 6, the slopes of PRelu were one number each channel, which is axis 1: [C] becomes [C, 1, …, 1], as
    many ones as the operand has dimensions behind it. All of it is arithmetic on sizes, and folds."""
    (x, slope), (y,) = node.input, node.output
    name = label(node)
    nodes = []

    def make(op: str, *inputs: str, **attrs: Any) -> str:
        output = names.fresh(f"{y}.{op.lower()}")
        nodes.append(helper.make_node(op, inputs, [output], output, **attrs))
        return output

    rank = make("Shape", make("Shape", x, start=2))
    ones = make("ConstantOfShape", rank, value=helper.make_tensor("", TensorProto.INT64, [1], [1]))
    shape = make("Concat", make("Shape", slope), ones, axis=0)
    column = make("Reshape", slope, shape)
    return [*nodes, helper.make_node("PRelu", [x, column], [y], name)]


def _scan_of_each(node: NodeProto, names: Names) -> list[NodeProto]:
    """Until opset 8, Scan ran over axis 1 of every sequence of a batch (axis 0): a Scan over the batch whose body is
    today's Scan. The converter takes the batch from the model's inputs instead. E102 where sequences have lengths of
    their own."""
    attributes = {attribute.name: attribute for attribute in node.attribute}
    body, count = attributes["body"].g, attributes["num_scan_inputs"].i
    inputs, name = list(node.input)[1:], label(node)
    if node.input[0]:
        raise ModelError("E102", "Scan of opset 8 with sequence_lens is not supported", op="Scan", node=name)
    taken = [names.fresh(f"{name}.{index}") for index in range(len(inputs))]
    made = [names.fresh(f"{output}.each") for output in node.output]
    each = helper.make_node("Scan", taken, made, f"{name}.each", domain=HIDDEN, body=body, num_scan_inputs=count)
    if "directions" in attributes:
        each.attribute.append(helper.make_attribute("scan_input_directions", attributes["directions"].ints))
    outer = helper.make_graph(
        [each],
        f"{body.name} of each",
        [
            helper.make_tensor_value_info(new, old.type.tensor_type.elem_type, None)
            for new, old in zip(taken, body.input, strict=True)
        ],
        [helper.make_empty_tensor_value_info(output) for output in made],
    )
    attrs: dict[str, Any] = {"body": outer, "num_scan_inputs": len(inputs)}
    return [helper.make_node("Scan", inputs, list(node.output), name, domain=HIDDEN, **attrs)]
