"""The inner loops of a Rock 5B's code keep the multipliers busy, and sums do not leave the registers.

llvm-mca's model of Neoverse N1, Cortex-A76's twin, says how many cycles a round takes: the arithmetic must fill
nine tenths. Transforms and exponentials read, write and convert as much as they multiply; their limit is that of the
pipes for their own instructions, of which a round must take at most a ninth part more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import mcpc
from mcpc.plugins import find_target
from mcpc.targets.native.family import link_variant, read_sources

from .machine_code import Instruction, functions, innermost_loops, issue_share, tool, utilisation

BUSY, BUSY_BYTES = 0.9, 0.85

pytestmark = pytest.mark.skipif(
    tool("llvm-mca") is None or tool("llvm-objdump") is None,
    reason="llvm-mca is not installed (apt-get install llvm-19)",
)


def model() -> bytes:
    """A 3x3 convolution and a pointwise one that reads it, a depthwise one apart from these, attention of four heads.
    A large matrix gives room for the weights of minimal filtering, which may add a part of all weights' bytes."""
    rng = np.random.default_rng(0)
    weights = {
        "w1": rng.standard_normal((64, 96, 1, 1), np.float32),
        "w2": rng.standard_normal((96, 1, 3, 3), np.float32),
        "w3": rng.standard_normal((96, 64, 3, 3), np.float32),
        "w4": rng.standard_normal((512, 2048), np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w3"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["a", "w1"], ["y"]),
        helper.make_node("Conv", ["c", "w2"], ["b"], pads=[1, 1, 1, 1], group=96),
        helper.make_node("Attention", ["q", "k", "v"], ["z"]),
        helper.make_node("MatMul", ["m", "w4"], ["n"]),
    ]
    images = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 64, 56, 56]),
        helper.make_tensor_value_info("c", TensorProto.FLOAT, [1, 96, 56, 56]),
    ]
    row = helper.make_tensor_value_info("m", TensorProto.FLOAT, [1, 512])
    heads = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4, 64, 32]) for name in "qkv"]
    results = [
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 64, 56, 56]),
        helper.make_tensor_value_info("b", TensorProto.FLOAT, [1, 96, 56, 56]),
        helper.make_tensor_value_info("z", TensorProto.FLOAT, [1, 4, 64, 32]),
        helper.make_tensor_value_info("n", TensorProto.FLOAT, [1, 2048]),
    ]
    constants = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "loops", [*images, row, *heads], results, constants)
    made: bytes = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11
    ).SerializeToString()
    return made


def built(precision: str, folder: Path, onnx: bytes | None = None) -> dict[str, list[Instruction]]:
    """The functions of the artifact's code."""
    target = find_target("rock5b")
    options: dict[str, Any] = {} if precision == "fp32" else {"precision": precision}
    mcpc.compile(
        model() if onnx is None else onnx, target.name, folder / "m.mcp26bin", emit=folder / "emit", golden=0, **options
    )
    elf = folder / "code.so"
    elf.write_bytes(link_variant(read_sources(folder / "emit" / "c"), target, target.variants[0]))
    return functions(elf)


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Instruction]]:
    return built("fp32", tmp_path_factory.mktemp("loops"))


@pytest.fixture(scope="module")
def half_code(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Instruction]]:
    return built("fp16", tmp_path_factory.mktemp("half_loops"))


@pytest.fixture(scope="module")
def byte_code(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Instruction]]:
    """Of a product of integers [56, 512] by [512, 2048], and a depthwise convolution of 5x5."""
    rng = np.random.default_rng(1)
    shapes = {"w": (512, 2048), "d": (96, 1, 5, 5)}
    weights = [numpy_helper.from_array(rng.integers(-128, 128, s).astype(np.int8), name) for name, s in shapes.items()]
    nodes = [
        helper.make_node("MatMulInteger", ["x", "w"], ["y"]),
        helper.make_node("ConvInteger", ["c", "d"], ["z"], pads=[2, 2, 2, 2], group=96),
    ]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.UINT8, [56, 512]),
        helper.make_tensor_value_info("c", TensorProto.UINT8, [1, 96, 56, 56]),
    ]
    results = [
        helper.make_tensor_value_info("y", TensorProto.INT32, [56, 2048]),
        helper.make_tensor_value_info("z", TensorProto.INT32, [1, 96, 56, 56]),
    ]
    graph = helper.make_graph(nodes, "bytes", inputs, results, weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)
    return built("fp32", tmp_path_factory.mktemp("byte_loops"), made.SerializeToString())


def arithmetic(loop: list[Instruction]) -> int:
    return sum(instruction.is_arithmetic for instruction in loop)


def heaviest(code: dict[str, list[Instruction]], prefix: str) -> list[Instruction]:
    """The innermost loop with most arithmetic of the functions whose names start so, but for those that store vectors:
    epilogues do, sums do not."""
    loops = [loop for name, body in code.items() if name.startswith(prefix) for loop in innermost_loops(body)]
    sums = [loop for loop in loops if not any(i.name.startswith("st") and i.operands.startswith("q") for i in loop)]
    assert sums, prefix
    return max(sums, key=arithmetic)


