"""The typed graph of an ONNX model whose constants are taken out: nodes, nested graphs, declared types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import onnx_graphsurgeon as gs
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto
from onnx_graphsurgeon.logger import G_LOGGER

from mcpc.errors import ModelError, Problems
from mcpc.ir import Dim, DType, Graph, Node, TensorType, Value, symbol
from mcpc.onnx_constants import Constants, is_constant
from mcpc.onnx_structure import free_names, label
from mcpc.onnx_tensors import dtype_of, read_tensor
from mcpc.onnx_types import TYPE_ATTRIBUTES
from mcpc.size_options import unnamed

#: The type of a value that is not inferred yet, or cannot be.
UNKNOWN = TensorType(DType.float32, None)

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


@dataclass
class GraphBuilder:
    """Fills ``graph`` from protobuf; faults are added to ``problems``."""

    graph: Graph
    constants: Constants
    problems: Problems
    #: The names of all nodes.
    labels: set[str] = field(default_factory=set)

    def build(self, model: ModelProto, inputs: Iterable[ValueInfoProto]) -> list[Value]:
        """Fill ``graph``; types of node outputs are still to be inferred. The values that stand for what is broken."""
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
            if info.name in self.constants.defaults:
                with self.problems.collect():
                    self.set_default(values[info.name])
        for name, array in self.constants.arrays.items():
            values[name] = Value.constant(self.graph.fresh(name), array)
        for name in self.constants.broken - values.keys():
            values[name] = Value(self.graph.fresh(name), UNKNOWN)
        self.add_nodes(self.graph, source, model.graph, values)
        self.graph.outputs = [values[info.name] for info in model.graph.output]
        self.graph.sort()
        return [values[name] for name in sorted(self.constants.broken)]

    def add_nodes(self, graph: Graph, source: gs.Graph, proto: GraphProto, values: dict[str, Value]) -> None:
        """Append the nodes of ``proto``, which is imported as ``source``, to ``graph``; ``values`` are the tensors that
        they may read, and get those that they make."""
        nodes = [(node, item) for node, item in zip(source.nodes, proto.node, strict=True) if not is_constant(item)]
        for node, _ in nodes:
            made = [tensor.name for tensor in node.outputs if tensor.name]
            values.update({name: Value(graph.fresh(name), UNKNOWN) for name in made})
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
            values[info.name] = graph.add_input(info.name, UNKNOWN)
            with self.problems.collect():
                values[info.name].type = self.nested_type(info)
        for name, array in self.constants.nested_constants(proto).items():
            values[name] = graph.constant(name, array)
        for name, value in captured.items():
            values[name] = graph.add_input(name, value.type)
        self.add_nodes(graph, source, proto, values)
        for info in proto.output:
            value = values.get(info.name) or Value(info.name, UNKNOWN)
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
        return TensorType(dtype, tuple(sizes) if has_shape(info) and -1 not in sizes else None)

    def set_default(self, value: Value) -> None:
        """Give an input its default, from which it has its shape where the model declares none."""
        array = value.default = self.constants.defaults[value.name]
        if value.shape is None:
            value.type = TensorType(DType.of(array), tuple(array.shape))
        fits = len(value.type.dims) == array.ndim and all(
            not isinstance(size, int) or size == actual
            for size, actual in zip(value.type.dims, array.shape, strict=True)
        )
        if DType.of(array) is not value.dtype or not fits:
            message = f"input {value.name} is {value.type}, its default is {DType.of(array).name}{list(array.shape)}"
            raise ModelError("E104", message)

    def attributes(self, node: gs.Node, proto: NodeProto, name: str) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for attribute in proto.attribute:
            where = f"attribute {attribute.name} of node {name}"
            if attribute.type == AttributeProto.TENSOR:
                result[attribute.name] = read_tensor(attribute.t, self.constants.external, where)
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
        with self.problems.collect(), self.constants.at_reader(info.name):
            kind = info.type.WhichOneof("value")
            if kind != "tensor_type":
                what = (kind or "untyped").removesuffix("_type").replace("_", " ")
                raise ModelError("E109", f"input {info.name} is {what}: only tensors are supported")
            dtype = dtype_of(info.type.tensor_type.elem_type, f"input {info.name}")
        if dtype is None:
            self.constants.broken.add(info.name)
            return UNKNOWN
        if not has_shape(info):
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


def has_shape(info: ValueInfoProto) -> bool:
    return bool(info.type.tensor_type.HasField("shape"))
