"""Typed IR out as ONNX at opset :data:`mcpc.ir.OPSET`, in any state: fused nodes become local functions."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
import onnx
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper
from onnx.numpy_helper import from_array

from mcpc.errors import UsageError
from mcpc.ir import MCPC, OPSET, DType, Graph, Node, TensorType, Value
from mcpc.onnx_tensors import Array, type_code

#: Weights beyond this many bytes go to a file of their own: protobuf ends at 2 GiB.
LARGEST_INLINE = 1_500_000_000

#: Constants of a fused body beyond this many elements become inputs of the function, others Constant nodes.
_SMALL = 1024

#: Tensors below this many bytes stay in the model file; others start at multiples of _ALIGNMENT in the data file.
_LEAST_EXTERNAL, _ALIGNMENT = 1024, 4096

Weights = Literal["auto", "inline", "external"]


def to_model(graph: Graph) -> ModelProto:
    """``graph`` with its weights inside. Semantics are logical: layouts, quantisation and sparsity are left out."""
    return _Writer(graph).model()


def write(graph: Graph, path: str | Path, weights: Weights = "auto") -> None:
    """Write ``graph`` to ``path``. External weights go to ``path`` + '.data', in chunks, without a copy in memory.

    ``auto`` means external where the weights are mapped from a file or exceed :data:`LARGEST_INLINE` bytes. Both files
    are replaced as a whole: a graph whose weights are mapped from them stays intact. E002 where writing fails.
    """
    path = Path(path)
    writer = _Writer(graph)
    constants = writer.constants
    is_external = weights == "external" or (
        weights == "auto"
        and (
            sum(array.nbytes for array in constants.values()) > LARGEST_INLINE
            or any(isinstance(array, np.memmap) for array in constants.values())
        )
    )
    data_path = path.with_name(path.name + ".data")
    try:
        if not is_external:
            _replace(path, lambda file: file.write(writer.model().SerializeToString(deterministic=True)))
            return
        tensors: list[TensorProto] = []
        _replace(data_path, lambda file: tensors.extend(_external(constants, file, data_path.name)))
        model = writer.model(tensors)
        _replace(path, lambda file: file.write(model.SerializeToString(deterministic=True)))
    except OSError as error:
        raise UsageError("E002", f"cannot write {path}: {error.strerror}") from None


def _replace(path: Path, fill: Any) -> None:
    """Write a file beside ``path`` by ``fill(file)`` and put it in the place of ``path``."""
    handle, name = tempfile.mkstemp(prefix=path.name, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            fill(file)
        Path(name).chmod(0o666 & ~_umask())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _external(constants: dict[str, Array], file: BinaryIO, location: str) -> Iterable[TensorProto]:
    for name, array in constants.items():
        if array.nbytes < _LEAST_EXTERNAL or array.dtype in (DType.int4.numpy, DType.uint4.numpy):
            yield from_array(np.asarray(array), name)
            continue
        file.write(b"\0" * (-file.tell() % _ALIGNMENT))
        tensor = TensorProto(name=name, data_type=type_code(DType.of(array)), dims=array.shape)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", location), ("offset", file.tell()), ("length", array.nbytes)):
            tensor.external_data.add(key=key, value=str(value))
        file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        yield tensor


class _Writer:
    """Collects the functions and the constants of one model."""

    def __init__(self, graph: Graph) -> None:
        self.name = graph.name
        self.functions: dict[bytes, FunctionProto] = {}
        #: Initializers by name.
        self.constants: dict[str, Array] = {}
        self._taken = {value.name for value in graph.values()}
        self._lifted: dict[int, str] = {}
        self.proto = self.graph(graph, self.constants)

    def model(self, tensors: Sequence[TensorProto] | None = None) -> ModelProto:
        """The model, with these ``tensors`` as initializers (by default, the constants themselves)."""
        opsets = [helper.make_opsetid("", OPSET)]
        if self.functions:
            opsets.append(helper.make_opsetid(MCPC, 1))
        result = ModelProto(
            ir_version=helper.find_min_ir_version_for(opsets, ignore_unknown=True), producer_name="mcpc"
        )
        result.opset_import.extend(opsets)
        result.graph.CopyFrom(self.proto)
        if tensors is None:
            tensors = [from_array(np.asarray(array), name) for name, array in self.constants.items()]
        result.graph.initializer.extend(tensors)
        result.functions.extend(self.functions.values())
        return result

    def graph(self, graph: Graph, constants: dict[str, Array]) -> GraphProto:
        """``graph`` without its constants, which go to ``constants``."""
        result = GraphProto(name=graph.name or "graph")
        outputs = {id(value) for value in graph.outputs}
        result.input.extend(_value_info(value) for value in graph.inputs)
        result.output.extend(_value_info(value) for value in graph.outputs)
        for value in graph.constants():
            assert value.data is not None
            constants[value.name] = value.data
        for node in graph.nodes:
            result.node.append(self.node(node))
            result.value_info.extend(
                _value_info(output) for output in node.outputs if output is not None and id(output) not in outputs
            )
        return result

    def node(self, node: Node) -> NodeProto:
        inputs = ["" if value is None else value.name for value in node.inputs]
        outputs = ["" if value is None else value.name for value in node.outputs]
        body = node.body
        if body is not None:
            function, lifted = self.function(body)
            return NodeProto(op_type=function, domain=MCPC, name=node.name, input=inputs + lifted, output=outputs)
        if node.is_op("Split"):  # ONNX Runtime writes to all its outputs, and crashes where one has no name
            outputs = [name or _unused("unused", self._taken) for name in outputs]
        while inputs and not inputs[-1]:
            inputs.pop()
        while outputs and not outputs[-1]:
            outputs.pop()
        result = NodeProto(op_type=node.op, domain=node.domain, name=node.name, input=inputs, output=outputs)
        types = _attribute_types(node)
        for name, value in node.attrs.items():
            result.attribute.append(self.attribute(name, value, types.get(name)))
        return result

    def attribute(self, name: str, value: Any, type: int | None) -> AttributeProto:
        if isinstance(value, Graph):
            constants: dict[str, Array] = {}
            nested = self.graph(value, constants)
            nested.initializer.extend(from_array(np.asarray(array), key) for key, array in constants.items())
            return helper.make_attribute(name, nested)
        if isinstance(value, DType):
            value = type_code(value)
        elif isinstance(value, np.ndarray):
            value = from_array(np.asarray(value))
        elif type == AttributeProto.FLOAT:
            value = float(value)
        elif type == AttributeProto.FLOATS:
            value = [float(item) for item in value]
        return helper.make_attribute(name, value, attr_type=type)

    # ---- fused nodes

    def function(self, body: Graph) -> tuple[str, list[str]]:
        """The name of the function that computes ``body``, and the initializers to pass it behind the inputs."""
        result = FunctionProto(domain=MCPC)
        large: list[Value] = []
        for value in body.constants():
            assert value.data is not None
            if value.data.size > _SMALL:
                large.append(value)
            else:
                constant = helper.make_node("Constant", [], [value.name], value=from_array(np.asarray(value.data)))
                result.node.append(constant)
        result.node.extend(self.node(node) for node in body.nodes)
        result.input.extend(value.name for value in (*body.inputs, *large))
        # A function's output must be made by one of its nodes, each by another.
        made = {id(output) for node in body.nodes for output in node.outputs if output is not None}
        names = {value.name for value in body.values()}
        for value in body.outputs:
            name = value.name
            if id(value) not in made or name in result.output:
                name = _unused(f"{name}.out", names)
                result.node.append(helper.make_node("Identity", [value.name], [name]))
            result.output.append(name)
        result.opset_import.append(helper.make_opsetid("", OPSET))
        if any(node.domain == MCPC for node in result.node):
            result.opset_import.append(helper.make_opsetid(MCPC, 1))
        key = result.SerializeToString(deterministic=True)
        if key not in self.functions:
            result.name = _unused(_identifier(body.name), {other.name for other in self.functions.values()})
            self.functions[key] = result
        return self.functions[key].name, [self.lift(value) for value in large]

    def lift(self, value: Value) -> str:
        """The name of the initializer for a large constant of a body."""
        if id(value) not in self._lifted:
            name = _unused(value.name, self._taken)
            assert value.data is not None
            self.constants[name] = value.data
            self._lifted[id(value)] = name
        return self._lifted[id(value)]


def _unused(stem: str, names: set[str]) -> str:
    """``stem``, with a number where it is in ``names``; it is added to them."""
    name, count = stem, 0
    while name in names:
        count += 1
        name = f"{stem}.{count}"
    names.add(name)
    return name


def _identifier(name: str) -> str:
    return re.sub(r"\W", "_", name) or "Fused"


def _value_info(value: Value) -> ValueInfoProto:
    """Name and type. Sizes that are no plain symbol stay open: ONNX has no expressions."""
    type: TensorType = value.type
    shape: list[Any] | None = None
    if type.shape is not None:
        shape = [int(size) if isinstance(size, int) else str(size) if size.is_Symbol else None for size in type.shape]
    return helper.make_tensor_value_info(value.name, type_code(type.dtype), shape)


def _attribute_types(node: Node) -> dict[str, int]:
    """The types of attributes as ONNX declares them: an empty list does not show its own."""
    try:
        schema = onnx.defs.get_schema(node.op, OPSET, node.domain)
    except onnx.defs.SchemaError:
        return {}
    return {name: int(item.type.value) for name, item in schema.attributes.items()}  # type: ignore[attr-defined]
