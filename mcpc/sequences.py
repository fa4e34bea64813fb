"""Sequences of tensors, which are resolved when a model is read: graphs know tensors only.

Every sequence is followed by its name as a row of parts: single tensors, and tensors that hold many of its elements.
What reads a sequence becomes operators on these tensors. Of a list that a Loop fills, the Loop stacks what it appends.
"""

from __future__ import annotations

import graphlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, ValueInfoProto

from mcpc.errors import McpcError, ModelError, Problems
from mcpc.onnx_structure import reads, subgraphs, walk
from mcpc.onnx_tensors import Array
from mcpc.onnx_types import Tensors, fresh
from mcpc.sequence_loops import SequenceLoop
from mcpc.sequence_parts import MOST, Builder, Grown, List, One, Part, Pieces, Rows

#: No position or size is larger; sums of two fit in 64 bits.
_FAR = 2**61


def resolve_sequences(model: ModelProto, constants: dict[str, Array], problems: Problems) -> set[str]:
    """Rewrite the graph of ``model``, whose structure is sound, without sequences, but for its inputs and outputs.

    ``constants`` are those of the graph itself; new ones are added. What cannot be resolved is reported with E101,
    outputs with E109, what does not fit with E104. The names for which there is no tensor any more come back.
    """
    nodes = list(walk(model.graph.node))
    given = {info.name for info in model.graph.input if _is_sequence(info)}
    if not given and not any(node.domain == "" and node.op_type in OPERATORS for node in nodes):
        return set()
    graphs = [model.graph, *(graph for node in nodes for graph in subgraphs(node))]
    names = {name for graph in graphs for name in _own_names(graph)}
    taken = {*names, *constants, *(node.name for node in nodes)}
    _rename_apart(model.graph, taken, set(), {})
    tensors = Tensors(model, constants, taken)
    scope = _Scope(model.graph)
    scope.lost |= given
    _Resolver(tensors, problems).resolve(scope)
    for info in model.graph.output:
        if _is_sequence(info) or info.name in scope.lists:
            problems.add(ModelError("E109", f"output {info.name} is sequence: only tensors are supported"))
    return scope.lost | scope.lists.keys()


class _Lost(Exception):
    """A node reads what a faulty one should have made."""


class _Scope:
    """A graph whose nodes are taken out; what comes instead is appended one by one. The whole model shares ``lists``,
    the sequences, and ``lost``, the results of faulty nodes."""

    def __init__(self, graph: GraphProto, outer: _Scope | None = None) -> None:
        self.graph = graph
        self.lists: dict[str, List] = {} if outer is None else outer.lists
        self.lost: set[str] = set() if outer is None else outer.lost
        self.is_sound = True
        before = GraphProto()
        before.node.extend(graph.node)
        self.nodes = _sorted(before.node)
        del graph.node[:]

    def find(self, name: str) -> List | None:
        """The sequence called ``name``, None where that is a tensor. Raises :class:`_Lost`."""
        if name in self.lost:
            raise _Lost
        return self.lists.get(name)