@pytest.mark.parametrize(
    ("prefix", "least"),
    [
        ("packed_8", 64),  # products of packed rows: pointwise convolutions, k x k ones, the first layer
        ("packed_7", 56),
        ("tile_8x1", 64),  # products of two activations: attention
        ("tile_4x1", 32),
        ("depthwise_3x3", 32),
        ("parts_8", 64),  # products at the points of minimal filtering
        ("parts_7", 56),
    ],
)
def test_multipliers_are_busy(code: dict[str, list[Instruction]], prefix: str, least: int) -> None:
    loop = heaviest(code, prefix)
    assert arithmetic(loop) >= least
    assert not [i for i in loop if i.is_spill]
    assert utilisation(loop) >= BUSY


@pytest.mark.parametrize(
    ("prefix", "least"),
    [
        ("half_packed_8", 128),  # products of packed rows
        ("half_packed_7", 112),
        ("half_parts_8", 128),  # products at the points of minimal filtering
        ("half_parts_7", 112),
        ("half_8x2", 128),  # those of rows that cannot be packed
        ("half_7x2", 112),
        ("depthwise_3x3_float16", 16),
    ],
)
def test_multipliers_are_busy_in_float16(half_code: dict[str, list[Instruction]], prefix: str, least: int) -> None:
    loop = heaviest(half_code, prefix)
    assert arithmetic(loop) >= least
    assert not [i for i in loop if i.is_spill]
    assert utilisation(loop) >= BUSY


@pytest.mark.parametrize(("prefix", "least"), [("bytes_12", 24), ("bytes_4", 8)])
def test_multipliers_are_busy_in_int8(byte_code: dict[str, list[Instruction]], prefix: str, least: int) -> None:
    """Dot products of four bytes; a round of so few reads as many registers as it multiplies."""
    loop = heaviest(byte_code, prefix)
    assert arithmetic(loop) >= least
    assert not [i for i in loop if i.is_spill]
    assert utilisation(loop) >= BUSY_BYTES


def test_pipes_are_busy_in_int8(byte_code: dict[str, list[Instruction]]) -> None:
    """A depthwise convolution interleaves nearly as many bytes as it multiplies. Five columns of weights beside the
    sums of eight pixels leave so few registers that one vector may go to the stack and back."""
    loops = whole(byte_code, "depthwise_5x5", 80)
    assert len(loops) >= 1
    for loop in loops:
        assert len([i for i in loop if i.is_spill]) <= 2
        assert issue_share(loop) >= BUSY


def whole(code: dict[str, list[Instruction]], prefix: str, least: int) -> list[list[Instruction]]:
    """The innermost loops of so much arithmetic that do not branch: those of edges do."""
    loops = [loop for name, body in code.items() if name.startswith(prefix) for loop in innermost_loops(body)]
    return [loop for loop in loops if arithmetic(loop) >= least and not any(i.target for i in loop[:-1])]


@pytest.mark.parametrize(
    ("prefix", "least", "count"),
    [
        ("conv_winograd", 24, 4),  # columns and rows of a tile, forth and back
        ("attention", 24, 1),  # the exponentials of a row of scores
    ],
)
def test_pipes_are_busy(code: dict[str, list[Instruction]], prefix: str, least: int, count: int) -> None:
    loops = whole(code, prefix, least)
    assert len(loops) >= count
    for loop in loops:
        assert not [i for i in loop if i.is_spill]
        assert issue_share(loop) >= BUSY


def test_pipes_are_busy_in_float16(half_code: dict[str, list[Instruction]]) -> None:
    """A factor may be read from the stack, since lanes of float16 are of the lower 16 registers; nothing goes there."""
    loops = whole(half_code, "conv_winograd", 12)
    assert len(loops) >= 4
    for loop in loops:
        assert not [i for i in loop if i.is_spill and i.name.startswith("st")]
        assert len([i for i in loop if i.is_spill]) <= 1
        assert issue_share(loop) >= BUSY


def test_a_loop_that_waits_is_told(tmp_path: Path) -> None:
    """The measure itself: a chain of sums fills a part of the slots, and an access to the stack counts as a spill."""
    chain = [Instruction(4 * i, "fmla", "v0.4s, v1.4s, v2.4s") for i in range(8)]
    loop = [*chain, Instruction(32, "ldr", "q2, [sp, #0x10]"), Instruction(36, "b.ne", "0x0 <f>")]
    assert utilisation(loop) < 0.5
    assert issue_share(loop) < 0.5
    assert [i.name for i in loop if i.is_spill] == ["ldr"]
    free = [Instruction(4 * i, "fmla", f"v{i}.4s, v30.4s, v31.4s") for i in range(16)]
    assert utilisation(free) > BUSY


def test_loops_are_found_whatever_their_layout() -> None:
    """An inner loop that a branch backwards leaves, in its middle."""
    text = [
        ("b", "0x4"),  # 0
        ("subs", "x1, x1, #0x1"),  # 4: outer
        ("b.eq", "0x20"),  # 8
        ("nop", ""),  # c
        ("fmla", "v0.4s, v1.4s, v2.4s"),  # 10: inner
        ("subs", "x0, x0, #0x1"),  # 14
        ("b.eq", "0x4"),  # 18: to the outer one, backwards
        ("b.ne", "0x10"),  # 1c
        ("ret", ""),  # 20
    ]
    body = [Instruction(4 * i, name, operands) for i, (name, operands) in enumerate(text)]
    loops = list(innermost_loops(body))
    assert [[i.address for i in loop] for loop in loops] == [[0x10, 0x14, 0x18, 0x1C]]
