"""The typed graph that every pass reads and writes.

Operators keep their ONNX names and meaning at the one opset :data:`OPSET`. What is added to ONNX sits in the types
(symbolic sizes, storage layout, quantisation, sparsity) and in ``mcpc::Fused`` nodes, whose ``body`` attribute is the
graph of ONNX operators they stand for. This module never imports onnx.
"""

from __future__ import annotations

import builtins
import enum
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import sympy

from mcpc.dtypes import BY_NAME
from mcpc.errors import PassError

#: The ai.onnx opset of every graph; the reader converts to it.
OPSET = 25

#: The domain of operators that this compiler adds.
MCPC = "mcpc"


class DType(enum.Enum):
    """Element types. A value is the numpy dtype that holds it in memory."""

    float32 = np.dtype(np.float32)
    float16 = np.dtype(np.float16)
    bfloat16 = np.dtype(ml_dtypes.bfloat16)
    float64 = np.dtype(np.float64)
    int8 = np.dtype(np.int8)
    int16 = np.dtype(np.int16)
    int32 = np.dtype(np.int32)
    int64 = np.dtype(np.int64)
    uint8 = np.dtype(np.uint8)
    uint16 = np.dtype(np.uint16)
    uint32 = np.dtype(np.uint32)
    uint64 = np.dtype(np.uint64)
    bool = np.dtype(np.bool_)
    int4 = np.dtype(ml_dtypes.int4)
    uint4 = np.dtype(ml_dtypes.uint4)
    int2 = np.dtype(ml_dtypes.int2)
    uint2 = np.dtype(ml_dtypes.uint2)
    float8e4m3fn = np.dtype(ml_dtypes.float8_e4m3fn)
    float8e4m3fnuz = np.dtype(ml_dtypes.float8_e4m3fnuz)
    float8e5m2 = np.dtype(ml_dtypes.float8_e5m2)
    float8e5m2fnuz = np.dtype(ml_dtypes.float8_e5m2fnuz)
    float8e8m0 = np.dtype(ml_dtypes.float8_e8m0fnu)
    float4e2m1 = np.dtype(ml_dtypes.float4_e2m1fn)

    @property
    def numpy(self) -> np.dtype[Any]:
        dtype: np.dtype[Any] = self.value
        return dtype

    @property
    def itemsize(self) -> int:
        """Bytes of one element in memory: 1 for those of fewer bits too."""
        return int(self.value.itemsize)

    @property
    def bits(self) -> int:
        """What tells elements apart: 4 for int4."""
        return BY_NAME[self.name].bits

    @property
    def is_float(self) -> builtins.bool:  # `bool` is a member here
        return "float" in self.name

    @classmethod
    def of(cls, array: np.ndarray[Any, Any] | np.dtype[Any]) -> DType:
        """The element type of ``array``; ``KeyError`` where there is none (strings, objects)."""
        dtype = array.dtype if isinstance(array, np.ndarray) else np.dtype(array)
        try:
            return cls(dtype)
        except ValueError:
            raise KeyError(f"no element type for numpy's {dtype}") from None


#: A size: an integer, or a sympy expression over symbols made by :func:`symbol`.
Dim: TypeAlias = int | sympy.Expr


#: The smallest and largest value of a symbolic size. The largest may depend on other sizes; None: unbounded.
SizeBound: TypeAlias = tuple[int, Dim | None]


def symbol(name: str) -> sympy.Symbol:
    """The run-time size called ``name`` (any text: '?', 'p2o.DynamicDimension.1')."""
    return sympy.Symbol(name, integer=True, nonnegative=True)


def dim(value: int | sympy.Expr) -> Dim:
    """``value`` with constant expressions turned into ``int``."""
    if isinstance(value, sympy.Expr):
        return int(value) if value.is_Integer else value
    return int(value)


def names_of(sizes: Iterable[Dim]) -> list[str]:
    """Names of the symbols in ``sizes``, each once."""
    names: dict[str, None] = {}
    for size in sizes:
        if not isinstance(size, int):
            names.update(dict.fromkeys(sorted(str(s.name) for s in size.free_symbols)))
    return list(names)


def is_static(shape: Sequence[Dim] | None) -> bool:
    return shape is not None and all(isinstance(size, int) for size in shape)


