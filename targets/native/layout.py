"""Storage layouts: which tensors lie channels-last, and where data must be moved between layouts.

Shapes and meaning stay as in ONNX; only ``TensorType.layout`` changes. An Identity whose input and output have
different layouts is the one place where data move, so the graph still exports as plain ONNX.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import sympy

from mcpc.cost_model import Work, roofline, typical_sizes, work_of
from mcpc.ir import Graph, Node, TensorType, Value
from mcpc.pipeline import Pass, PassContext
from mcpc.rewrite import control_flow_graphs
from mcpc.target import Target

from .region import Region
from .strided import Layout, reads_strided
from .two_layouts import Fixed, TwoLayouts, Vertex
from .views import same_memory
from .wishes import KEEP, TIED, Choice, Port, Slower, Wish, flattened_weight, is_product, of_value, wish

#: What starting a step is worth in bytes, and going element by element in moves of the operand.
LAUNCH, SCALAR = 4096, 4


@dataclass(frozen=True)
class AssignLayouts(Pass):
    """Every node states the layouts it wants (:mod:`.wishes`); those that leave a choice take what makes the cost of
    all moves least (:mod:`.two_layouts`). Identity nodes are put where a value has another layout than a reader
    wants. Inputs and outputs of the model and of control-flow bodies stay row-major."""

    name: ClassVar[str] = "assign-layouts"

    def __call__(self, graph: Graph, ctx: PassContext) -> Graph:
        costs = Costs(typical_sizes(graph))
        for inner in control_flow_graphs(graph):
            _Assignment(inner, ctx, costs, channels_last_nodes(inner, costs)).run()
        return graph


@dataclass(frozen=True)
class Costs:
    """What moves cost, in bytes of a machine of one bandwidth, at usual values of symbolic ``sizes``: so that every
    target chooses alike, and sums keep their order from one to the other."""

    sizes: Mapping[sympy.Symbol, int]

    def move(self, type: TensorType) -> int:
        """Of moving a tensor between row-major and channels-last."""
        return int(copied(type).at(self.sizes).traffic) + LAUNCH

    def slower(self, node: Node, why: Slower, index: int) -> int:
        """What ``node`` takes longer in the layout that ``why`` is said of, for its operand ``index`` or with it."""
        value = node.inputs[index]
        assert value is not None
        return self.move(value.type) if why is Slower.MOVE else self.move(value.type) * SCALAR


def copied(type: TensorType) -> Work:
    """The work of a strided copy."""
    value = Value("", type)
    return work_of(Node("Identity", [value], [value]))


def channels_last_nodes(graph: Graph, costs: Costs) -> Collection[Vertex]:
    """The ids of the nodes that are tied channels-last where all moves together take the least time."""
    problem, wishes = TwoLayouts(), {node: wish(node) for node in graph.nodes}

    def side(port: Port, node: Node, value: Value) -> Vertex:
        if port is TIED:
            return id(node)
        return Fixed.CHANNELS_LAST if port is not None and port == of_value(value) else Fixed.ROW_MAJOR

    def operand(node: Node, index: int, value: Value) -> Vertex | None:
        """Which layout the node wants it in; None where either will do."""
        port = wishes[node].inputs[index]
        if port is not KEEP:
            return side(port, node, value)
        if index in {at for at, _, _ in wishes[node].operands}:
            return id(node), index
        is_read = not is_product(Region.of(node)) or reads_strided(node, value, of_value(value))
        return None if is_read else Fixed.ROW_MAJOR

    readers: dict[int, list[Vertex]] = {id(value): [Fixed.ROW_MAJOR] for value in graph.outputs}
    for node in graph.nodes:
        for index, value in enumerate(node.inputs):
            if value is not None and value.shape is not None and not value.is_constant:
                wanted = operand(node, index, value)
                readers.setdefault(id(value), []).extend([] if wanted is None else [wanted])
    made: list[tuple[Value, Vertex]] = [(value, Fixed.ROW_MAJOR) for value in graph.inputs]
    for node in graph.nodes:
        stated = wishes[node]
        made += [(v, side(stated.outputs, node, v)) for v in node.outputs if v is not None and v.shape is not None]
        if stated.row_major is not None:
            problem.prefer(id(node), costs.slower(node, stated.row_major, 0), 0)
        for index, is_last, why in stated.operands:
            cost = costs.slower(node, why, index)
            problem.prefer((id(node), index), 0 if is_last else cost, cost if is_last else 0)
    for value, producer in made:
        layout = of_value(value) if value.shape is not None else None
        if layout is not None and not same_memory(value.type, value.type.with_layout(layout)):
            problem.tensor(producer, readers.get(id(value), ()), costs.move(value.type))
    return problem.solve()


class _Assignment:
    """One walk over a graph that gives every value its layout."""

    def __init__(self, graph: Graph, ctx: PassContext, costs: Costs, channels_last: Collection[Vertex]) -> None:
        self.graph = graph
        self.ctx = ctx
        self.costs = costs
        self.channels_last = channels_last
        self.moved: dict[tuple[int, Layout], Value] = {}
        self.new_nodes: list[Node] = []

    def run(self) -> None:
        for node in list(self.graph.nodes):
            weight = flattened_weight(node)
            if weight is not None:
                self._flatten(node, weight)
            self._node(node, wish(node).settled(node, id(node) in self.channels_last))
        for output in dict.fromkeys(self.graph.outputs):
            if output.type.layout is not None:
                self._make_row_major(output)

    def _node(self, node: Node, wanted: Wish) -> None:
        inputs: list[Value | None] = []
        for value, port in zip(node.inputs, wanted.inputs, strict=True):
            inputs.append(value if value is None or isinstance(port, Choice) else self._in_layout(value, port))
        if any(new is not old for new, old in zip(inputs, node.inputs, strict=True)):
            self.graph.set_inputs(node, inputs)
        layout = None if isinstance(wanted.outputs, Choice) else wanted.outputs
        for output in node.outputs:
            if output is not None and output.shape is not None:
                fits = layout is not None and len(layout) == len(output.shape)
                output.type = output.type.with_layout(layout if fits else None)
        if self.new_nodes:
            self.graph.insert_before(node, self.new_nodes)
            self.new_nodes.clear()

    def _in_layout(self, value: Value, layout: Layout) -> Value:
        wanted = value.type.with_layout(layout)
        if wanted.layout == value.type.layout:
            return value
        key = (id(value), wanted.layout)
        if key not in self.moved:
            if value.is_constant:
                copy = Value(self.graph.fresh(value.name), wanted, value.data)
            else:
                copy = Value(self.graph.fresh(value.name), wanted)
                name = f"{value.name} to {layout or 'row-major'}"
                self.new_nodes.append(Node("Identity", [value], [copy], name=name))
                self._record(value, wanted)
            self.moved[key] = copy
        return self.moved[key]

    def _record(self, value: Value, wanted: TensorType) -> None:
        if not same_memory(value.type, wanted):
            work, target = copied(wanted).at(self.costs.sizes), self.ctx.target
            numbers = {"bytes": float(int(work.traffic))}
            if isinstance(target, Target):
                numbers["us"] = roofline(work, target).us
            self.ctx.decide(value.name, "move", f"stored {value.type.order}, wanted {wanted.order}", **numbers)

    def _flatten(self, node: Node, weight: Value) -> None:
        """Let ``node`` flatten an image as it lies, channels innermost, and give the product's ``weight`` that
        order."""
        x, user = node.inputs[0], node.output.users[0]
        assert x is not None and weight.data is not None
        last = of_value(x)
        if last is None or x.type.layout != last or same_memory(x.type, x.type.with_layout(None)):
            return
        anchor = Region.of(user).anchor
        assert anchor is not None
        data, axis = weight.data, 1 if anchor.attrs.get("transB", 0) else 0
        order = np.arange(data.shape[axis]).reshape([int(size) for size in x.type.dims[1:]])
        permuted = self.graph.constant(weight.name, np.take(data, np.moveaxis(order, 0, -1).reshape(-1), axis))
        self.graph.set_inputs(user, [permuted if value is weight else value for value in user.inputs])
        shape = tuple(x.type.dims[at] for at in last)
        view = Value(self.graph.fresh(x.name), TensorType(x.dtype, shape))
        self.graph.insert_before(node, [Node("Transpose", [x], [view], {"perm": list(last)}, f"{x.name} as it lies")])
        self.graph.set_inputs(node, [view, *node.inputs[1:]])
        self.ctx.decide(user, "permute", f"its weights take the order in which %{x.name} lies")

    def _make_row_major(self, output: Value) -> None:
        """Keep the output's name on a row-major copy."""
        name = output.name
        plain = Value(name, output.type.with_layout(None))
        self._record(output, plain.type)
        output.name = self.graph.fresh(f"{name}.channels_last")
        self.graph.append(Node("Identity", [output], [plain], name=f"{name} as output"))
        self.graph.outputs = [plain if value is output else value for value in self.graph.outputs]
