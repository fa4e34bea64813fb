"""Element types: every elementwise operator in every type that ONNX gives it is computed right, or declined by name.

This is where it is seen what native code does not compute yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import mcpc
from mcpc import ops
from mcpc.dtypes import BY_NAME
from mcpc.errors import ErrorGroup, McpcError, ModelError
from mcpc.ir import OPSET, DType

from .case import ONNX, ORT, Case
from .graphs import Array, Graph, Model

#: Every type that native code computes in, and what it declines of it (E102).
DECLINED: dict[DType, set[str]] = {
    dtype: set() for dtype in DType if dtype.name not in ("int4", "uint4", "float8e4m3fn", "float8e5m2")
}
#: Of these the last digits are few.
TOLERANCES = {DType.float16: 2e-3, DType.bfloat16: 2e-2}

#: Operators whose operands differ in type: they have tests of their own.
NOT_ALIKE = ("Cast", "CastLike", "QuantizeLinear", "DequantizeLinear")

#: Without which they are not valid.
ATTRIBUTES = {"BitShift": {"direction": "LEFT"}, "Mod": {"fmod": 1}}


def numbers(dtype: DType) -> Array:
    values = np.array([1, 2, 3, 4, 5, 6, 0, 1, 3])
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
    """Cast between all types that have code; bfloat16, which ONNX Runtime's Python does not take, stays inside."""

    def through_bfloat16(g: Graph) -> None:
        values = np.array([1.0, -1.00390625, 1.01171875, 3.4e38, 1e-40, np.inf, np.nan, 65537, 0.1], np.float32)
        g.output(g("Cast", g("Cast", values, to=TensorProto.BFLOAT16), to=TensorProto.FLOAT))

    yield Case("types", "Cast through bfloat16", through_bfloat16, judges=(ONNX,))
    types = [dtype for dtype in DECLINED if dtype is not DType.bfloat16]
    for source in types:
        for target in types:

            def build(g: Graph, source: DType = source, target: DType = target) -> None:
                g.output(g("Cast", numbers(source), to=BY_NAME[target.name].code))

            yield Case("types", f"Cast of {source.name} to {target.name}", build, judges=(ORT,))


def moves() -> Iterator[Case]:
    """A copy in every type, code or not: bits are bits."""
    for dtype in DECLINED:

        def build(g: Graph, dtype: DType = dtype) -> None:
            g.output(g("Transpose", numbers(dtype).reshape(3, 3)))

        yield Case("types", f"Transpose of {dtype.name}", build, judges=(ONNX,))


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


def test_moves(tmp_path: Path) -> None:
    check(list(moves()), tmp_path)
