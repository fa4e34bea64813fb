"""One artifact over the runs of a generation: a prompt, then token by token, present fed back as past; each run against
ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mcpc
from mcpc.reference import run_model

from .graphs import Array

WIDTH, HEADS, KV_HEADS, SIZE = 64, 4, 2, 16
RNG = np.random.default_rng(5)

#: Name, type, shape.
Declared = tuple[str, "TensorProto.DataType", list[str | int]]


class Decoder:
    """Nodes and constants of a network with tokens x [batch, tokens, WIDTH] and caches."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[TensorProto] = []

    def __call__(self, op: str, *inputs: str | Array, outputs: Iterable[str] = (), **attrs: object) -> str:
        names = [each if isinstance(each, str) else self._constant(each) for each in inputs]
        made = list(outputs) or [f"{op}{len(self.nodes)}"]
        self.nodes.append(helper.make_node(op, names, made, name=f"node {len(self.nodes)}", **attrs))
        return made[0]

    def _constant(self, values: Array) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(values, name))
        return name

    def projection(self, columns: int) -> str:
        return self("MatMul", "x", weights(WIDTH, columns))

    def model(self, inputs: list[Declared], outputs: list[Declared]) -> bytes:
        declare = helper.make_tensor_value_info
        declared = ([declare(*value) for value in values] for values in (inputs, outputs))
        graph = helper.make_graph(self.nodes, "decoder", *declared, initializer=self.constants)
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


def weights(*shape: int) -> Array:
    return (RNG.standard_normal(shape) * 0.2).astype(np.float32)


X: Declared = ("x", TensorProto.FLOAT, ["batch", "tokens", WIDTH])
MASK: Declared = ("mask", TensorProto.INT64, ["batch", "total"])
Y: Declared = ("y", TensorProto.FLOAT, ["batch", "tokens", WIDTH])


def cache(name: str, rows: str, heads: int) -> Declared:
    return name, TensorProto.FLOAT, ["batch", heads, rows, SIZE]


