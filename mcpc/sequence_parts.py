"""What sequences of tensors consist of while a model is read, and the nodes that measure, index and join them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from onnx import GraphProto, NodeProto, helper

from mcpc.errors import ModelError
from mcpc.onnx_structure import label
from mcpc.onnx_types import Shape, Tensors

#: Sequences of more single tensors than this are not made.
MOST = 4096


@dataclass(frozen=True)
class One:
    """A single tensor."""

    tensor: str


@dataclass(frozen=True)
class Rows:
    """The slices of a tensor at every position of an axis, which they do not have."""

    tensor: str
    axis: int


@dataclass(frozen=True)
class Pieces:
    """The pieces of a tensor that is cut every ``size`` positions of an axis; the last one may be shorter."""

    tensor: str
    axis: int
    size: int


@dataclass(frozen=True)
class Grown:
    """What the sequence ``name`` of a Loop that appends to it holds when an iteration begins."""

    name: str


Part = One | Rows | Pieces | Grown


@dataclass(eq=False)
class List:
    """A sequence that was made in ``graph``. ``rows`` are its elements in one tensor, once that was needed."""

    parts: tuple[Part, ...]
    graph: GraphProto
    rows: Rows | None = None


class Builder:
    """Appends what takes the place of ``node`` to ``graph``."""

    def __init__(self, tensors: Tensors, graph: GraphProto, node: NodeProto) -> None:
        self.tensors, self.graph, self.node = tensors, graph, node

    def __call__(self, op: str, *inputs: str, output: str = "", **attrs: Any) -> str:
        """Append a node that makes ``output``, or else a new tensor; its name."""
        name = output or self.tensors.fresh(f"{label(self.node)}.{op}")
        self.graph.node.append(helper.make_node(op, inputs, [name], label(self.node) if output else name, **attrs))
        self.tensors.infer(self.graph.node[-1])
        return name

    def constant(self, items: int | list[int]) -> str:
        return self.tensors.constant(f"{label(self.node)}.constant", np.array(items, np.int64))

    def fail(self, message: str, code: str = "E101", hint: str = "") -> NoReturn:
        raise ModelError(code, message, op=self.node.op_type, node=label(self.node), hint=hint)

    # ---- tensors

    def shape(self, tensor: str) -> Shape | None:
        return self.tensors.shape(tensor)

    def axis(self, axis: int, tensor: str, removed: int = 0) -> int:
        """``axis`` of what is ``tensor`` without as many axes as are ``removed``, counted from the front."""
        shape = self.shape(tensor)
        if shape is None:
            return axis if axis >= 0 else self._no_rank(tensor)
        rank = len(shape) - removed
        if not -rank <= axis < rank:
            self.fail(f"tensors of rank {rank} have no axis {axis}", "E104")
        return axis % rank

    def _no_rank(self, tensor: str) -> NoReturn:
        self.fail(f"the rank of tensor {tensor} is not known", "E108", "declare its shape in the model")

    def _moved(self, rows: Rows, target: int) -> str:
        """The tensor of ``rows`` with their axis at ``target``."""
        if rows.axis == target:
            return rows.tensor
        shape = self.shape(rows.tensor)
        if shape is None:
            self._no_rank(rows.tensor)
        order = [axis for axis in range(len(shape)) if axis != rows.axis]
        order.insert(target, rows.axis)
        return self("Transpose", rows.tensor, perm=order)

    def joined(self, tensor: str, axis: int) -> str:
        """``tensor`` with an axis and the next one as one."""
        first, second = (self("Shape", tensor, start=axis + i, end=axis + i + 1) for i in range(2))
        sizes = [self("Mul", first, second), self("Shape", tensor, start=axis + 2)]
        if axis:
            sizes.insert(0, self("Shape", tensor, start=0, end=axis))
        return self("Reshape", tensor, self("Concat", *sizes, axis=0), allowzero=1)

    # ---- what sequences hold

    def count(self, seq: List) -> int | None:
        """How many elements there are, None where only a run shows it."""
        counts = [self._count(part) for part in seq.parts]
        return None if None in counts else sum(count or 0 for count in counts)

    def _count(self, part: Part) -> int | None:
        if isinstance(part, One):
            return 1
        shape = None if isinstance(part, Grown) else self.shape(part.tensor)
        if shape is None or isinstance(part, Grown):
            return None
        size = shape[part.axis]
        return -(-size // part.size) if size is not None and isinstance(part, Pieces) else size

    def _count_tensor(self, part: Part) -> str:
        """:meth:`_count` as int64[1], for parts of many elements."""
        size = self._size(part)
        if isinstance(part, Pieces):
            size = self("Div", self("Add", size, self.constant([part.size - 1])), self.constant([part.size]))
        return size

    def _size(self, part: Part) -> str:
        """The size of the axis along which the elements of a part lie, as int64[1]."""
        assert not isinstance(part, One)
        if isinstance(part, Grown):
            self.fail(f"sequence {part.name} is read in the Loop that appends to it")
        return self("Shape", part.tensor, start=part.axis, end=part.axis + 1)

    def singles(self, seq: List) -> list[str] | None:
        """Every element as a tensor of its own, None where only a run shows how many there are."""
        count = self.count(seq)
        if count is None or count > MOST:
            return None
        return [self._element(part, index) for part in seq.parts for index in range(self._count(part) or 0)]

    def _element(self, part: Part, index: int, output: str = "") -> str:
        """Element ``index`` of a part whose size is known."""
        if isinstance(part, One):
            return self("Identity", part.tensor, output=output) if output else part.tensor
        assert not isinstance(part, Grown)
        if isinstance(part, Rows):
            return self("Gather", part.tensor, self.constant(index), axis=part.axis, output=output)
        begin = index * part.size
        bounds = self.constant([begin]), self.constant([begin + part.size])
        return self("Slice", part.tensor, *bounds, self.constant([part.axis]), output=output)

    def rows(self, seq: List) -> Rows:
        """All elements in one tensor. It is made in the graph where the sequence is, outside of loops that read it."""
        if seq.rows is None:
            build = Builder(self.tensors, seq.graph, self.node)
            parts = [build._rows(part) for part in seq.parts]
            if len(parts) == 1:
                seq.rows = parts[0]
            else:
                seq.rows = Rows(build._stack([build._moved(part, 0) for part in parts]), 0)
        return seq.rows

    def stack(self, seq: List) -> str:
        """All elements along a new first axis."""
        return self._moved(self.rows(seq), 0)

    def _stack(self, tensors: list[str]) -> str:
        shapes = [shape[1:] for name in tensors if (shape := self.shape(name)) is not None]
        for shape in shapes:
            known = [(a, b) for a, b in zip(shape, shapes[0], strict=False) if a is not None and b is not None]
            if len(shape) != len(shapes[0]) or any(a != b for a, b in known):
                what = f"the sequence holds tensors of the shapes {_text(shapes[0])} and {_text(shape)}"
                self.fail(f"{what}, and only a run shows which of them is taken, or how often they are added")
        return self("Concat", *tensors, axis=0)

    def _rows(self, part: Part) -> Rows:
        if isinstance(part, Rows):
            return part
        if isinstance(part, One):
            return Rows(self("Unsqueeze", part.tensor, self.constant([0])), 0)
        size = self._size(part)
        assert isinstance(part, Pieces)
        axis = part.axis
        if part.size == 1:
            return Rows(self("Unsqueeze", part.tensor, self.constant([axis + 1])), axis)
        count = self._count_tensor(part)
        head = [self("Shape", part.tensor, start=0, end=axis)] if axis else []
        each = self("Min", size, self.constant([part.size]))  # all of one size, or the Reshape is at fault
        sizes = self("Concat", *head, count, each, self("Shape", part.tensor, start=axis + 1), axis=0)
        return Rows(self("Reshape", part.tensor, sizes, allowzero=1), axis)

    # ---- operators

    def length(self, seq: List, output: str) -> None:
        """The number of elements, as the tensor ``output``."""
        total = self.constant([sum(self._count(part) or 0 for part in seq.parts)])
        for part in seq.parts:
            if self._count(part) is None:
                total = self("Add", total, self._count_tensor(part))
        self("Reshape", total, self.constant([]), output=output)

    def check(self, seq: List, position: int, behind: int = 0) -> None:
        """E104 where there is no element ``position``, and it is not the place behind the last one either."""
        count = self.count(seq)
        if count is not None and not -count <= position < count + behind:
            self.fail(f"a sequence of {count} tensors has no position {position}", "E104")

    def at(self, seq: List, position: int | None, tensor: str, output: str) -> None:
        """The element at ``position``, which is what ``tensor`` holds, None where only a run shows it."""
        if position is not None:
            self.check(seq, position)
            for part in seq.parts if position >= 0 else reversed(seq.parts):
                count = self._count(part)
                if count is None:
                    break
                if -count <= position < count:
                    self._element(part, position % count, output)
                    return
                position += count if position < 0 else -count
        if not seq.parts:
            self.fail("the sequence is empty", "E104")
        first = seq.parts[0]
        if len(seq.parts) == 1 and isinstance(first, Pieces) and (first.size == 1 or not self._are_alike(first)):
            index = self("Reshape", tensor, self.constant([1]))
            if first.size == 1:
                self("Gather", first.tensor, index, axis=first.axis, output=output)
                return
            end = self("Reshape", self._size(first), self.constant([]))
            begins = self("Range", self.constant(0), end, self.constant(first.size))
            begin = self("Gather", begins, index, axis=0)  # which finds positions that are out of bounds
            bounds = begin, self("Add", begin, self.constant([first.size])), self.constant([first.axis])
            self("Slice", first.tensor, *bounds, output=output)
            return
        rows = self.rows(seq)
        self("Gather", rows.tensor, self("Reshape", tensor, self.constant([])), axis=rows.axis, output=output)

    def _are_alike(self, pieces: Pieces) -> bool:
        shape = self.shape(pieces.tensor)
        size = None if shape is None else shape[pieces.axis]
        return size is not None and size % pieces.size == 0

    def divide(self, seq: List, position: int) -> tuple[tuple[Part, ...], tuple[Part, ...]]:
        """The parts in front of an element, which is within bounds where the length is known, and the others."""
        step = 1 if position >= 0 else -1
        near: list[Part] = []
        far: list[Part] = list(seq.parts[::step])
        left = abs(position)
        while left:
            count = self._count(far[0])
            if count is None and all(isinstance(part, One | Rows) or _is_thin(part) for part in far):
                rows = self.rows(List(tuple(far[::step]), self.graph))
                first, second = self._halves(rows, left * step)[::step]
                near, far, left = [*near, first], [second], 0
                continue
            part = far.pop(0)
            if count is None or count > MOST:
                self.fail(f"position {position} is in a part of the sequence whose length only a run shows")
            if count > left:
                ones = [One(self._element(part, index)) for index in range(count)][::step]
                near, far, left = [*near, *ones[:left]], [*ones[left:], *far], 0
            else:
                near.append(part)
                left -= count
        return (tuple(near), tuple(far)) if step > 0 else (tuple(far[::-1]), tuple(near[::-1]))

    def _halves(self, rows: Rows, position: int) -> list[Rows]:
        """The rows in front of one of them, and the others; the Split is at fault where there are not so many."""
        known = self.constant([abs(position)])
        other = self("Sub", self._size(rows), known)
        sizes = self("Concat", *((known, other) if position > 0 else (other, known)), axis=0)
        return [Rows(name, rows.axis) for name in self.split(rows.tensor, sizes, rows.axis, 2)]

    def split(self, tensor: str, sizes: str, axis: int, count: int) -> list[str]:
        """The pieces of a tensor whose ``sizes`` are these."""
        stem = label(self.node)
        names = [self.tensors.fresh(f"{stem}.{index}") for index in range(count)]
        if names:
            self.graph.node.append(helper.make_node("Split", [tensor, sizes], names, stem, axis=axis))
            self.tensors.infer(self.graph.node[-1])
        return names

    def concat(self, seq: List, axis: int, new_axis: bool, output: str) -> None:
        if not seq.parts:
            self.fail("the sequence is empty", "E104")
        tensors = [self._stacked(part, axis) if new_axis else self._concatenated(part, axis) for part in seq.parts]
        if len(tensors) == 1:
            self("Identity", *tensors, output=output)
        else:
            self("Concat", *tensors, axis=axis, output=output)

    def _stacked(self, part: Part, axis: int) -> str:
        if isinstance(part, One):
            return self("Unsqueeze", part.tensor, self.constant([axis]))
        rows = self._rows(part)
        return self._moved(rows, self.axis(axis, rows.tensor))

    def _concatenated(self, part: Part, axis: int) -> str:
        if isinstance(part, One):
            return part.tensor
        if isinstance(part, Pieces) and self.axis(axis, part.tensor) == part.axis:
            return part.tensor
        rows = self._rows(part)
        axis = self.axis(axis, rows.tensor, removed=1)
        return self.joined(self._moved(rows, axis), axis)


def _is_thin(part: Part) -> bool:
    return isinstance(part, Pieces) and part.size == 1


def _text(shape: Shape) -> str:
    return f"[{', '.join('?' if size is None else str(size) for size in shape)}]"
