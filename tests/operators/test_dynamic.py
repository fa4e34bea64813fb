"""Every case again with symbolic sizes: each input's sizes above 1 are symbols, one for each number, and the artifact
must give what it gives with fixed sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from unittest import mock

import onnx
import pytest

import mcpc
from mcpc.ops.reduce import REDUCTIONS
from mcpc.targets.native import module

from .case import Case, Family
from .conftest import Once
from .families import FAMILIES
from .graphs import Array, Model

#: Cases that mean something only with sizes that are known when they are compiled.
FIXED = re.compile(
    "|".join(
        (
            "Squeeze all",  # without axes
            ".*in blocks along",  # scales are fewer than the input's sizes
            ".*computed weights",  # the window is the weight's size
            "operator, short mask",  # two sizes that are usually one
            "Attention, .*ends and starts",  # twice as many numbers as sequences
            "GroupQueryAttention, packed",  # where the keys begin
            "RotaryEmbedding, (offset, )?rank 3",  # how many heads there are
            "a part read after its tensor could|an operand read beside its",  # a symbol is broadcast over another
        )
    )
)

#: Sizes that decide a rank, or whether numbers are complex, by operator: which input's, which axis. They stay fixed.
DECISIVE = {
    "AffineGrid": [(1, 0)],
    "Col2Im": [(1, 0), (2, 0)],
    "DFT": [(0, -1)],
    "GatherND": [(1, -1)],
    "ScatterND": [(1, -1)],
    "Squeeze": [(1, 0)],
    "STFT": [(0, -1)],
    "Unsqueeze": [(1, 0)],
    **{op: [(1, 0)] for op in REDUCTIONS},
}


def dynamic(family: Family) -> list[Case]:
    return [case for case in family if not FIXED.match(case.name)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("dynamic")


def run(family: Family, folder: Path) -> Mapping[str, Array]:
    cases = dynamic(family)
    model = Model.of(
        (case.graph for case in cases), {name: array for case in cases for name, array in case.expected.items()}
    )
    path = folder / f"{re.sub(r'[^a-z0-9]+', '-', family.name)}.mcp26bin"
    with mock.patch.object(module, "KERNELS_PER_UNIT", 16):
        mcpc.compile(with_symbols(model.serialize()), "host", path, golden=0)
    with mcpc.load(path, threads=2) as session:
        return dict(zip(model.outputs, session.run(None, model.feeds), strict=True))


def with_symbols(model: bytes) -> bytes:
    proto = onnx.ModelProto.FromString(model)
    fixed = {
        (node.input[index], axis)
        for node in proto.graph.node
        for index, axis in DECISIVE.get(node.op_type, ())
        if index < len(node.input)
    }
    for value in proto.graph.input:
        sizes = value.type.tensor_type.shape.dim
        for axis, size in enumerate(sizes):
            is_fixed = (value.name, axis) in fixed or (value.name, axis - len(sizes)) in fixed
            if size.dim_value > 1 and not is_fixed:
                size.dim_param = f"n{size.dim_value}"
    for value in proto.graph.output:
        value.type.tensor_type.ClearField("shape")
    return proto.SerializeToString()


@pytest.mark.parametrize("case", [case for family in FAMILIES.values() for case in dynamic(family)], ids=str)
def test_symbolic_sizes(case: Case, once: Once, folder: Path) -> None:
    results = once(("dynamic", case.family), lambda: run(FAMILIES[case.family], folder))
    compared = [case.compare(name, results[name]) for name in case.expected]
    faults = [comparison.describe() for comparison in compared if not comparison.matches]
    assert not faults, "; ".join(faults)
