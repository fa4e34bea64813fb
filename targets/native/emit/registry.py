"""The registry of emitters."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mcpc.errors import ModelError, TargetError
from mcpc.ir import Node
from mcpc.pipeline import describe

from ..kernel import KernelBuilder, Step
from ..region import Region

Emitter = Callable[[KernelBuilder], None]

#: ai.onnx operator -> emitter of regions that it anchors.
emitters: dict[str, Emitter] = {}

#: The key of regions without an anchor.
ELEMENTWISE = "elementwise"


def emits(*ops: str) -> Callable[[Emitter], Emitter]:
    def register(function: Emitter) -> Emitter:
        for op in ops:
            assert op not in emitters, op
            emitters[op] = function
        return function

    return register


def emit(node: Node, nr: int) -> Step:
    """The kernel of a node and how to call it; where there is none, ModelError E101, E102 or E109 names the node."""
    reason = refusal(node)
    if reason is not None:
        raise ModelError("E101", reason, op=node.op, node=describe(node))
    region = Region.of(node)
    builder = KernelBuilder(region, nr)
    try:
        emitters[region.anchor.op if region.anchor is not None else ELEMENTWISE](builder)
    except TargetError as error:  # of a type or primitive, wherever in the node it occurs
        name = error.node or describe(node)
        raise ModelError(error.code, error.message, op=error.op or node.op, node=name) from None
    return builder.build()


def refusal(node: Node) -> str | None:
    """Why no emitter takes the operator, None where one does. Forms are refused by the emitter itself."""
    region = Region.of(node)
    anchor = region.anchor
    if anchor is not None and (anchor.domain != "" or anchor.op not in emitters):
        return f"no native kernel for {anchor.op}"
    return None


def in_place(node: Node) -> Sequence[int]:
    """The inputs whose memory the node may overwrite while it writes its output.

    An elementwise loop reads an element before it writes the same one, and so does an epilogue; an anchor's own
    operands are read many times.
    """
    region = Region.of(node)
    if not region.chain:
        return ()
    own = [region.outer(value) for value in region.anchor.inputs] if region.anchor is not None else []
    return [index for index, value in enumerate(node.inputs) if not any(value is other for other in own)]
