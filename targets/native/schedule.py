"""Which nodes become steps, and in which order: from the outputs back, so that nothing is computed that nobody reads.

Arithmetic on sizes needs no step: what an integer tensor holds is known as expressions of the symbols, and kernels are
given these. Where such a tensor is data for another operator, one step writes the expressions.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mcpc import ops
from mcpc.errors import ModelError, Problems
from mcpc.ir import Dim, Graph, Node, Value, names_of

from . import emit
from .kernel import Step
from .views import view_offset


@dataclass(frozen=True)
class View:
    """A value that is part of another's memory, ``offset`` bytes from its start."""

    data: Value
    offset: Dim


@dataclass
class Schedule:
    """``steps`` in the order of execution; ``views`` by the id of the value; ``context`` is that of type inference."""

    context: ops.InferContext
    steps: list[Step] = field(default_factory=list)
    views: dict[int, View] = field(default_factory=dict)


def schedule(graph: Graph, nr: int) -> Schedule:
    """The steps of ``graph``.

    Raises every node without code at once: E101, E102, E109; E108 where a size depends on data and no step finds it, or
    a rank is not known.
    """
    result = Schedule(ops.infer_graph(graph))
    born = _born(graph)
    problems = Problems()
    needed = {id(value) for value in graph.outputs}
    symbols = set(names_of(size for value in graph.outputs for size in value.shape or ()))

    def add(step: Step) -> None:
        result.steps.append(step)
        values = [operand for operand in step.operands if isinstance(operand, Value)]
        needed.update(id(value) for value in values)
        symbols.update(step.symbols)
        symbols.update(names_of(size for value in (*values, *step.outputs) for size in value.type.dims))

    for node in reversed(graph.nodes):
        made = [output for output in node.outputs if output is not None]
        if any(id(output) in needed for output in made):
            with problems.collect():
                _require_ranks(node)
                is_known = emit.known_contents(node, result.context) is not None
                offset = None if is_known else view_offset(node, result.context)
                data = node.input(0)
                if offset is not None and data is not None:
                    result.views[id(node.output)] = View(data, offset)
                    needed.add(id(data))
                    symbols.update(names_of((offset, *node.output.type.dims, *data.type.dims)))
                elif any(output.type.elements != 0 for output in made):
                    add(emit.emit(node, nr, result.context))
        own = born.get(id(node), set())
        if own & symbols:
            with problems.collect():
                add(emit.emit_sizes(node, own & symbols, nr, result.context))
    problems.errors.reverse()
    problems.raise_if_any()
    result.steps.reverse()
    return result


def _born(graph: Graph) -> dict[int, set[str]]:
    """The symbols that first occur in a node's outputs, by the node's id."""
    known = set(graph.symbols())
    result: dict[int, set[str]] = {}
    for node in graph.nodes:
        sizes = [size for output in node.outputs if output is not None for size in output.shape or ()]
        own = set(names_of(sizes)) - known
        if own:
            result[id(node)] = own
            known |= own
    return result


def _require_ranks(node: Node) -> None:
    for value in (*node.inputs, *node.outputs):
        if value is not None and value.shape is None:
            raise ModelError("E108", f"the rank of %{value.name} is not known", op=node.op, node=node.name)
