"""Every element type from a model's input to its output: compiler, artifact, runtime, Python, command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

import mcpc
from mcpc.artifact import Artifact
from mcpc.cli import cli
from mcpc.container import Kind
from mcpc.dtypes import BY_CODE, BY_NAME, ElementType, pack, unpack
from mcpc.errors import RuntimeFault
from mcpc.ir import DType
from mcpc.verification import selftest, verify

Array = np.ndarray[Any, Any]


def model(op: str, code: int, out: int = 0, shape: tuple[int | str, ...] = (3, 5), **attrs: Any) -> bytes:
    """One operator of one input."""
    graph = helper.make_graph(
        [helper.make_node(op, ["x"], ["y"], **attrs)],
        "types",
        [helper.make_tensor_value_info("x", code, shape)],
        [helper.make_tensor_value_info("y", out or code, None)],
    )
    serialized: bytes = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)]).SerializeToString()
    return serialized


def numbers(type: ElementType) -> Array:
    return (np.arange(15).reshape(3, 5) % 2 + 1).astype(type.numpy)


@pytest.mark.parametrize("type", BY_CODE.values(), ids=lambda type: type.name)
def test_end_to_end(type: ElementType, tmp_path: Path) -> None:
    """With a self-test, which ONNX's evaluator makes where ONNX Runtime takes no such arrays."""
    path = tmp_path / "model.onnx"
    path.write_bytes(model("Transpose", type.code, shape=("N", 5)))
    artifact = mcpc.compile(path, "host", tmp_path / "a.mcp26bin", golden=1)
    assert all(each.matches for each in (*selftest(artifact), *verify(artifact, path)))
    x = numbers(type)
    with mcpc.load(artifact) as session:
        (info,) = session.get_inputs()
        assert info.type == f"tensor({type.ort_name})" and info.dtype == type.numpy
        (y,) = session.run(None, {"x": x})
        assert y.dtype == type.numpy and np.array_equal(y, x.T)
        session.bind("x", x)
        (view,) = session.run_bound()
        assert np.array_equal(view, x.T)


@pytest.mark.parametrize("name", ["int4", "uint2", "float8e4m3fn", "float8e5m2", "bfloat16"])
def test_files_of_types_that_numpy_cannot_name(name: str, tmp_path: Path) -> None:
    type = BY_NAME[name]
    artifact = mcpc.compile(model("Transpose", type.code), "host", tmp_path / "a.mcp26bin", golden=0)
    x = numbers(type)
    np.save(tmp_path / "x.npy", x.view(f"V{x.itemsize}"))  # as numpy does itself, but for float8e5m2
    done = CliRunner().invoke(
        cli, ["run", str(artifact), "--input", f"x={tmp_path / 'x.npy'}", "-o", str(tmp_path / "out.npz")]
    )
    assert done.exit_code == 0, done.output
    assert f"y: {type.numpy_name}[5, 3], min 1, mean" in done.output
    assert np.array_equal(np.load(tmp_path / "out.npz")["y"].view(type.numpy), x.T)


def test_other_types_of_one_size_are_refused(tmp_path: Path) -> None:
    artifact = mcpc.compile(model("Transpose", TensorProto.INT4), "host", tmp_path / "a.mcp26bin", golden=0)
    with mcpc.load(artifact) as session:
        for other in (np.int8, DType.uint4.numpy, DType.float8e5m2.numpy, "V2"):
            with pytest.raises(RuntimeFault, match="'x' must be int4"):
                session.run(None, {"x": np.zeros((3, 5), other)})


def test_bits_beyond_an_element_are_ignored(tmp_path: Path) -> None:
    for code, want in (
        (TensorProto.INT4, [-1, 7, -8]),
        (TensorProto.UINT2, [3, 3, 0]),
        (TensorProto.INT2, [-1, -1, 0]),
    ):
        made = model("Cast", code, TensorProto.INT8, (3,), to=TensorProto.INT8)
        path = mcpc.compile(made, "host", tmp_path / "a.mcp26bin", golden=0)
        x = np.array([0xFF, 0xA7, 0x58], np.uint8).view(BY_CODE[code].numpy)
        with mcpc.load(path) as session:
            assert session.run(None, {"x": x})[0].tolist() == want


@pytest.mark.parametrize("bits", [2, 4])
def test_packed(bits: int) -> None:
    for count in range(10):
        codes = np.random.default_rng(count).integers(0, 2**bits, count, np.uint8)
        packed = pack(codes, bits)
        assert packed.size == -(-count * bits // 8) and np.array_equal(unpack(packed, bits, count), codes)
    name = "UINT4" if bits == 4 else "UINT2"
    tensor = numpy_helper.from_array(codes.view(DType[name.lower()].numpy))
    assert tensor.raw_data == packed.tobytes()


def table(dtype: DType, op: str) -> bytes:
    """A constant of 64 KiB elements, read by a product, a Gather, or a loop."""
    weight = np.random.default_rng(1).integers(0, 2**dtype.bits, (256, 256), np.uint8).view(dtype.numpy)
    x = helper.make_tensor_value_info("x", TensorProto.INT64 if op == "Gather" else TensorProto.FLOAT, [256])
    graph = helper.make_graph(
        [
            helper.make_node("DequantizeLinear", ["w", "s"], ["d"]),
            helper.make_node(op, ["d", "x"] if op == "Gather" else ["x", "d"], ["y"]),
        ],
        "table",
        [x],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(np.array(0.5, np.float32), "s")],
    )
    serialized: bytes = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)]).SerializeToString()
    return serialized


@pytest.mark.parametrize("op", ["MatMul", "Gather", "Add"])
@pytest.mark.parametrize("name", ["int4", "uint2"])
def test_weights_are_packed(op: str, name: str, tmp_path: Path) -> None:
    path = mcpc.compile(table(DType[name], op), "host", tmp_path / "a.mcp26bin", golden=1)
    assert all(each.matches for each in selftest(path))
    with Artifact.open(path) as artifact:
        weights = sum(len(artifact.section(index)) for index in artifact.container.of_kind(Kind.SHARD))
    packed = 256 * 256 * DType[name].bits // 8
    assert packed <= weights < packed + 4096


def test_powers_of_two_as_the_standard_has_them(tmp_path: Path) -> None:
    """The table of Cast, which onnx.reference follows for numbers within the range only."""
    x = np.array([0, np.nan, np.inf, 3.4e38, 2.0**-127, 2.0**-128, 2.0**127, 1.5], np.float32)
    for attrs, want in (
        ({}, [0, 255, 254, 254, 0, 0, 254, 128]),
        ({"saturate": 0, "round_mode": "nearest"}, [255, 255, 255, 255, 0, 255, 254, 128]),
        ({"round_mode": "down"}, [0, 255, 254, 254, 0, 0, 254, 127]),
    ):
        code = TensorProto.FLOAT8E8M0
        made = model("Cast", TensorProto.FLOAT, code, (8,), to=code, **attrs)
        path = mcpc.compile(made, "host", tmp_path / "a.mcp26bin", golden=0)
        with mcpc.load(path) as session:
            assert session.run(None, {"x": x})[0].view(np.uint8).tolist() == want
