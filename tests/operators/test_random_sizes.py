"""Random small graphs whose sizes are symbolic, or decided by data, on this host: one artifact for three sizes each."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import mcpc
from mcpc.ir import OPSET
from mcpc.reference import run_model
from mcpc.verification import compare

from .graphs import IR_VERSION, Array, Graph
from .graphs import Weight as W

Draw = Callable[[st.SearchStrategy[Any]], Any]

#: A size: a number, or the numbers that it has in the three runs. None in these: the data decide.
Size = int | tuple[int | None, ...]
Shape = tuple[Size, ...]

RUNS = 3
#: Values of the symbols of an input [N, 4 | 9, H, W], and of one [N, T, 6].
SYMBOLS: dict[str, tuple[int, ...]] = {"N": (2, 1, 3), "H": (5, 9, 16), "W": (7, 4, 8), "T": (3, 11, 1)}
COMMON = {"derandomize": True, "database": None, "suppress_health_check": list(HealthCheck)}


def least(size: Size) -> int:
    return size if isinstance(size, int) else min(number or 0 for number in size)


def changed(size: Size, change: Callable[[int], int]) -> Size:
    if isinstance(size, int):
        return change(size)
    return tuple(None if number is None else change(number) for number in size)


@dataclass
class Pool:
    """The tensors so far, with their shapes; the graph grows by taking some of them."""

    graph: Graph
    draw: Draw
    shapes: dict[str, Shape] = field(default_factory=dict)

    def number(self, low: int, high: int) -> int:
        return int(self.draw(st.integers(low, high)))

    def one_of(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def add(self, shape: Shape, op: str, *operands: Any, **attrs: Any) -> str:
        name: str = self.graph(op, *operands, **attrs)
        self.shapes[name] = shape
        return name

    def ints(self, *numbers: int) -> W:
        return W(np.array(numbers, np.int64))

    def axis(self, shape: Shape) -> int:
        return self.number(0, len(shape) - 1)


def convolve(pool: Pool, x: str, shape: Shape) -> None:
    n, c, h, w = shape
    if not isinstance(c, int) or min(least(h), least(w)) < 3:
        return activate(pool, x, shape)
    kernel, stride = pool.number(1, 3), pool.number(1, 2)
    pad = pool.number(0, kernel // 2)
    groups = pool.one_of(1, c)
    out = groups * pool.number(1, 9 if groups == 1 else 2)
    size = [changed(length, lambda length: (length + 2 * pad - kernel) // stride + 1) for length in (h, w)]
    weights = W(pool.graph.draw(out, c // groups, kernel, kernel) / np.float32(np.sqrt(c)))
    pool.add((n, out, *size), "Conv", x, weights, W((out,)), strides=[stride] * 2, pads=[pad] * 4, group=groups)


def resample(pool: Pool, x: str, shape: Shape) -> None:
    n, c, h, w = shape
    if min(least(n), least(c), least(h), least(w)) < 2:
        return activate(pool, x, shape)
    kind = pool.one_of("mean", "MaxPool", "AveragePool", "Resize")
    if kind == "mean":
        pool.add((n, c, 1, 1), "GlobalAveragePool", x)
    elif kind == "Resize":
        scales = W(np.array([1, 1, 2, 2], np.float32))
        mode = pool.one_of("nearest", "linear")
        pool.add((n, c, changed(h, lambda v: 2 * v), changed(w, lambda v: 2 * v)), kind, x, None, scales, mode=mode)
    else:
        stride = pool.number(1, 2)
        size = [changed(length, lambda length: (length - 2) // stride + 1) for length in (h, w)]
        pool.add((n, c, *size), kind, x, kernel_shape=[2, 2], strides=[stride] * 2)


def activate(pool: Pool, x: str, shape: Shape) -> None:
    pool.add(shape, pool.one_of("Relu", "Tanh", "Sigmoid", "HardSwish", "Abs", "Neg"), x)


def combine(pool: Pool, x: str, shape: Shape) -> None:
    """With a tensor of the same shape, a constant that broadcasts, or a reduction of itself."""
    same = [name for name, other in pool.shapes.items() if other == shape]
    fixed = [axis for axis, size in enumerate(shape) if isinstance(size, int) and pool.draw(st.booleans())]
    narrow = tuple(size if axis in fixed and isinstance(size, int) else 1 for axis, size in enumerate(shape))
    other = pool.one_of(*same, W(narrow), "mean")
    if other == "mean":
        other = pool.graph("ReduceSum", x, pool.ints(pool.axis(shape)), keepdims=1) if shape else x
    operands = (x, other) if pool.draw(st.booleans()) else (other, x)
    pool.add(shape, pool.one_of("Add", "Sub", "Mul", "Max"), *operands)


def concatenate(pool: Pool, x: str, shape: Shape) -> None:
    axis = pool.axis(shape)
    rest = shape[:axis] + shape[axis + 1 :]
    parts = [n for n, o in pool.shapes.items() if len(o) == len(shape) and o[:axis] + o[axis + 1 :] == rest]
    chosen = [x, *pool.draw(st.lists(st.sampled_from(parts), min_size=1, max_size=2))]
    total = [sum_of(pool.shapes[name][axis] for name in chosen)]
    pool.add((*shape[:axis], *total, *shape[axis + 1 :]), "Concat", *chosen, axis=axis)


def sum_of(sizes: Any) -> Size:
    listed: Sequence[Size] = list(sizes)
    if all(isinstance(size, int) for size in listed):
        return sum(size for size in listed if isinstance(size, int))
    runs = [[size if isinstance(size, int) else size[run] for size in listed] for run in range(RUNS)]
    return tuple(None if None in run else sum(number for number in run if number is not None) for run in runs)


def cut(pool: Pool, x: str, shape: Shape) -> None:
    axis = pool.axis(shape)
    if least(shape[axis]) < 1:
        return activate(pool, x, shape)
    start, end, step = pool.number(0, 1), pool.one_of(2**62, -1, 4), pool.one_of(1, 2)
    if pool.draw(st.booleans()):
        start, end, step = pool.one_of(-1, 2**62, 2), -(2**62), -1
    size = changed(shape[axis], lambda length: len(range(length)[slice(start, end, step)]))
    bounds = [pool.ints(number) for number in (start, end, axis, step)]
    pool.add((*shape[:axis], size, *shape[axis + 1 :]), "Slice", x, *bounds)


def pad(pool: Pool, x: str, shape: Shape) -> None:
    amounts = [pool.number(0, 2) for _ in range(2 * len(shape))]
    mode = pool.one_of("constant", "edge") if min(map(least, shape), default=0) > 0 else "constant"
    total = [amounts[axis] + amounts[axis + len(shape)] for axis in range(len(shape))]
    sizes = tuple(
        changed(size, lambda length, more=more: length + more) for size, more in zip(shape, total, strict=True)
    )
    pool.add(sizes, "Pad", x, pool.ints(*amounts), mode=mode)


def transpose(pool: Pool, x: str, shape: Shape) -> None:
    perm = pool.draw(st.permutations(range(len(shape))))
    pool.add(tuple(shape[axis] for axis in perm), "Transpose", x, perm=perm)


def reshape(pool: Pool, x: str, shape: Shape) -> None:
    """Two neighbouring axes become one, or one of fixed size becomes two; the other sizes are computed."""
    axis = pool.axis(shape)
    size = shape[axis]
    g = pool.graph
    head = [g("Shape", x, start=0, end=axis)]
    if axis + 1 < len(shape) and pool.draw(st.booleans()):
        if min(map(least, shape)) < 1:  # -1 would be any size
            return activate(pool, x, shape)
        wanted = g("Concat", *head, pool.ints(-1), g("Shape", x, start=axis + 2), axis=0)
        pair = [[s if isinstance(s, int) else s[run] for s in shape[axis : axis + 2]] for run in range(RUNS)]
        merged: Size = tuple(None if None in each else each[0] * each[1] for each in pair)  # type: ignore[operator]
        if all(isinstance(s, int) for s in shape[axis : axis + 2]):
            assert isinstance(merged, tuple) and merged[0] is not None
            merged = merged[0]
        pool.add((*shape[:axis], merged, *shape[axis + 2 :]), "Reshape", x, wanted)
    elif isinstance(size, int):
        divisor = next(d for d in (3, 2, 1) if size % d == 0)
        wanted = g("Concat", *head, pool.ints(divisor, size // divisor), g("Shape", x, start=axis + 1), axis=0)
        pool.add((*shape[:axis], divisor, size // divisor, *shape[axis + 1 :]), "Reshape", x, wanted, allowzero=1)
    else:
        pool.add((*shape[:axis], 1, *shape[axis:]), "Unsqueeze", x, pool.ints(axis))


def reduce(pool: Pool, x: str, shape: Shape) -> None:
    axes = sorted(pool.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1)))
    keep = pool.number(0, 1)
    sizes = tuple(1 if axis in axes else size for axis, size in enumerate(shape) if keep or axis not in axes)
    kinds = ["ReduceSum"] if min(map(least, shape)) < 1 else ["ReduceSum", "ReduceMax", "ReduceMean"]
    pool.add(sizes, pool.one_of(*kinds), x, pool.ints(*axes), keepdims=keep)


def normalize(pool: Pool, x: str, shape: Shape) -> None:
    pool.add(shape, "Softmax", x, axis=pool.axis(shape))


def multiply(pool: Pool, x: str, shape: Shape) -> None:
    """By weights, or by itself transposed."""
    last = shape[-1]
    if isinstance(last, int) and last > 0 and pool.draw(st.booleans()):
        columns = pool.number(1, 9)
        pool.add((*shape[:-1], columns), "MatMul", x, W(pool.graph.draw(last, columns) / np.float32(np.sqrt(last))))
        return
    perm = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
    pool.add((*shape[:-1], shape[-2]), "MatMul", x, pool.graph("Transpose", x, perm=perm))
    pool.add((*shape[:-1], shape[-2]), "Tanh", next(reversed(pool.shapes)))  # keeps magnitudes


def gather(pool: Pool, x: str, shape: Shape) -> None:
    axis = pool.axis(shape)
    size = least(shape[axis])
    if size < 1:
        return activate(pool, x, shape)
    indices = pool.draw(st.lists(st.integers(-size, size - 1), min_size=1, max_size=3))
    pool.add((*shape[:axis], len(indices), *shape[axis + 1 :]), "Gather", x, pool.ints(*indices), axis=axis)


def select(pool: Pool, x: str, shape: Shape) -> None:
    """What the data say: the lines along an axis whose sum is positive, or the indices of these."""
    axis = pool.axis(shape)
    others = [each for each in range(len(shape)) if each != axis]
    g = pool.graph
    total = g("ReduceSum", x, pool.ints(*others), keepdims=0) if others else x
    positive = g("Greater", total, W(np.zeros((), np.float32)))
    size = (None,) * RUNS
    marker = (*size, len(pool.shapes))  # a size like no other
    if pool.draw(st.booleans()):
        pool.add((*shape[:axis], marker, *shape[axis + 1 :]), "Compress", x, positive, axis=axis)
    else:
        indices = g("Squeeze", g("NonZero", positive), pool.ints(0))
        pool.add((*shape[:axis], marker, *shape[axis + 1 :]), "Gather", x, indices, axis=axis)


STEPS = (activate, combine, combine, concatenate, cut, pad, transpose, reshape, reduce, normalize, gather, select)


@st.composite
def graphs(draw: Draw) -> tuple[Graph, dict[str, list[str | int]]]:
    """A graph, and the shapes of its inputs."""
    pool = Pool(Graph("random/"), draw)
    inputs: dict[str, list[str | int]] = {}
    for declared in (["N", draw(st.sampled_from([4, 9])), "H", "W"], ["N", "T", 6]):
        name = pool.graph.input((0,))
        inputs[name] = declared
        pool.shapes[name] = tuple(SYMBOLS[size] if isinstance(size, str) else size for size in declared)
    for _ in range(draw(st.integers(3, 10))):
        names = list(pool.shapes)
        name = names[-1] if draw(st.booleans()) else draw(st.sampled_from(names))
        shape = pool.shapes[name]
        if not 0 < len(shape) <= 5:
            continue
        images = (convolve, convolve, resample) if len(shape) == 4 else ()
        draw(st.sampled_from([*STEPS, *images, *((multiply,) if len(shape) >= 2 else ())]))(pool, name, shape)
    made = [name for name in pool.shapes if name not in inputs] or [pool.graph("Relu", next(iter(inputs)))]
    pool.graph.output(*sorted({made[-1], *draw(st.lists(st.sampled_from(made), max_size=2))}))
    return pool.graph, inputs


def serialize(graph: Graph, inputs: dict[str, list[str | int]]) -> bytes:
    proto = helper.make_graph(
        graph.nodes,
        "random",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_empty_tensor_value_info(name) for name in graph.outputs],
        [numpy_helper.from_array(array, name) for name, array in graph.constants.items()],
    )
    model: onnx.ModelProto = helper.make_model(
        proto, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION
    )
    return model.SerializeToString()


def check(graph: Graph, inputs: dict[str, list[str | int]], dims: dict[str, tuple[int, int]]) -> None:
    model = serialize(graph, inputs)
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path = mcpc.compile(model, "host", Path(folder) / "random.mcp26bin", golden=0, dims=dims)
        with mcpc.load(path, threads=2) as session:
            for run in (*range(RUNS), 0):
                sizes = {name: numbers[run] for name, numbers in SYMBOLS.items()}
                feeds: dict[str, Array] = {
                    name: rng.standard_normal([sizes.get(size, size) for size in shape], np.float32)
                    for name, shape in inputs.items()
                }
                wants = run_model(model, feeds, graph.outputs)
                for name, got, want in zip(graph.outputs, session.run(None, feeds), wants, strict=True):
                    assert got.shape == want.shape, f"{name}, {sizes}: {got.shape}, not {want.shape}"
                    scale = float(np.abs(want[np.isfinite(want)]).max(initial=0.0))
                    comparison = compare(name, got, want, 1e-4, 1e-4 * scale)
                    assert comparison.matches, f"{sizes}: {comparison.describe()}"


@given(graphs(), st.booleans())
@settings(max_examples=12, **COMMON)
def test_host(case: tuple[Graph, dict[str, list[str | int]]], bounded: bool) -> None:
    check(*case, dict.fromkeys(SYMBOLS, (0, 20)) if bounded else {})
