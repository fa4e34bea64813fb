"""A model in double precision by ONNX's own evaluator: what the errors of float32 runtimes are measured against."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

Array = np.ndarray[Any, Any]


class BatchNormalization(OpRun):
    """Of inference. The evaluator's own, before opset 14, takes the statistics of x into account."""

    op_domain = ""

    def _run(self, x: Array, scale: Array, bias: Array, mean: Array, var: Array, **attributes: Any) -> tuple[Array]:
        columns = [each.reshape(-1, *[1] * (x.ndim - 2)) for each in (scale, bias, mean, var)]
        scale, bias, mean, var = columns
        return (scale * (x - mean) / np.sqrt(var + attributes["epsilon"]) + bias,)


class GlobalMaxPool(OpRun):
    """The evaluator's own drops an axis of inputs that have three."""

    op_domain = ""

    def _run(self, x: Array) -> tuple[Array]:
        return (x.max(axis=tuple(range(2, x.ndim)), keepdims=True),)


class DequantizeLinear(OpRun):
    """Per tensor or per channel: the evaluator has none for opset 18."""

    op_domain = ""

    def _run(self, x: Array, scale: Array, zero_point: Array | None = None, **attributes: Any) -> tuple[Array]:
        zero = np.zeros_like(scale) if zero_point is None else zero_point.astype(scale.dtype)
        if scale.ndim == 1 and x.ndim > 0:
            behind = [1] * (x.ndim - 1 - attributes["axis"] % x.ndim)
            scale, zero = scale.reshape(-1, *behind), zero.reshape(-1, *behind)
        return ((x.astype(scale.dtype) - zero) * scale,)


#: What ONNX's own evaluator lacks, or computes otherwise than its operators are defined.
OPERATORS = [BatchNormalization, GlobalMaxPool, DequantizeLinear]


def evaluate(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    """The outputs with all that is float32 made float64: weights, constants, casts, inputs."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    _widen(wide.graph)
    for function in wide.functions:
        _widen_nodes(function.node)
    inputs = {name: _double(array) for name, array in feeds.items()}
    return [np.asarray(each) for each in ReferenceEvaluator(wide, new_ops=OPERATORS).run(None, inputs)]


def error(outputs: Iterable[Array], exact: Iterable[Array]) -> float:
    """The largest difference of a float output, as a part of the largest magnitude that it should have."""
    errors = [
        float(np.abs(got.reshape(want.shape).astype(np.float64) - want).max() / (np.abs(want).max() or 1.0))
        for got, want in zip(outputs, exact, strict=True)
        if want.dtype.kind == "f" and want.size
    ]
    return max(errors, default=0.0)


def _double(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype == np.float32 else array


def _widen(graph: onnx.GraphProto) -> None:
    for tensor in graph.initializer:
        _widen_tensor(tensor)
    for value in (*graph.input, *graph.output):
        if value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
            value.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    del graph.value_info[:]
    _widen_nodes(graph.node)


def _widen_nodes(nodes: Iterable[onnx.NodeProto]) -> None:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                _widen_tensor(attribute.t)
            if attribute.HasField("g"):
                _widen(attribute.g)
            if attribute.name in ("to", "dtype") and attribute.i == onnx.TensorProto.FLOAT:
                attribute.i = onnx.TensorProto.DOUBLE
            if node.op_type == "Constant" and attribute.name in ("value_float", "value_floats"):
                value = attribute.f if attribute.name == "value_float" else list(attribute.floats)
                tensor = numpy_helper.from_array(np.array(value, np.float64))
                attribute.CopyFrom(onnx.helper.make_attribute("value", tensor))


def _widen_tensor(tensor: onnx.TensorProto) -> None:
    if tensor.data_type == onnx.TensorProto.FLOAT:
        tensor.CopyFrom(numpy_helper.from_array(_double(numpy_helper.to_array(tensor)), tensor.name))
