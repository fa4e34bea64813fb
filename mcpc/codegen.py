"""What a target family hands back: code, weights and the facts about them, ready for the artifact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from mcpc._schema import BufferT, StepT
from mcpc.artifact import Code
from mcpc.errors import ModelError
from mcpc.ir import Dim, Graph, Node
from mcpc.kernel_class import KernelClass
from mcpc.ops import OpDef
from mcpc.pipeline import Pass, PassContext
from mcpc.target import Target


@dataclass
class Build:
    """The result of :meth:`Family.build`. A shard is a list of arrays that follow each other in the file. Sizes in
    bytes: ``live_set_bytes`` is the lower limit of ``arena_bytes``, ``scratch_bytes`` is per worker. ``unbounded``: the
    arena grows with the sizes of a run, its places are planned then, and ``buffers`` says nothing. ``offset_count``
    entries of the table of places. ``symbols`` are the names of the symbolic sizes in the order in which code numbers
    them."""

    code: list[Code]
    shards: list[list[np.ndarray[Any, Any]]]
    steps: list[StepT]
    buffers: list[BufferT] = field(default_factory=list)
    arena_bytes: int = 0
    live_set_bytes: int = 0
    scratch_bytes: int = 0
    state_bytes: int = 0
    unbounded: bool = False
    offset_count: int = 0
    symbols: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Tunable:
    """A step that can take a kernel. ``key`` is the same where the same is computed, ``operations`` are what that
    kernel then executes, by class."""

    key: str
    operations: Mapping[KernelClass, Dim]


class Family(Protocol):
    """A code generator for one kind of target; found through the entry-point group ``mcpc.families``."""

    def passes(self, target: Target) -> Sequence[Pass]:
        """The passes that shape a graph for this family; they run behind the target's pipeline."""
        ...

    def declined(self, graph: Graph) -> list[ModelError]:
        """The known operators of an unoptimised graph that no pass removes and that have no code, for a report that is
        made anyway: types may be missing."""
        ...

    def ways(self, definition: OpDef) -> Sequence[str]:
        """How code runs an operator, in a word or two each (``kernel``, ``view``); none where there is no code. What
        the reader replaces need not be known."""
        ...

    def tunable(self, graph: Graph, target: Target) -> Mapping[str, Mapping[str, Tunable]]:
        """What may be measured: kernels by name, and for each the steps that can take it, by their names.
        :meth:`build` takes a kernel that ``ctx.options["kernel"]`` names where it can, and chooses by
        ``ctx.options["times"]`` (:mod:`mcpc.tuning`)."""
        ...

    def predict(self, graph: Graph, target: Target, ctx: PassContext) -> list[tuple[Node, float]]:
        """The nodes that become steps and the microseconds that each is predicted to take on one core, at usual sizes,
        as :meth:`build` states them in its steps; nothing is compiled."""
        ...

    def build(self, graph: Graph, target: Target, ctx: PassContext, jobs: int | None) -> Build:
        """Code and weights of a graph that :meth:`passes` have shaped; every node it cannot take is reported at once.

        ``ctx.emit`` is a folder that keeps generated sources, ``jobs`` limits compiler processes (None: one a core).
        """
        ...
