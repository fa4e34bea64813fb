"""Whether a graph is consistent: what the runner checks after every pass."""

from __future__ import annotations

from mcpc import ops
from mcpc.errors import ModelError, PassError
from mcpc.ir import Graph, TensorType
from mcpc.ops.context import InferContext, differ


def check_graph(graph: Graph) -> None:
    """Raise :class:`PassError` E200 where the structure is broken (:meth:`Graph.verify`), or a node's outputs cannot
    have the types they carry, given the types of its inputs."""
    graph.verify()
    _check_types(graph, InferContext())


def _check_types(graph: Graph, context: InferContext) -> None:
    for node in graph.nodes:
        definition = ops.find(node.domain, node.op)
        if definition is None:  # a target's own operator; only the target knows its types
            continue
        try:
            inferred = definition.infer(node, context)
        except ModelError as error:
            raise PassError("E200", f"{error.message} ({error.code})", op=node.op, node=node.name) from error
        for value, type in zip(node.outputs, inferred, strict=False):
            if value is not None and not _compatible(value.type, type):
                raise PassError("E200", f"%{value.name} is {value.type} but must be {type}", op=node.op, node=node.name)
        if definition.contents is not None:
            for value, contents in zip(node.outputs, definition.contents(node, context), strict=False):
                if value is not None:
                    context.remember(value, contents)


def _compatible(recorded: TensorType, inferred: TensorType) -> bool:
    if recorded.dtype is not inferred.dtype:
        return False
    if recorded.shape is None or inferred.shape is None:
        return True
    same_rank = len(recorded.shape) == len(inferred.shape)
    return same_rank and not any(differ(a, b) for a, b in zip(recorded.shape, inferred.shape, strict=True))