class _Rewriter(Builder):
    """What one node that reads or makes sequences becomes."""

    def __init__(self, tensors: Tensors, scope: _Scope, node: NodeProto) -> None:
        super().__init__(tensors, scope.graph, node)
        self.scope = scope

    def attribute(self, name: str, default: int) -> int:
        return next((attribute.i for attribute in self.node.attribute if attribute.name == name), default)

    def operand(self, index: int) -> str:
        """The name of an operand, '' where it is left out."""
        return self.node.input[index] if index < len(self.node.input) else ""

    def sequence(self, index: int = 0) -> List:
        found = self.scope.find(self.operand(index))
        if found is None:
            self.fail(f"input {index} (%{self.operand(index)}) is no sequence", "E104")
        return found

    def tensor(self, index: int) -> str:
        name = self.operand(index)
        if not name or self.scope.find(name) is not None:
            self.fail(f"input {index} (%{name}) is no tensor", "E104")
        return name

    def numbers(self, index: int) -> list[int | None] | None:
        """What an operand holds, None for what only a run shows."""
        return self.tensors.numbers(self.tensor(index))

    def position(self, index: int) -> int | None:
        """The number that an operand holds, None where only a run shows it."""
        numbers = self.numbers(index)
        if numbers is not None and len(numbers) != 1:
            self.fail(f"input {index} (%{self.operand(index)}) holds {len(numbers)} numbers, one is needed", "E104")
        if not numbers or numbers[0] is None:
            return None
        return max(-_FAR, min(numbers[0], _FAR))

    def place(self, index: int, default: int) -> int:
        """The constant position that an operand holds, or else ``default``."""
        position = self.position(index) if self.operand(index) else default
        if position is None:
            self.fail(f"input {index} (%{self.operand(index)}), a position in a sequence, is not constant")
        return position

    def make(self, parts: Iterable[Part]) -> None:
        """The node's result is a sequence of these parts."""
        seq = List(tuple(parts), self.graph)
        if len(seq.parts) > MOST:
            self.fail(f"it makes a sequence of {len(seq.parts)} tensors, {MOST} are the most")
        self.scope.lists[self.node.output[0]] = seq


def _construct(node: _Rewriter) -> None:
    node.make([One(node.tensor(index)) for index in range(len(node.node.input))])


def _insert(node: _Rewriter) -> None:
    seq, tensor = node.sequence(), One(node.tensor(1))
    if not node.operand(2):
        node.make([*seq.parts, tensor])
        return
    position = node.place(2, 0)
    node.check(seq, position, behind=1)
    before, behind = node.divide(seq, position)
    node.make([*before, tensor, *behind])


def _erase(node: _Rewriter) -> None:
    seq, position = node.sequence(), node.place(1, -1)
    node.check(seq, position)
    before, behind = node.divide(seq, position)
    node.make([*before, *node.divide(List(behind, node.graph), 1)[1]])


def _at(node: _Rewriter) -> None:
    node.at(node.sequence(), node.position(1), node.operand(1), node.node.output[0])


def _length(node: _Rewriter) -> None:
    node.length(node.sequence(), node.node.output[0])


def _concat(node: _Rewriter) -> None:
    new_axis = node.attribute("new_axis", 0) == 1
    node.concat(node.sequence(), node.attribute("axis", 0), new_axis, node.node.output[0])


def _split(node: _Rewriter) -> None:
    tensor = node.tensor(0)
    axis = node.axis(node.attribute("axis", 0), tensor)
    if not node.operand(1):
        node.make([Pieces(tensor, axis, 1) if node.attribute("keepdims", 1) else Rows(tensor, axis)])
        return
    sizes, known = node.tensor(1), node.numbers(1)
    shape = node.shape(sizes)
    if known is not None and any(size is not None and size < (shape == ()) for size in known):
        node.fail(f"input 1 (%{sizes}) holds no sizes: {known}", "E104")
    if known is not None and shape == () and known[0] is not None:
        node.make([Pieces(tensor, axis, min(known[0], _FAR))])
        return
    if shape is None or len(shape) != 1 or shape[0] is None:
        node.fail(f"only a run shows input 1 (%{sizes}), the sizes of the pieces, and how many there are")
    if shape[0] > MOST:
        node.fail(f"it makes {shape[0]} tensors, {MOST} are the most")
    names = node.split(tensor, sizes, axis, shape[0])
    node.make(map(One, names))


#: What becomes of the operators that make or read sequences only.
OPERATORS: dict[str, Callable[[_Rewriter], None]] = {
    "ConcatFromSequence": _concat,
    "SequenceAt": _at,
    "SequenceConstruct": _construct,
    "SequenceEmpty": _construct,
    "SequenceErase": _erase,
    "SequenceInsert": _insert,
    "SequenceLength": _length,
    "SplitToSequence": _split,
}


