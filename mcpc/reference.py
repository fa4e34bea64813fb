"""ONNX Runtime, its optimisations off, as the judge of what a graph computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mcpc.ir import Graph
from mcpc.onnx_writer import to_model

Array = np.ndarray[Any, Any]


def run_graph(graph: Graph, feeds: Mapping[str, Array]) -> list[Array]:
    """The outputs of ``graph``, in order. ONNX Runtime's own exceptions, which share no base class, pass through."""
    return run_model(to_model(graph).SerializeToString(), feeds, [value.name for value in graph.outputs])


def run_model(model: bytes, feeds: Mapping[str, Array], outputs: Sequence[str]) -> list[Array]:
    """The ``outputs`` of a serialized model."""
    return [np.asarray(array) for array in open_session(model).run(list(outputs), dict(feeds))]


def open_session(model: bytes | str) -> Any:
    """An ``onnxruntime.InferenceSession`` of a serialized model, or of a path (whose external data it finds).

    It has one thread, so that sums are always formed in the same order.
    """
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
