"""Which layer goes wrong: every tensor that an artifact's code computes, against ONNX Runtime.

An artifact keeps no intermediate tensor, so the model is compiled once more, in the same way, with the result of every
step as one more output. Its code, kernels and fusions are those of the artifact; only that steps share memory is lost.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from mcpc.artifact import Artifact
from mcpc.comparison import RTOL, Comparison, compare
from mcpc.cost_model import leaves
from mcpc.errors import UsageError
from mcpc.fidelity import Fidelity, fidelity
from mcpc.halves import coarser
from mcpc.inspection import inspect
from mcpc.ir import Graph
from mcpc.layer_precision import ACCUMULATED, TIMES
from mcpc.metadata import SYMMETRIC
from mcpc.pipeline import Pass, PassContext, describe
from mcpc.precision import QUANTIZE, SMOOTH
from mcpc.sensitivity import coarsest_rounding, tolerances
from mcpc.tensor_scales import STORED, ranges_in, scales_in

Array = np.ndarray[Any, Any]

#: What :meth:`mcpc.ir.Graph.fresh` appends.
_COPY = re.compile(r"\.\d+$")


@dataclass(frozen=True)
class Layer:
    """A tensor of a compiled graph. ``name`` is its own, ``output`` that of the output that shows it row-major;
    ``nodes`` are the names of all nodes that its kernel computes."""

    name: str
    output: str
    node: str
    op: str
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ExposeLayers(Pass):
    """Makes outputs of all tensors, behind the passes that shaped the graph; ``found`` gets them in order, ``models``
    the ONNX model of the graph."""

    name: ClassVar[str] = "expose-layers"
    found: list[Layer] = field(default_factory=list)
    models: list[bytes] = field(default_factory=list)

    def __call__(self, graph: Graph, ctx: PassContext) -> Graph:
        from mcpc.onnx_writer import to_model

        shown = {id(value) for value in graph.outputs}
        for node in list(graph.nodes):
            for value in node.outputs:
                if value is None:
                    continue
                if id(value) in shown:
                    output = value
                else:  # stored in another order, it would come out so
                    types = [value.type.with_layout(None)]
                    (output,) = graph.emit("Identity", [value], types, names=[f"{value.name}:layer"])
                    graph.outputs.append(output)
                op = node.op if node.body is None else "+".join(inner.op for inner in node.body.nodes)
                names = tuple(leaf.name for leaf in leaves(node))
                self.found.append(Layer(value.name, output.name, describe(node), op, names))
        self.models.append(to_model(graph).SerializeToString())
        return graph


@dataclass(frozen=True)
class LayerComparison:
    """How a layer compares, and with what: the tensor of that name in the ``model``, or where the passes changed what
    the name stands for, in the ``graph`` that they made. In a network that mcpc quantised, ``fidelity`` is what is left
    of the model's tensor, and ``precision`` what was said of the layer that the kernel computes when it was compiled
    (:func:`mcpc.layer_precision.precision_in`)."""

    layer: Layer
    against: str
    comparison: Comparison
    fidelity: Fidelity | None = None
    precision: Mapping[str, Any] | None = None

    @property
    def matches(self) -> bool:
        return self.comparison.matches

    def to_json(self) -> dict[str, Any]:
        document = {**self.comparison.to_json(), "node": self.layer.node, "op": self.layer.op, "against": self.against}
        if self.fidelity is not None:
            document |= dict(zip(ACCUMULATED, (self.fidelity.sqnr, self.fidelity.cosine), strict=True))
        if self.precision is not None:
            document |= {name: self.precision[name] for name in ("precision", *TIMES.values())}
        return document


def verify_layers(
    artifact: Path | str,
    model: Path | str,
    *,
    inputs: Mapping[str, Array] | None = None,
    seed: int = 0,
    dims: Mapping[str, int] | None = None,
    rtol: float = RTOL,
    atol: float | None = None,
    threads: int | None = None,
    calib_table: Path | str | None = None,
) -> list[LayerComparison]:
    """Compare every layer of ``artifact``, in the order of the steps; the arguments are those of
    :func:`mcpc.verification.verify`. ``calib_table`` is the table of ranges by which it was quantised: an artifact
    states its ranges, but not what passes before ``quantize`` were told of channels; UsageError E002 where that is
    missing."""
    from mcpc.judge import judge
    from mcpc.loader import load
    from mcpc.sample_inputs import artifact_inputs
    from mcpc.verification import known_inputs, provenance, reference, refuse_chance

    refuse_chance(artifact)
    expose = ExposeLayers()
    with tempfile.TemporaryDirectory() as folder:
        path = _compile_again(Path(artifact), Path(model), expose, Path(folder), calib_table)
        with load(artifact, threads=1) as session:
            feeds = {**artifact_inputs(artifact, session, seed, dims), **known_inputs(session, inputs or {})}
        with load(path, threads=threads) as session:
            names = [output.name for output in session.get_outputs()]
            got = dict(zip(names, session.run(None, feeds), strict=True))
    layers, said = expose.found, inspect(artifact)
    scales = scales_in(said["decisions"])
    whole = {f"{name}{STORED}": name for name in scales}
    renamed = {layer.name: _COPY.sub("", layer.name) for layer in layers}  # what is only stored in another order
    precisions = {each["layer"]: each for each in said["precision"]["layers"]}
    run = judge(expose.models[0], names)
    in_graph = dict(zip(names, run(feeds), strict=True))
    shared, exposed = _with_all_outputs(Path(model), {*renamed, *renamed.values(), *scales})
    in_model = dict(zip(shared, reference(exposed, feeds, shared), strict=True))
    outputs = set(names) - {layer.output for layer in layers if layer.output != layer.name}

    def compared(layer: Layer, atol: float | None) -> LayerComparison:
        want, against = in_graph[layer.output], "graph"
        original = in_model.get(layer.name)
        if original is not None and (layer.name in outputs or compare(layer.name, want, original, rtol, atol).matches):
            want, against = original, "model"
        compared = compare(layer.name, got[layer.output], want, rtol, atol)
        precision = next((precisions[name] for name in layer.nodes if name in precisions), None)
        return LayerComparison(layer, against, compared, left_of(layer), precision)

    def left_of(layer: Layer) -> Fidelity | None:
        name = layer.name if layer.name in {*whole, *in_model} else renamed[layer.name]
        array, original = got[layer.output], in_model.get(whole.get(name, name))
        if not precisions or original is None or original.shape != array.shape or original.dtype != np.float32:
            return None
        return fidelity(scales[whole[name]].floats(array) if name in whole else array, original)

    result = [compared(layer, atol) for layer in layers]
    if atol is None and not all(each.matches for each in result):
        rounding = coarser(coarsest_rounding(expose.models[0]), provenance(artifact))
        moved = tolerances(run, feeds, list(in_graph.values()), rounding)
        allowed = dict(zip(names, moved, strict=True))
        result = [compared(layer, allowed[layer.output]) for layer in layers]
    return result


def _compile_again(
    artifact: Path, model: Path, expose: ExposeLayers, folder: Path, calib_table: Path | str | None
) -> Path:
    """The model with all layers as outputs, compiled as ``artifact`` was."""
    from mcpc import plugins
    from mcpc.compiler import compile as compile_model

    with Artifact.open(artifact) as opened:
        meta = opened.meta
    said = inspect(artifact)
    ranges = calib_table or ranges_in(said["decisions"])
    precisions = {each["layer"]: each["precision"] for each in said["precision"]["layers"]}
    target = plugins.find_target(meta.target)
    own = {each.name for each in plugins.find_family(target.family).passes(target)}
    records = list(meta.passes or [])
    while records and records[-1].name in own:  # what the family runs itself, behind the others
        records.pop()
    if calib_table is None and any(each.name == SMOOTH for each in records):
        message = f"{artifact} was smoothed before it was quantised, by samples that it does not hold"
        raise UsageError("E002", message, hint="give the --calib-table that it was compiled with")
    passes = ", ".join(record.spec or record.name for record in records)
    optional = {default.input for default in meta.defaults or []}
    return compile_model(
        model,
        meta.target,
        folder / "layers.mcp26bin",
        input_shapes={
            tensor.name: [None if dim.symbol >= 0 else dim.value for dim in tensor.dims]
            for index, tensor in enumerate(meta.inputs)
            if index not in optional
        },
        dims={
            symbol.name: (symbol.min, symbol.max if symbol.max >= 0 else None)
            for index, symbol in enumerate(meta.symbols or [])
            if any(dim.symbol == index for tensor in meta.inputs for dim in tensor.dims)
        },
        freeze_defaults=not optional,
        passes=passes,
        finish=[expose],
        golden=0,
        calib_table=ranges if any(each.name == QUANTIZE for each in records) else None,
        symmetric_activations=said["provenance"].get(SYMMETRIC) == "true" or None,
        layer_precisions=precisions if any(each.name == QUANTIZE for each in records) else None,
    )


def _with_all_outputs(path: Path, wanted: set[str]) -> tuple[list[str], bytes]:
    """Those of the tensors that the model at ``path`` makes, and the model with them as outputs."""
    import onnx

    model = onnx.load(path)
    made = {name for node in model.graph.node for name in node.output} & wanted
    declared = {value.name for value in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in sorted(made - declared))
    try:
        return sorted(made | (declared & wanted)), model.SerializeToString()
    except ValueError:
        raise UsageError("E001", f"{path} is too large to look at its layers: 2 GiB are the most") from None
