"""The roofline: which level of memory, which rate, and what a node's work is."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from mcpc.cost_model import Work, roofline, takes_longer, typical_sizes, weight_bytes, work_of
from mcpc.errors import TargetError
from mcpc.ir import Dim, DType, Graph, TensorType, symbol
from mcpc.kernel_class import KernelClass
from mcpc.ops import infer_graph
from mcpc.plugins import find_target, targets
from mcpc.target import Core, read_target

CORE = Core(
    name="round numbers", count=1, mhz=1000, l1d_kib=32, l2_kib=512, l3_kib=4096, gflops=100.0, gbps=10.0,
    l1_gbps=100.0, l2_gbps=50.0, l3_gbps=20.0, rates=dict.fromkeys(KernelClass, 50.0), source="test",
)  # fmt: skip
TARGET = dataclasses.replace(find_target("rock5b"), cores=(CORE,), launch_us=1.0)


def tensor(*shape: Dim) -> TensorType:
    return TensorType(DType.float32, shape)


@pytest.mark.parametrize("nbytes, gbps", [(32 << 10, 100), ((32 << 10) + 1, 50), (4 << 20, 20), ((4 << 20) + 1, 10)])
def test_data_move_at_the_speed_of_the_level_that_holds_them(nbytes: int, gbps: float) -> None:
    time = roofline(Work({}, read=nbytes), TARGET)
    assert time.memory == pytest.approx(nbytes / gbps / 1e3) and time.us == time.memory + 1.0


def test_what_takes_longer_counts() -> None:
    work = Work({KernelClass.GEMM: 50_000_000}, read=1 << 20, weights=1 << 20, weight_set=64 << 20)
    time = roofline(work, TARGET)
    assert time.compute == pytest.approx(1000.0)
    assert time.memory == pytest.approx((1 << 20) / 20e3 + (1 << 20) / 10e3)
    assert time.us == pytest.approx(1001.0)


def test_classes_add_up() -> None:
    work = Work({KernelClass.GEMM: 50_000, KernelClass.ELEMENTWISE: 100_000}, launches=3)
    assert roofline(work, TARGET).us == pytest.approx(1 + 2 + 3)


@pytest.mark.parametrize("rows", [1, 40, 5000])
def test_a_limit_on_symbolic_work_is_that_on_numbers(rows: int) -> None:
    n = symbol("N")
    work = Work({KernelClass.GEMM: n * 1000}, read=n * 64, written=n * 64, working_set=8 << 20)
    pairs = takes_longer(work, TARGET, 11.0)
    taken = any(int(amount.subs({n: rows})) >= limit for amount, limit in pairs if not isinstance(amount, int))
    assert taken == (roofline(work.at({n: rows}), TARGET).us >= 11.0)


def test_work_of_a_fused_convolution() -> None:
    graph = Graph("g")
    x = graph.add_input("x", tensor(1, 8, 10, 10))
    weight = graph.constant("w", np.zeros((16, 8, 3, 3), np.float32))
    (a,) = graph.emit("Conv", [x, weight], [tensor(1, 16, 8, 8)])
    graph.outputs = list(graph.emit("Relu", [a], [tensor(1, 16, 8, 8)]))
    infer_graph(graph)
    conv, relu = (work_of(node) for node in graph.nodes)
    assert conv.operations == {KernelClass.CONV: 2 * 16 * 64 * 72}
    assert (conv.read, conv.written, conv.weights) == (3200, 4096, 4608)
    assert relu.operations == {KernelClass.ELEMENTWISE: 1024} and relu.traffic == 8192
    assert weight_bytes(graph) == 4608


@pytest.mark.parametrize("stored, kind", [(True, KernelClass.GEMM), (False, KernelClass.MATMUL)])
def test_products_with_constants_are_packed(stored: bool, kind: KernelClass) -> None:
    graph = Graph("g")
    n = symbol("N")
    x = graph.add_input("x", tensor(n, 8))
    right = graph.constant("w", np.zeros((8, 4), np.float32)) if stored else graph.add_input("w", tensor(8, 4))
    graph.outputs = list(graph.emit("MatMul", [x, right], [tensor(n, 4)]))
    infer_graph(graph)
    work = work_of(graph.nodes[0])
    assert work.operations == {kind: 64 * n}
    sizes = typical_sizes(graph)
    assert work.at(sizes).operations == {kind: 64 * sizes[n]}


def test_a_sigmoid_costs_less_where_it_only_multiplies_its_operand() -> None:
    graph = Graph("g")
    x, y = graph.add_input("x", tensor(8)), graph.add_input("y", tensor(8))
    own, other = (graph.emit("Sigmoid", [x], [tensor(8)])[0] for _ in range(2))
    graph.outputs = [graph.emit("Mul", [gate, factor], [tensor(8)])[0] for gate, factor in ((own, x), (other, y))]
    infer_graph(graph)
    cheap, whole = (work_of(graph.nodes[index]).operations[KernelClass.ELEMENTWISE] for index in range(2))
    assert cheap < whole


def test_a_selection_reads_what_it_gives() -> None:
    graph = Graph("g")
    table = graph.constant("table", np.zeros((10000, 16), np.float32))
    rows = graph.add_input("rows", TensorType(DType.int64, (3,)))
    graph.outputs = list(graph.emit("Gather", [table, rows], [tensor(3, 16)]))
    infer_graph(graph)
    work = work_of(graph.nodes[0])
    assert (work.read, work.written, work.weights) == (192 + 24, 192, 0)
    assert work.operations == {KernelClass.MOVE: 48}


@pytest.mark.parametrize("name", sorted(targets()))
def test_every_target_has_every_coefficient(name: str) -> None:
    for core in find_target(name).cores:
        assert set(core.rates) == set(KernelClass)
        assert core.rates[KernelClass.GEMM] <= core.gflops
        rates = [rate for _, rate in core.caches] + [core.gbps]
        assert rates == sorted(rates, reverse=True), "a level further away is no faster"


@pytest.mark.parametrize("change, problem", [("gemm = ", "missing"), ("warp = 1.0\ngemm = ", "unknown")])
def test_rates_are_checked(change: str, problem: str, tmp_path: Path) -> None:
    text = Path(targets()["x86-64-v3"]).read_text()
    line = next(line for line in text.splitlines() if line.startswith("gemm = "))
    new = line.replace("gemm = ", change) if problem == "unknown" else ""
    (tmp_path / "mine.toml").write_text(text.replace(line, new))
    with pytest.raises(TargetError, match=f"{problem} key 'cores.rates") as caught:
        read_target(tmp_path / "mine.toml", lambda feature: True)
    assert caught.value.code == "E303"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("alignment = 96", "alignment"),
        ("npu = {zero_point_bias = 127}", "zero-point bias"),
        ("npu = {zero_points = 128}", "unknown key 'zero_points'"),
    ],
)
def test_facts_that_no_device_has(line: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "x86-64-v3.toml").write_text(Path(targets()["x86-64-v3"]).read_text())
    (tmp_path / "mine.toml").write_text(f'inherits = "x86-64-v3"\n{line}\n')
    with pytest.raises(TargetError, match=words) as caught:
        read_target(tmp_path / "mine.toml", lambda feature: True)
    assert caught.value.code == "E303"
