"""What each layer of a network is predicted to take on a target, by the code that the target's family would make."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mcpc.codegen import Family
from mcpc.cost_model import leaves
from mcpc.graph_copy import copied
from mcpc.ir import Graph, Node, Value
from mcpc.pipeline import Pass, PassContext, run_pipeline
from mcpc.target import Target


@dataclass
class Times:
    """Microseconds on one core at usual sizes: of all steps, and by layer. A step that computes several layers is
    shared out evenly. One that computes none belongs to the layer before it, one that only rounds floats to bytes to
    the layer that reads them."""

    total: float = 0.0
    layers: dict[str, float] = field(default_factory=dict)


def predict(
    graph: Graph,
    layers: Collection[str],
    passes: Sequence[Pass],
    family: Family,
    target: Target,
    options: Mapping[str, Any],
) -> Times:
    """The times of ``graph``, which stays as it is, behind ``passes`` and those of ``family``; ``layers`` are names of
    nodes. Raises what a pass raises."""
    ctx = PassContext(target=target, options=options)
    shaped = run_pipeline(copied(graph), [*passes, *family.passes(target)], ctx)
    owners = _owners(shaped, layers)
    times = Times(layers=dict.fromkeys(layers, 0.0))
    for node, us in family.predict(shaped, target, ctx):
        times.total += us
        own = owners.get(id(node), ())
        for layer in own:
            times.layers[layer] += us / len(own)
    return times


def _owners(graph: Graph, layers: Collection[str]) -> dict[int, tuple[str, ...]]:
    """The layers that each node belongs to, by the node's id; none where there is no layer beside it."""
    owners: dict[int, tuple[str, ...]] = {}
    waiting: list[Node] = []
    for node in graph.nodes:
        own = tuple(dict.fromkeys(leaf.name for leaf in leaves(node) if leaf.name in layers))
        before = () if _only_rounds(node) else _first(owners, (_producer(value) for value in node.inputs))
        owners[id(node)] = own or before
        if not owners[id(node)]:
            waiting.append(node)
    for node in reversed(waiting):
        owners[id(node)] = _first(owners, (user for value in node.outputs if value is not None for user in value.users))
    return owners


def _producer(value: Value | None) -> Node | None:
    return None if value is None else value.producer


def _first(owners: Mapping[int, tuple[str, ...]], nodes: Any) -> tuple[str, ...]:
    found = (owners.get(id(node), ()) for node in nodes if node is not None)
    return next((each for each in found if each), ())


def _only_rounds(node: Node) -> bool:
    """Whether ``node`` makes integers of floats."""
    data = node.input(0)
    return data is not None and data.dtype.is_float and not node.output.dtype.is_float
