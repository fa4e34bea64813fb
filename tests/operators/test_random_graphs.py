"""Random small graphs of the operators that native code has, on the reference and on this host."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from . import runners
from .case import ORT, Case, Family
from .graphs import Graph
from .graphs import Weight as W

Shape = tuple[int, ...]
Draw = Callable[[st.SearchStrategy[Any]], Any]
SMALL = st.integers(1, 3)
COMMON = {"derandomize": True, "database": None, "suppress_health_check": list(HealthCheck)}


@dataclass
class Pool:
    """The tensors so far, with their shapes; the graph grows by taking some of them."""

    graph: Graph
    draw: Draw
    shapes: dict[str, Shape]

    def pick(self, rank: int | None = None) -> tuple[str, Shape] | None:
        """Any tensor (of this rank); the latest is as likely as all others."""
        names = [name for name, shape in self.shapes.items() if rank is None or len(shape) == rank]
        if not names:
            return None
        name = names[-1] if self.draw(st.booleans()) else self.draw(st.sampled_from(names))
        return name, self.shapes[name]

    def add(self, shape: Shape, op: str, *operands: Any, **attrs: Any) -> None:
        self.shapes[self.graph(op, *operands, **attrs)] = shape

    def number(self, low: int, high: int) -> int:
        return int(self.draw(st.integers(low, high)))

    def ints(self, *numbers: int) -> W:
        return W(np.array(numbers, np.int64))


def convolve(pool: Pool, x: str, shape: Shape) -> None:
    n, c, h, w = shape
    kernel = [pool.number(1, min(3, size)) for size in (h, w)]
    strides = [pool.number(1, 2) for _ in range(2)]
    pads = [pool.number(0, 1) for _ in range(4)]
    groups = pool.draw(st.sampled_from(sorted({1, c, 2 if c % 2 == 0 else 1})))
    out = groups * pool.number(1, 9 if groups == 1 else 2)
    size = [(length + pads[i] + pads[i + 2] - kernel[i]) // strides[i] + 1 for i, length in enumerate((h, w))]
    bias = [W((out,))] if pool.draw(st.booleans()) else []
    weights = W(pool.graph.draw(out, c // groups, *kernel) / np.float32(np.sqrt(c)))
    pool.add((n, out, *size), "Conv", x, weights, *bias, strides=strides, pads=pads, group=groups)


def downsample(pool: Pool, x: str, shape: Shape) -> None:
    n, c, h, w = shape
    if pool.draw(st.booleans()):
        pool.add((n, c, 1, 1), pool.draw(st.sampled_from(["GlobalAveragePool", "GlobalMaxPool"])), x)
        return
    kernel = [min(2, h), min(2, w)]
    kind = pool.draw(st.sampled_from(["MaxPool", "AveragePool"]))
    pool.add((n, c, h - kernel[0] + 1, w - kernel[1] + 1), kind, x, kernel_shape=kernel)


def activate(pool: Pool, x: str, shape: Shape) -> None:
    pool.add(shape, pool.draw(st.sampled_from(["Relu", "Tanh", "Sigmoid", "HardSwish", "Abs", "Neg"])), x)


def combine(pool: Pool, x: str, shape: Shape) -> None:
    """With a tensor of the same shape, or one that broadcasts, which is a constant, an input, or nothing but itself."""
    same = [name for name, other in pool.shapes.items() if other == shape]
    narrow = tuple(size if pool.draw(st.booleans()) else 1 for size in shape)
    other = pool.draw(st.sampled_from([*same, W(narrow), narrow]))
    operands = (x, other) if pool.draw(st.booleans()) else (other, x)
    pool.add(shape, pool.draw(st.sampled_from(["Add", "Sub", "Mul", "Max"])), *operands)


def concatenate(pool: Pool, x: str, shape: Shape) -> None:
    axis = pool.number(0, len(shape) - 1)
    parts = [name for name, other in pool.shapes.items() if _differ_only(shape, other, axis)]
    chosen = [x, *pool.draw(st.lists(st.sampled_from(parts), min_size=1, max_size=2))]
    if pool.draw(st.booleans()):
        chosen.reverse()
    total = sum(pool.shapes[name][axis] for name in chosen)
    pool.add((*shape[:axis], total, *shape[axis + 1 :]), "Concat", *chosen, axis=axis)


def _differ_only(a: Shape, b: Shape, axis: int) -> bool:
    return len(a) == len(b) and a[:axis] == b[:axis] and a[axis + 1 :] == b[axis + 1 :]


def cut(pool: Pool, x: str, shape: Shape) -> None:
    axis = pool.number(0, len(shape) - 1)
    start = pool.number(0, shape[axis] - 1)
    end, step = (shape[axis], pool.number(1, 2)) if pool.draw(st.booleans()) else (-shape[axis] - 1, -1)
    length = len(range(shape[axis])[slice(start, None if step < 0 else end, step)])
    bounds = [pool.ints(number) for number in (start, end, axis, step)]
    pool.add((*shape[:axis], length, *shape[axis + 1 :]), "Slice", x, *bounds)


def pad(pool: Pool, x: str, shape: Shape) -> None:
    amounts = [pool.number(0, 1) for _ in range(2 * len(shape))]
    mode = pool.draw(st.sampled_from(["constant", "edge"]))
    sizes = (size + amounts[axis] + amounts[axis + len(shape)] for axis, size in enumerate(shape))
    pool.add(tuple(sizes), "Pad", x, pool.ints(*amounts), mode=mode)


def transpose(pool: Pool, x: str, shape: Shape) -> None:
    perm = pool.draw(st.permutations(range(len(shape))))
    pool.add(tuple(shape[axis] for axis in perm), "Transpose", x, perm=perm)


def reshape(pool: Pool, x: str, shape: Shape) -> None:
    """Two neighbouring axes become one, or one becomes two."""
    axis = pool.number(0, len(shape) - 1)
    if axis + 1 < len(shape) and pool.draw(st.booleans()):
        sizes = (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])
    else:
        divisor = next(d for d in (3, 2, 1) if shape[axis] % d == 0)
        sizes = (*shape[:axis], divisor, shape[axis] // divisor, *shape[axis + 1 :])
    pool.add(sizes, "Reshape", x, pool.ints(*sizes))


def reduce(pool: Pool, x: str, shape: Shape) -> None:
    axes = sorted(pool.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1)))
    keep = pool.number(0, 1)
    sizes = tuple(1 if axis in axes else size for axis, size in enumerate(shape) if keep or axis not in axes)
    kind = pool.draw(st.sampled_from(["ReduceMean", "ReduceMax", "ReduceSum"]))
    pool.add(sizes, kind, x, pool.ints(*axes), keepdims=keep)


def normalize(pool: Pool, x: str, shape: Shape) -> None:
    pool.add(shape, "Softmax", x, axis=pool.number(0, len(shape) - 1))


def multiply(pool: Pool, x: str, shape: Shape) -> None:
    columns = pool.number(1, 9)
    weights: Any = pool.graph.draw(shape[-1], columns) / np.float32(np.sqrt(shape[-1]))
    pool.add((*shape[:-1], columns), "MatMul", x, W(weights) if pool.draw(st.booleans()) else weights)


def gather(pool: Pool, x: str, shape: Shape) -> None:
    axis = pool.number(0, len(shape) - 1)
    indices = pool.draw(st.lists(st.integers(-shape[axis], shape[axis] - 1), min_size=1, max_size=3))
    pool.add((*shape[:axis], len(indices), *shape[axis + 1 :]), "Gather", x, pool.ints(*indices), axis=axis)


IMAGE_STEPS = (convolve, convolve, downsample)
STEPS = (activate, activate, combine, combine, concatenate, cut, pad, transpose, reshape, reduce, normalize, gather)


@st.composite
def graphs(draw: Draw) -> Case:
    graph = Graph("random/")
    shape: Shape = (
        draw(st.integers(1, 2)),
        draw(st.sampled_from([1, 2, 3, 4, 8, 9])),
        draw(SMALL) + 2,
        draw(SMALL) + 2,
    )
    pool = Pool(graph, draw, {})
    pool.shapes[graph.input(shape)] = shape
    for _ in range(draw(st.integers(3, 12))):
        picked = pool.pick(4) if draw(st.booleans()) else pool.pick()
        if picked is None or np.prod(picked[1]) > 4000:
            continue
        name, shape = picked
        steps = [*STEPS, *(IMAGE_STEPS if len(shape) == 4 else ()), *((multiply,) if len(shape) >= 2 else ())]
        if len(shape) == 0:
            steps = [activate]
        elif len(shape) > 5:
            steps = [activate, combine, reduce]
        draw(st.sampled_from(steps))(pool, name, shape)
    made = [name for name in pool.shapes if name not in graph.feeds]
    if not made:
        made = [graph("Relu", next(iter(graph.feeds)))]
    graph.output(*sorted({made[-1], *draw(st.lists(st.sampled_from(made), max_size=2))}))
    case = Case("random", "graph", lambda g: None, judges=(ORT,), tolerance=1e-4)
    case.__dict__["graph"] = graph
    return case


def check(case: Case, results: Any) -> None:
    compared = [case.compare(name, results[name]) for name in case.expected]
    assert not [comparison.describe() for comparison in compared if not comparison.matches]


@given(graphs())
@settings(max_examples=60, **COMMON)
def test_reference(case: Case) -> None:
    check(case, runners.written_back(Family("random", [case])))


@given(graphs())
@settings(max_examples=12, **COMMON)
def test_host(case: Case) -> None:
    with tempfile.TemporaryDirectory() as folder:
        check(case, runners.on_host(Family("random", [case]), Path(folder), None, 0.0))
