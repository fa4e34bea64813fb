"""Pipeline text, the runner, and what it says about passes that go wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import ClassVar, Literal

import onnx
import pytest

from mcpc import plugins
from mcpc.errors import CalibrationError, McpcError, ModelError, PassError, TargetError
from mcpc.ir import DType, Graph, Node, TensorType
from mcpc.ir_text import format_graph, parse_graph
from mcpc.pipeline import Pass, PassContext, PipelineError, parse_pipeline, run_pipeline


@dataclass(frozen=True)
class Quantize(Pass):
    name: ClassVar[str] = "quantize"
    bits: int = 8
    ratio: float = 0.5
    per_channel: bool = False
    method: Literal["minmax", "entropy"] = "minmax"
    label: str = ""

    def __call__(self, graph: Graph, ctx: PassContext) -> Graph:
        ctx.decide("w", "refuse", "it loses", before=1.0, after=2.0)
        return graph


@dataclass(frozen=True)
class Change(Pass):
    """Runs ``change`` on the graph."""

    name: ClassVar[str] = "change"
    change: Callable[[Graph], object] = lambda graph: None

    def __call__(self, graph: Graph, ctx: PassContext) -> Graph:
        self.change(graph)
        return graph


KNOWN: dict[str, type[Pass]] = {"quantize": Quantize, "change": Change}


def small_graph() -> Graph:
    return parse_graph("""graph "g" {
      input %x: float32[2, 3]
      %a: float32[2, 3] = Sigmoid(%x) "first"
      %b: float32[2, 3] = Neg(%a) "second"
      %y: float32[2, 3] = Exp(%b) "third"
      output %y
    }""")


# ---- text


def test_options_have_the_types_of_the_fields() -> None:
    text = 'quantize{bits=4 ratio=0.25, per_channel=true method=entropy label="a b"} , quantize, quantize{}'
    assert parse_pipeline(text, KNOWN) == [Quantize(4, 0.25, True, "entropy", "a b"), Quantize(), Quantize()]


def test_a_pass_states_its_own_text() -> None:
    for text in ("quantize", 'quantize{bits=4 per_channel=true label="a b"}'):
        assert parse_pipeline(text, KNOWN)[0].spec() == text


def test_no_pass_is_a_pipeline_too() -> None:
    assert parse_pipeline("  ", KNOWN) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("quantise", "no pass 'quantise'.*\nhint: did you mean 'quantize'"),
        ("zzz", "no pass 'zzz'.*\nhint: known: change, quantize"),
        ("quantize{bit=4}", "no option 'bit'.*\nhint: did you mean 'bits'"),
        ("quantize{bits=four}", "bits must be int, not four"),
        ("quantize{per_channel=yes}", "per_channel must be true or false, not yes"),
        ("quantize{method=entrop}", "method cannot be entrop.*\nhint: did you mean 'entropy'"),
        ("quantize{bits=4 bits=8}", "'bits' of quantize is given twice"),
        ("quantize{bits}", "'bits' of quantize needs a value"),
        ("quantize{bits=}", "expected a value for 'bits'"),
        ("quantize{bits=4", "'}' is missing"),
        ("quantize quantize", "expected ', ' and another pass"),
        ("quantize,", "expected ', ' and another pass"),
        (",", "expected a pass, found ','"),
        ('quantize{label="a}', "malformed pipeline"),
    ],
)
def test_malformed_text_is_a_usage_error(text: str, message: str) -> None:
    with pytest.raises(PipelineError, match=message) as caught:
        parse_pipeline(text, KNOWN)
    assert caught.value.code == "E202" and caught.value.exit_code == 2


# ---- the runner


def test_what_is_recorded() -> None:
    started: list[tuple[str, int, int]] = []
    ctx = PassContext(progress=lambda *each: started.append(each))
    cut = Change(lambda graph: graph.append(Node("Relu", [graph.inputs[0]], [])))
    run_pipeline(small_graph(), [Quantize(bits=4), cut], ctx)
    assert started == [("quantize", 0, 2), ("change", 1, 2)]
    assert [(r.name, r.nodes_before, r.nodes_after) for r in ctx.records] == [("quantize", 3, 3), ("change", 3, 4)]
    assert ctx.records[0].spec == "quantize{bits=4}"
    (decision,) = ctx.decisions
    assert (decision.pass_name, decision.subject, decision.action) == ("quantize", "w", "refuse")
    assert decision.numbers == {"before": 1.0, "after": 2.0}


def test_every_state_is_dumped_as_text_and_as_a_model_that_runs(tmp_path: Path) -> None:
    ctx = PassContext(emit=tmp_path / "out")
    result = run_pipeline(small_graph(), parse_pipeline("simplify, fuse", plugins.passes()), ctx)
    stems = ["00-input", "01-simplify", "02-fuse"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(
        f"{stem}.{kind}" for stem in stems for kind in ("mcir", "onnx")
    )
    assert (tmp_path / "out" / "02-fuse.mcir").read_text() == format_graph(result)
    for stem in stems:
        onnx.checker.check_model(onnx.load(tmp_path / "out" / f"{stem}.onnx"))


def test_numbers_of_dumps_continue_in_a_second_run(tmp_path: Path) -> None:
    ctx = PassContext(emit=tmp_path)
    run_pipeline(run_pipeline(small_graph(), [Change()], ctx), [Change()], ctx)
    assert sorted(path.name for path in tmp_path.glob("*.mcir")) == [
        "00-input.mcir",
        "01-change.mcir",
        "02-change.mcir",
    ]


def run_change(change: Callable[[Graph], object], verify: bool = False) -> McpcError:
    with pytest.raises(McpcError) as caught:
        run_pipeline(small_graph(), [Change(), Change(change)], PassContext(verify_passes=verify))
    assert caught.value.pass_name == "change"
    return caught.value


def test_a_broken_graph_is_blamed_on_the_pass() -> None:
    error = run_change(lambda graph: graph.nodes.reverse())
    assert error.code == "E200" and "used before it is made" in error.message


def test_a_wrong_type_is_blamed_on_the_pass_and_the_node() -> None:
    def shrink(graph: Graph) -> None:
        graph.nodes[1].output.type = TensorType(DType.float32, (2, 2))

    error = run_change(shrink)
    assert error.code == "E200" and error.node == "second"
    assert "%b is float32[2, 2] but must be float32[2, 3]" in error.message


def test_operands_that_do_not_fit_are_blamed_on_the_pass_and_the_node() -> None:
    def mix(graph: Graph) -> None:
        graph.nodes[1].op = "Not"

    error = run_change(mix)
    assert error.code == "E200" and error.node == "second"


def test_a_bug_names_the_pass_and_the_node() -> None:
    def visit(node: Node) -> None:
        raise KeyError(node.name)

    error = run_change(lambda graph: visit(graph.nodes[1]))
    assert error.code == "E700" and error.exit_code == 70
    assert error.node == "second" and error.op == "Neg" and "KeyError" in error.message
    assert isinstance(error.__cause__, KeyError)


def test_a_fault_of_the_model_keeps_its_class() -> None:
    def refuse(graph: Graph) -> None:
        raise ModelError("E108", "a size is not known", node="first")

    error = run_change(refuse)
    assert isinstance(error, ModelError) and error.node == "first"


def replace_second(graph: Graph) -> None:
    """exp(-sigmoid(x)) turns into exp(|sigmoid(x)|)."""
    graph.nodes[1].op = "Abs"


def test_verification_names_the_pass_and_the_first_node_that_differs() -> None:
    error = run_change(replace_second, verify=True)
    assert error.code == "E201" and isinstance(error, PassError)
    assert (error.node, error.op) == ("second", "Abs")
    assert "output 'y' differs" in error.message and "value 'b' differs" in error.message


def test_without_verification_numbers_are_not_looked_at() -> None:
    ctx = PassContext()
    run_pipeline(small_graph(), [Change(replace_second)], ctx)
    assert len(ctx.records) == 1


def test_the_environment_asks_for_verification_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCPC_DEBUG", "5")
    assert run_change(replace_second).code == "E201"


def test_a_pass_may_change_numbers_if_it_says_so() -> None:
    class Coarse(Change):
        tolerance = None

    ctx = PassContext(verify_passes=True)
    run_pipeline(small_graph(), [Coarse(replace_second), Change()], ctx)
    assert len(ctx.records) == 2


def test_verification_uses_indices_in_range() -> None:
    graph = parse_graph("""graph "g" {
      input %ids: int64[1, 6]
      const %table: float32[5, 4] = random(1)
      %y: float32[1, 6, 4] = Gather(%table, %ids)
      output %y
    }""")
    run_pipeline(graph, [Change()], PassContext(verify_passes=True))


def test_debug_output_grows_with_the_level(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for level in range(4):
        monkeypatch.setenv("MCPC_DEBUG", str(level))
        run_pipeline(small_graph(), [Quantize()], PassContext())
        said.append(capsys.readouterr().err)
    assert said[0] == ""
    assert "[quantize] 3 -> 3 nodes" in said[1] and "refuse" not in said[1]
    assert "[quantize] refuse w: it loses before=1 after=2" in said[2] and "graph" not in said[2]
    assert 'graph "g" {' in said[3]


# ---- plug-ins


def test_the_built_in_passes_and_targets_are_found_through_entry_points() -> None:
    assert set(plugins.passes()) >= {"fold", "simplify", "cse", "dce", "fuse"}
    assert set(plugins.targets()) >= {"host", "aarch64", "rock5b", "rpi5", "x86-64-v3"}
    assert all(cls.name == name for name, cls in plugins.passes().items())


def test_an_unknown_target_is_answered_with_the_nearest() -> None:
    with pytest.raises(TargetError, match=r"E300.*'rock5'.*\nhint: did you mean 'rock5b'"):
        plugins.find_target("rock5")


def test_the_built_in_calibrator_is_found_through_its_entry_point() -> None:
    assert plugins.find_calibrator()
    with pytest.raises(CalibrationError, match=r"E400.*'bultin'.*\nhint: did you mean 'builtin'"):
        plugins.find_calibrator("bultin")


def test_pipelines_of_all_targets_are_well_formed() -> None:
    for name in plugins.targets():
        assert parse_pipeline(plugins.find_target(name).pipeline, plugins.passes())


class FakePoint:
    """An entry point of another package."""

    name, group, value, dist = "other", "mcpc.passes", "other:PASSES", None

    def __init__(self, offered: object) -> None:
        self.offered = offered

    def load(self) -> object:
        if isinstance(self.offered, Exception):
            raise self.offered
        return self.offered


@pytest.mark.parametrize(
    ("offered", "message"),
    [(ImportError("no module"), "cannot be loaded: ImportError"), ({"fold": Quantize}, "'fold'")],
)
def test_another_packages_fault_is_told_as_such(offered: object, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcpc.plugins.entry_points", lambda group: [*entry_points(group=group), FakePoint(offered)])
    with pytest.raises(PipelineError, match=f"E202.*{message}"):
        plugins._merged("mcpc.passes", PipelineError, "E202")


def test_another_packages_passes_join_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "mcpc.plugins.entry_points", lambda group: [*entry_points(group=group), FakePoint({"change": Change})]
    )
    assert plugins._merged("mcpc.passes", PipelineError, "E202")["change"] is Change
