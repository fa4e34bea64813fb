"""Loops that carry sequences of tensors, written as Loops that carry tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from onnx import GraphProto, ValueInfoProto

from mcpc.onnx_structure import reads, subgraphs, walk
from mcpc.sequence_parts import Builder, Grown, List, One, Part, Rows


@dataclass
class _Form:
    """What a Loop becomes: ``carried`` tensors as (operand, the body's input, the body's output, result), ``stacked``
    ones as (the body's output, result); results are '' where nobody wants them. The body needs what is ``read``."""

    read: set[str]
    carried: list[tuple[str, ValueInfoProto, str, str]] = field(default_factory=list)
    stacked: list[tuple[str, str]] = field(default_factory=list)


class _Kept:
    """A sequence that no iteration changes."""

    def __init__(self, seq: List) -> None:
        self.inside = seq

    def add_to(self, form: _Form, body: Builder, end: List) -> None:
        pass

    def result(self, node: Builder) -> List:
        return self.inside


class _Growing:
    """A list that every iteration appends to: what it appends is stacked. Where the last tensor is known before the
    loop, it is in every iteration; it is carried if the body reads it."""

    def __init__(self, node: Builder, seq: List, graph: GraphProto, name: str) -> None:
        self.initial, self.grown = seq, Grown(name)
        self.last = [_like(node, part.tensor, f"{name}.last") for part in seq.parts[-1:] if isinstance(part, One)]
        self.inside = List((self.grown, *map(One, self.last)), graph)
        self.stacked, self.are_many = "", False  # what the Loop stacks, and whether each iteration appends several

    def add_to(self, form: _Form, body: Builder, end: List) -> None:
        before = self.inside.parts
        added = end.parts[len(before) :]
        if end.parts[: len(before)] != before or any(isinstance(part, Grown) for part in added):
            body.fail(f"sequence {self.grown.name} is changed in the Loop in other ways than by appending to it")
        if not added:
            return
        if any(name in form.read for name in self.last):
            self._carry_last(body, added[-1], form)
        if len(added) == 1 and isinstance(added[0], One):
            tensor = added[0].tensor
        else:
            tensor, self.are_many = body.stack(List(added, body.graph)), True
        self.stacked = body.tensors.fresh(f"{self.grown.name}.stacked")
        form.stacked.append((tensor, self.stacked))
        if (shape := body.shape(tensor)) is not None:
            body.tensors.declare(self.stacked, tensor, (None, *shape))

    def result(self, node: Builder) -> List:
        if not self.stacked:
            return self.initial
        rows = Rows(node.joined(self.stacked, 0) if self.are_many else self.stacked, 0)
        return List((*self.initial.parts, rows), node.graph)

    def _carry_last(self, node: Builder, last: Part, form: _Form) -> None:
        [name], [*_, initial] = self.last, self.initial.parts
        assert isinstance(initial, One)
        if not isinstance(last, One):
            node.fail(f"the last tensor of sequence {self.grown.name} is read, which another Loop appends to it")
        form.carried.append((initial.tensor, ValueInfoProto(name=name), last.tensor, ""))


def _like(node: Builder, tensor: str, stem: str) -> str:
    """A new name for a tensor of the rank of another."""
    shape, name = node.shape(tensor), node.tensors.fresh(stem)
    if shape is not None:
        node.tensors.declare(name, tensor, (None,) * len(shape))
    return name


class _Refilled:
    """A sequence of a known length, the same before and behind every iteration: its tensors are carried."""

    def __init__(self, node: Builder, seq: List, graph: GraphProto, name: str) -> None:
        tensors = node.singles(seq)
        if tensors is None:
            message = f"sequence {name}, whose length only a run shows, is changed in a Loop"
            node.fail(f"{message} in other ways than by appending to it")
        self.name, self.tensors = name, tensors
        self.results: list[str] = []
        self.inputs = [_like(node, tensor, f"{name}.{index}") for index, tensor in enumerate(tensors)]
        self.inside = List(tuple(map(One, self.inputs)), graph)

    def add_to(self, form: _Form, body: Builder, end: List) -> None:
        ends = body.singles(end)
        if ends is None or len(ends) != len(self.tensors):
            then = "a number that only a run shows" if ends is None else len(ends)
            body.fail(f"sequence {self.name} holds {len(self.tensors)} tensors before an iteration, {then} behind it")
        self.results = [_like(body, tensor, f"{self.name}.last") for tensor in self.tensors]
        infos = [ValueInfoProto(name=name) for name in self.inputs]
        form.carried += zip(self.tensors, infos, ends, self.results, strict=True)

    def result(self, node: Builder) -> List:
        return List(tuple(map(One, self.results)), node.graph)


class SequenceLoop:
    """A Loop (``node``) whose carried operands are the sequences ``lists``, None for tensors. ``inside`` says what the
    body's inputs are in an iteration; once the body is rewritten by that, :meth:`finish` appends the new Loop."""

    def __init__(self, node: Builder, lists: Sequence[List | None]) -> None:
        graphs = list(subgraphs(node.node))
        if len(graphs) != 1 or len(graphs[0].input) != len(lists) + 2 or len(graphs[0].output) < len(lists) + 1:
            node.fail(f"its body does not fit {len(lists)} carried values", "E104")
        self.node, self.graph = node, graphs[0]
        self.before = list(self.graph.input)
        self.behind = [info.name for info in self.graph.output]
        self.inside: dict[str, List] = {}
        self._carried: list[_Kept | _Growing | _Refilled | None] = []
        for seq, info, end in zip(lists, self.before[2:], self.behind[1:], strict=False):
            carried = None if seq is None else self._carry(seq, info.name, end)
            self._carried.append(carried)
            if carried is not None:
                self.inside[info.name] = carried.inside

    def _carry(self, seq: List, start: str, end: str) -> _Kept | _Growing | _Refilled:
        change = _change(self.graph, start, end)
        if change == "none":
            return _Kept(seq)
        kind = _Growing if change == "append" else _Refilled
        return kind(self.node, seq, self.graph, start)

    def finish(self, find: Callable[[str], List | None]) -> dict[str, List]:
        """Append the Loop; the sequences that are among its results. ``find`` gives those of the body."""
        proto, graph = self.node.node, self.graph
        form = _Form(set(self.behind).union(*map(reads, graph.node)))
        for carried, end in zip(self._carried, self.behind[1:], strict=False):
            if carried is not None and (seq := find(end)) is not None:
                new = seq.parts[len(carried.inside.parts) if isinstance(carried, _Growing) else 0 :]
                form.read.update(part.tensor for part in new if not isinstance(part, Grown))
        body = Builder(self.node.tensors, graph, proto)
        count = len(self._carried)
        names = [*proto.output, *[""] * (len(self.behind) - 1 - len(proto.output))]
        results_of: dict[str, _Kept | _Growing | _Refilled] = {}
        for index, (carried, end, name) in enumerate(zip(self._carried, self.behind[1:], names, strict=False), 2):
            seq = find(end)
            if (seq is None) != (carried is None):
                self.node.fail(f"a sequence and a tensor are carried as {self.before[index].name}", "E104")
            if carried is None or seq is None:
                form.carried.append((proto.input[index], self.before[index], end, name))
            else:
                carried.add_to(form, body, seq)
                results_of[name] = carried
        form.stacked[:0] = zip(self.behind[1 + count :], names[count:], strict=False)
        operands, inputs, ends, results = zip(*form.carried, strict=True) if form.carried else [()] * 4
        _replace(proto.input, [*proto.input[:2], *operands])
        _replace(graph.input, [*self.before[:2], *inputs])
        ends = self.behind[0], *ends, *(end for end, _ in form.stacked)
        _replace(graph.output, [ValueInfoProto(name=end) for end in ends])
        _replace(proto.output, [*results, *(result for _, result in form.stacked)])
        self.node.graph.node.append(proto)
        return {name: carried.result(self.node) for name, carried in results_of.items()}


def _replace(field: Any, items: Iterable[Any]) -> None:
    items = list(items)
    del field[:]
    field.extend(items)


def _change(graph: GraphProto, start: str, end: str) -> str:
    """What an iteration does to the sequence that it finds as ``start`` and leaves as ``end``: "none", "append" (as far
    as can be seen without a look at every branch), or "other"."""
    own = {name: node for node in graph.node for name in node.output}
    makers = {name: node for node in walk(graph.node) for name in node.output} | own
    change = "none"
    for _ in range(len(makers) + 1):
        if end == start:
            return change
        node = makers.get(end)
        if node is None or not node.input:
            break
        if node.op_type != "Identity" or end not in own:
            change = "append"
        index = list(node.output).index(end)
        graphs = list(subgraphs(node))
        if node.op_type == "Identity" or (node.op_type == "SequenceInsert" and "".join(node.input[2:]) == ""):
            end = node.input[0]
        elif node.op_type == "If" and graphs and index < len(graphs[0].output):
            end = graphs[0].output[index].name
        elif node.op_type == "Loop" and index + 2 < len(node.input):
            end = node.input[index + 2]
        else:
            break
    return "other"
