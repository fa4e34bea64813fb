"""Calibration itself: the float network runs on one sample after another, and each tensor is observed."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from onnx import ModelProto, helper

from mcpc.calibrator import Compiler, Progress
from mcpc.errors import CalibrationError, McpcError, UsageError
from mcpc.ir import Graph, Value
from mcpc.onnx_writer import to_model
from mcpc.pipeline import suggest
from mcpc.ranges import Range, RangeTable

from .observers import FAR, OBSERVERS, ChannelObserver
from .runner import Runner
from .samples import Data, Feeds, open_samples


def collect(
    graph: Graph,
    tensors: Sequence[Value],
    data: Data,
    method: str,
    *,
    compiled: Compiler | None = None,
    progress: Progress | None = None,
    seen: Callable[[Feeds], None] | None = None,
    axes: Mapping[Value, int] | None = None,
) -> RangeTable:
    """The ranges of float ``tensors`` of ``graph`` while it runs on the samples in ``data``, by the observers called
    ``method``. Memory is that of one sample and of the observers, however many samples there are. ONNX Runtime runs the
    network, or what ``compiled`` makes of it where that is worth its time. ``progress`` is told the sample's index and
    their number (0: not known), ``seen`` is given every sample. Tensors in ``axes`` are observed along that axis too.

    Raises UsageError E001 where there is no such method, CalibrationError E400 for samples that do not fit or that the
    network refuses. A tensor without a finite number gets no range; one whose range is far beyond what is usual is told
    with that.
    """
    if method not in OBSERVERS:
        raise UsageError("E001", f"there is no calibration method {method!r}", hint=suggest(method, OBSERVERS))
    samples = open_samples(data, [value for value in graph.inputs if value.default is None])
    observers = {value.name: OBSERVERS[method]() for value in tensors}
    along = {value.name: ChannelObserver(axis) for value, axis in (axes or {}).items()}
    wanted = list(dict.fromkeys([*tensors, *(axes or {})]))
    inner = [value for value in wanted if value.producer is not None]
    inputs = [value.name for value in wanted if value.producer is None]
    count = 0
    model, names = _with_outputs(graph, inner).SerializeToString(), [value.name for value in inner]
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(model, names, samples.count, compiled, Path(folder))
        for feeds in samples.each():
            if seen is not None:
                seen(feeds)
            if progress is not None:
                progress(f"calibrate with {runner.name}", count, samples.count or 0)
            try:
                results = runner.run(feeds) if inner else []  # asked for nothing, a session gives all outputs
            except McpcError:
                raise
            except Exception as error:  # ONNX Runtime's exceptions share no base class
                raise CalibrationError("E400", f"sample {count} of {samples.origin} does not run: {error}") from error
            arrays = dict(zip(names, results, strict=True)) | {name: feeds[name] for name in inputs}
            for name, array in arrays.items():
                for observer in (observers.get(name), along.get(name)):
                    if observer is not None:
                        observer.observe(array)
            count += 1
    ranges = {name: Range(*found) for name, observer in observers.items() if (found := observer.range()) is not None}
    usual = {name: observers[name].usual() for name in ranges}
    return RangeTable(
        ranges,
        method=method,
        samples=count,
        data=samples.origin,
        runner=runner.name,
        ignored={name: observer.ignored for name, observer in observers.items() if observer.ignored},
        usual={name: most for name, most in usual.items() if most and ranges[name].magnitude > FAR * most},
        channels={name: seen_of for name, each in along.items() if (seen_of := each.channels()) is not None},
    )


def _with_outputs(graph: Graph, tensors: Sequence[Value]) -> ModelProto:
    model = to_model(graph)
    known = {output.name for output in model.graph.output}
    for value in tensors:
        if value.name not in known:
            type = helper.np_dtype_to_tensor_dtype(np.dtype(value.dtype.numpy))
            model.graph.output.append(helper.make_tensor_value_info(value.name, type, None))
    return model
