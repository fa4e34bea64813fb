"""What an artifact says of itself: META, but for the sections that its writer knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

from mcpc import abi
from mcpc._schema import DecisionT, DefaultValueT, DimRefT, KeyValueT, MetaT, NumberT, PassRecordT, SymbolT, TensorT
from mcpc.codegen import Build
from mcpc.coefficients import digest
from mcpc.dim_range import MOST_BYTES, largest
from mcpc.dim_text import format_dim
from mcpc.dtypes import BY_NAME
from mcpc.ir import Dim, Graph, SizeBound, TensorType, Value, is_static
from mcpc.pipeline import PassContext
from mcpc.target import Target

#: The packages whose versions an artifact states, since they may change its bytes.
PACKAGES = ("mcpc", "onnx", "onnxruntime", "numpy", "ziglang")

#: The key of an artifact's provenance that says that zero points are as :class:`mcpc.target.Npu` calls symmetric.
SYMMETRIC = "target.npu.symmetric"

#: Default values of inputs start at multiples of this many bytes.
DEFAULT_ALIGNMENT = 64


def metadata(graph: Graph, target: Target, build: Build, ctx: PassContext) -> MetaT:
    """What META says of the artifact, but for the sections that the writer knows."""
    symbols = build.symbols
    provenance = {
        **{f"version.{name}": version(name) for name in PACKAGES},
        "target": target.name,
        "target.coefficients": digest(target),
        **({SYMMETRIC: "true"} if target.npu.symmetric else {}),
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


def add_defaults(graph: Graph, shards: list[list[np.ndarray[Any, Any]]]) -> list[DefaultValueT]:
    """Put the values that inputs have where the caller leaves them out into a shard of their own."""
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
