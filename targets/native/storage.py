"""Which buffer every tensor lies in: views, buffers shared in place, outputs written where the caller wants them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from mcpc.ir import Graph, Node, Value

from . import memory_plan
from .layout import same_memory
from .slices import slice_bounds


@dataclass(eq=False)
class Buffer:
    """A stretch of memory. ``kind`` arena: planned; input and output: bound by the caller, ``index`` says which;
    constant: in a shard, ``value`` holds the data."""

    name: str
    nbytes: int
    kind: Literal["arena", "input", "output", "constant"]
    index: int = -1
    value: Value | None = None
    first: int = -1
    last: int = -1
    offset: int = 0  # in the arena, once planned

    def touch(self, step: int) -> None:
        self.first = step if self.first < 0 else min(self.first, step)
        self.last = max(self.last, step)


@dataclass
class Place:
    """Where a tensor lies: bytes ``offset`` into a buffer, or into another place (``parent``) that it is part of."""

    buffer: Buffer | None
    offset: int = 0
    parent: Place | None = None

    def resolve(self) -> tuple[Buffer, int]:
        place, offset = self, self.offset
        while place.parent is not None:
            place = place.parent
            offset += place.offset
        assert place.buffer is not None
        return place.buffer, offset

    @property
    def root(self) -> Place:
        place = self
        while place.parent is not None:
            place = place.parent
        return place


#: Operators whose output is the input's memory under another shape.
RESHAPES = ("Reshape", "Squeeze", "Unsqueeze", "Flatten", "Dropout", "Identity")


def view_offset(node: Node) -> int | None:
    """Bytes from the first input's start at which the node's only output lies without a move; None where it must be
    computed."""
    if node.body is not None or not node.inputs or node.inputs[0] is None:
        return None
    data, out = node.inputs[0], node.output
    if data.dtype != out.dtype or len([o for o in node.outputs if o is not None]) != 1:
        return None
    if node.is_op("Identity", "Dropout"):
        return 0 if same_memory(data.type, out.type) else None
    if node.is_op(*RESHAPES):
        row_major = same_memory(data.type, data.type.with_layout(None))
        return 0 if row_major and same_memory(out.type, out.type.with_layout(None)) else None
    if node.is_op("Transpose"):
        perm = node.attrs.get("perm") or list(reversed(range(len(data.type.dims))))
        strides = data.type.strides
        matches = all(
            size == 1 or strides[axis] == step
            for axis, size, step in zip(perm, out.type.dims, out.type.strides, strict=True)
        )
        return 0 if matches else None
    if node.is_op("Slice"):
        return _slice_offset(node)
    return None


def _slice_offset(node: Node) -> int | None:
    data, out = node.inputs[0], node.output
    assert data is not None
    bounds = slice_bounds(node)
    if bounds is None or data.type.layout != out.type.layout:
        return None
    offset = 0
    # One contiguous run: outside the outermost dimension that is cut, every dimension of the result has size 1.
    outer = True
    for axis in data.type.order:
        start, step = bounds[axis]
        cut = out.type.dims[axis] != data.type.dims[axis]
        if cut and not outer:
            return None
        if step != 1 and out.type.dims[axis] != 1:
            return None
        offset += start * int(data.type.strides[axis])
        outer = outer and out.type.dims[axis] == 1
    return offset * data.dtype.itemsize


def concat_offsets(node: Node) -> list[int] | None:
    """Byte offsets of a Concat's inputs in its output where each is one run there; None where they interleave."""
    out = node.output
    axis = int(node.attrs["axis"]) % len(out.type.dims)
    for outer in out.type.order:
        if outer == axis:
            break
        if out.type.dims[outer] != 1:
            return None
    offsets, position = [], 0
    for value in node.inputs:
        assert value is not None
        if value.type.layout != out.type.layout and not same_memory(
            value.type, value.type.with_layout(out.type.layout)
        ):
            return None
        offsets.append(position)
        position += int(value.type.nbytes)
    return offsets