class _Resolver:
    """Rewrites graphs, of which every tensor has a name of its own."""

    def __init__(self, tensors: Tensors, problems: Problems) -> None:
        self.tensors, self.problems = tensors, problems

    def resolve(self, scope: _Scope) -> None:
        for node in scope.nodes:
            try:
                self.rewrite(_Rewriter(self.tensors, scope, node))
                continue
            except McpcError as error:
                self.problems.add(error)
            except _Lost:
                if _operator(node) not in OPERATORS and not any(subgraphs(node)):
                    scope.graph.node.append(node)  # it may be at fault itself
            scope.lost.update(name for name in node.output if name)
            scope.is_sound = False
        infos = [info for info in scope.graph.value_info if not _is_sequence(info)]
        del scope.graph.value_info[:]
        scope.graph.value_info.extend(infos)

    def rewrite(self, node: _Rewriter) -> None:
        proto, scope, operator = node.node, node.scope, _operator(node.node)
        lists = [scope.find(name) if name else None for name in proto.input]
        if operator in (*OPERATORS, "Identity", "OptionalGetElement") and "".join(proto.output[:1]) == "":
            node.fail("it has no output", "E104")
        if operator in OPERATORS:
            OPERATORS[operator](node)
        elif operator in ("Identity", "OptionalGetElement") and any(lists):
            node.make(node.sequence().parts)
        elif operator == "Loop" and any(lists[2:]):
            loop = SequenceLoop(node, lists[2:])
            [body] = self.bodies(node, loop.inside)
            scope.lists |= loop.finish(body.find)
        elif any(lists):
            node.fail(f"operator {proto.op_type} of sequences of tensors is not supported")
        else:
            dead = _forget(node) if operator == "If" else None
            bodies = self.bodies(node, {})
            if operator == "If" and len(bodies) == 2:
                _unite(node, bodies, dead)
            for body in bodies:
                for info in body.graph.output:
                    if body.find(info.name) is not None:
                        node.fail(f"output {info.name} of its body is a sequence of tensors")
            if not bodies:
                self.tensors.infer(proto)
            scope.graph.node.append(proto)

    def bodies(self, node: _Rewriter, inputs: Mapping[str, List]) -> list[_Scope]:
        """The nested graphs of a node, rewritten, ``inputs`` are their sequences. :class:`_Lost` where that failed."""
        bodies = [_Scope(graph, node.scope) for graph in subgraphs(node.node)]
        for body in bodies:
            for tensor in body.graph.initializer:
                self.tensors.read(tensor, tensor.name)
            body.lists |= inputs
            self.resolve(body)
        if not all(body.is_sound for body in bodies):
            raise _Lost
        return bodies


def _forget(node: _Rewriter) -> int | None:
    """Empty the branch of an If that is never taken; which of its graphs that is, None where only a run shows it."""
    numbers = node.numbers(0)
    taken = numbers[0] if numbers else None
    graphs = {
        attribute.name: attribute.g for attribute in node.node.attribute if attribute.type == AttributeProto.GRAPH
    }
    dead = "else_branch" if taken else "then_branch"
    if taken is None or len(graphs) != 2 or dead not in graphs:
        return None
    outputs = len(graphs[dead].output)
    graphs[dead].Clear()
    _set_outputs(graphs[dead], [node.operand(0)] * outputs)
    return list(graphs).index(dead)


def _set_outputs(graph: GraphProto, names: Iterable[str]) -> None:
    del graph.output[:]
    graph.output.extend(ValueInfoProto(name=name) for name in names)


