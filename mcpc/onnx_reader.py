"""ONNX in, typed IR out. Every fault of a model is reported in one go."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto

from mcpc.contrib import expand_contrib
from mcpc.control_flow import give_constants, inline_decided, lower_scans, simplify_loops
from mcpc.errors import ModelError, Problems, UsageError
from mcpc.ir import Graph, TensorType, Value
from mcpc.onnx_constants import Constants, Tell
from mcpc.onnx_graph import UNKNOWN, GraphBuilder, has_shape
from mcpc.onnx_normalize import check_opset, convert_opset, inline_functions
from mcpc.onnx_structure import check_structure, is_text, label, opsets_of, walk
from mcpc.onnx_tensors import ExternalData, dtype_of
from mcpc.ops import InferContext, find, infer_graph
from mcpc.ops.registry import opset_of, unsupported
from mcpc.rewrite import control_flow_graphs
from mcpc.sequences import OPERATORS, resolve_sequences
from mcpc.size_options import Bound, Shape, fix_sizes, open_shape

#: The largest rank that is tried for an input declared without one.
_MOST_RANK = 8


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
        proto, external, origin = _load(source)
        reading = _Reading(Constants(proto, external, own, tell), origin)
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

    constants: Constants
    origin: dict[str, str]
    graph: Graph = field(init=False)
    #: The values of the graph that stand for broken ones.
    unknown: list[Value] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.model, self.problems, self.tell = self.constants.model, self.constants.problems, self.constants.tell
        self.graph = Graph(self.model.graph.name or "graph")

    def run(self, dims: Mapping[str, Bound], shapes: Mapping[str, Shape], freeze_defaults: bool) -> None:
        self.record_metadata()
        known_opset = check_opset(self.model, self.problems)
        constants = self.constants
        model = inline_functions(constants.without_weights())
        sound = check_structure(model.graph, self.problems)
        converted, lost = convert_opset(model, self.problems) if known_opset and sound else (None, set())
        if converted is None:
            self.check_operators(walk(model.graph.node))
            return
        constants.broken |= lost
        weights = constants.arrays.keys() | constants.broken
        constants.take_constants(converted.graph)
        inputs = [value for value in converted.graph.input if value.name not in weights]
        inputs += constants.take_defaults(converted.graph, freeze_defaults)
        constants.broken |= resolve_sequences(converted, constants.arrays, self.problems)
        self.unknown = GraphBuilder(self.graph, constants, self.problems).build(converted, inputs)
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
            if value.shape is not None or value.name in shapes or value.name in self.constants.broken:
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
            output.shape is None or not has_shape(info) or len(output.shape) == len(info.type.tensor_type.shape.dim)
            for output, info in zip(graph.outputs, declared.output, strict=True)
        )

    def check_outputs(self, declared: GraphProto) -> None:
        """Report outputs whose declared element type is another than the inferred one.

        Declared shapes are often stale, and ONNX Runtime goes by its own inference as well: what is inferred holds, and
        numbers that contradict it are told.
        """
        faulty = {error.node for error in self.problems.errors}
        for value, info in zip(self.graph.outputs, declared.output, strict=True):
            code = info.type.tensor_type.elem_type
            if value.type is UNKNOWN or not code or (value.producer is not None and value.producer.name in faulty):
                continue
            with self.problems.collect():
                dtype = dtype_of(code, f"output {info.name}")
                if dtype is not value.dtype:
                    message = f"output {info.name} is declared as {dtype.name}, but is {value.type}"
                    raise ModelError("E104", message, node=value.producer.name if value.producer else "")
                self.compare_shape(value, info)

    def compare_shape(self, value: Value, info: ValueInfoProto) -> None:
        if value.shape is None or not has_shape(info):
            return
        declared = [size.dim_value if size.dim_value > 0 else None for size in info.type.tensor_type.shape.dim]
        agrees = len(declared) == len(value.shape) and all(
            size is None or not isinstance(inferred, int) or size == inferred
            for size, inferred in zip(declared, value.shape, strict=True)
        )
        if not agrees:
            sizes = ", ".join("?" if size is None else str(size) for size in declared)
            self.tell(info.name, "correct", f"the output is declared as [{sizes}], but is {value.type}")