def total(sizes: Iterable[Dim]) -> Dim:
    """The sum; of many symbolic sizes at once, since each sum of two is sorted anew."""
    numbers = list(sizes)
    whole = sum(size for size in numbers if isinstance(size, int))
    return dim(sympy.Add(whole, *(size for size in numbers if not isinstance(size, int))))


def product(sizes: Iterable[Dim]) -> Dim:
    result: Dim = 1
    for size in sizes:
        result = dim(result * size)
    return result


@dataclass(frozen=True)
class TensorType:
    """``shape`` is None where even the rank is unknown. ``layout`` is the order of the dimensions in memory,
    outermost first, None for row-major: an NCHW tensor stored as NHWC has layout (0, 2, 3, 1). ``pitch``: the tensor
    is a part of a larger one whose innermost dimension in memory has so many elements; None: it lies by itself.
    ``quant`` and ``sparsity`` annotate how the stored numbers relate to the values."""

    dtype: DType
    shape: tuple[Dim, ...] | None
    layout: tuple[int, ...] | None = None
    quant: Quant | None = None
    sparsity: str | None = None
    pitch: Dim | None = None

    def __post_init__(self) -> None:
        if self.layout is not None and self.layout == tuple(range(len(self.layout))):
            object.__setattr__(self, "layout", None)

    @property
    def rank(self) -> int | None:
        return None if self.shape is None else len(self.shape)

    @property
    def dims(self) -> tuple[Dim, ...]:
        """The shape of a tensor whose rank is known."""
        assert self.shape is not None
        return self.shape

    @property
    def static_shape(self) -> tuple[int, ...]:
        """The shape of a tensor all of whose sizes are known."""
        assert self.shape is not None and is_static(self.shape), self.shape
        return tuple(int(size) for size in self.shape)

    @property
    def elements(self) -> Dim:
        return product(self.dims)

    @property
    def nbytes(self) -> Dim:
        return dim(self.elements * self.dtype.itemsize)

    @property
    def order(self) -> tuple[int, ...]:
        """The order of dimensions in memory, also for row-major tensors."""
        return self.layout if self.layout is not None else tuple(range(len(self.dims)))

    @property
    def strides(self) -> tuple[Dim, ...]:
        """Elements to step per dimension, in the order of ``shape``."""
        result: list[Dim] = [0] * len(self.dims)
        step: Dim = 1
        row = self.pitch
        for axis in reversed(self.order):
            result[axis] = step
            step, row = dim(step * (self.dims[axis] if row is None else row)), None
        return tuple(result)

    def with_layout(self, layout: tuple[int, ...] | None) -> TensorType:
        """The type of a tensor in this order that lies by itself."""
        return replace(self, layout=layout, pitch=None)

    def __str__(self) -> str:
        from mcpc.ir_text import format_type  # the text form lives beside its parser

        return format_type(self)


@dataclass(frozen=True)
class Quant:
    """value = (stored - zero_point) * scale, per tensor (one scale) or along ``axis``."""

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int | None = None


class Value:
    """A tensor: made by a node, fed as a graph input, or constant (``data`` is set; external data stay mapped).

    ``users`` holds the consuming nodes, one entry a use; :class:`Node` and :class:`Graph` keep it current. ``default``
    is what a graph input holds where the caller leaves it out; None: it must be fed.
    """

    __slots__ = ("data", "default", "name", "producer", "type", "users")

    def __init__(self, name: str, type: TensorType, data: np.ndarray[Any, Any] | None = None) -> None:
        self.name = name
        self.type = type
        self.data = data
        self.default: np.ndarray[Any, Any] | None = None
        self.producer: Node | None = None
        self.users: list[Node] = []

    @classmethod
    def constant(cls, name: str, data: np.ndarray[Any, Any]) -> Value:
        return cls(name, TensorType(DType.of(data), tuple(data.shape)), data)

    @property
    def is_constant(self) -> bool:
        return self.data is not None

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    @property
    def shape(self) -> tuple[Dim, ...] | None:
        return self.type.shape

    def __repr__(self) -> str:
        return f"%{self.name}: {self.type}"


