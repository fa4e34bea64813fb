"""What is known of the tensors of a model before there is a graph: their types, and contents of small integer ones."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, TypeProto, helper

from mcpc.errors import McpcError
from mcpc.ir import DType, Node, TensorType, Value, symbol
from mcpc.onnx_structure import label, subgraphs, walk
from mcpc.onnx_tensors import Array, ExternalData, dtype_of, read_tensor
from mcpc.ops import InferContext, find
from mcpc.ops.inference import infer_node

#: Sizes of a tensor, None where only a run shows them.
Shape = tuple[int | None, ...]

#: Attributes that hold an ONNX type code.
TYPE_ATTRIBUTES = frozenset({"to", "dtype", "output_dtype", "output_datatype"})


def fresh(stem: str, taken: set[str]) -> str:
    """A name that is not ``taken``; now it is."""
    while stem in taken:
        stem += "'"
    taken.add(stem)
    return stem


class Tensors:
    """The tensors of a model, each of which has a name of its own. New names are none of those that are ``taken``, new
    constants are added to ``constants``, which every graph can read."""

    def __init__(self, model: ModelProto, constants: dict[str, Array], taken: set[str]) -> None:
        self._constants, self._taken = constants, taken
        self._context = InferContext()
        self._values = {name: Value(name, type) for name, type in _declared_types(model)}
        self._values |= {name: Value.constant(name, array) for name, array in constants.items()}

    def fresh(self, stem: str) -> str:
        return fresh(stem, self._taken)

    def constant(self, stem: str, array: Array) -> str:
        """A new constant; its name."""
        name = self.fresh(stem)
        self._constants[name] = array
        self._values[name] = Value.constant(name, array)
        return name

    def shape(self, name: str) -> Shape | None:
        value = self._values.get(name)
        if value is None or value.shape is None:
            return None
        return tuple(size if isinstance(size, int) else None for size in value.shape)

    def numbers(self, name: str) -> list[int | None] | None:
        """The elements of a tensor, None for those that are not known; None where that is all of them."""
        items = self._context.contents(self._values.get(name))
        return None if items is None else [item if isinstance(item, int) else None for item in items.ravel()]

    def declare(self, name: str, like: str, shape: Shape) -> None:
        """``name`` has this shape and the element type of another tensor."""
        if (value := self._values.get(like)) is not None:
            self._values[name] = Value(name, _type(name, value.dtype, shape))

    def unite(self, name: str, others: list[str]) -> None:
        """``name`` is one of ``others``."""
        if len(others) == 1:
            with contextlib.suppress(KeyError):
                self._values[name] = self._values[others[0]]
            return
        shapes = [shape for other in others if (shape := self.shape(other)) is not None]
        if len(shapes) == len(others) and len({len(shape) for shape in shapes}) == 1:
            sizes = zip(*shapes, strict=True)
            self.declare(name, others[0], tuple(each[0] if len(set(each)) == 1 else None for each in sizes))

    def read(self, tensor: TensorProto, name: str) -> None:
        """``name`` is a constant. Whoever builds the graph reports one that cannot be read."""
        with contextlib.suppress(McpcError):
            array = read_tensor(tensor, ExternalData(None))
            if array is not None:
                self._values[name] = Value.constant(name, array)

    def infer(self, node: NodeProto) -> None:
        """Find out about the results of a node without nested graphs. Whoever builds the graph reports its faults."""
        attributes = {attribute.name: attribute for attribute in node.attribute}
        if node.op_type == "Constant" and node.domain == "" and len(node.output) == 1:
            self._read_constant(attributes, node.output[0])
            return
        inputs = [self._values.get(name) if name else None for name in node.input]
        unknown = any(name and value is None for name, value in zip(node.input, inputs, strict=True))
        if unknown or find(node.domain, node.op_type) is None:
            return
        outputs = [Value(name, TensorType(DType.float32, None)) if name else None for name in node.output]
        with contextlib.suppress(McpcError):
            attrs = {name: _attribute(attribute) for name, attribute in attributes.items()}
            infer_node(Node(node.op_type, inputs, outputs, attrs, label(node), node.domain), self._context)
            self._values |= {value.name: value for value in outputs if value is not None and value.shape is not None}

    def _read_constant(self, attributes: dict[str, AttributeProto], name: str) -> None:
        if "value" in attributes:
            self.read(attributes["value"].t, name)
        for kind in attributes.keys() & {"value_int", "value_ints"}:
            self._values[name] = Value.constant(name, np.array(_attribute(attributes[kind]), np.int64))


def _attribute(attribute: AttributeProto) -> Any:
    value = helper.get_attribute_value(attribute)
    match attribute.type:
        case AttributeProto.TENSOR:
            return read_tensor(value, ExternalData(None))
        case AttributeProto.STRING:
            return value.decode(errors="replace")
        case AttributeProto.STRINGS:
            return [text.decode(errors="replace") for text in value]
        case AttributeProto.INT if attribute.name in TYPE_ATTRIBUTES:
            return dtype_of(value, attribute.name)
    return value


def _type(name: str, dtype: DType, shape: Shape) -> TensorType:
    sizes = [symbol(f"{name}:{axis}") if size is None else size for axis, size in enumerate(shape)]
    return TensorType(dtype, tuple(sizes))


def _declared_types(model: ModelProto) -> Iterator[tuple[str, TensorType]]:
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
            declared = info.type.tensor_type
            if info.type.HasField("tensor_type") and declared.HasField("shape"):
                sizes = [size.dim_value if size.HasField("dim_value") else None for size in declared.shape.dim]
                with contextlib.suppress(McpcError):
                    yield info.name, _type(info.name, dtype_of(declared.elem_type, info.name), tuple(sizes))


def _element_type(type: TypeProto) -> TypeProto.Tensor:
    """The type of a tensor, or of the elements of a sequence; an empty one, which changes nothing, for other types."""
    if type.HasField("sequence_type"):
        return _element_type(type.sequence_type.elem_type)
    return type.tensor_type if type.HasField("tensor_type") else TypeProto.Tensor()
