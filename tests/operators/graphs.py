"""Small ONNX graphs, written as calls, that can be put side by side in one model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

from mcpc.ir import OPSET

Array = np.ndarray[Any, Any]

#: The first version of ONNX's file format that knows :data:`mcpc.ir.OPSET`.
IR_VERSION = 12

#: The versions of domains that are beyond their first.
VERSIONS = {"ai.onnx.ml": 5}


@dataclass(frozen=True)
class Weight:
    """A constant: these values, or normally distributed ones of this shape."""

    values: Array | tuple[int, ...]


#: What an operator takes: the name of a tensor, an input (an array is fed as it is, a shape with normally distributed
#: float32), a constant, or nothing.
Operand = str | Array | tuple[int, ...] | Weight | None


class Graph:
    """A graph under construction, of an ``opset`` of ai.onnx. ``prefix`` starts every name, and seeds the numbers that
    are drawn.

    >>> g = Graph("case/")
    >>> g.output(g("Relu", g("Conv", (1, 3, 8, 8), Weight((4, 3, 3, 3)))))
    """

    def __init__(self, prefix: str, opset: int = OPSET) -> None:
        self.prefix = prefix
        self.opset = opset
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, Array] = {}
        self.feeds: dict[str, Array] = {}
        self.outputs: list[str] = []
        self._rng = np.random.default_rng(crc32(prefix.encode()))
        self._count = 0

    def __call__(self, op: str, *operands: Operand, outputs: int | Sequence[bool] = 1, **attrs: Any) -> Any:
        """Add a node; the name of its output, or a list of names where it has several. ``outputs`` says how many, or
        which are asked for (the others have the empty name)."""
        asked = [True] * outputs if isinstance(outputs, int) else list(outputs)
        inputs = [self._name(operand) for operand in operands]
        names = [self._fresh(op.lower()) if wanted else "" for wanted in asked]
        given = {key: value for key, value in attrs.items() if value is not None}
        self.nodes.append(helper.make_node(op, inputs, names, name=self._fresh(op), **given))
        return names[0] if len(names) == 1 else names

    def input(self, values: Array | tuple[int, ...]) -> str:
        name = self._fresh("x")
        self.feeds[name] = self._values(values)
        return name

    def constant(self, values: Array | tuple[int, ...] | Sequence[int]) -> str:
        """A list becomes int64."""
        name = self._fresh("c")
        self.constants[name] = np.array(values, np.int64) if isinstance(values, list) else self._values(values)
        return name

    def output(self, *names: str) -> None:
        self.outputs.extend(names)

    def draw(self, *shape: int) -> Array:
        return self._rng.standard_normal(shape, np.float32)

    def _name(self, operand: Operand) -> str:
        if operand is None:
            return ""
        if isinstance(operand, str):
            return operand
        if isinstance(operand, Weight):
            return self.constant(operand.values)
        return self.input(operand)

    def _values(self, values: Array | tuple[int, ...] | Sequence[int]) -> Array:
        return values if isinstance(values, np.ndarray) else self.draw(*values)

    def _fresh(self, stem: str) -> str:
        self._count += 1
        return f"{self.prefix}{stem}{self._count}"


@dataclass
class Model:
    """Graphs side by side. ``outputs`` maps names to what is expected there; it gives their types."""

    nodes: list[NodeProto] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    feeds: dict[str, Array] = field(default_factory=dict)
    outputs: dict[str, Array] = field(default_factory=dict)
    opset: int = OPSET

    @classmethod
    def of(cls, graphs: Iterable[Graph], expected: Mapping[str, Array]) -> Model:
        model = cls()
        for graph in graphs:
            model.nodes += graph.nodes
            model.constants |= graph.constants
            model.feeds |= graph.feeds
            model.outputs |= {name: expected[name] for name in graph.outputs}
            model.opset = max(model.opset, graph.opset)
        return model

    def serialize(self) -> bytes:
        graph = helper.make_graph(
            self.nodes,
            "operators",
            [_declare(name, array) for name, array in self.feeds.items()],
            [_declare(name, array) for name, array in self.outputs.items()],
            [numpy_helper.from_array(array, name) for name, array in self.constants.items()],
        )
        return _model(graph, self.opset)


def serialize_untyped(graph: Graph) -> bytes:
    """``graph`` alone, its outputs without types, since nobody has computed them yet."""
    proto = helper.make_graph(
        graph.nodes,
        "operator",
        [_declare(name, array) for name, array in graph.feeds.items()],
        [helper.make_empty_tensor_value_info(name) for name in graph.outputs],
        [numpy_helper.from_array(array, name) for name, array in graph.constants.items()],
    )
    return _model(proto, graph.opset)


def _model(graph: onnx.GraphProto, opset: int) -> bytes:
    domains = sorted({node.domain for node in graph.node} - {""})
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(name, VERSIONS.get(name, 1)) for name in domains)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
    return model.SerializeToString()


def _declare(name: str, array: Array) -> onnx.ValueInfoProto:
    code: TensorProto.DataType = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, code, array.shape)
