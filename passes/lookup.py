"""Products and elementwise operators whose operand is one row of a table for each index become a Gather of that table.

TensorFlow and JAX spell an embedding as a product of one-hot rows, (index == 0 ... K-1) x table. And what is computed
of gathered rows alone, say a bias and an activation, is computed of each row of the table as the network is compiled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mcpc import ops
from mcpc.ir import DType, Graph, Node, TensorType, Value
from mcpc.pipeline import Pass, PassContext
from mcpc.rewrite import Patch, constant_of, control_flow_graphs, made_by, only_user, remove_dead, substitute

from .rules.shapes import add_reshape, same_dims

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Lookup(Pass):
    """Results differ from those of the network by nothing: a product of a one-hot row adds zeros to a row."""

    name: ClassVar[str] = "lookup"

    def __call__(self, graph: Graph, ctx: PassContext) -> Graph:
        for inner in control_flow_graphs(graph):
            with inner.edit():
                for node in list(inner.nodes):
                    gather = _gather_instead_of_product(node, inner, ctx) if node.is_op("MatMul") else None
                    if node.is_op("Gather"):
                        gather = node
                    if gather is not None:
                        _compute_table(gather, inner, ctx)
        return graph


# ---- one-hot rows


def _gather_instead_of_product(node: Node, graph: Graph, ctx: PassContext) -> Node | None:
    rows, weights = node.inputs[0], constant_of(node.inputs[1])
    if rows is None or weights is None or weights.ndim != 2 or not np.isfinite(weights).all():
        return None
    index = _one_hot_index(rows, len(weights), graph)
    if index is None or index.shape is None:
        return None
    patch = Patch(graph, node)
    flat = add_reshape(patch, index, TensorType(index.dtype, index.shape[:-1]))
    if flat is None:
        return None
    count, zero = (patch.constant("rows", np.array(n, index.dtype.numpy)) for n in (len(weights), 0))
    flag = TensorType(DType.bool, flat.shape)
    is_row = patch.add(
        "And",
        [patch.add("GreaterOrEqual", [flat, zero], {}, flag), patch.add("Less", [flat, count], {}, flag)],
        {},
        flag,
    )
    inside = patch.add("Where", [is_row, flat, count], {}, flat.type)  # other indices match no column: a row of zeros
    table = patch.constant("table", np.concatenate([weights, np.zeros_like(weights[:1])]))
    result = patch.add("Gather", [table, inside], {"axis": 0}, node.output.type)
    patch.replace(result)
    ctx.decide(node, "gather", "its left operand has a single 1 in a row", rows=float(len(weights)))
    graph.insert_before(node, patch.nodes)
    substitute(graph, node.output, result, rename=True)
    remove_dead(graph, [node])
    return patch.nodes[-1]


def _one_hot_index(rows: Value, count: int, graph: Graph) -> Value | None:
    """The index [..., 1] of which ``rows`` [..., count] is Cast(index == 0 ... count-1)."""
    cast = made_by(rows, "Cast")
    equal = made_by(cast.inputs[0], "Equal") if cast is not None and only_user(rows, graph) else None
    if equal is None or rows.dtype is not DType.float32 or not only_user(equal.output, graph):
        return None
    for index, columns in (equal.inputs, equal.inputs[::-1]):
        numbers = constant_of(columns)
        if index is None or numbers is None or index.dtype not in (DType.int32, DType.int64) or not index.type.rank:
            continue
        is_whole = numbers.shape[-1:] == (count,) and numbers.size == count and numbers.ndim <= index.type.rank
        if is_whole and index.type.dims[-1] == 1 and (numbers.reshape(-1) == np.arange(count)).all():
            return index
    return None


# ---- what is computed of a table's rows


def _compute_table(gather: Node, graph: Graph, ctx: PassContext) -> None:
    """Apply to the table what is applied to the rows alone."""
    table = gather.inputs[0]
    if table is None or table.data is None or table.data.ndim != 2 or gather.attrs.get("axis", 0) != 0:
        return
    if table.dtype is not DType.float32 or not only_user(table, graph):
        return
    nodes, result = _row_by_row(gather, graph)
    if result is gather.output:
        return
    data = _apply(nodes, gather.output, table, result)
    ctx.decide(gather, "compute", "the table's rows are all there is to compute", operators=len(nodes))
    patch = Patch(graph, nodes[-1])
    rows = patch.add("Gather", [patch.constant(table.name, data), gather.inputs[1]], {"axis": 0}, result.type)
    patch.replace(rows)
    assert result.producer is not None
    graph.insert_before(result.producer, patch.nodes)
    substitute(graph, result, rows, rename=True)
    remove_dead(graph, nodes)


def _row_by_row(gather: Node, graph: Graph) -> tuple[list[Node], Value]:
    """The elementwise operators behind a Gather that need nothing but its rows and constants that are the same for all
    rows, in order, and the one value of theirs that others read."""
    values = [gather.output]
    nodes: list[Node] = []
    best: tuple[list[Node], Value] = ([], gather.output)
    if not any(_needs_rows_only(user, values) for user in gather.output.users):
        return best
    for node in graph.nodes:
        if graph.owns(node) and _needs_rows_only(node, values):
            nodes.append(node)
            values.append(node.output)
            read = [value for value in values if _is_read(value, nodes, graph)]
            if len(read) == 1:
                best = list(nodes), read[0]
    return best


def _is_read(value: Value, nodes: list[Node], graph: Graph) -> bool:
    return graph.is_output(value) or any(user not in nodes for user in value.users)


def _needs_rows_only(node: Node, values: list[Value]) -> bool:
    """Whether ``node`` computes elements of the same place from ``values``, of which the first are the rows."""
    rows = values[0]
    operands = [value for value in node.inputs if value is not None]
    if not ops.is_elementwise(node) or node.output.dtype is not DType.float32 or all(v.is_constant for v in operands):
        return False
    is_known = all(any(value is each for each in values) or _is_alike(value, rows) for value in operands)
    return is_known and same_dims(node.output.shape, rows.shape)


def _is_alike(value: Value, rows: Value) -> bool:
    """Whether ``value`` is a constant that is the same for all rows."""
    data = value.data
    return data is not None and data.ndim <= len(rows.type.dims) and data.size == (data.shape[-1] if data.ndim else 1)


def _apply(nodes: list[Node], rows: Value, table: Value, result: Value) -> Array:
    """What ``nodes`` make of the table in the place of its rows."""
    from mcpc.reference import run_graph

    graph = Graph("table")
    assert table.data is not None
    copies = {id(rows): Value.constant("rows", table.data)}

    def copy(value: Value | None) -> Value | None:
        if value is not None and id(value) not in copies:
            data = value.data
            assert data is not None
            copies[id(value)] = graph.constant(value.name, data.reshape(data.shape[-1:]))
        return None if value is None else copies[id(value)]

    for node in nodes:
        inputs = [copy(value) for value in node.inputs]
        output = Value(graph.fresh(node.output.name), TensorType(node.output.dtype, table.shape))
        copies[id(node.output)] = output
        graph.append(Node(node.op, inputs, [output], node.attrs, node.name))
    graph.outputs = [copies[id(result)]]
    return run_graph(graph, {})[0]
