"""Which buffer every tensor lies in: views, buffers shared in place, outputs written where the caller wants them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from mcpc.ir import Dim, Graph, Node, Value, dim, is_static, names_of, product
from mcpc.ops.context import same

from .kernel import Label, Operand, Step, Workspace
from .schedule import Schedule
from .views import RESHAPES, concat_steps

Kind = Literal["arena", "input", "output", "constant"]


@dataclass(eq=False)
class Buffer:
    """A stretch of memory, ``product(sizes)`` bytes. ``kind`` arena: planned; input and output: bound by the caller,
    ``index`` says which; constant: in a shard, ``value`` holds the data."""

    name: str
    sizes: tuple[Dim, ...]
    kind: Kind
    index: int = -1
    value: Value | None = None
    first: int = -1
    last: int = -1

    @property
    def nbytes(self) -> Dim:
        return product(self.sizes)

    def touch(self, step: int) -> None:
        self.first = step if self.first < 0 else min(self.first, step)
        self.last = max(self.last, step)


@dataclass
class Place:
    """Where a tensor lies: bytes ``offset`` into a buffer, or into another place (``parent``) that it is part of."""

    buffer: Buffer | None
    offset: Dim = 0
    parent: Place | None = None

    def resolve(self) -> tuple[Buffer, Dim]:
        place, offset = self, self.offset
        while place.parent is not None:
            place = place.parent
            offset = dim(offset + place.offset)
        assert place.buffer is not None
        return place.buffer, offset

    @property
    def root(self) -> Place:
        place = self
        while place.parent is not None:
            place = place.parent
        return place


class Storage:
    """The buffers of a schedule and the place of every value.

    ``in_place(node)`` names the inputs whose buffer the node may overwrite with its output. ``steps`` are those of the
    schedule but for joins whose parts are written in place; ``labels`` has the index of the step behind each label.
    ``copies`` are outputs that lie elsewhere: (value, index).
    """

    def __init__(self, graph: Graph, schedule: Schedule, in_place: Callable[[Node], Sequence[int]]) -> None:
        self.graph = graph
        self.schedule = schedule
        self.items = list(schedule.items)
        self.steps: list[Step] = []
        self.labels: dict[Label, int] = {}
        self.places: dict[int, Place] = {}
        self.workspaces: dict[int, Place] = {}
        self.buffers: list[Buffer] = []
        self.copies: list[tuple[Value, int]] = []
        for index, value in enumerate(graph.inputs):
            self._new(value, "input", index)
        self._outputs()
        self._concats()
        self._number()
        self._liveness()
        self._share_in_place(in_place)
        self.arena_buffers = [buffer for buffer in self.buffers if buffer.kind == "arena"]

    def __getitem__(self, operand: Value | Workspace) -> tuple[Buffer, Dim]:
        """The buffer and byte offset of a step's operand."""
        return self.place(operand).resolve()

    def place(self, operand: Value | Workspace) -> Place:
        """The place of an operand, made when it is first asked for."""
        if isinstance(operand, Workspace):
            if id(operand) not in self.workspaces:
                buffer = Buffer("workspace", (operand.nbytes,), "arena")
                self.buffers.append(buffer)
                self.workspaces[id(operand)] = Place(buffer)
            return self.workspaces[id(operand)]
        if id(operand) not in self.places:
            view = self.schedule.views.get(id(operand))
            if view is not None:
                self.places[id(operand)] = Place(None, view.offset, self.place(view.data))
            else:
                self._new(operand, "constant" if operand.is_constant else "arena")
        return self.places[id(operand)]

    def output_value(self, value: Value, index: int) -> Value:
        """A value that stands for output ``index``, to which ``value`` is copied."""
        copy = Value(f"{self.graph.outputs[index].name}:{index}", value.type)
        self._new(copy, "output", index)
        return copy

    def _new(self, value: Value, kind: Kind, index: int = -1) -> Place:
        sizes = list(value.type.dims)
        if value.type.pitch is not None:  # a piece of rows that has none to lie in
            sizes[value.type.order[-1]] = value.type.pitch
        buffer = Buffer(value.name, (value.dtype.itemsize, *sizes), kind, index, value)
        self.buffers.append(buffer)
        self.places[id(value)] = place = Place(buffer)
        return place

    def _outputs(self) -> None:
        """A buffer that an output fills becomes the caller's; an output that shares one is copied at the end."""
        for index, value in enumerate(self.graph.outputs):
            buffer, offset = self[value]
            # What a loop carries or stacks is moved where its size changes.
            is_fixed = is_static(value.type.dims) or (buffer.value is not None and buffer.value.producer is not None)
            if buffer.kind == "arena" and offset == 0 and is_fixed and same(buffer.nbytes, value.type.nbytes):
                buffer.kind, buffer.index = "output", index
            else:
                self.copies.append((value, index))

    def _concats(self) -> None:
        """Let producers write straight into their part of a Concat's output."""
        data_sizes = set(self.graph.data_symbols())
        for step in list(self.items):
            if isinstance(step, Label):
                continue
            node = step.node
            sizes = concat_steps(node) if node.is_op("Concat") and step.outputs else None
            if sizes is None or data_sizes & set(names_of(node.output.type.dims)):
                continue  # the whole must be placed when its first part is written
            roots: list[Place] = []
            for value in node.inputs:
                assert value is not None
                root = self._own_place(value)
                if root is None or any(root is other for other in roots):
                    break
                roots.append(root)
            else:
                target, offset = self.place(node.output), dim(0)
                for place, size in zip(roots, sizes, strict=True):
                    assert place.buffer is not None
                    self.buffers.remove(place.buffer)
                    place.buffer, place.parent, place.offset = None, target, offset
                    offset = dim(offset + size)
                self.items.remove(step)

    def _own_place(self, value: Value) -> Place | None:
        """The place of a buffer of the arena that ``value`` fills, under this shape or that of a Reshape before; None
        where it is none, or one that must not be moved."""
        while value.producer is not None and value.producer.is_op(*RESHAPES) and id(value) in self.schedule.views:
            value = self.schedule.views[id(value)].data
        if value.producer is None:  # an input, a constant, or carried by a loop
            return None
        place = self.place(value)
        if place.root is not place or place.buffer is None or place.buffer.kind != "arena":
            return None
        is_own = place.buffer.value is value or same(place.buffer.nbytes, value.type.nbytes)
        return place if is_own else None

    def _number(self) -> None:
        for item in self.items:
            if isinstance(item, Label):
                self.labels[item] = len(self.steps)
            else:
                self.steps.append(item)

    def _liveness(self) -> None:
        for index, step in enumerate(self.steps):
            for operand in (*step.operands, *step.outputs):
                if isinstance(operand, Value | Workspace):
                    self[operand][0].touch(index)
        for head, end in reversed(self.schedule.loops):  # what is there before an iteration has to last for the next
            first, last = self.labels[head], self.labels[end] - 1
            for buffer in self.buffers:
                if buffer.first < first <= buffer.last <= last:
                    buffer.last = last
        for value, _ in self.copies:
            self[value][0].touch(len(self.steps))
        # What no step touches is empty, or nobody reads it.
        self.buffers = [buffer for buffer in self.buffers if buffer.first >= 0 or buffer.kind != "arena"]

    def _share_in_place(self, in_place: Callable[[Node], Sequence[int]]) -> None:
        for index, step in enumerate(self.steps):
            if not step.outputs:
                continue
            node = step.node
            out_place = self.place(step.outputs[0])
            if out_place.parent is not None or out_place.buffer is None or out_place.buffer.kind != "arena":
                continue
            out = out_place.buffer
            for position in in_place(node) if step.outputs[0] is node.output else ():
                value = node.inputs[position]
                if value is None or value.is_constant or not any(each is value for each in step.operands):
                    continue
                buffer, offset = self[value]
                if buffer.kind != "arena" or buffer.last != index or offset != 0:
                    continue
                if not same(buffer.nbytes, out.nbytes):
                    continue
                if value.dtype.itemsize != node.output.dtype.itemsize or value.type.strides != node.output.type.strides:
                    continue
                if any((operand is value) != self._lies_in(operand, buffer) for operand in step.operands):
                    continue
                self.buffers.remove(out)
                out_place.buffer, out_place.parent = None, self.places[id(value)].root
                buffer.last = max(buffer.last, out.last)
                break

    def _lies_in(self, operand: Operand, buffer: Buffer) -> bool:
        return isinstance(operand, Value) and not operand.is_constant and self[operand][0] is buffer