def _unite(node: _Rewriter, branches: Sequence[_Scope], dead: int | None) -> None:
    """Let an If give the tensors of the sequences that its branches make; the ``dead`` one need not make any."""
    proto = node.node
    ends = [[info.name for info in branch.graph.output] for branch in branches]
    if any(len(names) < len(proto.output) for names in ends):
        node.fail(f"its branches have {' and '.join(str(len(names)) for names in ends)} outputs", "E104")
    united: list[tuple[str, ...]] = []  # a result, and what it is in each branch
    live = [index for index in range(len(branches)) if index != dead]
    for name, *given in zip(proto.output, *ends, strict=False):
        lists = {branches[index]: branches[index].find(given[index]) for index in live}
        if not any(lists.values()):
            united.append((name, *given))
            node.tensors.unite(name, [given[index] for index in live])
            continue
        parts: list[Part] = []
        for each in _paired(node, name, lists):
            part = each[0]
            if not isinstance(part, Grown):
                tensors = [other.tensor for other in each if not isinstance(other, Grown)]
                part = replace(part, tensor=node.tensors.fresh(f"{name}.{len(parts)}"))
                node.tensors.unite(part.tensor, tensors)
                by_branch = dict(zip(lists, tensors, strict=True))
                united.append((part.tensor, *(by_branch.get(branch, node.operand(0)) for branch in branches)))
            parts.append(part)
        node.scope.lists[name] = List(tuple(parts), node.graph)
    del proto.output[:]
    proto.output.extend(result for result, *_ in united)
    for index, branch in enumerate(branches, 1):
        _set_outputs(branch.graph, [names[index] for names in united])


def _paired(node: _Rewriter, name: str, lists: Mapping[_Scope, List | None]) -> list[tuple[Part, ...]]:
    """What result ``name`` of an If consists of in each branch, part by part, which are of one kind."""
    known = {branch: seq for branch, seq in lists.items() if seq is not None}
    if len(known) < len(lists):
        node.fail(f"output {name} is a sequence in one branch and a tensor in the other", "E104")
    if len({tuple(map(_kind, seq.parts)) for seq in known.values()}) == 1:
        return list(zip(*(seq.parts for seq in known.values()), strict=True))
    builders = {branch: Builder(node.tensors, branch.graph, node.node) for branch in known}
    counts = [node.count(seq) for seq in known.values()]
    if None not in counts and len(set(counts)) == 1 and (counts[0] or 0) <= MOST:
        singles = [builders[branch].singles(seq) or [] for branch, seq in known.items()]
        return list(zip(*(map(One, names) for names in singles), strict=True))
    if any(not seq.parts for seq in known.values()):
        node.fail(f"output {name} is an empty sequence in one of its branches")
    return [tuple(Rows(builders[branch].stack(List(seq.parts, branch.graph)), 0) for branch, seq in known.items())]


def _kind(part: Part) -> Part:
    return part if isinstance(part, Grown) else replace(part, tensor="")


# ---- protobuf


def _operator(node: NodeProto) -> str:
    """The operator of ai.onnx that a node is of, '' for others."""
    return node.op_type if node.domain == "" else ""


def _is_sequence(info: ValueInfoProto) -> bool:
    return bool(info.type.WhichOneof("value") == "sequence_type")


def _own_names(graph: GraphProto) -> Iterator[str]:
    """What a graph defines; a name as often as it does."""
    yield from (info.name for info in graph.input)
    yield from (tensor.name for tensor in graph.initializer)
    yield from (sparse.values.name for sparse in graph.sparse_initializer)
    yield from (name for node in graph.node for name in node.output if name)


def _rename_apart(graph: GraphProto, taken: set[str], seen: set[str], outer: Mapping[str, str]) -> None:
    """Give tensors new names where graphs that were ``seen`` have such names; ``outer`` are those around this one."""
    own = set(_own_names(graph))
    names = {old: new for old, new in outer.items() if old not in own}
    names |= {name: fresh(name, taken) for name in sorted(own & seen)}
    seen |= own
    for named in (*graph.input, *graph.output, *graph.initializer, *(each.values for each in graph.sparse_initializer)):
        named.name = names.get(named.name, named.name)
    for node in graph.node:
        for field in (node.input, node.output):
            for index, name in enumerate(field):
                if name in names:
                    field[index] = names[name]
        for inner in subgraphs(node):
            _rename_apart(inner, taken, seen, names)


def _sorted(nodes: Sequence[NodeProto]) -> list[NodeProto]:
    """Every node behind those that it needs."""
    makers = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    needs = {
        index: [makers[name] for name in sorted(reads(node)) if name in makers] for index, node in enumerate(nodes)
    }
    return [nodes[index] for index in graphlib.TopologicalSorter(needs).static_order()]
