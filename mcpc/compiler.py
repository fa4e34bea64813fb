"""From an ONNX model to an artifact: the whole way on one page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from mcpc import abi, onnx_reader, onnx_writer, plugins
from mcpc._schema import DecisionT, DefaultValueT, DimRefT, KeyValueT, MetaT, NumberT, PassRecordT, SymbolT, TensorT
from mcpc.artifact import Contents, Golden, write_artifact
from mcpc.codegen import Build
from mcpc.coefficients import digest
from mcpc.dim_range import MOST_BYTES, largest
from mcpc.dim_text import format_dim
from mcpc.dtypes import BY_NAME
from mcpc.errors import ModelError, Problems, UsageError
from mcpc.files import require_writable
from mcpc.halves import coarser
from mcpc.ir import Dim, Graph, SizeBound, TensorType, Value, is_static
from mcpc.judge import judge
from mcpc.ops.random import random_node
from mcpc.pipeline import Pass, PassContext, parse_pipeline, run_pipeline
from mcpc.sample_inputs import sample_inputs
from mcpc.sensitivity import coarsest_rounding, tolerances
from mcpc.size_options import Bound, Shape
from mcpc.target import Target
from mcpc.tuning import measured_times, require_host
from mcpc.verification import RTOL

#: The packages whose versions an artifact states, since they may change its bytes.
PACKAGES = ("mcpc", "onnx", "onnxruntime", "numpy", "ziglang")

#: What ``precision`` may be.
PRECISIONS = ("fp32", "fp16")

#: What ``winograd`` may be: chosen by cost, or left out.
WINOGRAD = ("auto", "off")

#: Default values of inputs start at multiples of this many bytes.
DEFAULT_ALIGNMENT = 64


def compile(
    model: Path | str | bytes,
    target: str = "host",
    output: Path | str | None = None,
    *,
    input_shapes: Mapping[str, Shape] | None = None,
    dims: Mapping[str, Bound] | None = None,
    freeze_defaults: bool = False,
    precision: str | None = None,
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
) -> Path:
    """Compile ``model`` (a path, or an ONNX file's bytes) for ``target`` into one file and return its path.

    ``output`` defaults to the model's name in the current folder. ``input_shapes`` fixes the shapes of inputs (None: a
    size stays open), ``dims`` fixes symbolic sizes or bounds them: ``{"N": 4, "W": (32, 2048)}``. ``freeze_defaults``
    makes constants of the initializers that the model also lists as inputs, for callers to override. ``precision``
    is one of :data:`PRECISIONS`, the target's where it is None: "fp16" stores weights as float16 and lets targets that
    compute in float16 do so; inputs and outputs stay as they are. ``winograd`` "off" leaves out convolution kernels
    that store more numbers than the model has weights and round a little more.
    ``tune`` measures on this machine, which has to be the target, the kernels that there are to choose between.
    ``passes`` is pipeline text that replaces the target's. ``verify_passes`` compares with ONNX Runtime after each
    pass. ``emit`` is a folder that keeps the graph after each pass and the generated C. ``golden`` cases are embedded
    for the self-test: that many on sampled inputs, or one for each of the given inputs (arrays by name); None: one,
    where the model runs on sampled inputs (sizes and indices may have to fit in ways that no shape shows). ``sign``
    is a PEM file with an Ed25519 private key. ``jobs`` limits compiler processes. ``progress`` is called with what
    is being done, its index and the number of stages. ``finish`` are passes that run behind the target's own.

    Raises :class:`mcpc.errors.McpcError`; all problems of a model come together. A file at ``output`` is replaced only
    when all went well.
    """
    if precision not in (None, *PRECISIONS):
        raise UsageError("E001", f"there is no precision {precision!r}", hint=f"known: {', '.join(PRECISIONS)}")
    if winograd not in WINOGRAD:
        raise UsageError("E001", f"winograd is {winograd!r}", hint=f"known: {', '.join(WINOGRAD)}")
    description = plugins.find_target(target)
    if tune:
        require_host(description)
    output = _output_path(model, output)
    require_writable(output)
    family = plugins.find_family(description.family)
    ctx = PassContext(
        target=description,
        options={"winograd": winograd},
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
    original = onnx_writer.to_model(graph).SerializeToString() if golden != 0 else b""
    available = plugins.passes()
    series = parse_pipeline(passes if passes is not None else description.pipeline, available)
    if (precision or description.precision) == "fp16":
        series = halved(series, available)
    graph = run_pipeline(graph, [*series, *family.passes(description), *finish], ctx)
    if tune:
        ctx.options = {**ctx.options, "times": measured_times(graph, description, family, jobs)}
    build = family.build(graph, description, ctx, jobs)
    cases = _default_case(graph, original, ctx) if golden is None else golden_cases(graph, original, golden)
    meta = metadata(graph, description, build, ctx)
    meta.defaults = _defaults(graph, build.shards)
    contents = Contents(meta, build.code, build.shards, cases)
    write_artifact(output, contents, sign_key=Path(sign) if sign is not None else None)
    return output


def halved(series: Sequence[Pass], available: Mapping[str, type[Pass]]) -> list[Pass]:
    """``series`` with the pass that rounds weights to float16, before the one that looks at them; where there is
    none, at the end. A series that halves by itself stays as it is."""
    names = [each.name for each in series]
    if "halve" in names:
        return list(series)
    at = names.index("widen") if "widen" in names else len(names)
    return [*series[:at], available["halve"](), *series[at:]]


def _output_path(model: Path | str | bytes, output: Path | str | None) -> Path:
    if isinstance(model, bytes):
        if output is None:
            raise UsageError("E001", "a model given as bytes needs an output path")
        return Path(output)
    path = Path(output) if output is not None else Path(Path(model).with_suffix(".mcp26bin").name)
    if path.resolve() == Path(model).resolve():
        raise UsageError("E001", f"{path} is the model itself")
    return path


def _default_case(graph: Graph, reference_model: bytes, ctx: PassContext) -> list[Golden]:
    """One case on sampled inputs; none, which is recorded, where those do not fit the model (an index or a size that
    no shape shows), or nobody else runs it."""
    try:
        return golden_cases(graph, reference_model, 1)
    except ModelError as error:
        ctx.pass_name = "self-test"
        ctx.decide("self-test", "omit", error.message)
        return []


def golden_cases(
    graph: Graph, reference_model: bytes, golden: int | Sequence[Mapping[str, np.ndarray[Any, Any]]]
) -> list[Golden]:
    """Cases of the inputs in ``golden``, or that many on sampled inputs; ModelError E100 where those cannot be run."""
    if golden != 0 and (drawing := random_node(graph)) is not None:
        message = "the model draws random numbers: nobody can say what it computes"
        hint = "--no-golden leaves the self-test out"
        raise ModelError("E100", message, op=drawing.op, node=drawing.name, hint=hint)
    if not isinstance(golden, int):
        return [golden_case(graph, reference_model, feeds) for feeds in golden]
    samples = [sample_inputs(graph.inputs, seed, bounds=graph.bounds) for seed in range(golden)]
    try:
        return [golden_case(graph, reference_model, each) for each in samples]
    except UsageError as error:
        message = f"the model does not run on inputs sampled for its self-test: {error.message}"
        raise ModelError("E100", message, hint="--no-golden leaves the self-test out") from error


def golden_case(graph: Graph, reference_model: bytes, feeds: Mapping[str, np.ndarray[Any, Any]]) -> Golden:
    """``feeds`` and what ONNX Runtime (optimisations off) makes of them. UsageError E002 where they are not the model's
    inputs."""
    run = judge(reference_model, [value.name for value in graph.outputs])
    outputs = run(feeds)
    atol = max([1e-6, *tolerances(run, feeds, outputs, coarser(coarsest_rounding(reference_model), graph.metadata))])
    return Golden([feeds[value.name] for value in graph.inputs], outputs, rtol=RTOL, atol=atol)


def metadata(graph: Graph, target: Target, build: Build, ctx: PassContext) -> MetaT:
    """What META says of the artifact, but for the sections that the writer knows."""
    symbols = build.symbols
    provenance = {
        **{f"version.{name}": version(name) for name in PACKAGES},
        "target": target.name,
        "target.coefficients": digest(target),
        **({"target.measured": target.measured.date} if target.measured is not None else {}),
        **graph.metadata,
    }
    return MetaT(
        modelName=graph.name,
        target=target.name,
        abiVersion=abi.version(),
        inputs=[_tensor(value, symbols, graph.bounds) for value in graph.inputs],
        outputs=[_tensor(value, symbols, graph.bounds) for value in graph.outputs],
        symbols=[_symbol(graph, name) for name in symbols],
        steps=build.steps,
        buffers=build.buffers,
        arenaBytes=build.arena_bytes,
        liveSetBytes=build.live_set_bytes,
        stateBytes=build.state_bytes,
        scratchBytes=build.scratch_bytes,
        unbounded=build.unbounded or any(_most_bytes(value.type, graph.bounds) is None for value in graph.outputs),
        offsetCount=build.offset_count,
        passes=[PassRecordT(r.name, r.spec, r.nodes_before, r.nodes_after) for r in ctx.records],
        decisions=[
            DecisionT(d.pass_name, d.subject, d.action, d.reason, [NumberT(k, v) for k, v in d.numbers.items()])
            for d in ctx.decisions
        ],
        provenance=[KeyValueT(key, value) for key, value in sorted(provenance.items())],
    )


def _defaults(graph: Graph, shards: list[list[np.ndarray[Any, Any]]]) -> list[DefaultValueT]:
    """Puts the values that inputs have where the caller leaves them out into a shard of their own."""
    chunks: list[np.ndarray[Any, Any]] = []
    result: list[DefaultValueT] = []
    end = 0
    for index, value in enumerate(graph.inputs):
        if value.default is None:
            continue
        padding = -end % DEFAULT_ALIGNMENT
        chunks += [np.zeros(padding, np.uint8), value.default]
        shape, nbytes = list(value.default.shape), value.default.nbytes
        result.append(DefaultValueT(index, shape, len(shards), end + padding, nbytes))
        end += padding + nbytes
    if chunks:
        shards.append(chunks)
    return result


def _tensor(value: Value, symbols: Sequence[str], bounds: Mapping[str, SizeBound]) -> TensorT:
    type: TensorType = value.type
    dims = []
    for size in type.dims:
        name = str(getattr(size, "name", ""))
        symbol = symbols.index(name) if name in symbols else -1
        dims.append(DimRefT(size if isinstance(size, int) else -1, symbol))
    return TensorT(
        name=value.name,
        dtype=BY_NAME[type.dtype.name].code,
        dims=dims,
        dimTexts=[] if is_static(type.dims) else [_dim_text(size) for size in type.dims],
        maxBytes=_most_bytes(type, bounds) or 0,
    )


def _most_bytes(type: TensorType, bounds: Mapping[str, SizeBound]) -> int | None:
    """The bytes of the largest tensor within the bounds; None where these leave more than a session can set aside."""
    most = largest(type.nbytes, bounds)
    return None if most is None or most > MOST_BYTES else most


def _dim_text(size: Dim) -> str:
    """A size for people and for ``Session.get_inputs``: a symbol by its plain name, an expression as text."""
    return format_dim(size) if isinstance(size, int) or not size.is_Symbol else str(size)


def _symbol(graph: Graph, name: str) -> SymbolT:
    low, limit = graph.bounds.get(name, (0, None))
    high = None if limit is None else largest(limit, graph.bounds)
    return SymbolT(name, low, -1 if high is None else high)
