"""ONNX in, typed IR out. Every fault of a model is reported in one go."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, SparseTensorProto, TensorProto, ValueInfoProto
from onnx.numpy_helper import from_array
from onnx_graphsurgeon.logger import G_LOGGER

from mcpc.contrib import expand_contrib
from mcpc.control_flow import give_constants, inline_decided, lower_scans, simplify_loops
from mcpc.errors import ModelError, Problems, UsageError
from mcpc.ir import Dim, DType, Graph, Node, TensorType, Value, symbol
from mcpc.onnx_defaults import must_stay_constant, overridable
from mcpc.onnx_normalize import check_opset, convert_opset, inline_functions
from mcpc.onnx_structure import check_structure, free_names, is_text, label, opsets_of, walk
from mcpc.onnx_tensors import Array, ExternalData, dtype_of, read_sparse, read_tensor, type_code
from mcpc.onnx_types import TYPE_ATTRIBUTES
from mcpc.ops import InferContext, find, infer_graph
from mcpc.ops.registry import opset_of, unsupported
from mcpc.rewrite import control_flow_graphs
from mcpc.sequences import OPERATORS, resolve_sequences
from mcpc.size_options import Bound, Shape, fix_sizes, open_shape, unnamed

#: Weights with more elements than this are kept out of the opset conversion, which copies the model.
_SMALL = 1024

#: The largest rank that is tried for an input declared without one.
_MOST_RANK = 8

#: Takes what the reader decided and the user should know: the tensor, what was done with it, why.
Tell = Callable[[str, str, str], None]


def read(
    source: str | Path | bytes | ModelProto,
    problems: Problems | None = None,
    *,
    dims: Mapping[str, Bound] | None = None,
    shapes: Mapping[str, Shape] | None = None,
    freeze_defaults: bool = False,
    tell: Tell = lambda subject, action, reason: None,
) -> Graph:
    """The model at a path, in a file's bytes, or in memory, with inferred types.

    ``dims`` fixes or bounds symbolic sizes, ``shapes`` fixes the shapes of inputs; both hold for the whole graph.
    A :class:`ModelProto` is not changed. External data are mapped from beside the file. Initializers that the model
    lists as inputs stay inputs with a default, but for those that must be constants, and all with ``freeze_defaults``.

    Faults (:class:`ModelError` E100 … E109, :class:`UsageError` E001 for ``dims`` and ``shapes``, E002 for a file that
    is not there) are raised together; with ``problems`` they are added there instead, and where any was added the
    graph that comes back is incomplete.
    """
    own = Problems() if problems is None else problems
    graph = Graph("")
    with own.collect():
        reading = _Reading(*_load(source), own, tell)
        graph = reading.graph
        reading.run(dims or {}, shapes or {}, freeze_defaults)
    if problems is None:
        own.raise_if_any()
    return graph


def _load(source: str | Path | bytes | ModelProto) -> tuple[ModelProto, ExternalData, dict[str, str]]:
    """The model, its external data, and where it comes from."""
    if isinstance(source, ModelProto):
        return _checked(source, "the model"), ExternalData(None), {}
    folder, name, data = None, "the model", source
    if not isinstance(source, bytes):
        path = Path(source)
        folder, name = path.parent, str(path)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise UsageError("E002", f"cannot read {path}: {error.strerror}") from None
    assert isinstance(data, bytes)
    try:
        model = ModelProto.FromString(data)
    except DecodeError:
        raise ModelError("E100", f"cannot parse {name}: it is truncated, corrupt, or no ONNX model") from None
    return _checked(model, name), ExternalData(folder), {"source.sha256": hashlib.sha256(data).hexdigest()}


def _checked(model: ModelProto, name: str) -> ModelProto:
    if not model.HasField("graph"):
        raise ModelError("E100", f"{name} parses, but holds no graph: it is truncated or no ONNX model")
    if not is_text(model):
        raise ModelError("E100", f"{name} holds a name that is no text: it is corrupt")
    return model


@dataclass
class _Reading:
    """One run of the reader; the steps of :meth:`run` share this state."""

    model: ModelProto
    external: ExternalData
    origin: dict[str, str]
    problems: Problems
    tell: Tell
    graph: Graph = field(init=False)
    #: Contents of the constants that are taken out of the model, by name.
    arrays: dict[str, Array] = field(default_factory=dict)
    #: Contents of initializers that a caller may override, by name.
    defaults: dict[str, Array] = field(default_factory=dict)
    #: Tensors whose type or contents could not be read; the fault is reported already.
    broken: set[str] = field(default_factory=set)
    #: The values of the graph that stand for the broken ones.
    unknown: list[Value] = field(default_factory=list)
    #: The names of all nodes.
    labels: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.graph = Graph(self.model.graph.name or "graph")

    def run(self, dims: Mapping[str, Bound], shapes: Mapping[str, Shape], freeze_defaults: bool) -> None:
        self.record_metadata()
        known_opset = check_opset(self.model, self.problems)
        model = inline_functions(self.without_weights())
        sound = check_structure(model.graph, self.problems)
        converted, lost = convert_opset(model, self.problems) if known_opset and sound else (None, set())
        if converted is None:
            self.check_operators(walk(model.graph.node))
            return
        self.broken |= lost
        weights = self.arrays.keys() | self.broken
        self.take_constants(converted.graph)
        inputs = [value for value in converted.graph.input if value.name not in weights]
        inputs += self.take_defaults(converted.graph, freeze_defaults)
        self.broken |= resolve_sequences(converted, self.arrays, self.problems)
        self.build(converted, inputs)
        with self.problems.collect():
            self.choose_ranks(converted.graph, shapes)
            fix_sizes(self.graph, dims, shapes)
        context = self.infer()
        while not self.problems.errors and (taken := inline_decided(self.graph, context)):
            for node in taken:
                self.tell(node.name, "inline", "its condition is known: the branch that is taken takes its place")
            context = self.infer()
        if not self.problems.errors:
            lower_scans(self.graph, context)
            simplify_loops(self.graph)
            for inner in reversed(control_flow_graphs(self.graph)):
                give_constants(inner)
        expand_contrib(self.graph, context)
        self.check_outputs(converted.graph)

    def record_metadata(self) -> None:
        producer = f"{self.model.producer_name} {self.model.producer_version}".strip()
        self.graph.metadata.update(self.origin)
        if producer:
            self.graph.metadata["producer"] = producer
        for domain, version in opsets_of(self.model).items():
            self.graph.metadata[f"opset.{domain}" if domain else "opset"] = str(version)

    def check_operators(self, nodes: Iterable[NodeProto]) -> None:
        """Report the operators of ``nodes`` that nobody declares; those of the graph itself inference reports."""
        for node in nodes:
            if node.op_type not in {"Constant", *OPERATORS} and find(node.domain, node.op_type) is None:
                opset = opset_of(self.graph, node.domain)
                self.problems.add(unsupported(node.domain, node.op_type, label(node), opset))

    # ---- constants

    def without_weights(self) -> ModelProto:
        """A copy of the model in which large constants are inputs; their contents are in ``arrays``."""
        model = ModelProto(ir_version=max(self.model.ir_version, 8))
        model.opset_import.extend(self.model.opset_import)
        model.functions.extend(self.model.functions)
        source, graph = self.model.graph, model.graph
        graph.name = source.name or "graph"
        constant = {tensor.name for tensor in source.initializer}
        graph.input.extend(value for value in source.input if value.name not in constant)
        graph.output.extend(source.output)
        graph.value_info.extend(value for value in source.value_info if value.type.HasField("tensor_type"))
        for sparse in source.sparse_initializer:
            self.keep_out(sparse, sparse.values.name, graph)
        for tensor in source.initializer:
            self.keep_out(tensor, tensor.name, graph)
        for node in source.node:
            if _is_constant(node) and (dense := _attribute(node, "value")) is not None:
                self.keep_out(dense.t, node.output[0], graph)
            elif _is_constant(node) and (sparse_value := _attribute(node, "sparse_value")) is not None:
                self.keep_out(sparse_value.sparse_tensor, node.output[0], graph)
            else:
                graph.node.append(node)
        for node in walk(graph.node):
            if node.domain == "ai.onnx":
                node.domain = ""
        return model

    def keep_out(self, tensor: TensorProto | SparseTensorProto, name: str, graph: GraphProto) -> None:
        """Read ``tensor``. A small one goes to ``graph``, where the conversion may need it, a large one stays out."""
        array = self.take(tensor, name)
        if array is None:
            graph.input.append(onnx.helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
        elif array.size <= _SMALL:
            del self.arrays[name]
            graph.initializer.append(from_array(np.asarray(array), name))
        else:
            code = type_code(DType.of(array))
            graph.input.append(onnx.helper.make_tensor_value_info(name, code, array.shape))

    def take(self, tensor: TensorProto | SparseTensorProto, name: str) -> Array | None:
        """The contents of ``tensor``, also put into ``arrays``; None where they are ``broken``."""
        read = read_sparse if isinstance(tensor, SparseTensorProto) else read_tensor
        with self.problems.collect(), self.at_reader(name):
            array = read(tensor, self.external, name)
            if array is not None:
                self.arrays[name] = array
                return array
        self.broken.add(name)
        return None

    @contextmanager
    def at_reader(self, name: str) -> Iterator[None]:
        """Faults raised inside the block get the place where the tensor is read first."""
        try:
            yield
        except ModelError as error:
            for node in self.model.graph.node:
                if name in node.input:
                    error.op, error.node = error.op or node.op_type, error.node or label(node)
                    break
            raise

    def take_constants(self, graph: GraphProto) -> None:
        """Move what is left of initializers and Constant nodes into ``arrays``."""
        for tensor in graph.initializer:
            self.take(tensor, tensor.name)
        for node in filter(_is_constant, graph.node):
            value = _attribute(node, "value")
            if value is not None:
                self.take(value.t, node.output[0])
                continue
            self.broken.add(node.output[0])
            with self.problems.collect():
                self.arrays[node.output[0]] = _numbers(node)
                self.broken.discard(node.output[0])

    def take_defaults(self, graph: GraphProto, freeze: bool) -> list[ValueInfoProto]:
        """Move what callers may override from ``arrays`` to ``defaults``; its declarations."""
        candidates = [name for name in overridable(self.model) if name in self.arrays]
        constant = must_stay_constant(graph, candidates)
        for name in candidates:
            if freeze or name in constant:
                why = f"{constant[name]} takes it as a constant" if name in constant else "--freeze-defaults was given"
                self.tell(name, "freeze", f"an initializer that is listed as an input keeps its value: {why}")
            else:
                self.defaults[name] = self.arrays.pop(name)
                reason = "an initializer that is listed as an input stays one: callers may override its value"
                self.tell(name, "keep", f"{reason}; --freeze-defaults makes it a constant, which may run faster")
        return [value for value in self.model.graph.input if value.name in self.defaults]

    # ---- the graph

    def build(self, model: ModelProto, inputs: Iterable[ValueInfoProto]) -> None:
        """Fill ``graph``; types of node outputs are still to be inferred."""
        with G_LOGGER.suppress():
            try:
                source = gs.import_onnx(model)
            except Exception as error:  # graphsurgeon looks up types and decodes strings without checks of its own
                raise ModelError("E100", f"the graph cannot be imported: {error}") from None
        values: dict[str, Value] = {}
        named = {d.dim_param for info in inputs for d in info.type.tensor_type.shape.dim}
        made = {name for node in model.graph.node for name in node.output}
        for info in inputs:
            values[info.name] = self.graph.add_input(info.name, self.input_type(info, named, made))
            if info.name in self.defaults:
                with self.problems.collect():
                    self.set_default(values[info.name])
        for name, array in self.arrays.items():
            values[name] = Value.constant(self.graph.fresh(name), array)
        for name in self.broken - values.keys():
            values[name] = Value(self.graph.fresh(name), _UNKNOWN)
        self.add_nodes(self.graph, source, model.graph, values)
        self.graph.outputs = [values[info.name] for info in model.graph.output]
        self.graph.sort()
        self.unknown = [values[name] for name in sorted(self.broken)]

    def add_nodes(self, graph: Graph, source: gs.Graph, proto: GraphProto, values: dict[str, Value]) -> None:
        """Append the nodes of ``proto``, which is imported as ``source``, to ``graph``; ``values`` are the tensors that
        they may read, and get those that they make."""
        nodes = [(node, item) for node, item in zip(source.nodes, proto.node, strict=True) if not _is_constant(item)]
        for node, _ in nodes:
            made = [tensor.name for tensor in node.outputs if tensor.name]
            values.update({name: Value(graph.fresh(name), _UNKNOWN) for name in made})
        for node, item in nodes:
            name = stem = label(item)
            while name in self.labels:
                name = f"{stem}.{len(self.labels)}"
            self.labels.add(name)
            operands = [values[tensor.name] if tensor.name else None for tensor in node.inputs]
            results = [values[tensor.name] if tensor.name else None for tensor in node.outputs]
            attrs: dict[str, Any] = {}
            with self.problems.collect():
                attrs = self.attributes(node, item, name)
            bodies = [attribute for attribute in item.attribute if attribute.type == AttributeProto.GRAPH]
            if bodies:
                names = sorted(set().union(*(free_names(attribute.g) for attribute in bodies)))
                captured = {name: values[name] for name in names}
                for each in bodies:
                    attrs[each.name] = self.body(graph, node.attrs[each.name], each.g, captured)
                attrs["captured"] = len(captured)
                operands += captured.values()
            graph.append(Node(node.op, operands, results, attrs, name, node.domain or ""))

    def body(self, outer: Graph, source: gs.Graph, proto: GraphProto, captured: Mapping[str, Value]) -> Graph:
        """A nested graph whose inputs are its own, then what stands for the values that it has ``captured``; all its
        outputs are made by nodes in it, each by another."""
        graph = outer.nested(proto.name or "body")
        values: dict[str, Value] = {}
        for info in proto.input:
            values[info.name] = graph.add_input(info.name, _UNKNOWN)
            with self.problems.collect():
                values[info.name].type = self.nested_type(info)
        for name, array in self.nested_constants(proto).items():
            values[name] = graph.constant(name, array)
        for name, value in captured.items():
            values[name] = graph.add_input(name, value.type)
        self.add_nodes(graph, source, proto, values)
        for info in proto.output:
            value = values.get(info.name) or Value(info.name, _UNKNOWN)
            if value.producer is None or graph.is_output(value):
                alias = Value(graph.fresh(info.name), value.type)
                graph.append(Node("Identity", [value], [alias], {}, alias.name))
                value = alias
            graph.outputs.append(value)
        graph.sort()
        return graph

    def nested_type(self, info: ValueInfoProto) -> TensorType:
        """The declared type of a nested graph's input, which inference replaces: it may be left out. E109."""
        kind = info.type.WhichOneof("value")
        if kind not in ("tensor_type", None):
            what = kind.removesuffix("_type").replace("_", " ")
            raise ModelError("E109", f"input {info.name} is {what}: only tensors are supported")
        declared = info.type.tensor_type
        dtype = dtype_of(declared.elem_type, f"input {info.name}") if declared.elem_type else DType.float32
        sizes = [size.dim_value if size.HasField("dim_value") else -1 for size in declared.shape.dim]
        return TensorType(dtype, tuple(sizes) if _has_shape(info) and -1 not in sizes else None)

    def nested_constants(self, proto: GraphProto) -> dict[str, Array]:
        """The constants of a nested graph, by name; zeros, and a fault reported, where one cannot be read."""
        result: dict[str, Array] = {}
        sources: list[tuple[str, Callable[[], Array | None]]] = []
        for tensor in proto.initializer:
            sources.append((tensor.name, partial(read_tensor, tensor, self.external, tensor.name)))
        for sparse in proto.sparse_initializer:
            name = sparse.values.name
            sources.append((name, partial(read_sparse, sparse, self.external, name)))
        for node in filter(_is_constant, proto.node):
            sources.append((node.output[0], partial(self.constant, node)))
        for name, read in sources:
            result[name] = np.zeros((), np.float32)
            with self.problems.collect():
                array = read()
                if array is not None:
                    result[name] = array
        return result

    def constant(self, node: NodeProto) -> Array | None:
        """What a Constant node holds."""
        name = node.output[0]
        if (dense := _attribute(node, "value")) is not None:
            return read_tensor(dense.t, self.external, name)
        if (sparse := _attribute(node, "sparse_value")) is not None:
            return read_sparse(sparse.sparse_tensor, self.external, name)
        return _numbers(node)

    def set_default(self, value: Value) -> None:
        """Give an input its default, from which it has its shape where the model declares none."""
        array = value.default = self.defaults[value.name]
        if value.shape is None:
            value.type = TensorType(DType.of(array), tuple(array.shape))
        fits = len(value.type.dims) == array.ndim and all(
            not isinstance(size, int) or size == actual
            for size, actual in zip(value.type.dims, array.shape, strict=True)
        )
        if DType.of(array) is not value.dtype or not fits:
            message = f"input {value.name} is {value.type}, its default is {DType.of(array).name}{list(array.shape)}"
            raise ModelError("E104", message)

    def infer(self) -> InferContext:
        """Infer all types. A symbolic size that a node lets have one value only (the channels of a Conv) is fixed."""
        graph = self.graph
        while True:
            bounds, assumptions = dict(graph.bounds), dict(graph.assumptions)
            found = Problems()
            context = infer_graph(graph, found, unknown=self.unknown)
            known = set(graph.symbols())
            fixed: dict[str, Bound] = {}
            for pair, node in graph.assumptions.items():
                number, size = pair if isinstance(pair[0], int) else pair[::-1]
                if isinstance(number, int) and str(size) in known and str(size) not in fixed:
                    low, high = graph.bounds.get(str(size), (0, None))
                    if low <= number and (high is None or number <= high):
                        fixed[str(size)] = number
                        self.tell(str(size), "fix", f"this size is {number}: node {node} takes no other")
            if found.errors or not fixed:
                self.problems.errors.extend(found.errors)
                return context
            graph.bounds, graph.assumptions = bounds, assumptions
            fix_sizes(graph, fixed, {})

    def choose_ranks(self, declared: GraphProto, shapes: Mapping[str, Shape]) -> None:
        """Give inputs declared without a rank the largest one that the graph takes: smaller ones broadcast to it.

        E108 where it takes any.
        """
        for value in self.graph.inputs:
            if value.shape is not None or value.name in shapes or value.name in self.broken:
                continue
            unranked = value.type
            fitting = [rank for rank in range(_MOST_RANK + 1) if self.takes_rank(value, rank, declared)]
            value.type = unranked
            if not fitting or fitting[-1] == _MOST_RANK:
                what = "of any rank" if fitting else "of no rank"
                message = f"input {value.name} is declared without a shape, and its nodes take tensors {what}"
                hint = f"give it, ? for sizes that stay open: --input-shape {value.name}:1x3x?x?"
                raise ModelError("E108", message, hint=hint)
            rank = fitting[-1]
            value.type = TensorType(value.dtype, open_shape(self.graph, value, rank))
            others = f"; {', '.join(map(str, fitting[:-1]))} would fit too, see --input-shape" if fitting[:-1] else ""
            self.tell(value.name, "rank", f"it is declared without a shape: its nodes take rank {rank}{others}")

    def takes_rank(self, value: Value, rank: int, declared: GraphProto) -> bool:
        """Whether nothing contradicts that an input has this rank; sets its type."""
        value.type = TensorType(value.dtype, open_shape(self.graph, value, rank))
        found, graph = Problems(), self.graph
        bounds, assumptions = dict(graph.bounds), dict(graph.assumptions)
        infer_graph(graph, found, unknown=self.unknown)
        graph.bounds, graph.assumptions = bounds, assumptions  # without what holds for this rank only
        if any(error.code == "E104" for error in found.errors):
            return False
        return all(
            output.shape is None or not _has_shape(info) or len(output.shape) == len(info.type.tensor_type.shape.dim)
            for output, info in zip(graph.outputs, declared.output, strict=True)
        )

    def attributes(self, node: gs.Node, proto: NodeProto, name: str) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for attribute in proto.attribute:
            where = f"attribute {attribute.name} of node {name}"
            if attribute.type == AttributeProto.TENSOR:
                result[attribute.name] = read_tensor(attribute.t, self.external, where)
            elif attribute.type == AttributeProto.INT and attribute.name in TYPE_ATTRIBUTES:
                if attribute.i != TensorProto.UNDEFINED:
                    result[attribute.name] = dtype_of(attribute.i, where)
            elif attribute.type in _PLAIN_ATTRIBUTES:
                result[attribute.name] = node.attrs[attribute.name]
            elif attribute.type not in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
                message = f"{where} is of a kind that is not supported"
                raise ModelError("E102", message, op=proto.op_type, node=name)
        return result

    def input_type(self, info: ValueInfoProto, named: set[str], made: set[str]) -> TensorType:
        """The declared type; sizes without a name get one after the input and the axis. E109: another data type.

        ``named`` are the names of sizes that are taken, ``made`` those of tensors that nodes make: the sizes of these
        are called "tensor:axis" where only data show them, and no input's size may be."""
        dtype = None
        with self.problems.collect(), self.at_reader(info.name):
            kind = info.type.WhichOneof("value")
            if kind != "tensor_type":
                what = (kind or "untyped").removesuffix("_type").replace("_", " ")
                raise ModelError("E109", f"input {info.name} is {what}: only tensors are supported")
            dtype = dtype_of(info.type.tensor_type.elem_type, f"input {info.name}")
        if dtype is None:
            self.broken.add(info.name)
            return _UNKNOWN
        if not _has_shape(info):
            return TensorType(dtype, None)
        shape: list[Dim] = []
        for axis, size in enumerate(info.type.tensor_type.shape.dim):
            name = size.dim_param
            if size.HasField("dim_value") and size.dim_value >= 0:
                shape.append(size.dim_value)
                continue
            if name in ("", "?"):  # '?' is how exporters spell that nothing is known
                name = unnamed(info.name, axis, named)
            tensor, _, number = name.rpartition(":")
            shape.append(symbol(f"{name}_" if tensor in made and number.isdecimal() else name))
        return TensorType(dtype, tuple(shape))

    def check_outputs(self, declared: GraphProto) -> None:
        """Report outputs whose declared element type is another than the inferred one.

        Declared shapes are often stale, and ONNX Runtime goes by its own inference as well: what is inferred holds, and
        numbers that contradict it are told.
        """
        faulty = {error.node for error in self.problems.errors}
        for value, info in zip(self.graph.outputs, declared.output, strict=True):
            code = info.type.tensor_type.elem_type
            if value.type is _UNKNOWN or not code or (value.producer is not None and value.producer.name in faulty):
                continue
            with self.problems.collect():
                dtype = dtype_of(code, f"output {info.name}")
                if dtype is not value.dtype:
                    message = f"output {info.name} is declared as {dtype.name}, but is {value.type}"
                    raise ModelError("E104", message, node=value.producer.name if value.producer else "")
                self.compare_shape(value, info)

    def compare_shape(self, value: Value, info: ValueInfoProto) -> None:
        if value.shape is None or not _has_shape(info):
            return
        declared = [size.dim_value if size.dim_value > 0 else None for size in info.type.tensor_type.shape.dim]
        agrees = len(declared) == len(value.shape) and all(
            size is None or not isinstance(inferred, int) or size == inferred
            for size, inferred in zip(declared, value.shape, strict=True)
        )
        if not agrees:
            sizes = ", ".join("?" if size is None else str(size) for size in declared)
            self.tell(info.name, "correct", f"the output is declared as [{sizes}], but is {value.type}")


