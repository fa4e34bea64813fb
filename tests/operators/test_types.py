"""Element types: every elementwise operator in every type that ONNX gives it is computed right, or declined by name.

This is where it is seen what native code does not compute yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest

import mcpc
from mcpc import ops
from mcpc.dtypes import BY_NAME
from mcpc.errors import ErrorGroup, McpcError, ModelError
from mcpc.ir import OPSET, DType

from .case import ONNX, ORT, Case
from .graphs import Array, Graph, Model

#: Types that native code computes nothing in (E109).
NO_CODE = [DType.float16, DType.bfloat16, DType.int16, DType.uint16, DType.uint64]

#: Of the other types, what is declined (E102).
TRIGONOMETRY = {"Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cosh", "Sinh", "Tan"}
FLOAT64 = {"Cos", "Elu", "Erf", "Exp", "Gelu", "IsInf", "Log", "Mish", "Pow", "Round", "Selu", "Sigmoid", "Sign", "Sin"}
NARROW = {"Div", "Mod", "Shrink", "Sign"}
DECLINED: dict[DType, set[str]] = {
    DType.float32: TRIGONOMETRY | {"Mod"},
    DType.float64: TRIGONOMETRY | FLOAT64 | {"Mod", "Softplus", "Swish", "Tanh"},
    DType.int32: {"Pow", "Shrink"},
    DType.int64: {"Pow", "Shrink"},
    DType.int8: NARROW,
    DType.uint8: NARROW | {"BitShift"},
    DType.uint32: NARROW | {"BitShift"},
    DType.bool: set(),
}

#: Without which they are not valid.
ATTRIBUTES = {"BitShift": {"direction": "LEFT"}, "Mod": {"fmod": 1}}
STORED = [*DECLINED, *NO_CODE]


def numbers(dtype: DType) -> Array:
    values = np.array([1, 2, 3, 4, 5, 6, 0, 1, 3])
    return values % 2 == 1 if dtype is DType.bool else values.astype(dtype.numpy)


def elementwise(dtype: DType) -> Iterator[Case]:
    """A case of every elementwise operator that ONNX declares for ``dtype``, but for conversions."""
    for definition in ops.definitions():
        if not isinstance(definition, ops.Elementwise) or definition.name in ("Cast", "CastLike"):
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

    return Case("types", name, build, judges=(ONNX,), tolerance=1e-5)


def conversions() -> Iterator[Case]:
    """Cast between all types that have code."""
    for source in DECLINED:
        for target in DECLINED:

            def build(g: Graph, source: DType = source, target: DType = target) -> None:
                g.output(g("Cast", numbers(source), to=BY_NAME[target.name].code))

            yield Case("types", f"Cast of {source.name} to {target.name}", build, judges=(ORT,))


def moves() -> Iterator[Case]:
    """A copy in every type, code or not: bits are bits."""
    for dtype in STORED:

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


@pytest.mark.parametrize("dtype", NO_CODE, ids=lambda dtype: dtype.name)
def test_types_without_code_are_declined(dtype: DType, tmp_path: Path) -> None:
    cases = {case.graph.nodes[0].name: case for case in elementwise(dtype)}
    errors = declined(list(cases.values()), tmp_path)
    assert errors.keys() == cases.keys()
    assert {error.code for error in errors.values()} == {"E109"}


def test_conversions(tmp_path: Path) -> None:
    check(list(conversions()), tmp_path)


def test_moves(tmp_path: Path) -> None:
    check(list(moves()), tmp_path)
