"""Element types: every elementwise operator in every type that ONNX gives it is computed right, or declined by name.

This is where it is seen what native code does not compute yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import mcpc
from mcpc import ops
from mcpc.dtypes import BY_NAME
from mcpc.errors import ErrorGroup, McpcError, ModelError
from mcpc.ir import OPSET, DType
from mcpc.ops.context import ALL_FLOATS, INTEGERS

from .case import ONNX, ORT, Case
from .graphs import Array, Graph, Model, Weight

#: Every type that elementwise operators take, and what native code declines of it (E102); others are cast and moved.
DECLINED: dict[DType, set[str]] = {t: set() for t in DType if t in ALL_FLOATS | INTEGERS | {DType.bool}}
#: Of these the last digits are few.
TOLERANCES = {DType.float16: 2e-3, DType.bfloat16: 2e-2}

#: Operators whose operands differ in type: they have tests of their own.
NOT_ALIKE = ("Cast", "CastLike", "QuantizeLinear", "DequantizeLinear")

#: Without which they are not valid.
ATTRIBUTES = {"BitShift": {"direction": "LEFT"}, "Mod": {"fmod": 1}}


def numbers(dtype: DType) -> Array:
    values = np.array([1, 2, 3, 4, 5, 6, 0, 1, 3])
    if dtype is DType.float8e8m0:
        values = 2**values
    return values % 2 == 1 if dtype is DType.bool else values.astype(dtype.numpy)


def elementwise(dtype: DType) -> Iterator[Case]:
    """A case of every elementwise operator that ONNX declares for ``dtype``, but for conversions."""
    for definition in ops.definitions():
        if not isinstance(definition, ops.Elementwise) or definition.name in NOT_ALIKE:
            continue
        schema = onnx.defs.get_schema(definition.name, OPSET)
        data = 1 if definition.name == "Where" else 0
        if f"tensor({BY_NAME[dtype.name].ort_name})" in schema.inputs[data].types:
            yield single(f"{definition.name} of {dtype.name}", definition.name, dtype, max(schema.min_input, 1))


def single(name: str, op: str, dtype: DType, count: int) -> Case:
    def build(g: Graph) -> None:
        operands = [numbers(DType.bool)] if op == "Where" else []
        operands += [numbers(dtype)] * (count - len(operands))
        g.output(g(op, *operands, **ATTRIBUTES.get(op, {})))

    return Case("types", name, build, judges=(ONNX,), tolerance=TOLERANCES.get(dtype, 1e-5))


def conversions() -> Iterator[Case]:
    """Cast between all types that numpy has, which ONNX Runtime takes and gives, and between each of the others and a
    few (families/conversions.py has more)."""

    def through_bfloat16(g: Graph) -> None:
        values = np.array([1.0, -1.00390625, 1.01171875, 3.4e38, 1e-40, np.inf, np.nan, 65537, 0.1], np.float32)
        g.output(g("Cast", g("Cast", values, to=TensorProto.BFLOAT16), to=TensorProto.FLOAT))

    yield Case("types", "Cast through bfloat16", through_bfloat16, judges=(ONNX,))
    native = [dtype for dtype in DType if BY_NAME[dtype.name].is_native]
    few = [DType.float32, DType.float16, DType.int32, DType.bool]
    for source in DType:
        for target in native if source in native else few:

            def build(g: Graph, source: DType = source, target: DType = target) -> None:
                g.output(g("Cast", numbers(source), to=BY_NAME[target.name].code))

            judge = ORT if source in native else ONNX
            yield Case("types", f"Cast of {source.name} to {target.name}", build, judges=(judge,))


def int64(*items: int) -> Weight:
    return Weight(np.array(items, np.int64))


#: What moves elements, given a tensor of three by three.
MOVES: dict[str, Callable[[Graph, str], Any]] = {
    "Transpose": lambda g, x: g("Transpose", x),
    "Reshape": lambda g, x: g("Reshape", x, int64(9)),
    "Concat": lambda g, x: g("Concat", x, x, axis=1),
    "Slice": lambda g, x: g("Slice", x, int64(2), int64(-4), int64(1), int64(-1)),
    "Split": lambda g, x: g("Split", x, int64(1, 2), outputs=2, axis=1)[1],
    "Gather": lambda g, x: g("Gather", x, np.array([2, -3, 1])),
    "GatherElements": lambda g, x: g("GatherElements", x, np.array([[2, -3, 1]])),
    "GatherND": lambda g, x: g("GatherND", x, np.array([[2, -3], [0, 1]])),
    "ScatterElements": lambda g, x: g("ScatterElements", x, np.array([[2, 0, 1]]), g("Slice", x, int64(1), int64(2))),
    "Expand": lambda g, x: g("Expand", x, int64(2, 3, 3)),
    "Tile": lambda g, x: g("Tile", x, int64(2, 1)),
    "Pad": lambda g, x: g("Pad", x, int64(1, 0, 0, 2), mode="edge"),
    "Where": lambda g, x: g("Where", np.array([True, False, True]), x, g("Transpose", x)),
    "Compress": lambda g, x: g("Compress", x, np.array([True, False, True]), axis=0),
}


def moves() -> Iterator[Case]:
    """What moves elements does so in every type, whether ONNX lists it or not: bits are bits."""
    for dtype in DType:
        for name, move in MOVES.items():
            for kind in ("input", "constant"):

                def build(g: Graph, dtype: DType = dtype, move: Any = move, kind: str = kind) -> None:
                    x = numbers(dtype).reshape(3, 3)
                    g.output(move(g, g.input(x) if kind == "input" else g.constant(x)))

                yield Case("types", f"{name} of {dtype.name}, {kind}", build, judges=(ONNX,))


def declined(cases: list[Case], folder: Path) -> dict[str, McpcError]:
    """What is declined of ``cases``, compiled as one model, by node; empty where it compiles."""
    graphs = [case.graph for case in cases]
    expected = {name: array for case in cases for name, array in case.expected.items()}
    model = Model.of(graphs, expected)
    try:
        mcpc.compile(model.serialize(), "host", folder / "types.mcp26bin", passes="", golden=0)
    except ModelError as error:
        return {error.node: error}
    except ErrorGroup as group:
        return {error.node: error for error in group.errors}
    return {}


def results(cases: list[Case], folder: Path) -> dict[str, Array]:
    assert not declined(cases, folder)
    feeds = {name: array for case in cases for name, array in case.graph.feeds.items()}
    with mcpc.load(folder / "types.mcp26bin") as session:
        names = [each.name for each in session.get_outputs()]
        return dict(zip(names, session.run(None, feeds), strict=True))


def check(cases: list[Case], folder: Path) -> None:
    got = results(cases, folder)
    compared = [case.compare(name, got[name]) for case in cases for name in case.expected]
    assert not [comparison.describe() for comparison in compared if not comparison.matches]


@pytest.mark.parametrize("dtype", DECLINED, ids=lambda dtype: dtype.name)
def test_elementwise_operators(dtype: DType, tmp_path: Path) -> None:
    cases = {case.graph.nodes[0].name: case for case in elementwise(dtype)}
    errors = declined(list(cases.values()), tmp_path)
    assert {cases[node].graph.nodes[0].op_type for node in errors} == DECLINED[dtype]
    assert {error.code for error in errors.values()} <= {"E102"}
    check([case for node, case in cases.items() if node not in errors], tmp_path)


def test_conversions(tmp_path: Path) -> None:
    check(list(conversions()), tmp_path)


def test_conversions_between_integers_of_few_bits(tmp_path: Path) -> None:
    """They discard the higher bits. NumPy and with it onnx.reference has none of them."""
    few = [dtype for dtype in DType if dtype.bits < 8 and not dtype.is_float]
    graph, expected = Graph("types/"), {}
    for source in few:
        values = np.arange(2**source.bits, dtype=np.uint8).view(source.numpy)
        x = graph.input(values)
        for target in few:
            graph.output(name := graph("Cast", x, to=BY_NAME[target.name].code))
            expected[name] = values.astype(np.int8).astype(target.numpy)
    model = Model.of([graph], expected)
    path = mcpc.compile(model.serialize(), "host", tmp_path / "few.mcp26bin", golden=0)
    with mcpc.load(path) as session:
        got = dict(zip(expected, session.run(list(expected), graph.feeds), strict=True))
    for name, want in expected.items():
        assert got[name].dtype == want.dtype and got[name].tobytes() == want.tobytes(), name


def test_moves(tmp_path: Path) -> None:
    check(list(moves()), tmp_path)
