"""Typed IR out as ONNX, in any state: fused nodes become local functions. The opset is :data:`mcpc.ir.OPSET`, or the
first behind it that has all operators."""

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
from mcpc.ir import MCPC, DType, Graph, Node, TensorType, Value
from mcpc.onnx_tensors import Array, raw_bytes, type_code
from mcpc.onnx_versions import needed_opsets

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
        if array.nbytes < _LEAST_EXTERNAL:
            yield from_array(np.asarray(array), name)
            continue
        file.write(b"\0" * (-file.tell() % _ALIGNMENT))
        tensor = TensorProto(name=name, data_type=type_code(DType.of(array)), dims=array.shape)
        tensor.data_location = TensorProto.EXTERNAL
        data = raw_bytes(array)
        for key, value in (("location", location), ("offset", file.tell()), ("length", data.nbytes)):
            tensor.external_data.add(key=key, value=str(value))
        file.write(data.data)
        yield tensor


class _Writer:
    """Collects the functions and the constants of one model."""

    def __init__(self, graph: Graph) -> None:
        self.name = graph.name
        self.opsets = needed_opsets(graph)
        self.functions: dict[bytes, FunctionProto] = {}
        #: Initializers by name.
        self.constants: dict[str, Array] = {}
        self._taken = graph.names
        self._lifted: dict[int, str] = {}
        #: What the inputs of bodies that stand for captured tensors are called: as these, by the id of the value.
        self._captured: dict[int, str] = {}
        self.proto = self.graph(graph)

    def model(self, tensors: Sequence[TensorProto] | None = None) -> ModelProto:
        """The model, with these ``tensors`` as initializers (by default, the constants themselves)."""
        opsets = [helper.make_opsetid(domain, version) for domain, version in self.opsets.items()]
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

    def graph(self, graph: Graph, captured: int = 0) -> GraphProto:
        """``graph`` without its constants, and without its last inputs, which are ``captured``."""
        result = GraphProto(name=graph.name or "graph")
        outputs = {id(value) for value in graph.outputs}
        result.input.extend(_value_info(value) for value in graph.inputs[: len(graph.inputs) - captured])
        result.output.extend(_value_info(value) for value in graph.outputs)
        for value in graph.constants():
            assert value.data is not None
            self.constants[value.name] = value.data
        for node in graph.nodes:
            result.node.append(self.node(node))
            result.value_info.extend(
                _value_info(output) for output in node.outputs if output is not None and id(output) not in outputs
            )
        return result

    def node(self, node: Node) -> NodeProto:
        inputs = ["" if v is None else self._captured.get(id(v), v.name) for v in node.own_inputs]
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
        types = self.attribute_types(node)
        bodies = node.bodies
        captured = [self._captured.get(id(value), value.name) for value in node.captured_inputs if value is not None]
        for name, value in node.attrs.items():
            if name in bodies:
                inner = bodies[name].inputs[len(bodies[name].inputs) - len(captured) :]
                self._captured.update(zip(map(id, inner), captured, strict=True))
                result.attribute.append(helper.make_attribute(name, self.graph(bodies[name], len(captured))))
            elif name != "captured" or not bodies:
                result.attribute.append(_attribute(name, value, types.get(name)))
        return result

    def attribute_types(self, node: Node) -> dict[str, int]:
        """The types of attributes as ONNX declares them: an empty list does not show its own."""
        try:
            schema = onnx.defs.get_schema(node.op, self.opsets[node.domain], node.domain)
        except onnx.defs.SchemaError:
            return {}
        return {name: int(item.type.value) for name, item in schema.attributes.items()}  # type: ignore[attr-defined]

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
        result.opset_import.extend(helper.make_opsetid(domain, version) for domain, version in self.opsets.items())
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


def _attribute(name: str, value: Any, type: int | None) -> AttributeProto:
    if isinstance(value, DType):
        value = type_code(value)
    elif isinstance(value, np.ndarray):
        value = from_array(np.asarray(value))
    elif type == AttributeProto.FLOAT:
        value = float(value)
    elif type == AttributeProto.FLOATS:
        value = [float(item) for item in value]
    return helper.make_attribute(name, value, attr_type=type)


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