class Node:
    """One operator. An input that is left out is None; so is an output that nobody asked for.

    ``attrs`` maps names to int, float, str, bytes, DType (for ONNX type codes), numpy arrays, lists of these, or Graph.
    """

    __slots__ = ("attrs", "domain", "inputs", "name", "op", "outputs")

    def __init__(
        self,
        op: str,
        inputs: Sequence[Value | None],
        outputs: Sequence[Value | None],
        attrs: dict[str, Any] | None = None,
        name: str = "",
        domain: str = "",
    ) -> None:
        self.op = op
        self.domain = domain
        self.name = name
        self.attrs = attrs or {}
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)

    @property
    def body(self) -> Graph | None:
        """What a Fused node computes: a graph whose inputs and outputs match the node's, in order."""
        body = self.attrs.get("body")
        return body if isinstance(body, Graph) and self.domain == MCPC else None

    @property
    def bodies(self) -> dict[str, Graph]:
        """The graphs that a control-flow node runs, by attribute.

        They read nothing from outside: what an ONNX body captures is an operand behind the node's own (the attribute
        ``captured`` counts these), and the last inputs of every body stand for them, in order.
        """
        return {name: value for name, value in self.attrs.items() if isinstance(value, Graph) and self.domain == ""}

    @property
    def own_inputs(self) -> tuple[Value | None, ...]:
        """The inputs but for what bodies capture."""
        return self.inputs[: len(self.inputs) - int(self.attrs.get("captured", 0))]

    @property
    def captured_inputs(self) -> tuple[Value | None, ...]:
        """What bodies capture."""
        return self.inputs[len(self.own_inputs) :]

    @property
    def output(self) -> Value:
        """The first output that is asked for: of most operators the only one."""
        return next(output for output in self.outputs if output is not None)

    def input(self, index: int) -> Value | None:
        """Input ``index``, None where it is left out."""
        return self.inputs[index] if index < len(self.inputs) else None

    def is_op(self, *ops: str) -> bool:
        """Whether this is one of these ai.onnx operators."""
        return self.domain == "" and self.op in ops

    def __repr__(self) -> str:
        return f"{self.op}({', '.join('_' if v is None else v.name for v in self.inputs)})"


@dataclass
class _Edit:
    """Changes to a list of nodes that wait for the end of :meth:`Graph.edit`."""

    members: set[Node]
    before: dict[Node, list[Node]] = field(default_factory=dict)

    def applied_to(self, nodes: Iterable[Node]) -> list[Node]:
        result: list[Node] = []
        stack = list(nodes)[::-1]
        while stack:
            node = stack.pop()
            inserted = self.before.pop(node, None)
            if inserted is not None:  # these may have anchors of their own
                stack.append(node)
                stack.extend(reversed(inserted))
            elif node in self.members:
                result.append(node)
        return result


