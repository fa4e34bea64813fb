"""The registry of emitters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from mcpc.errors import ModelError, TargetError
from mcpc.ir import Node
from mcpc.ops import InferContext
from mcpc.ops.registry import Contents
from mcpc.pipeline import describe
from mcpc.target import Target

from ..choice import Candidate
from ..ctext import c_type
from ..kernel import KernelBuilder, Step
from ..region import SEPARABLE, Region

Emitter = Callable[[KernelBuilder], None]

#: Operator (see :func:`called`) -> emitter of regions that it anchors.
emitters: dict[str, Emitter] = {}

#: ai.onnx operator -> emitter of the step that finds the sizes of its outputs in the data.
sizers: dict[str, Emitter] = {}

#: The key of regions without an anchor.
ELEMENTWISE = "elementwise"

#: The key of the parts of an attention.
ATTENTION = "attention"


def called(domain: str, op: str) -> str:
    """How emitters know an operator: by its name, outside ai.onnx with the domain before it."""
    return f"{domain}::{op}" if domain else op


def emits(*ops: str, domain: str = "") -> Callable[[Emitter], Emitter]:
    def register(function: Emitter) -> Emitter:
        for op in ops:
            assert called(domain, op) not in emitters, op
            emitters[called(domain, op)] = function
        return function

    return register


def finds_sizes(*ops: str) -> Callable[[Emitter], Emitter]:
    """Registers the emitter of a step that runs before the operator's own, on one worker, and calls
    :meth:`KernelBuilder.set_size` for the outputs' symbols."""

    def register(function: Emitter) -> Emitter:
        for op in ops:
            assert op not in sizers, op
            sizers[op] = function
        return function

    return register


def emit(node: Node, target: Target, context: InferContext, choice: Candidate | None = None) -> Step:
    """The kernel of a node and how to call it; where there is none, ModelError E101, E102 or E109 names the node."""
    builder = KernelBuilder(Region.of(node), target, context, choice)
    contents = known_contents(node, context)
    if contents is not None:
        write_contents(builder, contents)
        return builder.build()
    reason = refusal(node)
    if reason is not None:
        raise ModelError("E101", reason, op=node.op, node=describe(node))
    with _naming(node):
        emitters[_key(builder.region)](builder)
    return builder.build()


def emit_sizes(node: Node, symbols: Iterable[str], target: Target, context: InferContext) -> Step:
    """The step that gives ``symbols``, sizes of the node's outputs, their values; E108 where the operator has none."""
    sizer = sizers.get(node.op) if node.domain == "" else None
    if sizer is None:
        raise ModelError("E108", f"the size of %{node.output.name} depends on data: {node.output.type}", op=node.op,
                         node=describe(node))  # fmt: skip
    builder = KernelBuilder(Region.of(node), target, context)
    with _naming(node):
        sizer(builder)
    builder.label = f"sizes {node.op}"
    step = builder.build()
    missing = set(symbols) - set(step.sets)
    assert not missing, f"{node!r} leaves {missing} open"
    return replace(step, outputs=())


@contextmanager
def _naming(node: Node) -> Iterator[None]:
    """Errors about a type or primitive, wherever in the node it occurs, get the node's name."""
    try:
        yield
    except TargetError as error:
        name = error.node or describe(node)
        raise ModelError(error.code, error.message, op=error.op or node.op, node=name) from None


def _key(region: Region) -> str:
    if region.is_attention:
        return ATTENTION
    if region.stages:
        return SEPARABLE
    return called(region.anchor.domain, region.anchor.op) if region.anchor is not None else ELEMENTWISE


def known_contents(node: Node, context: InferContext) -> Contents | None:
    """What a small integer tensor holds where that follows from the symbols."""
    if len([output for output in node.outputs if output is not None]) != 1 or node.body is not None:
        return None
    contents = context.contents(node.output)
    if contents is None or any(item is None for item in contents.ravel()):
        return None
    return contents if contents.shape == node.output.shape else None


def write_contents(b: KernelBuilder, contents: Contents) -> None:
    b.label = "sizes"
    for index, item in enumerate(contents.ravel()):
        b.line(f"{b.output()}[{index}] = ({c_type(b.node.output.dtype)}){b.size(item)};")


def refusal(node: Node) -> str | None:
    """Why no emitter takes the operator, None where one does. Forms are refused by the emitter itself."""
    region = Region.of(node)
    anchor = region.anchor
    if anchor is not None and called(anchor.domain, anchor.op) not in emitters:
        return f"no native kernel for {anchor.op}"
    return None


def in_place(node: Node) -> Sequence[int]:
    """The inputs whose memory the node may overwrite while it writes its output.

    An elementwise loop reads an element before it writes the same one, and so does an epilogue; an anchor's own
    operands are read many times. What is scattered changes a copy of the data, or the data.
    """
    if node.is_op("ScatterElements", "ScatterND"):
        return (0,)
    region = Region.of(node)
    if not region.chain or region.is_attention:
        return ()
    own = [region.outer(value) for value in region.anchor.inputs] if region.anchor is not None else []
    return [index for index, value in enumerate(node.inputs) if not any(value is other for other in own)]
