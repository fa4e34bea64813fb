"""Cases that are compiled together: many small models as one, since a compiler's start takes longer than its work."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from onnx import GraphProto, ModelProto, ValueInfoProto

from mcpc.errors import ErrorGroup, McpcError
from mcpc.onnx_structure import subgraphs

from .cases import Array, Case

#: Cases of one batch.
SIZE = 64


@dataclass
class Merged:
    """Models side by side, every name behind its case's; ``feeds`` and ``outputs`` are those of the first data sets."""

    proto: ModelProto
    feeds: dict[str, Array] = field(default_factory=dict)
    outputs: dict[str, Array] = field(default_factory=dict)

    def serialize(self) -> bytes:
        data: bytes = self.proto.SerializeToString()
        return data


@dataclass(frozen=True)
class Batch:
    """Cases of the same opsets."""

    cases: tuple[Case, ...]

    #: See :class:`tests.operators.runners.Together`.
    kernel = ""

    @property
    def name(self) -> str:
        return f"{self.cases[0]} {len(self.cases)}"

    @functools.cached_property
    def model(self) -> Merged:
        protos = [case.proto for case in self.cases]
        proto = ModelProto(ir_version=max(each.ir_version for each in protos))
        proto.opset_import.extend(protos[0].opset_import)
        proto.graph.name = "cases"
        merged = Merged(proto)
        for case in self.cases:
            graph = GraphProto()
            graph.CopyFrom(case.proto.graph)
            _prefix(graph, f"{case}/")
            constants = {tensor.name for tensor in graph.initializer}
            inputs = [value.name for value in graph.input if value.name not in constants]
            merged.feeds |= dict(zip(inputs, case.sets[0][0], strict=False))
            merged.outputs |= dict(zip((value.name for value in graph.output), case.sets[0][1], strict=True))
            proto.graph.MergeFrom(graph)
        proto.graph.name = "cases"
        return merged

    def outputs_of(self, case: Case, results: Mapping[str, Array]) -> list[Array]:
        return [results[f"{case}/{value.name}"] for value in case.proto.graph.output]


def _prefix(graph: GraphProto, prefix: str) -> None:
    """Put ``prefix`` before every name of a graph and the graphs nested in it, and of the sizes of their tensors."""

    def prefixed(name: str) -> str:
        return prefix + name if name else ""

    values: list[ValueInfoProto] = [*graph.input, *graph.output, *graph.value_info]
    for value in values:
        for size in value.type.tensor_type.shape.dim:
            if size.dim_param:
                size.dim_param = prefixed(size.dim_param)
    sparse = [tensor.values for tensor in graph.sparse_initializer]
    for named in (*values, *graph.initializer, *sparse, *graph.node):
        named.name = prefixed(named.name)
    for node in graph.node:
        node.input[:] = map(prefixed, node.input)
        node.output[:] = map(prefixed, node.output)
        for inner in subgraphs(node):
            _prefix(inner, prefix)


def batches(cases: Iterable[Case]) -> list[Batch]:
    """All of ``cases``, those that can be merged together."""
    groups: dict[tuple[object, ...], list[Case]] = {}
    for case in cases:
        groups.setdefault(_group(case), []).append(case)
    return [
        Batch(tuple(group[start : start + SIZE])) for group in groups.values() for start in range(0, len(group), SIZE)
    ]


def _group(case: Case) -> tuple[object, ...]:
    """What cases that are merged have in common. Local functions, and inputs for which the compiler must try ranks on
    the whole graph, keep a case alone."""
    proto = case.proto
    alone = len(proto.functions) > 0 or not all(v.type.tensor_type.HasField("shape") for v in proto.graph.input)
    opsets = tuple(sorted((entry.domain, entry.version) for entry in proto.opset_import))
    return (str(case),) if alone or len(case.sets) != 1 else opsets


@dataclass(frozen=True)
class Outcome:
    """What became of a case: why it failed, '' where it passed, and what it computed."""

    fault: str = ""
    outputs: tuple[Array, ...] = ()


Attempt = Callable[[Batch], Mapping[str, Outcome]]


def outcomes(batch: Batch, attempt: Attempt) -> dict[str, Outcome]:
    """What ``attempt`` says of each case, by its text. Where it fails as a whole, those that its errors name are tried
    alone, and the others again; where no case is named, the batch is halved."""
    try:
        return dict(attempt(batch))
    except Exception as error:  # bugs of the compiler too are the outcome of a case
        if len(batch.cases) == 1:
            return {str(batch.cases[0]): Outcome(_text(error))}
        guilty = _named(batch.cases, error)
    if not guilty or len(guilty) == len(batch.cases):
        half = len(batch.cases) // 2
        parts = [batch.cases[:half], batch.cases[half:]]
    else:
        parts = [*((case,) for case in guilty), tuple(case for case in batch.cases if case not in guilty)]
    return {name: outcome for part in parts for name, outcome in outcomes(Batch(part), attempt).items()}


def _named(cases: Sequence[Case], error: Exception) -> list[Case]:
    errors = error.errors if isinstance(error, ErrorGroup) else [error]
    text = "\n".join(f"{each.node}\n{each.message}" for each in errors if isinstance(each, McpcError))
    return [case for case in cases if f"{case}/" in text]


def _text(error: Exception) -> str:
    return str(error) if isinstance(error, McpcError) else f"{type(error).__name__}: {error}"
