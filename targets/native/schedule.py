"""Which nodes become steps, and in which order: from the outputs back, so that nothing is computed that nobody reads.

Arithmetic on sizes needs no step: what an integer tensor holds is known as expressions of the symbols, and kernels are
given these. Where such a tensor is data for another operator, one step writes the expressions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mcpc import ops
from mcpc.errors import ModelError, Problems
from mcpc.ir import Dim, Graph, Node, TensorType, Value, names_of, symbol
from mcpc.ops.control import decided
from mcpc.target import Target

from . import emit
from .choice import Choices
from .control import schedule_if, schedule_loop
from .kernel import Label, Step
from .views import view_offset


@dataclass(frozen=True)
class View:
    """A value that is part of another's memory, ``offset`` bytes from its start."""

    data: Value
    offset: Dim


@dataclass
class Schedule:
    """``items`` are steps in the order of execution, with labels between them that steps jump to; ``views`` by the id
    of the value; ``context`` is that of type inference. ``loops`` are the labels at the first step and behind the last
    one, outer loops first. ``entries`` are the steps that enter a control-flow body, by its id. ``symbols`` are the
    names of all symbolic sizes, in the order in which the artifact numbers them."""

    context: ops.InferContext
    items: list[Step | Label] = field(default_factory=list)
    views: dict[int, View] = field(default_factory=dict)
    loops: list[tuple[Label, Label]] = field(default_factory=list)
    entries: dict[int, Step] = field(default_factory=dict)
    symbols: list[str] = field(default_factory=list)


def schedule(graph: Graph, target: Target, choices: Choices) -> Schedule:
    """The steps of ``graph``, with the kernels that ``choices`` names.

    Raises every node without code at once: E101, E102, E109; E108 where a size depends on data and no step finds it, or
    a rank is not known.
    """
    scheduler = Scheduler(graph, target, choices)
    scheduler.nodes(graph)
    scheduler.problems.errors.reverse()
    scheduler.problems.raise_if_any()
    result = scheduler.schedule
    result.items.reverse()
    result.symbols = [*graph.all_symbols(), *scheduler.own_symbols]
    return result


class Scheduler:
    """Collects the steps, the last one first."""

    def __init__(self, graph: Graph, target: Target, choices: Choices) -> None:
        self.target = target
        self.choices = choices
        self.context = ops.infer_graph(graph)
        self.schedule = Schedule(self.context)
        self.loops, self.entries = self.schedule.loops, self.schedule.entries
        self.problems = Problems()
        #: Names of sizes that no value of the graph has.
        self.own_symbols: list[str] = []
        self._born = _born(graph)
        self._wanted = {id(value) for value in graph.outputs}
        self._symbols = set(names_of(size for value in graph.outputs for size in value.shape or ()))

    def add(self, item: Step | Label) -> None:
        """Put ``item`` before all others; its operands and their sizes are wanted."""
        self.schedule.items.append(item)
        if isinstance(item, Label):
            return
        values = [operand for operand in item.operands if isinstance(operand, Value)]
        self._wanted.update(id(value) for value in values)
        self._symbols.update(item.symbols)
        self._symbols.update(names_of(size for value in (*values, *item.outputs) for size in value.type.dims))

    def view(self, value: Value, data: Value, offset: Dim) -> None:
        """Let ``value`` be part of ``data``, which is wanted."""
        self.schedule.views[id(value)] = View(data, offset)
        self._wanted.add(id(data))
        self._symbols.update(names_of((offset, *value.type.dims, *data.type.dims)))

    def want(self, value: Value) -> None:
        self._wanted.add(id(value))

    def is_wanted(self, value: Value) -> bool:
        """Whether a later step reads ``value`` or one of the sizes that it is the first to have."""
        sizes = {f"{value.name}:{axis}" for axis in range(value.type.rank or 0)}
        return id(value) in self._wanted or bool(sizes & self._symbols)

    def is_known(self, value: Value) -> bool:
        """Whether the contents follow from the symbols."""
        contents = self.context.contents(value)
        return contents is not None and all(item is not None for item in contents.ravel())

    def born(self, node: Node) -> set[str]:
        """The symbols that first occur in the outputs of ``node``."""
        return self._born.get(id(node), set())

    def temporary(self, name: str, type: TensorType, renamed: Sequence[Dim]) -> Value:
        """A value for steps only; the sizes ``renamed`` become symbols of its own."""
        sizes: list[Dim] = []
        for axis, size in enumerate(type.dims):
            own = symbol(f"{name}:{axis}")
            if size in renamed:
                self.own_symbols.append(str(own.name))
            sizes.append(own if size in renamed else size)
        return Value(name, replace(type, shape=tuple(sizes)))

    def may_lie_elsewhere(self, value: Value) -> bool:
        """Whether a step of its own writes ``value``, which may do so in another's memory."""
        node = value.producer
        is_step = node is not None and not node.bodies and not self.is_known(value) and value.type.elements != 0
        return is_step and self.origin(value) is value and id(value) not in self.schedule.views

    def origin(self, value: Value) -> Value:
        """The value whose memory ``value`` is part of."""
        node = value.producer
        while node is not None:
            if node.is_op("If"):
                taken = decided(node, self.context)
                if taken is None:
                    return value
                value = node.bodies[taken].outputs[[output is value for output in node.outputs].index(True)]
            elif emit.known_contents(node, self.context) is None and view_offset(node, self.context) is not None:
                assert node.inputs[0] is not None
                value = node.inputs[0]
            else:
                return value
            node = value.producer
        return value

    def nodes(self, graph: Graph) -> None:
        """The steps of the nodes of ``graph`` that are wanted; what its outputs are wanted for is there already."""
        for node in reversed(graph.nodes):
            if node.is_op("If", "Loop"):
                with self.problems.collect():
                    _require_ranks(node)
                    (schedule_if if node.is_op("If") else schedule_loop)(self, node)
            else:
                self._node(node)

    def _node(self, node: Node) -> None:
        made = [output for output in node.outputs if output is not None]
        if any(id(output) in self._wanted for output in made):
            with self.problems.collect():
                _require_ranks(node)
                is_known = emit.known_contents(node, self.context) is not None
                offset = None if is_known else view_offset(node, self.context)
                data = node.input(0)
                if offset is not None and data is not None:
                    self.view(node.output, data, offset)
                elif any(output.type.elements != 0 for output in made):
                    self.add(emit.emit(node, self.target, self.context, self.choices.get(id(node))))
        own = self.born(node)
        if own & self._symbols:
            with self.problems.collect():
                self.add(emit.emit_sizes(node, own & self._symbols, self.target, self.context))


def _born(graph: Graph) -> dict[int, set[str]]:
    """The symbols that first occur in a node's outputs, by the node's id. Those in the inputs of bodies are set by the
    node that runs these."""
    known = set(graph.symbols())
    result: dict[int, set[str]] = {}

    def visit(nodes: Sequence[Node]) -> None:
        for node in nodes:
            for body in node.bodies.values():
                known.update(names_of(size for value in body.inputs for size in value.shape or ()))
                visit(body.nodes)
            sizes = [size for output in node.outputs if output is not None for size in output.shape or ()]
            own = set(names_of(sizes)) - known
            if own:
                result[id(node)] = own
                known.update(own)

    visit(graph.nodes)
    return result


def _require_ranks(node: Node) -> None:
    for value in (*node.inputs, *node.outputs):
        if value is not None and value.shape is None:
            raise ModelError("E108", f"the rank of %{value.name} is not known", op=node.op, node=node.name)
