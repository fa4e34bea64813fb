"""Small artifacts to test the runtime with: hand-written compiled code (blobs/) in files of the product's own writer.

``python tests/runtime/artifacts.py FOLDER`` writes demo, growing and foreign.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from mcpc import abi
from mcpc._schema import DimRefT, DType, MetaT, StepT, SymbolT, TensorT
from mcpc.artifact import Code, Contents, write_artifact
from mcpc.draws import Draw, bell
from mcpc.golden import Golden, Samples
from mcpc.targets.native.image import flatten
from mcpc.targets.native.toolchain import Machine, Unit, compile_objects, link_image

_BLOBS = Path(__file__).parent / "blobs"
_MACHINES = {"x86-64": Machine("x86_64-linux-none", "x86_64"), "aarch64": Machine("aarch64-linux-none", "baseline")}

#: Bytes of one of demo's four shards: some pages, and not a whole number of them.
SHARD_BYTES = 200_000


def _code(blob: str, isa: str, name: str, features: tuple[str, ...] = ()) -> Code:
    machine = _MACHINES[isa]
    unit = Unit(blob, (_BLOBS / f"{blob}.c").read_text(encoding="utf-8"))
    image = flatten(link_image(compile_objects([unit], machine, [abi.include_dir()]), machine))
    return Code(name, isa, image.data, image.entries["mcp26_entry"], image.entries["mcp26_plan"], features)


def _codes(blob: str) -> list[Code]:
    """For both ISAs, and ahead of each one that no processor runs."""
    return [
        code
        for isa in _MACHINES
        for code in (_code(blob, isa, f"{isa}-future", ("warp", "drive")), _code(blob, isa, isa))
    ]


def _tensor(name: str, dtype: int, dims: list[tuple[int, int]], max_bytes: int, texts: list[str]) -> TensorT:
    """``dims`` are pairs of value and symbol."""
    return TensorT(
        name=name,
        dtype=dtype,
        dims=[DimRefT(value=value, symbol=symbol) for value, symbol in dims],
        dimTexts=texts,
        maxBytes=max_bytes,
    )


def _step(name: str, shards: list[int]) -> StepT:
    return StepT(name=name, op="Test", kernel="test", shards=shards, predictedUs=1.5, shape="Nx4")


def write_demo(path: Path, codes: list[Code] | None = None, drawn: bool = False) -> None:
    """The model of blobs/demo.c: N is 1 to 8, K 0 to 16; the golden case has N = 3, K = 2.

    ``drawn``: its inputs are drawn, and two of its outputs sampled, in blocks of 5 and 3.
    """
    random = np.random.default_rng(0)
    weights = [random.standard_normal(SHARD_BYTES // 4).astype(np.float32) for _ in range(4)]
    w = [shard[:4] for shard in weights]
    x = random.standard_normal((3, 4)).astype(np.float32)
    index = np.array([2, -3], np.int32)
    draws = [bell(x.dtype, x.shape, 7, 1.0), Draw(index.dtype, index.shape, 8, range=3)]
    if drawn:
        x, index = [draw.array() for draw in draws]
    scaled = x * w[0]
    meta = MetaT(
        modelName="demo",
        target="test",
        abiVersion=abi.version(),
        inputs=[
            _tensor("x", DType.float32, [(-1, 0), (4, -1)], 8 * 16, ["N", "4"]),
            _tensor("index", DType.int32, [(-1, 1)], 16 * 4, ["K"]),
        ],
        outputs=[
            _tensor("y", DType.float32, [(-1, 0), (4, -1)], 8 * 16, ["N", "4"]),
            _tensor("picked", DType.float32, [(-1, 1), (4, -1)], 16 * 16, ["K", "4"]),
            _tensor("runs", DType.int64, [(1, -1)], 8, []),
        ],
        symbols=[SymbolT(name="N", min=1, max=8), SymbolT(name="K", min=0, max=16)],
        steps=[_step("scale", [0]), _step("pick", [1]), _step("add", [2]), _step("count", [3])],
        arenaBytes=8 * 16,
        stateBytes=8,
        scratchBytes=16,
        offsetCount=1,
    )
    y, picked, runs = scaled + w[2] + w[3], scaled[index] + w[1], np.array([1], np.int64)
    golden = Golden([x, index], [y, picked, runs], rtol=1e-5, atol=1e-6)
    if drawn:
        golden = Golden(draws, [Samples.of(y, 5), Samples.of(picked, 3), runs], rtol=1e-5, atol=1e-6)
    write_artifact(path, Contents(meta, _codes("demo") if codes is None else codes, weights, [golden]))


def write_growing(path: Path) -> None:
    """The model of blobs/growing.c."""
    values = np.array([0, 5, 0, 7, 7], np.int32)
    meta = MetaT(
        modelName="growing",
        target="test",
        abiVersion=abi.version(),
        inputs=[_tensor("v", DType.int32, [(-1, 0)], 0, ["L"])],
        outputs=[_tensor("found", DType.int64, [(-1, 1)], 0, ["M"])],
        symbols=[SymbolT(name="L", min=0, max=-1), SymbolT(name="M", min=0, max=-1)],
        steps=[_step("collect", []), _step("copy", [])],
        unbounded=True,
    )
    golden = Golden([values], [np.flatnonzero(values).astype(np.int64)], rtol=0, atol=0)
    write_artifact(path, Contents(meta, _codes("growing"), [], [golden]))


def write_foreign(path: Path) -> None:
    """demo without code that any processor runs."""
    codes = [code for code in _codes("demo") if code.features]
    write_demo(path, codes)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    write_demo(folder / "demo.mcp26bin")
    write_demo(folder / "drawn.mcp26bin", drawn=True)
    write_growing(folder / "growing.mcp26bin")
    write_foreign(folder / "foreign.mcp26bin")
