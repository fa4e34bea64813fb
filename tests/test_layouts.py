"""The choice of layouts: that its moves are the least possible ones, and how many are left in networks."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpc import plugins
from mcpc.errors import McpcError
from mcpc.models import samples
from mcpc.models.networks import network
from mcpc.onnx_reader import read
from mcpc.pipeline import PassContext, parse_pipeline, run_pipeline
from mcpc.targets.native.two_layouts import Fixed, TwoLayouts, Vertex

from .operators.families import layouts
from .operators.graphs import serialize_untyped

#: Moves between layouts that are left in each sample network: those of its inputs and outputs, and of what is neither
#: an image nor rows of channels.
MOVES = {
    "digits": 0, "mobilenetv2": 0, "resnet50": 0, "efficientnet-b0": 0, "yolov8n": 1, "deit-tiny": 1, "bert-mini": 0,
    "llama-mini": 0, "ds-cnn": 0, "gru": 0, "lstm": 0, "basic-pitch": 0, "smart-turn": 1, "ocr-det": 0, "ocr-rec": 0,
    "silero-vad": 0, "minilm": 0, "magika": 0,
}  # fmt: skip


def moves(model: onnx.ModelProto, **options: Any) -> list[str]:
    """What moves between layouts, by name."""
    target = plugins.find_target("x86-64-v3")
    ctx = PassContext(target=target)
    series = parse_pipeline(target.pipeline, plugins.passes())
    graph = read(model.SerializeToString(), **options)
    run_pipeline(graph, [*series, *plugins.find_family("native").passes(target)], ctx)
    return [each.subject for each in ctx.decisions if each.action == "move"]


@pytest.mark.parametrize("name", MOVES)
def test_few_moves_are_left_in_sample_networks(name: str) -> None:
    try:
        shapes = {key: array.shape for key, array in samples.feeds(name).items()}
        model = network(name)
    except McpcError as error:
        pytest.skip(f"the real model cannot be fetched: {error.message}")
    found = moves(model, shapes=shapes)
    assert len(found) <= MOVES[name], found


def test_few_moves_are_left_in_graphs_of_images_and_rows() -> None:
    """Each case's inputs and outputs are row-major and most are images, so that all are moved: few others are."""
    counts = {}
    for case in layouts.FAMILY:
        model = onnx.load_from_string(serialize_untyped(case.graph))
        inner = {value.name for value in (*model.graph.input, *model.graph.output)}
        counts[case.name] = [name for name in moves(model) if name not in inner]
    assert sum(map(len, counts.values())) <= 20, {name: found for name, found in counts.items() if found}


@st.composite
def problems(draw: st.DrawFn) -> tuple[TwoLayouts, int]:
    """A problem over the vertices 0 ... n-1, and n."""
    count = draw(st.integers(0, 6))
    vertex = st.sampled_from([*range(count), *Fixed])
    problem = TwoLayouts()
    for _ in range(draw(st.integers(0, 8))):
        problem.tensor(draw(vertex), draw(st.lists(vertex, max_size=4)), draw(st.integers(0, 9)))
    for index in range(count):
        if draw(st.booleans()):
            problem.prefer(index, draw(st.integers(0, 9)), draw(st.integers(0, 9)))
    return problem, count


@given(problems())
def test_no_other_choice_costs_less(case: tuple[TwoLayouts, int]) -> None:
    problem, count = case
    every: list[set[Vertex]] = [set(c) for size in range(count + 1) for c in combinations(range(count), size)]
    assert problem.cost(problem.solve()) == min(map(problem.cost, every))


def test_one_move_serves_all_readers_of_a_tensor() -> None:
    problem = TwoLayouts()
    problem.tensor(Fixed.ROW_MAJOR, ["a", "b", "c"], 5)
    for reader in "abc":
        problem.tensor(reader, [Fixed.CHANNELS_LAST], 2)
    assert problem.solve() == {"a", "b", "c"} and problem.cost({"a", "b", "c"}) == 5
    assert problem.cost(set()) == 6
