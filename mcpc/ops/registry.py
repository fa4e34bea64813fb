"""The registry of operators: every fact that the compiler knows about an operator, declared once.

A target family keeps its own registry of how it emits an operator; this one knows no target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mcpc.errors import ModelError
from mcpc.ir import OPSET, Dim, Graph, Node, TensorType, total
from mcpc.ops.declined import DECLINED

if TYPE_CHECKING:
    from mcpc.ops.context import InferContext


@dataclass(frozen=True)
class Cost:
    """What one run of a node takes: ``flops`` (a multiply-add counts two) and ``bytes`` read and written, each input
    and output once. Symbolic where sizes are."""

    flops: Dim
    bytes: Dim


#: Contents of an integer or bool tensor: an object array of integers and sympy expressions, None where unknown.
Contents = np.ndarray[Any, np.dtype[np.object_]]

#: The newest opset of ai.onnx of which operators are declared: graphs are of :data:`OPSET`, with what newer ones add.
NEWEST = 28

#: The largest error that a correct float32 kernel may show, relative to the range of the output.
EXACT, ROUNDED, ACCUMULATED = 0.0, 1e-6, 1e-4


@dataclass(frozen=True)
class OpDef:
    """One operator.

    ``versions``: first and last opset of ``domain`` that has it. ``infer(node, context)`` gives one type per output,
    given the inputs' types, and raises :class:`ModelError` E104 where they do not fit, E102 where an attribute is
    wrong, E108 where a result depends on sizes that nobody knows. ``cost(node)`` needs inferred types. ``contents``
    computes small integer outputs during inference (shape arithmetic): one entry per output, None where unknown.
    ``tolerance``: one of EXACT, ROUNDED, ACCUMULATED.
    """

    name: str
    infer: Callable[[Node, InferContext], list[TensorType]]
    cost: Callable[[Node], Cost]
    tolerance: float
    versions: tuple[int, int] = (1, OPSET)
    domain: str = ""
    contents: Callable[[Node, InferContext], list[Contents | None]] | None = None


_REGISTRY: dict[tuple[str, str], OpDef] = {}


def register(*definitions: OpDef) -> None:
    for definition in definitions:
        key = definition.domain, definition.name
        assert key not in _REGISTRY, f"{key} is declared twice"
        _REGISTRY[key] = definition


def find(domain: str, op: str) -> OpDef | None:
    """The declaration of an operator, None where it is unknown."""
    return _REGISTRY.get((domain, op))


def get(node: Node) -> OpDef:
    """The declaration of ``node``'s operator; raises :class:`ModelError` E101 where it is unknown."""
    definition = find(node.domain, node.op)
    if definition is None:
        raise unsupported(node.domain, node.op, node.name)
    return definition


def unsupported(domain: str, op: str, node: str, opset: str = "") -> ModelError:
    """The error for an operator that nobody declares; ``opset`` is the version of its domain, where known."""
    version = f" (opset {opset})" if opset else ""
    reason = f": {DECLINED[domain, op]}" if (domain, op) in DECLINED else ""
    message = f"operator {op} of domain {domain or 'ai.onnx'}{version} is not supported{reason}"
    return ModelError("E101", message, op=op, node=node)


def opset_of(graph: Graph, domain: str) -> str:
    """The opset version of ``domain`` that the model's file imports, '' where that is not known."""
    return graph.metadata.get(f"opset.{domain}" if domain else "opset", "")


def definitions() -> Iterable[OpDef]:
    """All declarations, by domain and name."""
    return [_REGISTRY[key] for key in sorted(_REGISTRY)]


def traffic(node: Node) -> Dim:
    """Bytes of a node's inputs and outputs, each tensor once. Fused nodes count their boundary only."""
    tensors = {id(value): value for value in (*node.inputs, *node.outputs) if value is not None}
    return total(value.type.nbytes for value in tensors.values())


def moves(node: Node) -> Cost:
    """The cost of an operator that only moves data."""
    return Cost(0, traffic(node))