@dataclass
class Graph:
    """Nodes in topological order between inputs and outputs.

    ``bounds`` maps a symbol's name to its smallest and largest value. ``assumptions`` are pairs of sizes that type
    inference took for equal without proof, with the name of a node that needs it: code has to check them. All changes
    go through the methods, which keep producers and users current; :meth:`verify` checks that nothing went around
    them.
    """

    name: str
    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    bounds: dict[str, SizeBound] = field(default_factory=dict)
    assumptions: dict[tuple[Dim, Dim], str] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set, repr=False)
    _edit: _Edit | None = field(default=None, repr=False, compare=False)

    # ---- building

    def nested(self, name: str) -> Graph:
        """A new graph for a control-flow node's body: value names are unique over all of them."""
        return Graph(name, _names=self._names)

    @property
    def names(self) -> set[str]:
        """The names of values that are in use, here and in the bodies of control flow."""
        return set(self._names)

    def fresh(self, stem: str) -> str:
        """A value name that is not in use, ``stem`` itself where possible."""
        name, count = stem, 0
        while name in self._names:
            count += 1
            name = f"{stem}.{count}"
        self._names.add(name)
        return name

    def add_input(self, name: str, type: TensorType) -> Value:
        value = Value(self.fresh(name), type)
        self.inputs.append(value)
        return value

    def constant(self, stem: str, data: np.ndarray[Any, Any]) -> Value:
        """A new constant; it belongs to the graph through its uses."""
        return Value.constant(self.fresh(stem), np.asarray(data))

    def append(self, node: Node) -> Node:
        self._insert(len(self.nodes), [node])
        return node

    def emit(
        self,
        op: str,
        inputs: Sequence[Value | None],
        types: Sequence[TensorType],
        attrs: dict[str, Any] | None = None,
        *,
        name: str = "",
        domain: str = "",
        names: Sequence[str] = (),
    ) -> tuple[Value, ...]:
        """Append a node with new outputs of these ``types`` and return the outputs."""
        outputs = [
            Value(self.fresh(names[i] if i < len(names) else f"{name or op}_{i}"), type) for i, type in enumerate(types)
        ]
        self.append(Node(op, inputs, outputs, attrs, name, domain))
        return tuple(outputs)

    # ---- rewriting

    @contextmanager
    def edit(self) -> Iterator[None]:
        """Within the block :meth:`insert_before`, :meth:`remove` and :meth:`owns` take constant time.

        ``nodes`` keeps its old contents (what is appended included) until the block ends, and is then rebuilt once.
        Producers and users are always current.
        """
        if self._edit is not None:
            yield
            return
        self._edit = _Edit(set(self.nodes))
        try:
            yield
        finally:
            self.nodes = self._edit.applied_to(self.nodes)
            self._edit = None

    def insert_before(self, anchor: Node, nodes: Sequence[Node]) -> None:
        if self._edit is not None:
            self._edit.before.setdefault(anchor, []).extend(nodes)
            self._link(nodes)
        else:
            self._insert(self.nodes.index(anchor), nodes)

    def _insert(self, index: int, nodes: Sequence[Node]) -> None:
        self.nodes[index:index] = nodes
        self._link(nodes)

    def take_over(self, anchor: Node, body: Graph) -> None:
        """Move all nodes of ``body`` here, before ``anchor``."""
        nodes, body.nodes = body.nodes, []
        if self._edit is not None:
            self._edit.before.setdefault(anchor, []).extend(nodes)
            self._edit.members.update(nodes)
        else:
            index = self.nodes.index(anchor)
            self.nodes[index:index] = nodes

    def owns(self, node: Node) -> bool:
        """Whether ``node`` is one of this graph's own, not of another or removed."""
        return node in (self.nodes if self._edit is None else self._edit.members)

    def _link(self, nodes: Sequence[Node]) -> None:
        if self._edit is not None:
            self._edit.members.update(nodes)
        for node in nodes:
            for output in node.outputs:
                if output is not None:
                    output.producer = node
                    self._names.add(output.name)
            for value in node.inputs:
                if value is not None:
                    value.users.append(node)
                    self._names.add(value.name)

    def set_inputs(self, node: Node, inputs: Sequence[Value | None]) -> None:
        for value in node.inputs:
            if value is not None:
                value.users.remove(node)
        node.inputs = tuple(inputs)
        for value in node.inputs:
            if value is not None:
                value.users.append(node)
                self._names.add(value.name)

    def replace_uses(self, old: Value, new: Value) -> None:
        """Make every consumer of ``old``, the graph's outputs included, use ``new``.

        A graph output keeps its name: where ``old`` is an output, ``new`` takes over ``old``'s name if it is
        made by a node and is no output itself; otherwise an Identity node named after the output is put between.
        """
        for node in list(dict.fromkeys(old.users)):
            self.set_inputs(node, [new if value is old else value for value in node.inputs])
        if not any(output is old for output in self.outputs):
            return
        is_free = new.producer is not None and not any(output is new for output in self.outputs)
        if is_free:
            old_name = old.name
            old.name = self.fresh(old_name + ".replaced")
            new.name = old_name
            self.outputs = [new if output is old else output for output in self.outputs]
        elif not (old.producer is not None and old.producer.is_op("Identity") and old.producer.inputs[0] is new):
            alias = Value(old.name, replace(new.type))
            old.name = self.fresh(old.name + ".replaced")
            self.outputs = [alias if output is old else output for output in self.outputs]
            self.append(Node("Identity", [new], [alias], name=alias.name))

    def remove(self, node: Node) -> None:
        """Take out a node whose outputs nobody uses."""
        for output in node.outputs:
            assert output is None or not output.users, f"{output!r} is still in use"
            if output is not None:
                output.producer = None
        self.set_inputs(node, [])
        if self._edit is not None:
            self._edit.members.discard(node)
        else:
            self.nodes.remove(node)

    def sort(self) -> None:
        """Restore topological order after insertions, stable; raises on a cycle."""
        position = {id(node): i for i, node in enumerate(self.nodes)}
        done: set[int] = set()
        order: list[Node] = []
        for root in self.nodes:
            stack: list[tuple[Node, bool]] = [(root, False)]
            active: set[int] = set()
            while stack:
                node, leave = stack.pop()
                if leave:
                    active.discard(id(node))
                    done.add(id(node))
                    order.append(node)
                    continue
                if id(node) in done:
                    continue
                if id(node) in active:
                    raise PassError("E200", f"the graph has a cycle through {node!r}", node=node.name)
                active.add(id(node))
                stack.append((node, True))
                producers = [
                    value.producer
                    for value in node.inputs
                    if value is not None and value.producer is not None and id(value.producer) in position
                ]
                pending = [p for p in producers if id(p) not in done]
                if any(id(p) in active for p in pending):
                    raise PassError("E200", f"the graph has a cycle through {node!r}", node=node.name)
                stack.extend((p, False) for p in reversed(pending))
        self.nodes = order

    # ---- reading

    def constants(self) -> list[Value]:
        """The constants in use, each once, in order of first use."""
        seen: dict[int, Value] = {}
        for node in self.nodes:
            for value in node.inputs:
                if value is not None and value.is_constant:
                    seen.setdefault(id(value), value)
        for value in self.outputs:
            if value.is_constant:
                seen.setdefault(id(value), value)
        return list(seen.values())

    def values(self) -> Iterator[Value]:
        """Inputs, constants and node outputs, each once."""
        yield from self.inputs
        yield from self.constants()
        for node in self.nodes:
            for output in node.outputs:
                if output is not None:
                    yield output

    def computed(self) -> Iterator[Value]:
        """The outputs of all nodes, and all values in control-flow bodies."""
        for node in self.nodes:
            for body in node.bodies.values():
                yield from body.inputs
                yield from body.computed()
            for output in node.outputs:
                if output is not None:
                    yield output

    def all_nodes(self) -> Iterator[Node]:
        """The nodes, each behind those of its control-flow bodies."""
        for node in self.nodes:
            for body in node.bodies.values():
                yield from body.all_nodes()
            yield node

    def symbols(self) -> list[str]:
        """Names of the symbolic sizes of the inputs, in order of first appearance."""
        return names_of(size for value in self.inputs for size in value.shape or ())

    def data_symbols(self) -> list[str]:
        """Names of the sizes that only the run's data show, in order of first appearance."""
        known = set(self.symbols())
        names = names_of(size for value in self.computed() for size in value.shape or ())
        return [name for name in names if name not in known]

    def all_symbols(self) -> list[str]:
        """Names of all symbolic sizes, in the order in which an artifact numbers them."""
        return [*self.symbols(), *self.data_symbols()]

    def is_output(self, value: Value) -> bool:
        return any(output is value for output in self.outputs)

    def verify(self) -> None:
        """Raise :class:`PassError` E200 where producers, users, order, names or types are inconsistent."""

        def fail(message: str, node: Node | None = None) -> PassError:
            return PassError("E200", message, op=node.op if node else "", node=node.name if node else "")

        known: dict[int, Value] = {id(value): value for value in self.inputs}
        names: dict[str, Value] = {}
        uses: dict[int, int] = {}
        for node in self.nodes:
            for value in node.inputs:
                if value is None:
                    continue
                uses[id(value)] = uses.get(id(value), 0) + 1
                if value.is_constant:
                    data = value.data
                    assert data is not None
                    if tuple(data.shape) != value.shape or data.dtype != value.dtype.numpy:
                        raise fail(f"constant {value!r} holds {data.dtype}{list(data.shape)}", node)
                    known[id(value)] = value
                elif id(value) not in known:
                    raise fail(f"%{value.name} is used before it is made", node)
            for output in node.outputs:
                if output is None:
                    continue
                if output.producer is not node:
                    raise fail(f"%{output.name} does not know its producer", node)
                if id(output) in known:
                    raise fail(f"%{output.name} is made twice", node)
                layout = output.type.layout
                if layout is not None and sorted(layout) != list(range(len(output.shape or ()))):
                    raise fail(f"%{output.name} has layout {layout}", node)
                known[id(output)] = output
            body = node.body
            if body is not None:
                if len(body.inputs) != len(node.inputs) or len(body.outputs) != len(node.outputs):
                    raise fail("a fused node's body does not match its operands", node)
                body.verify()
            for inner in node.bodies.values():
                inner.verify()
        for value in known.values():
            if names.setdefault(value.name, value) is not value:
                raise fail(f"two values are called %{value.name}")
            if len(value.users) < uses.get(id(value), 0):
                raise fail(f"%{value.name} misses a user")
        for value in self.outputs:
            if id(value) not in known and not value.is_constant:
                raise fail(f"output %{value.name} is made by nothing")
