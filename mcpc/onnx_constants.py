"""The constants of an ONNX model: taken out, so that no step of reading it copies them, and what cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, SparseTensorProto, TensorProto, ValueInfoProto
from onnx.numpy_helper import from_array

from mcpc.errors import ModelError, Problems
from mcpc.ir import DType
from mcpc.onnx_defaults import must_stay_constant, overridable
from mcpc.onnx_structure import label, walk
from mcpc.onnx_tensors import Array, ExternalData, read_sparse, read_tensor, type_code

#: Weights with more elements than this are kept out of the opset conversion, which copies the model.
_SMALL = 1024

#: Takes what the reader decided and the user should know: the tensor, what was done with it, why.
Tell = Callable[[str, str, str], None]


@dataclass
class Constants:
    """The constants of ``model``; faults are added to ``problems``."""

    model: ModelProto
    external: ExternalData
    problems: Problems
    tell: Tell
    #: Contents of the constants that are taken out of the model, by name.
    arrays: dict[str, Array] = field(default_factory=dict)
    #: Contents of initializers that a caller may override, by name.
    defaults: dict[str, Array] = field(default_factory=dict)
    #: Tensors whose type or contents could not be read; the fault is reported already.
    broken: set[str] = field(default_factory=set)

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
            if is_constant(node) and (dense := _attribute(node, "value")) is not None:
                self.keep_out(dense.t, node.output[0], graph)
            elif is_constant(node) and (sparse_value := _attribute(node, "sparse_value")) is not None:
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
        for node in filter(is_constant, graph.node):
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

    def nested_constants(self, proto: GraphProto) -> dict[str, Array]:
        """The constants of a nested graph, by name; zeros, and a fault reported, where one cannot be read."""
        result: dict[str, Array] = {}
        sources: list[tuple[str, Callable[[], Array | None]]] = []
        for tensor in proto.initializer:
            sources.append((tensor.name, partial(read_tensor, tensor, self.external, tensor.name)))
        for sparse in proto.sparse_initializer:
            name = sparse.values.name
            sources.append((name, partial(read_sparse, sparse, self.external, name)))
        for node in filter(is_constant, proto.node):
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


def is_constant(node: NodeProto) -> bool:
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
