"""Rewrites of control flow: branches that constants decide become part of the graph, Scan becomes a Loop."""

from __future__ import annotations

import numpy as np

from mcpc.ir import DType, Graph, Node, TensorType, Value
from mcpc.ops import InferContext
from mcpc.ops.contrib import Expansion
from mcpc.ops.control import LoopForm, ScanForm, decided
from mcpc.ops.inference import infer_node
from mcpc.rewrite import control_flow_graphs, remove_dead, substitute


def inline_decided(graph: Graph, context: InferContext) -> list[Node]:
    """Put the branches that are always taken in the place of their If, in ``graph`` and in bodies; those nodes.

    What is in a branch may be decided as well: types have to be inferred again, and this be called again.
    """
    done = []
    for inner in control_flow_graphs(graph):
        for node in list(inner.nodes):
            taken = decided(node, context) if node.is_op("If") else None
            if taken is not None:
                _inline(inner, node, node.bodies[taken])
                done.append(node)
    return done


def _inline(graph: Graph, node: Node, body: Graph) -> None:
    for inner, outer in zip(body.inputs, node.captured_inputs, strict=True):
        assert outer is not None
        body.replace_uses(inner, outer)
    graph.take_over(node, body)
    for old, new in zip(node.outputs, body.outputs, strict=False):
        if old is not None:
            substitute(graph, old, new, rename=not graph.is_output(new))
    remove_dead(graph, [node])


def give_constants(graph: Graph) -> None:
    """Give bodies in ``graph`` the constants that they capture, and drop what they capture for nothing."""
    for node in graph.nodes:
        if node.bodies:
            _narrow(graph, node)


def _narrow(graph: Graph, node: Node) -> None:
    first, bodies = len(node.own_inputs), list(node.bodies.values())
    kept = []
    for index, outer in enumerate(node.captured_inputs, -len(node.captured_inputs)):
        assert outer is not None
        inner = [body.inputs[index] for body in bodies]
        if outer.data is not None:
            for body, value in zip(bodies, inner, strict=True):
                body.replace_uses(value, body.constant(outer.name, outer.data))
        elif any(value.users or body.is_output(value) for body, value in zip(bodies, inner, strict=True)):
            kept.append(index)
    if len(kept) == len(node.captured_inputs):
        return
    operands = node.inputs
    for body in bodies:
        own = body.inputs[: len(body.inputs) - (len(operands) - first)]
        body.inputs = [*own, *(body.inputs[index] for index in kept)]
    node.attrs["captured"] = len(kept)
    graph.set_inputs(node, [*operands[:first], *(operands[index] for index in kept)])


# ---- Scan


def lower_scans(graph: Graph, context: InferContext) -> None:
    """Replace every Scan of a graph whose types are inferred by a Loop that takes its elements by their index."""
    for inner in control_flow_graphs(graph):
        for node in list(inner.nodes):
            if node.is_op("Scan"):
                _lower_scan(inner, node, ScanForm.of(node), context)


def _lower_scan(graph: Graph, node: Node, form: ScanForm, context: InferContext) -> None:
    before = Expansion(node, context, graph)
    states = len(form.initial)
    first = form.input_axes[0]
    length = before("Shape", form.scanned[0], start=first, end=first + 1)
    graph.insert_before(node, before.nodes)

    body = form.body
    counter = body.add_input(f"{node.name}.counter", TensorType(DType.int64, ()))
    again = body.add_input(f"{node.name}.again", TensorType(DType.bool, ()))
    whole = [body.add_input(f"{value.name}.whole", value.type) for value in form.scanned]
    del body.inputs[-2 - len(whole) :]
    inside = Expansion(node, context, body)
    elements = body.inputs[states : states + len(whole)]
    for data, element, axis, is_reversed in zip(whole, elements, form.input_axes, form.input_reversed, strict=True):
        index = counter
        if is_reversed:  # -1 is the last one
            index = inside("Sub", body.constant(f"{node.name}.last", np.array(-1, np.int64)), counter)
        body.replace_uses(element, inside("Gather", data, index, axis=axis))
    if body.nodes:
        body.insert_before(body.nodes[0], inside.nodes)
    else:
        for each in inside.nodes:
            body.append(each)
    go_on = Value(body.fresh(f"{node.name}.go_on"), again.type)
    body.append(Node("Identity", [again], [go_on], {}, go_on.name))
    captured = body.inputs[states + len(whole) :]
    body.inputs = [counter, again, *body.inputs[:states], *whole, *captured]
    body.outputs = [go_on, *body.outputs]

    loop = Node(
        "Loop",
        [length, None, *form.initial, *form.scanned, *node.captured_inputs],
        [None if value is None else Value(graph.fresh(value.name), value.type) for value in node.outputs],
        {"body": body, "captured": len(whole) + len(node.captured_inputs)},
        node.name,
    )
    graph.insert_before(node, [loop])
    infer_node(loop, context)
    for output, (old, new) in enumerate(zip(node.outputs, loop.outputs, strict=True), -states):
        if old is not None and new is not None:
            after = Expansion(node, context, graph)
            if output >= 0:
                new = _arranged(after, new, form.output_axes[output], form.output_reversed[output])
            graph.insert_before(node, after.nodes)
            substitute(graph, old, new, rename=True)
    graph.remove(node)


def _arranged(after: Expansion, value: Value, axis: int, is_reversed: bool) -> Value:
    """A stacked output in the order and along the axis that the Scan wants."""
    if is_reversed:
        value = after("Slice", value, after.ints(-1), after.ints(-(2**63)), after.ints(0), after.ints(-1))
    rank = len(value.type.dims)
    axis %= rank
    perm = [*range(1, axis + 1), 0, *range(axis + 1, rank)]
    return value if axis == 0 else after("Transpose", value, perm=perm)


def simplify_loops(graph: Graph) -> None:
    """Carried values that no iteration changes become captured ones."""
    for inner in control_flow_graphs(graph):
        for node in list(inner.nodes):
            if node.is_op("Loop"):
                _capture_constant_state(inner, node)


def _capture_constant_state(graph: Graph, node: Node) -> None:
    form = LoopForm.of(node)
    same = [i for i, (a, b) in enumerate(zip(form.carried, form.following, strict=True)) if _origin(b) is a]
    if not same:
        return
    for index in same:
        output = node.outputs[index] if index < len(node.outputs) else None
        if output is not None and (output.users or graph.is_output(output)):
            graph.replace_uses(output, form.initial[index])
    kept = [index for index in range(len(form.carried)) if index not in same]
    body, captured, own = form.body, node.captured_inputs, len(node.own_inputs)
    body.inputs = [
        *body.inputs[:2], *(form.carried[i] for i in kept), *(form.carried[i] for i in same), *body.inputs[own:]
    ]  # fmt: skip
    body.outputs = [form.again, *(form.following[i] for i in kept), *form.collected]
    outputs = [node.outputs[i] if i < len(node.outputs) else None for i in kept]
    node.outputs = (*outputs, *node.outputs[len(form.carried) :])
    node.attrs["captured"] = len(captured) + len(same)
    initial = form.initial
    graph.set_inputs(
        node,
        [form.limit, form.condition, *(initial[i] for i in kept), *(initial[i] for i in same), *captured],
    )


def _origin(value: Value) -> Value:
    """What ``value`` is another name of."""
    while value.producer is not None and value.producer.is_op("Identity"):
        source = value.producer.inputs[0]
        assert source is not None
        value = source
    return value
