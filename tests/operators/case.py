"""What a case is, and what its outputs must be."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from mcpc import ops
from mcpc.ir import OPSET
from mcpc.onnx_structure import walk
from mcpc.ops.registry import ACCUMULATED
from mcpc.reference import run_model
from mcpc.verification import Comparison, compare

from .graphs import Array, Graph, Model, Operand, serialize_untyped

#: Who may say what a case computes: ONNX Runtime with its optimisations off, ONNX's reference evaluator.
ORT, ONNX = "ONNX Runtime", "onnx.reference"
BOTH = (ORT, ONNX)


@dataclass(frozen=True)
class Case:
    """A small graph and its inputs, which ``build`` declares. ``judges`` compute what is expected, the first one's
    numbers count; where one of the two is left out, ``because`` says why. ``tolerance`` is relative, to each number and
    to the output's range; None takes that of the loosest operator in the graph."""

    family: str
    name: str
    build: Callable[[Graph], None]
    judges: tuple[str, ...] = BOTH
    because: str = ""
    tolerance: float | None = None
    opset: int = OPSET

    def __str__(self) -> str:
        return f"{self.family}/{self.name}"

    @functools.cached_property
    def graph(self) -> Graph:
        graph = Graph(f"{self}/", self.opset)
        self.build(graph)
        assert graph.outputs, self
        return graph

    @functools.cached_property
    def expected(self) -> dict[str, Array]:
        """What the first judge computes, by output."""
        return self.verdict(self.judges[0])

    def verdict(self, judge: str) -> dict[str, Array]:
        return JUDGES[judge](serialize_untyped(self.graph), self.graph.feeds, self.graph.outputs)

    def compare(self, name: str, got: Array) -> Comparison:
        want = self.expected[name]
        tolerance = self.tolerance
        if tolerance is None:
            tolerance = max((_tolerance(node) for node in walk(self.graph.nodes)), default=0.0)
        scale = float(np.abs(want[np.isfinite(want)]).max(initial=0.0)) if want.dtype.kind == "f" else 0.0
        return compare(name, got, want, tolerance, tolerance * scale)


def _tolerance(node: onnx.NodeProto) -> float:
    definition = ops.find(node.domain, node.op_type)
    return definition.tolerance if definition is not None else ACCUMULATED  # ONNX defines it by other operators


def _judge_ort(model: bytes, feeds: dict[str, Array], outputs: Sequence[str]) -> dict[str, Array]:
    return dict(zip(outputs, run_model(model, feeds, outputs), strict=True))


def _judge_onnx(model: bytes, feeds: dict[str, Array], outputs: Sequence[str]) -> dict[str, Array]:
    with np.errstate(all="ignore"):
        results = ReferenceEvaluator(onnx.load_from_string(model)).run(list(outputs), feeds)
    return {name: np.asarray(array) for name, array in zip(outputs, results, strict=True)}


JUDGES: dict[str, Callable[[bytes, dict[str, Array], Sequence[str]], dict[str, Array]]] = {
    ORT: _judge_ort,
    ONNX: _judge_onnx,
}


@dataclass
class Family:
    """Cases that are compiled together, as one model of this ``opset``. ``kernel``: the name of the Winograd kernel
    that convolutions take where they can, "" for none."""

    name: str
    cases: list[Case] = field(default_factory=list)
    opset: int = OPSET
    kernel: str = ""

    def graph(self, name: str, build: Callable[[Graph], Any], **options: Any) -> None:
        """Declare a case. ``build`` adds nodes and returns the output's name, or a list of them."""

        def complete(graph: Graph) -> None:
            result = build(graph)
            graph.output(*([result] if isinstance(result, str) else [each for each in result if each]))

        assert name not in {case.name for case in self.cases}, name
        self.cases.append(Case(self.name, name, complete, opset=self.opset, **options))

    def op(
        self, name: str, op: str, *operands: Operand, outputs: int | Sequence[bool] = 1, case: Any = None, **attrs: Any
    ) -> None:
        """Declare a case of one operator. ``case`` holds options of :class:`Case`."""
        self.graph(name, lambda graph: graph(op, *operands, outputs=outputs, **attrs), **(case or {}))

    @functools.cached_property
    def model(self) -> Model:
        expected = {name: array for case in self.cases for name, array in case.expected.items()}
        return Model.of((case.graph for case in self.cases), expected)

    def __iter__(self) -> Iterator[Case]:
        return iter(self.cases)
