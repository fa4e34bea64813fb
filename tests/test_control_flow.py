"""If, Loop and Scan beyond the operators' cases: random programs, faults that only one branch has, limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

import mcpc
from mcpc import onnx_reader, ops
from mcpc.errors import McpcError, ModelError, RuntimeFault
from mcpc.ir import TensorType
from mcpc.reference import run_model

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def declare(name: str, dtype: int = FLOAT, *shape: int | str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def model(nodes: list[NodeProto], inputs: list[Any], outputs: list[str], **constants: Any) -> bytes:
    """``inputs`` are declarations, ``outputs`` names."""
    graph = helper.make_graph(
        nodes,
        "g",
        inputs,
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    proto: ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return bytes(proto.SerializeToString())


def body(nodes: list[NodeProto], inputs: list[Any], outputs: list[str]) -> GraphProto:
    return helper.make_graph(nodes, "body", inputs, [helper.make_empty_tensor_value_info(name) for name in outputs])


def compiled(source: bytes, folder: Path, **options: Any) -> mcpc.Session:
    return mcpc.load(mcpc.compile(source, "host", folder / "model.mcp26bin", golden=0, **options))


# ---- random programs


class Program:
    """Draws statements over float32 vectors; every name is made once. ``fixed``: no statement changes a length."""

    def __init__(self, draw: Any, fixed: bool) -> None:
        self.draw = draw
        self.fixed = fixed
        self.count = 0

    def fresh(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def statements(self, known: list[str], depth: int) -> tuple[list[NodeProto], list[str]]:
        """Some statements, and the vectors that are known behind them."""
        nodes: list[NodeProto] = []
        known = list(known)
        for _ in range(self.draw(st.integers(1, 3))):
            kinds = ["unary", *([] if self.fixed else ["join", "cut"])]
            kinds += ["if", "loop", "loop"] if depth < 3 else []
            kind = self.draw(st.sampled_from(kinds))
            made = getattr(self, kind)(known, depth)
            nodes += made[0]
            known += made[1]
        return nodes, known

    def pick(self, known: list[str]) -> str:
        return str(self.draw(st.sampled_from(known)))

    def unary(self, known: list[str], depth: int) -> tuple[list[NodeProto], list[str]]:
        y = self.fresh("u")
        return [helper.make_node(self.draw(st.sampled_from(["Neg", "Tanh", "Abs"])), [self.pick(known)], [y])], [y]

    def join(self, known: list[str], depth: int) -> tuple[list[NodeProto], list[str]]:
        y = self.fresh("j")
        return [helper.make_node("Concat", [self.pick(known), self.pick(known)], [y], axis=0)], [y]

    def cut(self, known: list[str], depth: int) -> tuple[list[NodeProto], list[str]]:
        """What is above 0, so that sizes depend on data."""
        x, above, y = self.pick(known), self.fresh("a"), self.fresh("k")
        return [
            helper.make_node("Greater", [x, "zero"], [above]),
            helper.make_node("Compress", [x, above], [y]),
        ], [y]

    def condition(self, known: list[str]) -> tuple[list[NodeProto], str]:
        total, c = self.fresh("t"), self.fresh("c")
        return [
            helper.make_node("ReduceSum", [self.pick(known)], [total], keepdims=0),
            helper.make_node("Greater", [total, "zero"], [c]),
        ], c

    def branch(self, known: list[str], depth: int, outputs: int) -> GraphProto:
        nodes, inside = self.statements(known, depth + 1)
        results = [self.fresh("b") for _ in range(outputs)]
        nodes += [helper.make_node("Identity", [self.pick(inside)], [each]) for each in results]
        return body(nodes, [], results)

    def if_(self, known: list[str], depth: int) -> tuple[list[NodeProto], list[str]]:
        nodes, c = self.condition(known)
        outputs = [self.fresh("y") for _ in range(self.draw(st.integers(1, 2)))]
        then, other = (self.branch(known, depth, len(outputs)) for _ in range(2))
        return [*nodes, helper.make_node("If", [c], outputs, then_branch=then, else_branch=other)], outputs

    def loop(self, known: list[str], depth: int) -> tuple[list[NodeProto], list[str]]:
        count = self.draw(st.integers(0, 2))
        i, c, again = self.fresh("i"), self.fresh("g"), self.fresh("n")
        carried = [self.fresh("v") for _ in range(count)]
        nodes, inside = self.statements([*known, *carried], depth + 1)
        following = [self.fresh("w") for _ in carried]
        nodes += [helper.make_node("Identity", [self.pick(inside)], [each]) for each in following]
        stacked = [self.fresh("s") for _ in range(self.draw(st.integers(1, 3)))]
        nodes += [helper.make_node("ReduceSum", [self.pick(inside)], [each], keepdims=1) for each in stacked]
        if self.draw(st.booleans()):
            nodes.append(helper.make_node("Identity", [c], [again]))
        else:
            more, stop = self.condition(inside)
            nodes += [*more, helper.make_node("Or", [stop, "no"], [again])]
        scope = [declare(i, INT64), declare(c, BOOL), *(declare(each, FLOAT, self.fresh("N")) for each in carried)]
        inner = body(nodes, scope, [again, *following, *stacked])
        outputs = [self.fresh("y") for _ in carried]
        rows = [self.fresh("r") for _ in stacked]
        flat = [self.fresh("f") for _ in stacked]
        start = self.draw(st.sampled_from(["", "yes"]))
        limit = "two" if self.fixed else self.draw(st.sampled_from(["two", "trips"]))
        initial = [self.pick(known) for _ in carried]
        return [
            helper.make_node("Loop", [limit, start, *initial], [*outputs, *rows], body=inner),
            *(helper.make_node("Reshape", [each, "flat"], [to]) for each, to in zip(rows, flat, strict=True)),
        ], [*outputs, *flat]


setattr(Program, "if", Program.if_)


@st.composite
def programs(draw: Any, fixed: bool) -> tuple[bytes, list[str]]:
    program = Program(draw, fixed)
    nodes, known = program.statements(["x", "y"], 0)
    outputs = [name for name in known if name not in ("x", "y")][-3:]
    sizes = (3, 3) if fixed else ("X", "Y")
    inputs = [declare("x", FLOAT, sizes[0]), declare("y", FLOAT, sizes[1]), declare("trips", INT64)]
    constants = {"zero": np.float32(0), "flat": np.array([-1]), "two": np.int64(2), "yes": True, "no": False}
    return model(nodes, inputs, outputs, **constants), outputs


def check(source: bytes, outputs: list[str], folder: Path, seed: int, sizes: list[tuple[int, int]]) -> None:
    rng = np.random.default_rng(seed)
    with compiled(source, folder) as session:
        for pair in sizes:
            feeds: dict[str, Any] = {
                n: rng.standard_normal(s).astype(np.float32) for n, s in zip("xy", pair, strict=True)
            }
            feeds["trips"] = np.array(rng.integers(0, 4))
            want = run_model(source, feeds, outputs)
            for name, a, b in zip(outputs, want, session.run(None, feeds), strict=True):
                np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6, err_msg=name)


@settings(max_examples=25)
@given(programs(fixed=False), st.integers(0, 2**31))
def test_random_programs(tmp_path_factory: pytest.TempPathFactory, program: tuple[bytes, list[str]], seed: int) -> None:
    check(*program, tmp_path_factory.mktemp("program"), seed, [(3, 2), (1, 5), (4, 4)])


@settings(max_examples=15)
@given(programs(fixed=True), st.integers(0, 2**31))
def test_random_programs_in_a_fixed_arena(
    tmp_path_factory: pytest.TempPathFactory, program: tuple[bytes, list[str]], seed: int
) -> None:
    """Lengths are fixed, but for numbers of iterations and branches of two lengths: places are planned beforehand."""
    check(*program, tmp_path_factory.mktemp("program"), seed, [(3, 3), (3, 3), (3, 3)])


# ---- what holds where a branch is taken only


def branching(then: list[NodeProto], inputs: list[Any], **constants: Any) -> bytes:
    """``then`` makes t; otherwise the output is x."""
    nodes = [
        helper.make_node(
            "If",
            ["c"],
            ["y"],
            then_branch=body(then, [], ["t"]),
            else_branch=body([helper.make_node("Identity", ["x"], ["e"])], [], ["e"]),
        )
    ]
    return model(nodes, [declare("c", BOOL), *inputs], ["y"], **constants)


def test_sizes_are_checked_where_the_branch_is_taken(tmp_path: Path) -> None:
    source = branching(
        [helper.make_node("Add", ["x", "z"], ["t"])], [declare("x", FLOAT, "N"), declare("z", FLOAT, "M")]
    )
    x, z = np.ones(3, np.float32), np.ones(4, np.float32)
    with compiled(source, tmp_path) as session:
        assert session.run(None, {"c": np.array(False), "x": x, "z": z})[0].tolist() == [1, 1, 1]
        assert session.run(None, {"c": np.array(True), "x": x, "z": x})[0].tolist() == [2, 2, 2]
        with pytest.raises(RuntimeFault, match=r"do not fit together: [34] and [34]"):
            session.run(None, {"c": np.array(True), "x": x, "z": z})
        assert session.run(None, {"c": np.array(False), "x": x, "z": z})[0].tolist() == [1, 1, 1]


def test_indices_are_checked_where_the_branch_is_taken(tmp_path: Path) -> None:
    source = branching(
        [helper.make_node("Gather", ["x", "i"], ["t"])], [declare("x", FLOAT, 4), declare("i", INT64, 4)]
    )
    x, i = np.arange(4, dtype=np.float32), np.array([0, 3, 9, 1])
    with compiled(source, tmp_path) as session:
        assert session.run(None, {"c": np.array(False), "x": x, "i": i})[0].tolist() == [0, 1, 2, 3]
        with pytest.raises(RuntimeFault, match="index 9"):
            session.run(None, {"c": np.array(True), "x": x, "i": i})


def test_bounds_follow_the_sizes_that_they_are_made_of() -> None:
    source = branching([helper.make_node("Neg", ["z"], ["t"])], [declare("x", FLOAT, "N"), declare("z", FLOAT, "M")])
    graph = onnx_reader.read(source)
    assert str(graph.bounds["y:0"][1]) == "Max(M, N)"
    for value, size in zip(graph.inputs[1:], (3, 5), strict=True):
        value.type = TensorType(value.dtype, (size,))
    ops.infer_graph(graph)
    assert graph.bounds["y:0"] == (0, 5)


# ---- faults of models


def reading(source: bytes, tmp_path: Path) -> McpcError:
    with pytest.raises(ModelError) as caught:
        compiled(source, tmp_path)
    return caught.value


def test_a_rank_that_depends_on_a_condition(tmp_path: Path) -> None:
    then = [helper.make_node("Unsqueeze", ["x", "axis"], ["t"])]
    error = reading(branching(then, [declare("x", FLOAT, 2)], axis=[0]), tmp_path)
    assert error.code == "E108" and "rank of output 0 depends on the condition" in str(error)


def test_branches_of_two_types(tmp_path: Path) -> None:
    then = [helper.make_node("Cast", ["x"], ["t"], to=INT64)]
    error = reading(branching(then, [declare("x", FLOAT, 2)]), tmp_path)
    assert error.code == "E104" and "int64[2]" in str(error) and "float32[2]" in str(error)


def looping(step: list[NodeProto], initial: Any, limit: str = "n") -> bytes:
    """``step`` makes w of v."""
    inner = body(
        [*step, helper.make_node("Identity", ["g"], ["again"])],
        [declare("i", INT64), declare("g", BOOL), helper.make_tensor_value_info("v", FLOAT, None)],
        ["again", "w"],
    )
    nodes = [helper.make_node("Loop", [limit, "", "x"], ["y"], body=inner)]
    return model(nodes, [declare("n", INT64), initial], ["y"], axis=[0])


def test_faults_of_bodies_are_told_once(tmp_path: Path) -> None:
    step = helper.make_node("Neg", ["v"], ["w"])
    good = looping([step], declare("x", FLOAT, 2))
    proto = ModelProto.FromString(good)
    del proto.graph.node[0].attribute[0].g.input[2:]
    error = reading(proto.SerializeToString(), tmp_path)
    assert error.code == "E103" and "tensor v has no producer" in str(error)
    proto = ModelProto.FromString(good)
    del proto.graph.node[0].attribute[0].g.output[1:]
    error = reading(proto.SerializeToString(), tmp_path)
    assert error.code == "E104" and "at least 2 are needed" in str(error)
    proto = ModelProto.FromString(good)
    del proto.graph.node[0].attribute[:]
    assert reading(proto.SerializeToString(), tmp_path).code == "E102"


def test_an_if_without_a_condition(tmp_path: Path) -> None:
    proto = ModelProto.FromString(branching([helper.make_node("Neg", ["x"], ["t"])], [declare("x", FLOAT, 2)]))
    del proto.graph.node[0].input[:]
    error = reading(proto.SerializeToString(), tmp_path)
    assert error.code in ("E104", "E107") and "If" in str(error)


def test_a_carried_value_of_another_type(tmp_path: Path) -> None:
    error = reading(looping([helper.make_node("Cast", ["v"], ["w"], to=INT64)], declare("x", FLOAT, 2)), tmp_path)
    assert error.code == "E104" and "in the next iteration" in str(error)


def test_a_carried_value_of_another_rank(tmp_path: Path) -> None:
    error = reading(looping([helper.make_node("Unsqueeze", ["v", "axis"], ["w"])], declare("x", FLOAT, 2)), tmp_path)
    assert error.code == "E108" and "its rank changes" in str(error)


def test_a_body_without_what_it_reads(tmp_path: Path) -> None:
    error = reading(looping([helper.make_node("Add", ["v", "nowhere"], ["w"])], declare("x", FLOAT, 2)), tmp_path)
    assert error.code == "E103" and "nowhere" in str(error)


def test_a_cycle_in_a_body(tmp_path: Path) -> None:
    step = [helper.make_node("Add", ["v", "b"], ["w"]), helper.make_node("Neg", ["w"], ["b"])]
    error = reading(looping(step, declare("x", FLOAT, 2)), tmp_path)
    assert error.code == "E103" and "cycle" in str(error)


def test_graphs_nested_without_end(tmp_path: Path) -> None:
    inner = body([helper.make_node("Identity", ["x"], ["o0"])], [], ["o0"])
    for depth in range(1, 12):
        other = body([helper.make_node("Identity", ["x"], [f"e{depth}"])], [], [f"e{depth}"])
        node = helper.make_node("If", ["c"], [f"o{depth}"], then_branch=inner, else_branch=other)
        inner = body([node], [], [f"o{depth}"])
    nodes = [helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=other)]
    error = reading(model(nodes, [declare("c", BOOL), declare("x", FLOAT, 2)], ["y"]), tmp_path)
    assert error.code == "E103" and "nested deeper" in str(error)


# ---- limits of a run


def test_growth_ends_where_memory_does(tmp_path: Path) -> None:
    source = looping([helper.make_node("Concat", ["v", "v"], ["w"], axis=0)], declare("x", FLOAT, "N"))
    x = np.ones(1, np.float32)
    path = mcpc.compile(source, "host", tmp_path / "model.mcp26bin", golden=0)
    with mcpc.load(path, memory_budget=1 << 24) as session:
        assert session.run(None, {"n": np.array(10), "x": x})[0].shape == (1024,)
        with pytest.raises(RuntimeFault, match="memory"):
            session.run(None, {"n": np.array(2**62), "x": x})
        assert session.run(None, {"n": np.array(3), "x": x})[0].shape == (8,)


def test_steps_of_a_body_are_in_the_profile_once(tmp_path: Path) -> None:
    source = looping([helper.make_node("Neg", ["v"], ["w"])], declare("x", FLOAT, 2))
    path = mcpc.compile(source, "host", tmp_path / "model.mcp26bin", golden=0)
    steps = mcpc.inspect(path)["steps"]
    assert [step["op"] for step in steps].count("Neg") == 1
    assert {"Loop", "Neg"} <= {step["op"] for step in steps}
