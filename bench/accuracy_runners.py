"""What runs a network in accuracy.py, in float32 or quantised by the same calibration samples."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnxruntime as ort
from accuracy_tasks import Feeds, Run, Task
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

import mcpc
from mcpc.reference import open_session

#: The float32 network by which all are judged.
REFERENCE = "onnxruntime fp32"


@dataclass
class Work:
    """What the runners of one task share: its samples, complete, a folder, and what is closed at the end."""

    task: Task
    calibration: Sequence[Feeds]
    method: str
    folder: Path
    stack: ExitStack


def reference(model: Path) -> Run:
    """ONNX Runtime without optimisations."""
    return _runner(open_session(str(model)))


def _runner(session: Any) -> Run:
    names = [output.name for output in session.get_outputs()]
    return lambda feeds: dict(zip(names, session.run(None, feeds), strict=True))


# ---- ONNX Runtime


class _Samples(CalibrationDataReader):
    def __init__(self, samples: Sequence[Feeds]) -> None:
        self._left = iter(samples)

    def get_next(self) -> Feeds | None:
        return next(self._left, None)


def quantized(work: Work, reduce_range: bool = False) -> Path:
    """The network in QDQ form by ONNX Runtime's static quantisation as its manual advises: prepared by folding and
    fusing, bytes for activations, signed bytes a channel for weights; with ``reduce_range`` these have 7 bits."""
    path = work.folder / f"quantized{'-7bit' if reduce_range else ''}.onnx"
    prepared = work.folder / "prepared.onnx"
    if not prepared.exists():
        try:
            quant_pre_process(str(work.task.model), str(prepared), auto_merge=True)
        except Exception:  # its shape inference knows not all operators, and its exceptions share no base class
            quant_pre_process(str(work.task.model), str(prepared), skip_symbolic_shape=True)
    if not path.exists():
        methods = {
            "minmax": CalibrationMethod.MinMax,
            "entropy": CalibrationMethod.Entropy,
            "percentile": CalibrationMethod.Percentile,
        }
        quantize_static(
            str(prepared),
            str(path),
            _Samples(work.calibration),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            reduce_range=reduce_range,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            calibrate_method=methods.get(work.method, CalibrationMethod.MinMax),
        )
    return path


def _optimized(work: Work, reduce_range: bool) -> Run:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    model = str(quantized(work, reduce_range))
    return _runner(ort.InferenceSession(model, options, providers=["CPUExecutionProvider"]))


# ---- mcpc


def _compiled(work: Work, model: Path, name: str, **options: Any) -> Run:
    artifact = mcpc.compile(
        model, "host", work.folder / f"{name}.mcp26bin", input_shapes=work.task.open_sizes, golden=0, **options
    )
    return _runner(work.stack.enter_context(mcpc.load(artifact)))


def _int8(work: Work) -> Run:
    if "calib_data" not in inspect.signature(mcpc.compile).parameters:
        raise NotImplementedError("this mcpc has no calibration: mcpc.compile takes no calib_data")
    return _compiled(
        work, work.task.model, "int8", precision="int8", calib_data=work.calibration, calib_method=work.method
    )


#: All in the order of the table. Each raises what stops it.
RUNNERS: dict[str, Callable[[Work], Run]] = {
    REFERENCE: lambda work: reference(work.task.model),
    "mcpc fp32": lambda work: _compiled(work, work.task.model, "fp32"),
    "mcpc int8": _int8,
    "onnxruntime int8 exact": lambda work: reference(quantized(work)),
    "onnxruntime int8": lambda work: _optimized(work, False),
    "onnxruntime int8, 7-bit weights": lambda work: _optimized(work, True),
    "mcpc of onnxruntime's QDQ": lambda work: _compiled(work, quantized(work), "qdq"),
}