class Storage:
    """The buffers of a graph and the place of every value.

    ``steps`` are the nodes that compute; the rest are views. ``in_place(node)`` names the inputs whose buffer the
    node may overwrite with its output.
    """

    def __init__(self, graph: Graph, in_place: Callable[[Node], Sequence[int]]) -> None:
        self.graph = graph
        self.places: dict[int, Place] = {}
        self.buffers: list[Buffer] = []
        self.steps: list[Node] = []
        self.copies: list[tuple[Value, int]] = []  # outputs that are inputs, constants or other outputs: (value, index)
        self._views()
        self._outputs()
        self._concats()
        self._liveness()
        self._share_in_place(in_place)
        arena = [buffer for buffer in self.buffers if buffer.kind == "arena"]
        self.plan = memory_plan.plan([memory_plan.Lifetime(b.nbytes, b.first, b.last) for b in arena])
        for buffer, offset in zip(arena, self.plan.offsets, strict=True):
            buffer.offset = offset
        self.arena_buffers = arena

    def __getitem__(self, value: Value) -> tuple[Buffer, int]:
        """The buffer and byte offset of a value; a constant's own buffer is made on first use."""
        if id(value) not in self.places and value.is_constant:
            self._new(value, "constant")
        return self.places[id(value)].resolve()

    def output_value(self, value: Value, index: int) -> Value:
        """A value that stands for output ``index``, to which ``value`` is copied."""
        copy = Value(f"{self.graph.outputs[index].name}:{index}", value.type)
        self._new(copy, "output", index)
        return copy

    def _new(self, value: Value, kind: Literal["arena", "input", "output", "constant"], index: int = -1) -> Place:
        buffer = Buffer(value.name, int(value.type.nbytes), kind, index, value)
        self.buffers.append(buffer)
        self.places[id(value)] = place = Place(buffer)
        return place

    def _views(self) -> None:
        for index, value in enumerate(self.graph.inputs):
            self._new(value, "input", index)
        for node in self.graph.nodes:
            offset = view_offset(node)
            data = node.inputs[0] if node.inputs else None
            if offset is not None and data is not None:
                if data.is_constant:
                    self[data]
                self.places[id(node.output)] = Place(None, offset, self.places[id(data)])
                continue
            made = [output for output in node.outputs if output is not None]
            if any(output.type.elements != 0 for output in made):  # else there is nothing to compute
                self.steps.append(node)
            for output in made:
                self._new(output, "arena")

    def _outputs(self) -> None:
        """A buffer that an output fills becomes the caller's; an output that shares one is copied at the end."""
        for index, value in enumerate(self.graph.outputs):
            buffer, offset = self[value]
            if buffer.kind == "arena" and offset == 0 and buffer.nbytes == int(value.type.nbytes):
                buffer.kind, buffer.index = "output", index
            else:
                self.copies.append((value, index))

    def _concats(self) -> None:
        """Let producers write straight into their part of a Concat's output."""
        for node in list(self.steps):
            offsets = concat_offsets(node) if node.is_op("Concat") else None
            if offsets is None:
                continue
            roots: list[Place] = []
            for value in node.inputs:
                assert value is not None
                place = self.places.get(id(value))
                if place is None or place.root is not place or place.buffer is None or place.buffer.kind != "arena":
                    break
                if any(place is other for other in roots) or place.buffer.nbytes != int(value.type.nbytes):
                    break
                roots.append(place)
            else:
                target = self.places[id(node.output)]
                for place, offset in zip(roots, offsets, strict=True):
                    assert place.buffer is not None
                    self.buffers.remove(place.buffer)
                    place.buffer, place.parent, place.offset = None, target, offset
                self.steps.remove(node)

    def _liveness(self) -> None:
        for step, node in enumerate(self.steps):
            for value in (*node.inputs, *node.outputs):
                if value is not None and (id(value) in self.places):
                    self.places[id(value)].resolve()[0].touch(step)
        for value, _ in self.copies:
            self[value][0].touch(len(self.steps))
        for buffer in self.buffers:
            if buffer.first < 0:  # empty: no step makes it
                buffer.touch(0)

    def _share_in_place(self, in_place: Callable[[Node], Sequence[int]]) -> None:
        for step, node in enumerate(self.steps):
            out_place = self.places[id(node.output)]
            if out_place.parent is not None or out_place.buffer is None or out_place.buffer.kind != "arena":
                continue
            out = out_place.buffer
            for index in in_place(node):
                value = node.inputs[index]
                if value is None or value.is_constant:
                    continue
                buffer, offset = self[value]
                if buffer.kind != "arena" or buffer.last != step or buffer.nbytes != out.nbytes or offset != 0:
                    continue
                if value.dtype.itemsize != node.output.dtype.itemsize or value.type.strides != node.output.type.strides:
                    continue
                readers = [v for v in node.inputs if v is not None and not v.is_constant and self[v][0] is buffer]
                if len(readers) != 1:
                    continue
                self.buffers.remove(out)
                out_place.buffer, out_place.parent = None, self.places[id(value)].root
                buffer.last = max(buffer.last, out.last)
                break
