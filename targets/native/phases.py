"""When the sizes of a run become known, and what has to be checked of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import sympy

from mcpc.ir import Dim, Graph, Node, names_of

from .kernel import Step


class Phases:
    """When sizes become known: 0 for those of inputs, ``n`` where step ``n`` - 1 is the first to find one. Steps that
    find it again, another branch or the next iteration, plan for the same phase. ``entries`` are the steps that enter
    a body, by its id."""

    def __init__(self, graph: Graph, steps: Sequence[Step], entries: Mapping[int, Step]) -> None:
        self._known = dict.fromkeys(graph.symbols(), 0)
        for index, step in enumerate(steps):
            for name in step.sets:
                self._known.setdefault(name, index + 1)
        indices = {id(step): index + 1 for index, step in enumerate(steps)}
        self._entries = {body: indices[id(step)] for body, step in entries.items()}
        self._entry_steps = {id(step): indices[id(step)] for step in entries.values()}

    @property
    def all(self) -> list[int]:
        return sorted({0, *self._known.values(), *self._entries.values()})

    def of(self, sizes: Iterable[Dim], body: Graph | None = None) -> int | None:
        """The phase in which all of ``sizes``, which ``body`` needs, are known; None where a size is never found, since
        no step needs it."""
        names = names_of(sizes)
        if any(name not in self._known for name in names):
            return None
        return max(self._entries.get(id(body), 0), *(self._known[name] for name in names), 0)

    def after(self, step: Step) -> list[int]:
        """What has to be planned behind ``step``."""
        phases = {self._known[name] for name in step.sets}
        return sorted(phases | {self._entry_steps[id(step)]} if id(step) in self._entry_steps else phases)

    def found_in(self, phase: int) -> list[str]:
        return [name for name, known in self._known.items() if known == phase]


def has_checks(body: Graph) -> bool:
    """Whether a control-flow body takes something for granted of its sizes."""
    return bool(body.assumptions) or any(True for _ in unproven(body.nodes))


def unproven(nodes: Iterable[Node]) -> Iterator[tuple[Node, sympy.Expr]]:
    """The sizes of the nodes' outputs that might be below 0."""
    for node in nodes:
        for value in node.outputs:
            for item in (value.shape if value is not None else None) or ():
                if not isinstance(item, int) and not item.is_nonnegative:
                    yield node, item