_UNKNOWN = TensorType(DType.float32, None)

_PLAIN_ATTRIBUTES = frozenset(
    {
        AttributeProto.INT,
        AttributeProto.INTS,
        AttributeProto.FLOAT,
        AttributeProto.FLOATS,
        AttributeProto.STRING,
        AttributeProto.STRINGS,
    }
)


def _has_shape(info: ValueInfoProto) -> bool:
    return bool(info.type.tensor_type.HasField("shape"))


def _is_constant(node: NodeProto) -> bool:
    return node.op_type == "Constant" and node.domain in ("", "ai.onnx") and len(node.output) == 1


def _attribute(node: NodeProto, name: str) -> AttributeProto | None:
    return next((attribute for attribute in node.attribute if attribute.name == name), None)


def _numbers(node: NodeProto) -> Array:
    """What a Constant node without a tensor holds."""
    for attribute in node.attribute:
        match attribute.name:
            case "value_int":
                return np.array(attribute.i, np.int64)
            case "value_ints":
                return np.array(attribute.ints, np.int64)
            case "value_float":
                return np.array(attribute.f, np.float32)
            case "value_floats":
                return np.array(attribute.floats, np.float32)
            case "value_string" | "value_strings":
                raise ModelError("E109", f"constant {node.output[0]} is string: this data type is not supported")
    raise ModelError("E102", "the node has no value", op="Constant", node=label(node))
