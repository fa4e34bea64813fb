"""What rounding does to each layer of a network, on samples: the float graph beside the one that quantisation made."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mcpc.calibrator import Progress
from mcpc.cost_model import typical_sizes, value_at
from mcpc.fidelity import Fidelity, FidelitySums
from mcpc.graph_copy import copied
from mcpc.ir import DType, Graph, Node, Value
from mcpc.judge import judge
from mcpc.rewrite import made_by

Array = np.ndarray[Any, Any]
Feeds = Mapping[str, Array]

#: Operators that compute with weights.
PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")

#: Bytes of results that are looked at in one run; more layers take more runs.
MOST_BYTES = 256 << 20


def layers_of(graph: Graph) -> list[Node]:
    """The products of ``graph``, a float network, with constant weights."""
    return [node for node in graph.nodes if node.is_op(*PRODUCTS) and _is_weight(node.inputs[1])]


def _is_weight(value: Value | None) -> bool:
    return value is not None and value.is_constant and value.dtype is DType.float32


def is_quantised(node: Node) -> bool:
    """Whether ``node`` is a product both of whose factors are integers but for a DequantizeLinear."""
    return node.is_op(*PRODUCTS) and all(made_by(each, "DequantizeLinear") is not None for each in node.inputs[:2])


@dataclass(frozen=True)
class LayerError:
    """``alone``: of what the layer computes from float inputs, its operands rounded, where it rounds any.
    ``accumulated``: of what it computes in the quantised network, from what came to it there."""

    alone: Fidelity | None
    accumulated: Fidelity


@dataclass(frozen=True)
class Errors:
    """By the name of a layer, and by that of an output of float type."""

    layers: Mapping[str, LayerError]
    outputs: Mapping[str, Fidelity]


def measure(exact: Graph, quantised: Graph, samples: Sequence[Feeds], progress: Progress | None = None) -> Errors:
    """Compare ``quantised``, in which the values of ``exact`` have their names, on ``samples``.

    :func:`mcpc.judge.judge` runs both, and raises what it raises. Of a tensor four sums are kept, and at most about
    :data:`MOST_BYTES` of one sample's results at a time. ``progress`` is told of every run.
    """
    rounded = {value.name: value for value in quantised.values()}
    layers = [node for node in layers_of(exact) if node.output.name in rounded]
    alone: dict[str, FidelitySums] = defaultdict(FidelitySums)
    accumulated: dict[str, FidelitySums] = defaultdict(FidelitySums)
    batches = list(_batches(exact, layers))
    for index, batch in enumerate(batches):
        beside = copied(exact)
        shown = _Beside(beside)
        apart = {node.name: name for node in batch if (name := shown.add(rounded[node.output.name])) is not None}
        names = dict.fromkeys([*(node.output.name for node in batch), *(value.name for value in exact.outputs)])
        run_exact = _runner(beside, [*names, *apart.values()])
        run_quantised = _runner(quantised, [*names])
        for at, feeds in enumerate(samples):
            if progress is not None:
                progress("measure layers", index * len(samples) + at, len(batches) * len(samples))
            want, got = run_exact(feeds), run_quantised(feeds)
            for name in names:
                if want[name].dtype == np.float32 and (index == 0 or not _is_output(exact, name)):
                    accumulated[name].add(got[name], want[name])
            for node in batch:
                if node.name in apart:
                    alone[node.name].add(want[apart[node.name]], want[node.output.name])
    return Errors(
        {
            node.name: LayerError(
                alone[node.name].result() if node.name in alone else None, accumulated[node.output.name].result()
            )
            for node in layers
        },
        {value.name: accumulated[value.name].result() for value in exact.outputs if value.name in accumulated},
    )


def _is_output(graph: Graph, name: str) -> bool:
    return any(value.name == name for value in graph.outputs)


def _batches(graph: Graph, layers: Sequence[Node]) -> Iterator[list[Node]]:
    """The layers in parts whose results, three of each, take :data:`MOST_BYTES` at most at usual sizes; one part where
    there are no layers."""
    sizes = typical_sizes(graph)
    batch: list[Node] = []
    held = 0
    for node in layers:
        nbytes = 0 if node.output.shape is None else 3 * value_at(node.output.type.nbytes, sizes)
        if batch and held + nbytes > MOST_BYTES:
            yield batch
            batch, held = [], 0
        batch.append(node)
        held += nbytes
    yield batch


class _Beside:
    """Puts layers of another graph beside those of ``graph``, whose values of the same name they read."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._known = {value.name: value for value in graph.values()}

    def add(self, value: Value) -> str | None:
        """The name of what is computed here as the other graph computes ``value``; None where that is what is here
        already."""
        before = len(self._graph.nodes)
        node = value.producer
        assert node is not None
        inputs = [self._value(each) for each in node.inputs]
        if len(self._graph.nodes) == before:  # nothing stands between what is known and the layer
            return None
        name = f"{value.name}.alone"
        (output,) = self._graph.emit(node.op, inputs, [value.type], node.attrs, name=name, names=[name])
        return output.name

    def _value(self, value: Value | None) -> Value | None:
        if value is None:
            return None
        if value.name not in self._known:
            node = value.producer
            if node is None:
                assert value.data is not None
                self._known[value.name] = self._graph.constant(value.name, value.data)
            else:
                inputs = [self._value(each) for each in node.inputs]
                outputs = [each for each in node.outputs if each is not None]
                names, types = [each.name for each in outputs], [each.type for each in outputs]
                made = self._graph.emit(node.op, inputs, types, node.attrs, name=f"{names[0]}.made", names=names)
                self._known.update(zip(names, made, strict=True))
        return self._known[value.name]


def _runner(graph: Graph, names: Sequence[str]) -> Callable[[Feeds], Mapping[str, Array]]:
    """What gives the values called ``names`` for feeds, by name."""
    from onnx import helper

    from mcpc.onnx_writer import to_model

    model = to_model(graph)
    declared = {output.name for output in model.graph.output}
    model.graph.output.extend(
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(np.float32)), None)
        for name in names
        if name not in declared
    )
    run = judge(model.SerializeToString(), list(names))
    return lambda feeds: dict(zip(names, run(feeds), strict=True))