def grouped(**attrs: object) -> bytes:
    """As exporters write it: the lengths come out of the attention mask."""
    d = Decoder()
    counted = d("Sub", d("ReduceSum", "mask", np.array([1]), keepdims=0), np.array(1))
    lengths = d("Cast", counted, to=TensorProto.INT32)
    total = d("Cast", d("Gather", d("Shape", "mask"), np.array(1)), to=TensorProto.INT32)
    angles = (np.arange(64)[:, None] / 10.0 ** np.linspace(0, 1, SIZE // 2)).astype(np.float32)
    new = [d.projection(heads * SIZE) for heads in (HEADS, KV_HEADS, KV_HEADS)]
    operands = (*new, "past_k", "past_v", lengths, total, np.cos(angles), np.sin(angles))
    attrs |= {"num_heads": HEADS, "kv_num_heads": KV_HEADS, "do_rotary": 1, "domain": "com.microsoft"}
    d("GroupQueryAttention", *operands, outputs=("y", "present_k", "present_v"), **attrs)
    past, present = ([cache(f"{when}_{kv}", rows, KV_HEADS) for kv in "kv"]
                     for when, rows in (("past", "past"), ("present", "total")))  # fmt: skip
    return d.model([X, MASK, *past], [Y, *present])


def multi_head() -> bytes:
    d = Decoder()
    new = [d.projection(HEADS * SIZE) for _ in range(3)]
    mask = d("Cast", "mask", to=TensorProto.INT32)
    d("MultiHeadAttention", *new, weights(3 * WIDTH), mask, "", "past_k", "past_v", num_heads=HEADS, unidirectional=1,
      outputs=("y", "present_k", "present_v"), domain="com.microsoft")  # fmt: skip
    past, present = ([cache(f"{when}_{kv}", rows, HEADS) for kv in "kv"]
                     for when, rows in (("past", "past"), ("present", "total")))  # fmt: skip
    return d.model([X, MASK, *past], [Y, *present])


def one_projection() -> bytes:
    """As GPT-2 is exported: keys and values in one cache."""
    d = Decoder()
    mask = d("Cast", "mask", to=TensorProto.INT32)
    d("Attention", "x", weights(WIDTH, 3 * WIDTH), weights(3 * WIDTH), mask, "past_kv", num_heads=HEADS,
      unidirectional=1, outputs=("y", "present_kv"), domain="com.microsoft")  # fmt: skip
    past: Declared = ("past_kv", TensorProto.FLOAT, [2, "batch", HEADS, "past", SIZE])
    present: Declared = ("present_kv", TensorProto.FLOAT, [2, "batch", HEADS, "total", SIZE])
    return d.model([X, MASK, past], [Y, present])


MODELS: dict[str, Callable[[], bytes]] = {
    "grouped": grouped,
    "grouped, window": lambda: grouped(local_window_size=3, softcap=3.0),
    "grouped, smooth": lambda: grouped(smooth_softmax=1),
    "multi-head": multi_head,
    "one projection": one_projection,
}


@pytest.mark.parametrize("name", MODELS)
def test_generation(name: str, tmp_path: Path) -> None:
    model = MODELS[name]()
    path = mcpc.compile(model, "host", tmp_path / "decoder.mcp26bin", golden=0)
    with mcpc.load(path) as session:
        generate(session, model, 1, (5, 1, 3, 1, 1))
        generate(session, model, 2, (7, 1, 1))


def generate(session: mcpc.Session, model: bytes, batch: int, steps: Iterable[int]) -> None:
    declared = onnx.load_from_string(model).graph
    names = [value.name for value in declared.output]
    caches: dict[str, Array] = {}
    for value in declared.input:
        if value.name.startswith("past"):
            dims = value.type.tensor_type.shape.dim
            empty = [batch if size.dim_param == "batch" else size.dim_value for size in dims]
            caches[value.name] = np.zeros(empty, np.float32)
    total = 0
    for tokens in steps:
        total += tokens
        feeds = {"x": weights(batch, tokens, WIDTH) * 5, "mask": np.ones((batch, total), np.int64), **caches}
        want = dict(zip(names, run_model(model, feeds, names), strict=True))
        got = dict(zip(names, session.run(names, feeds), strict=True))
        for output in names:
            np.testing.assert_allclose(got[output], want[output], rtol=1e-4, atol=1e-5, err_msg=output)
        caches = {name.replace("present", "past"): array for name, array in got.items() if name != "y"}


@pytest.mark.parametrize("name", ["grouped", "grouped, window"])
def test_caches_of_fixed_size(name: str, tmp_path: Path) -> None:
    """Two sequences of different length in caches with room for more."""
    model = MODELS[name]()
    names = ["y", "present_k", "present_v"]
    path = mcpc.compile(model, "host", tmp_path / "decoder.mcp26bin", golden=0)
    caches = {f"past_{kv}": np.zeros((2, KV_HEADS, 16, SIZE), np.float32) for kv in "kv"}
    lengths = np.array([4, 2])
    with mcpc.load(path) as session:
        for tokens in (4, 1, 1):
            total = lengths.max()
            mask = (np.arange(total) < lengths[:, None]).astype(np.int64)
            feeds = {"x": weights(2, tokens, WIDTH) * 5, "mask": mask, **caches}
            want = dict(zip(names, run_model(model, feeds, names), strict=True))
            got = dict(zip(names, session.run(names, feeds), strict=True))
            for batch, length in enumerate(lengths):
                for output in names:  # what is padding is nobody's concern
                    seen = np.s_[batch, : min(tokens, length)] if output == "y" else np.s_[batch, :, :length]
                    np.testing.assert_allclose(got[output][seen], want[output][seen], rtol=1e-4, atol=1e-5)
            caches = {f"past_{kv}": got[f"present_{kv}"] for kv in "kv"}
            lengths = lengths + 1


def test_room_is_checked(tmp_path: Path) -> None:
    """More keys than the caches have room for are refused by the run."""
    path = mcpc.compile(grouped(), "host", tmp_path / "decoder.mcp26bin", golden=0)
    caches = {f"past_{kv}": np.zeros((1, KV_HEADS, 3, SIZE), np.float32) for kv in "kv"}
    mask = np.full((1, 4), 9, np.int64)
    with mcpc.load(path) as session, pytest.raises(mcpc.McpcError, match="TensorScatter"):
        session.run(None, {"x": weights(1, 1, WIDTH), "mask": mask, **caches})
