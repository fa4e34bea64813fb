"""The shape of an ONNX graph: nested graphs, producers, cycles."""

from __future__ import annotations

import graphlib
from collections.abc import Iterable, Iterator

from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorShapeProto, ValueInfoProto

from mcpc.errors import ModelError, Problems


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == AttributeProto.GRAPHS:
            yield from attribute.graphs


def walk(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """All nodes, those of nested graphs included."""
    stack = list(reversed(list(nodes)))
    while stack:
        node = stack.pop()
        yield node
        for graph in subgraphs(node):
            stack.extend(reversed(graph.node))


def opsets_of(model: ModelProto | FunctionProto) -> dict[str, int]:
    """Opset versions by domain ('' for ai.onnx). Where one is imported twice the highest counts, as ONNX says."""
    result: dict[str, int] = {}
    for entry in model.opset_import:
        domain = "" if entry.domain == "ai.onnx" else entry.domain
        result[domain] = max(entry.version, result.get(domain, entry.version))
    return result


def is_text(model: ModelProto) -> bool:
    """Whether all names are text: protobuf hands out bytes for what is no UTF-8."""
    nodes = list(walk([*model.graph.node, *(node for function in model.functions for node in function.node)]))
    graphs = [model.graph, *(graph for node in nodes for graph in subgraphs(node))]
    values = [value for graph in graphs for value in (*graph.input, *graph.output, *graph.value_info)]
    tensors = [tensor for graph in graphs for tensor in graph.initializer]
    tensors += [sparse.values for graph in graphs for sparse in graph.sparse_initializer]
    names: list[object] = [*(graph.name for graph in graphs), model.producer_name, model.producer_version]
    names += [entry.domain for holder in (model, *model.functions) for entry in holder.opset_import]
    names += [text for function in model.functions for text in (function.name, function.domain, *function.attribute)]
    names += [text for function in model.functions for text in (*function.input, *function.output)]
    names += [text for node in nodes for text in (node.op_type, node.domain, node.name, *node.input, *node.output)]
    names += [text for node in nodes for each in node.attribute for text in (each.name, each.ref_attr_name)]
    names += [text for value in values for text in (value.name, *(d.dim_param for d in _dims(value)))]
    tensors += [attribute.t for node in nodes for attribute in node.attribute]
    names += [text for t in tensors for text in (t.name, *(x for e in t.external_data for x in (e.key, e.value)))]
    return all(isinstance(name, str) and "\0" not in name for name in names)  # C's texts end at a zero


def _dims(value: ValueInfoProto) -> Iterable[TensorShapeProto.Dimension]:
    dims: Iterable[TensorShapeProto.Dimension] = value.type.tensor_type.shape.dim
    return dims


def free_names(graph: GraphProto) -> set[str]:
    """The tensors of outer graphs that a nested graph reads. Nesting is bounded by protobuf's own limit."""
    own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    own.update(tensor.values.name for tensor in graph.sparse_initializer)
    own.update(name for node in graph.node for name in node.output)
    read = {value.name for value in graph.output}
    for node in graph.node:
        read |= reads(node)
    return read - own


def reads(node: NodeProto) -> set[str]:
    """The tensors that ``node`` needs, those that its nested graphs capture included."""
    names = {name for name in node.input if name}
    for graph in subgraphs(node):
        names |= free_names(graph)
    return names


#: Types in a loop are inferred until they are steady, those in a loop in a loop many times over.
MOST_NESTED = 8


def check_structure(graph: GraphProto, problems: Problems, outer: frozenset[str] = frozenset(), depth: int = 0) -> bool:
    """Whether there are outputs, every tensor has exactly one producer, and no node needs its own results, in nested
    graphs as well, which may read the tensors ``outer``; reports E103 where not."""
    before = len(problems.errors)

    def report(message: str, node: NodeProto | None = None) -> None:
        op, name = (node.op_type, label(node)) if node is not None else ("", "")
        problems.add(ModelError("E103", message, op=op, node=name))

    made: dict[str, int | None] = {}
    given = [*(value.name for value in graph.input), *(tensor.name for tensor in graph.initializer)]
    given += [tensor.values.name for tensor in graph.sparse_initializer]
    for name in given:
        if name in made:
            report(f"tensor {name} has two producers: it is an input or constant twice")
        made[name] = None
    for index, node in enumerate(graph.node):
        for name in filter(None, node.output):
            if name in made:
                other = made[name]
                by = "an input or constant" if other is None else f"node {label(graph.node[other])}"
                report(f"tensor {name} has two producers: {by} makes it too", node)
            else:
                made[name] = index
    needs: dict[int, set[int]] = {}
    for index, node in enumerate(graph.node):
        needs[index] = set()
        for name in sorted(reads(node)):
            if name not in made and name not in outer:
                if name in node.input:  # else a nested graph reads it, which says so itself
                    report(f"tensor {name} has no producer", node)
            elif (producer := made.get(name)) is not None:
                needs[index].add(producer)
    if not graph.output:
        report("the graph has no outputs")
    for value in graph.output:
        if value.name not in made and value.name not in outer:
            report(f"output {value.name} has no producer")
    try:
        graphlib.TopologicalSorter(needs).prepare()
    except graphlib.CycleError as error:
        circle = [graph.node[index] for index in error.args[1]]
        report("the graph has a cycle: " + " → ".join(map(label, circle)), circle[0])
    visible = outer | made.keys()
    for node in graph.node:
        nested = list(subgraphs(node))
        if nested and depth == MOST_NESTED:
            report(f"graphs are nested deeper than {MOST_NESTED} levels", node)
            continue
        for inner in nested:
            check_structure(inner, problems, visible, depth + 1)
    return len(problems.errors) == before


def label(node: NodeProto) -> str:
    """The name of a node, or of the first tensor it makes."""
    return node.name or next(filter(None, node.output), node.op_type)
