"""Which operators there are: `mcpc targets ops`, docs/operators.md, and the errors for what is declined."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper

import mcpc
from mcpc import ops, plugins
from mcpc.cli import cli
from mcpc.errors import ModelError
from mcpc.operators import Operator, operators
from mcpc.ops.context import ALL, ALL_FLOATS, FLOATS, INTEGERS, NUMBERS
from mcpc.ops.declined import DECLINED

DOCUMENT = Path(__file__).parent.parent / "docs" / "operators.md"

#: Names for many types, the larger sets first.
TYPES = {
    "all types": {t.name for t in ALL},
    "numbers": {t.name for t in NUMBERS},
    "all floats": {t.name for t in ALL_FLOATS},
    "integers": {t.name for t in INTEGERS},
    "floats": {t.name for t in FLOATS},
}

HEAD = f"""\
# Operators

Those of onnx {onnx.__version__} and of ONNX Runtime (com.microsoft), as `mcpc targets ops` lists them. How one is run:

- *elementwise*: as an expression in a loop, which fusion may share with others;
- *kernel*: by code of its own; *view*: not at all where its result lies in its operand's memory;
- *order of steps*: as jumps between steps;
- *computed from sizes*: in the plan of a run, without looking at data;
- *lowered by …*: a pass of the target writes it as other operators;
- *simpler operators*, *newer operators*, *its definition by ONNX*: the reader puts others in its place. Of sequences of
  tensors it has to know where in them a tensor goes, and inputs and outputs cannot be sequences.

Types are those of the operands, where one set holds for all. *Floats* are float16, bfloat16, float32 and float64,
*all floats* those of 8 and 4 bits too; *integers* are of 8 to 64 bits, *numbers* integers and floats.

"""


@pytest.fixture(scope="module")
def table() -> list[Operator]:
    return operators(plugins.find_family("native"))


def type_names(names: Iterable[str]) -> str:
    left, found = set(names), []
    for name, types in TYPES.items():
        if types <= left:
            found.append(name)
            left -= types
    return ", ".join([*found, *(name for name in names if name in left)])


def document(table: list[Operator]) -> str:
    parts = [HEAD]
    for domain in sorted({each.domain for each in table if each.is_supported}):
        rows = "".join(
            f"| {each.name} | {each.first} to {each.last} | {', '.join(each.ways)} | {type_names(each.dtypes)} |\n"
            for each in table
            if each.domain == domain and each.is_supported
        )
        parts.append(f"## {domain or 'ai.onnx'}\n\n| operator | opsets | run as | types |\n|---|---|---|---|\n{rows}\n")
    declined: dict[str, list[str]] = {}
    for each in table:
        if not each.is_supported:
            declined.setdefault(each.reason, []).append(f"{each.domain or 'ai.onnx'}.{each.name}")
    lines = "".join(f"- {reason}: {', '.join(names)}\n" for reason, names in sorted(declined.items()))
    parts.append(f"## Not supported\n\n{lines}")
    return "".join(parts)


def test_the_document_is_current(table: list[Operator], request: pytest.FixtureRequest) -> None:
    text = document(table)
    if request.config.getoption("bless"):
        DOCUMENT.write_text(text, encoding="utf-8")
    assert DOCUMENT.read_text(encoding="utf-8") == text, "--bless rewrites docs/operators.md"


def test_every_operator_is_run_or_declined_for_a_reason(table: list[Operator]) -> None:
    """What is declared has code, what is declined is not declared, and of onnx's operators each is one or the other."""
    declared = {(each.domain, each.name) for each in ops.definitions()}
    assert not declared & DECLINED.keys()
    assert {(each.domain, each.name): each.reason for each in table if not each.is_supported} == DECLINED


def test_the_command_line_prints_the_table(table: list[Operator]) -> None:
    runner = CliRunner()
    printed = runner.invoke(cli, ["targets", "ops", "--target", "rock5b"]).output
    assert printed == runner.invoke(cli, ["targets", "--ops", "--target", "rock5b"]).output
    assert all(each.name in printed for each in table)
    rows = json.loads(runner.invoke(cli, ["targets", "--ops", "--json"]).output)
    assert rows == [json.loads(json.dumps(each.to_json())) for each in table]
    by_name = {row["name"]: row for row in rows if row["domain"] == ""}
    assert by_name["Conv"] | {"domain": "", "name": "Conv"} == {
        **{"domain": "", "name": "Conv", "first": 1, "last": onnx.defs.onnx_opset_version(), "supported": True},
        **{"ways": ["kernel"], "dtypes": [], "reason": ""},
    }
    assert by_name["Transpose"]["ways"] == ["view", "kernel"]
    assert by_name["Not"]["dtypes"] == ["bool"]
    assert by_name["Upsample"]["last"] == 9


def test_errors_give_the_reason(tmp_path: Path) -> None:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy")
    graph = helper.make_graph([helper.make_node("SVMRegressor", ["x"], ["y"], "s", domain="ai.onnx.ml")], "g", [x], [y])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    with pytest.raises(ModelError) as caught:
        mcpc.compile(model.SerializeToString(), "host", tmp_path / "s.mcp26bin", golden=0)
    reason = DECLINED["ai.onnx.ml", "SVMRegressor"]
    assert caught.value.message == f"operator SVMRegressor of domain ai.onnx.ml (opset 1) is not supported: {reason}"
