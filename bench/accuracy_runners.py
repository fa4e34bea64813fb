"""What runs a network in accuracy.py, in float32 or quantised by the same calibration samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import onnxruntime as ort
from accuracy_tasks import Feeds, Run, Task
from onnx import numpy_helper, version_converter
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

import mcpc

#: The float32 network by which all are judged.
REFERENCE = "onnxruntime fp32"

#: Calibration methods that mcpc and ONNX Runtime have, by mcpc's names.
METHODS = {
    "minmax": CalibrationMethod.MinMax,
    "percentile": CalibrationMethod.Percentile,
    "entropy": CalibrationMethod.Entropy,
}

#: Operators that multiply matrices: those that ONNX Runtime quantises, those that stay floats, those that mcpc makes of
#: the ones that are quantised, and how many products each stands for.
QUANTIZABLE = ("Conv", "ConvTranspose", "Gemm", "MatMul")
FLOATS = {**dict.fromkeys((*QUANTIZABLE, "LSTM", "GRU", "RNN"), 1), "Attention": 2}
INTEGERS = {"ConvInteger": 1, "MatMulInteger": 1}


#: By how much outputs may move on the calibration samples where mcpc chooses which layers are integers (relative L2
#: error): the 1 % that most goals leave, whatever the task.
MAX_DROP = 0.01


@dataclass(frozen=True)
class Network:
    """What a runner has made: of its ``products`` of matrices ``integers`` are of integers."""

    run: Run
    products: int
    integers: int


@dataclass
class Work:
    """What the runners of one task share: its samples, complete, a folder, and what is closed at the end."""

    task: Task
    calibration: Sequence[Feeds]
    method: str
    folder: Path
    stack: ExitStack


def reference(model: Path) -> Run:
    """ONNX Runtime without optimisations, on all cores: scores do not depend on the order of sums."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return _runner(ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"]))


def _runner(session: Any) -> Run:
    names = [output.name for output in session.get_outputs()]
    return lambda feeds: dict(zip(names, session.run(None, feeds), strict=True))


# ---- ONNX Runtime


def _network(model: Path, run: Run) -> Network:
    graph = onnx.load(model).graph
    rounded = {node.output[0] for node in graph.node if node.op_type == "DequantizeLinear"}
    products = [node for node in graph.node if node.op_type in FLOATS]
    integers = [node for node in products if node.op_type in QUANTIZABLE and rounded.issuperset(node.input[:2])]
    return Network(run, len(products), len(integers))


def _exact(model: Path) -> Network:
    return _network(model, reference(model))


class _Samples(CalibrationDataReader):
    def __init__(self, samples: Sequence[Feeds]) -> None:
        self._left = iter(samples)

    def get_next(self) -> Feeds | None:
        return next(self._left, None)


def quantized(work: Work, name: str, **options: Any) -> Path:
    """The network in QDQ form by ONNX Runtime's static quantisation as its manual advises: bytes for activations,
    signed bytes for weights with a scale a channel. ``options`` are those of quantize_static."""
    path = work.folder / f"{name}.onnx"
    prepared = work.folder / "prepared.onnx"
    if not prepared.exists():
        _prepare(work.task.model, prepared)
    if not path.exists():
        quantize_static(
            str(prepared),
            str(path),
            _Samples(work.calibration),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            calibrate_method=METHODS[work.method],
            **options,
        )
    return path


def _prepare(model: Path, path: Path) -> None:
    """The same network in a form that ONNX Runtime's quantisation takes: an opset that has scales for channels,
    constants folded, and a bias of one axis for each node (it names copies of shared ones by a digit at the end, which
    may be the name of another tensor)."""
    graph = onnx.load(model)
    if graph.opset_import[0].version < 13:
        graph = version_converter.convert_version(graph, 17)
    try:
        quant_pre_process(graph, str(path), auto_merge=True)
    except Exception:  # its shape inference knows not all operators, and its exceptions share no base class
        quant_pre_process(graph, str(path), skip_symbolic_shape=True)
    graph = onnx.load(path)
    constants = {tensor.name: tensor for tensor in graph.graph.initializer}
    for index, node in enumerate(graph.graph.node):
        if node.op_type in ("Conv", "ConvTranspose", "Gemm") and len(node.input) == 3 and node.input[2] in constants:
            bias = numpy_helper.to_array(constants[node.input[2]])
            if bias.size == max(bias.shape, default=1):
                node.input[2] = f"bias_of_node_{index}"
                graph.graph.initializer.append(numpy_helper.from_array(bias.reshape(-1), node.input[2]))
    used = {name for node in graph.graph.node for name in node.input}
    for tensor in [each for each in graph.graph.initializer if each.name not in used]:
        graph.graph.initializer.remove(tensor)
    onnx.save(graph, path)


def _optimized(model: Path) -> Network:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return _network(model, _runner(ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])))


# ---- mcpc


def _compiled(work: Work, model: Path, name: str, **options: Any) -> Network:
    artifact = mcpc.compile(
        model, "host", work.folder / f"{name}.mcp26bin", input_shapes=work.task.open_sizes, golden=0, **options
    )
    parts = [part for step in mcpc.inspect(artifact)["steps"] for part in step["op"].split("+")]
    floats, integers = (sum(kinds.get(part, 0) for part in parts) for kinds in (FLOATS, INTEGERS))
    return Network(_runner(work.stack.enter_context(mcpc.load(artifact))), floats + integers, integers)


def _calibrated(work: Work, name: str, method: str, **options: Any) -> Network:
    given = {"calib_data": work.calibration, "calib_method": method, **options}
    return _compiled(work, work.task.model, name, **given)


#: All in the order of the table. Each raises what stops it.
RUNNERS: dict[str, Callable[[Work], Network]] = {
    REFERENCE: lambda work: _exact(work.task.model),
    "mcpc fp32": lambda work: _compiled(work, work.task.model, "fp32"),
    "mcpc int8": lambda work: _calibrated(work, "int8", work.method, precision="int8"),
    "mcpc int8 --smooth": lambda work: _calibrated(
        work,
        "smooth",
        work.task.method,
        precision="int8",
        smooth=True,
        layer_precisions=dict.fromkeys(work.task.floats, "fp32"),
    ),
    "mcpc auto --smooth": lambda work: _calibrated(
        work, "auto", work.method, precision="auto", smooth=True, max_drop=MAX_DROP
    ),
    "onnxruntime int8, exact": lambda work: _exact(quantized(work, "all")),
    "onnxruntime int8": lambda work: _optimized(quantized(work, "all")),
    "onnxruntime int8, 7-bit weights": lambda work: _optimized(quantized(work, "7bit", reduce_range=True)),
    "onnxruntime int8 products, exact": lambda work: _exact(
        quantized(work, "products", op_types_to_quantize=list(QUANTIZABLE))
    ),
    "mcpc of onnxruntime's QDQ": lambda work: _compiled(work, quantized(work, "all"), "qdq"),
}
