"""From an ONNX model to an artifact: the whole way on one page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mcpc import onnx_reader, onnx_writer, plugins
from mcpc.accuracy_budget import Budget
from mcpc.artifact import Contents, write_artifact
from mcpc.errors import Problems, UsageError
from mcpc.files import require_writable
from mcpc.golden_cases import default_case, golden_cases
from mcpc.metadata import add_defaults, metadata
from mcpc.pipeline import Pass, PassContext, parse_pipeline, run_pipeline
from mcpc.precision import PRECISIONS, Ranges, at_quantize, judged, rounded
from mcpc.quantisation import Quantisation
from mcpc.ranges import RangeTable
from mcpc.size_options import Bound, Shape
from mcpc.stored_precision import run_rounding
from mcpc.tuning import measured_times, require_host

#: What ``winograd`` may be: chosen by cost, or left out.
WINOGRAD = ("auto", "off")


def compile(
    model: Path | str | bytes,
    target: str = "host",
    output: Path | str | None = None,
    *,
    input_shapes: Mapping[str, Shape] | None = None,
    dims: Mapping[str, Bound] | None = None,
    freeze_defaults: bool = False,
    precision: str | None = None,
    weights: str | None = None,
    block_size: int | None = None,
    winograd: str = "auto",
    tune: bool = False,
    passes: str | None = None,
    verify_passes: bool = False,
    emit: Path | str | None = None,
    golden: int | Sequence[Mapping[str, np.ndarray[Any, Any]]] | None = None,
    sign: Path | str | None = None,
    jobs: int | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    finish: Sequence[Pass] = (),
    calib_data: Any = None,
    calib_method: str | None = None,
    smooth: bool = False,
    calib_table: Path | str | RangeTable | None = None,
    zero_point_bias: int | None = None,
    symmetric_activations: bool | None = None,
    layer_precisions: Mapping[str, str] | None = None,
    max_drop: float | None = None,
    min_sqnr: float | None = None,
    drop_metric: str = "l2",
) -> Path:
    """Compile ``model`` (a path, or an ONNX file's bytes) for ``target`` into one file and return its path.

    * ``output``: by default the model's name in the current folder.
    * ``input_shapes``: shapes of inputs to fix; None: a size stays open. ``dims``: symbolic sizes to fix or bound:
      ``{"N": 4, "W": (32, 2048)}``. ``freeze_defaults``: initializers that the model also lists as inputs, for callers
      to override, become constants.
    * ``precision``: one of :data:`PRECISIONS`, by default the target's; inputs and outputs stay as they are. "fp16"
      stores weights as float16 and lets targets that compute in float16 do so. "int8" has products of 8-bit integers
      (passes/quantize.py), and a self-test that is of the network so quantised. "int8-dynamic" has such products of
      MatMul and Gemm only, and needs no samples: the range of what is multiplied is found in each run
      (passes/quantize_dynamic.py).
    * ``weights``: "int8" or "int4" stores the weights of MatMul and Gemm that stay products of floats in so many bits
      (passes/quantize_weights.py), with a scale for every ``block_size`` that are summed (None: 128; 0: a scale a
      column); the self-test is of the network with these weights.
    * ``calib_data`` (calib/samples.py) give int8 the ranges of tensors by ``calib_method`` (calib/observers.py;
      None: minmax). ``calib_table``: the file that these go to, or come from where there are no data. ``smooth``:
      channels of wide and of narrow range are scaled against their weights first, and layers of which rounding is
      predicted to leave less than 30 dB stay floats (passes/smooth.py); takes a second calibration run.
    * "auto" is int8 for those layers only that are predicted to be faster so, and fp16 or fp32 for others, as
      ``max_drop`` (by ``drop_metric``) and ``min_sqnr`` allow: how far outputs may move on the samples
      (:class:`mcpc.accuracy_budget.Budget`; with neither, by a relative L2 error of 0.1). With "int8" they are only
      reported. ``layer_precisions``: "fp32", "int8" or (auto) "fp16" for layers, by the names of nodes.
    * ``zero_point_bias``, ``symmetric_activations``: what a neural processor wants that reads the same tensors
      (:class:`mcpc.target.Npu`), by default the target's.
    * ``winograd``: "off" leaves out convolution kernels that store more numbers than the model has weights and round a
      little more. ``tune``: measure the kernels that there are to choose between on this machine, which has to be the
      target.
    * ``passes``: pipeline text that replaces the target's. ``finish``: passes that run behind the target's own.
      ``verify_passes``: compare with ONNX Runtime after each pass. ``emit``: a folder that keeps the graph after each
      pass and the generated C.
    * ``golden``: cases for the self-test, that many on sampled inputs, or one for each of the given inputs (arrays by
      name); None: one, where the model runs on sampled inputs (sizes and indices may have to fit in ways that no shape
      shows).
    * ``sign``: a PEM file with an Ed25519 private key. ``jobs``: limits compiler processes. ``progress``: called with
      what is being done, its index and the number of stages.

    Raises :class:`mcpc.errors.McpcError`; all problems of a model come together. A file at ``output`` is replaced only
    when all went well.
    """
    if precision not in (None, *PRECISIONS):
        raise UsageError("E001", f"there is no precision {precision!r}", hint=f"known: {', '.join(PRECISIONS)}")
    if winograd not in WINOGRAD:
        raise UsageError("E001", f"winograd is {winograd!r}", hint=f"known: {', '.join(WINOGRAD)}")
    description = plugins.find_target(target).with_npu(zero_point_bias=zero_point_bias, symmetric=symmetric_activations)
    if tune:
        require_host(description)
    output = _output_path(model, output)
    require_writable(output)
    family = plugins.find_family(description.family)
    available = plugins.passes()
    series = parse_pipeline(passes if passes is not None else description.pipeline, available)
    series = rounded(series, precision or description.precision, available, weights, block_size, smooth)
    ranges = Ranges(calib_data, calib_method, calib_table, progress)
    budget = Budget(max_drop, min_sqnr, drop_metric)
    is_auto = (precision or description.precision) == "auto"
    ranges.check(series, is_measured=is_auto or budget.is_given, is_chosen=bool(layer_precisions))
    ctx = PassContext(
        target=description,
        options={"winograd": winograd, "ranges": ranges, "layer_precisions": layer_precisions or {}},
        emit=Path(emit) if emit is not None else None,
        verify_passes=verify_passes,
        progress=progress,
    )

    problems = Problems()
    ctx.pass_name = "read"
    graph = onnx_reader.read(
        model, problems, dims=dims, shapes=input_shapes, freeze_defaults=freeze_defaults, tell=ctx.decide
    )
    if problems.errors:  # what the target lacks is told now, not at the next try
        problems.errors.extend(family.declined(graph))
    problems.raise_if_any()
    first, rest = judged(series)
    before, quantizing, behind = at_quantize(first)
    graph = run_pipeline(graph, before, ctx) if before else graph
    if quantizing is not None:
        graph = Quantisation(quantizing, [*behind, *rest], family, ranges, budget, is_auto)(graph, ctx)
    graph = run_rounding(graph, behind, rest, family, ctx) if behind else graph
    reference = onnx_writer.to_model(graph).SerializeToString() if golden != 0 else b""
    graph = run_pipeline(graph, [*rest, *family.passes(description), *finish], ctx)
    if tune:
        ctx.options = {**ctx.options, "times": measured_times(graph, description, family, jobs)}
    build = family.build(graph, description, ctx, jobs)
    cases = default_case(graph, reference, ctx) if golden is None else golden_cases(graph, reference, golden)
    meta = metadata(graph, description, build, ctx)
    meta.defaults = add_defaults(graph, build.shards)
    contents = Contents(meta, build.code, build.shards, cases)
    write_artifact(output, contents, sign_key=Path(sign) if sign is not None else None)
    return output


def _output_path(model: Path | str | bytes, output: Path | str | None) -> Path:
    if isinstance(model, bytes):
        if output is None:
            raise UsageError("E001", "a model given as bytes needs an output path")
        return Path(output)
    path = Path(output) if output is not None else Path(Path(model).with_suffix(".mcp26bin").name)
    if path.resolve() == Path(model).resolve():
        raise UsageError("E001", f"{path} is the model itself")
    return path
