"""What is known of tensors before there is a graph: shapes, constants, and arithmetic on both."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, TypeProto, helper

from mcpc.errors import McpcError
from mcpc.ir import DType, Node, TensorType, Value, symbol
from mcpc.onnx_structure import label, subgraphs, walk
from mcpc.onnx_tensors import Array, ExternalData, dtype_of, read_tensor
from mcpc.ops import InferContext, find
from mcpc.ops.context import SMALL
from mcpc.ops.inference import infer_node

#: Sizes of a tensor, None where only a run shows them.
Shape = tuple[int | None, ...]


class Contents:
    """What is known of small integer tensors, by the rules by which shape inference follows them."""

    def __init__(self) -> None:
        self._context = InferContext()

    def known(self, value: Value | None) -> list[int | None] | None:
        """The elements of ``value``, None for one that is not a number; None where nothing is known."""
        items = self._context.contents(value)
        return None if items is None else [item if isinstance(item, int) else None for item in items.ravel()]

    def of_array(self, array: Array, name: str) -> Value | None:
        """A constant; None where it holds no integers, or too many."""
        return Value.constant(name, array) if array.dtype.kind in "iub" and array.size <= SMALL else None

    def of_tensor(self, tensor: TensorProto, name: str) -> Value | None:
        """As :meth:`of_array`; None also where the tensor cannot be read, which whoever builds the graph reports."""
        with contextlib.suppress(McpcError):
            array = read_tensor(tensor, ExternalData(None))
            return None if array is None else self.of_array(array, name)
        return None

    def of_node(self, node: NodeProto, inputs: Sequence[Value | None], shapes: Mapping[str, Shape]) -> Value | None:
        """The only result of a node whose ``inputs`` are known; of Shape and Size, as far as ``shapes`` are."""
        if len(node.output) != 1 or node.domain:
            return None
        attributes = {attribute.name: attribute for attribute in node.attribute}
        if node.op_type == "Constant":
            return self._of_constant(attributes, node.output[0])
        definition = find("", node.op_type)
        if definition is None or definition.contents is None:
            return None
        if node.op_type in ("Shape", "Size"):
            inputs = [_shaped(name, shapes.get(name)) for name in node.input]
        result = Value(node.output[0], TensorType(DType.int64, None))
        if any(name and value is None for name, value in zip(node.input, inputs, strict=True)):
            return None
        with contextlib.suppress(McpcError):
            attrs = {name: _attribute(attribute) for name, attribute in attributes.items()}
            infer_node(Node(node.op_type, inputs, [result], attrs, label(node)), self._context)
            return None if self._context.contents(result) is None else result
        return None

    def _of_constant(self, attributes: Mapping[str, AttributeProto], name: str) -> Value | None:
        if "value" in attributes:
            return self.of_tensor(attributes["value"].t, name)
        number = attributes.get("value_int") or attributes.get("value_ints")
        return None if number is None else self.of_array(np.array(helper.get_attribute_value(number), np.int64), name)


def _shaped(name: str, shape: Shape | None) -> Value | None:
    if shape is None:
        return None
    dims = [symbol(f"{name}:{axis}") if size is None else size for axis, size in enumerate(shape)]
    return Value(name, TensorType(DType.float32, tuple(dims)))


def _attribute(attribute: AttributeProto) -> Any:
    if attribute.type == AttributeProto.TENSOR:
        return read_tensor(attribute.t, ExternalData(None))
    if attribute.name == "to":
        return dtype_of(attribute.i, "to")
    return helper.get_attribute_value(attribute)


def _element_type(type: TypeProto) -> TypeProto.Tensor:
    """The type of a tensor, or of the elements of a sequence; an empty one, which changes nothing, for other types."""
    if type.HasField("sequence_type"):
        return _element_type(type.sequence_type.elem_type)
    return type.tensor_type if type.HasField("tensor_type") else TypeProto.Tensor()


def declared_shapes(model: ModelProto) -> Iterator[tuple[str, Shape]]:
    """What ONNX's shape inference finds out, by name. Only the types of the model's inputs are believed, and the ranks
    of those of nested graphs: the rest is often stale."""
    copy = ModelProto()
    copy.CopyFrom(model)
    nested = [graph for node in walk(copy.graph.node) for graph in subgraphs(node)]
    for graph in (copy.graph, *nested):
        del graph.value_info[:]
        for info in graph.output:
            _element_type(info.type).ClearField("shape")
    for graph in nested:
        for info in graph.input:
            for size in _element_type(info.type).shape.dim:
                size.Clear()
            if info.type.HasField("sequence_type"):
                _element_type(info.type).ClearField("shape")
    with contextlib.suppress(Exception):  # plain RuntimeError and its relatives
        copy = onnx.shape_inference.infer_shapes(copy, data_prop=True)
    for graph in (copy.graph, *(graph for node in walk(copy.graph.node) for graph in subgraphs(node))):
        for info in (*graph.input, *graph.value_info, *graph.output):
            if info.type.HasField("tensor_type") and info.type.tensor_type.HasField("shape"):
                sizes = info.type.tensor_type.shape.dim
                yield info.name, tuple(size.dim_value if size.HasField("dim_value") else None for size in sizes)
        for tensor in graph.initializer:
            yield tensor.name, tuple(tensor.dims)
