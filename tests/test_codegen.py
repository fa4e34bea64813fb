"""What the native family generates, as text and as machine code."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

import mcpc
from mcpc import abi
from mcpc.ir import DType, Graph, Node, TensorType, Value
from mcpc.models import builders, digits, mobilenetv2, samples
from mcpc.plugins import find_target
from mcpc.targets.native.ctext import comment
from mcpc.targets.native.expression import Printer
from mcpc.targets.native.family import KERNELS
from mcpc.targets.native.toolchain import Machine, Unit, compile_objects


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The kernels of MobileNetV2 as generated C."""
    folder = tmp_path_factory.mktemp("codegen")
    model = mobilenetv2.build().SerializeToString()
    mcpc.compile(model, "host", folder / "m.mcp26bin", emit=folder / "emit", golden=0)
    return sorted((folder / "emit" / "c").glob("kernels_*.c"))


@pytest.mark.parametrize("target", ("x86-64-v3", "x86-64-v4", "aarch64"))
def test_kernels_are_specialised_completely(sources: list[Path], target: str) -> None:
    """Objects hold the kernels and no other function: an epilogue or a source of operands that clang did not inline
    would be called once a tile, several times slower."""
    description = find_target(target)
    units = [Unit(path.stem, path.read_text()) for path in sources]
    for variant in description.variants:
        machine = Machine(description.triple, variant.mcpu)
        for path, unit in zip(compile_objects(units, machine, [KERNELS, abi.include_dir()]), units, strict=True):
            table: Any = ELFFile(io.BytesIO(path.read_bytes())).get_section_by_name(".symtab")
            functions = {symbol.name for symbol in table.iter_symbols() if symbol["st_info"]["type"] == "STT_FUNC"}
            assert all(f"int32_t {name}(mcp26_env *env" in unit.source for name in functions), functions


def test_processors_of_one_isa_agree_to_the_last_bit(tmp_path: Path) -> None:
    """The oldest processor's code beside the best that this machine runs, first layer to softmax."""
    base = {"x86-64": "x86-64-v3", "aarch64": "aarch64"}[find_target("host").isa]
    model = builders.build("ds-cnn").SerializeToString()
    given = samples.feeds("ds-cnn")
    results = []
    for target in (base, "host"):
        with mcpc.load(mcpc.compile(model, target, tmp_path / f"{target}.mcp26bin", golden=0)) as session:
            results.append(session.run(None, given))
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_array_equal(ours.view(np.uint32), theirs.view(np.uint32))


def test_emitted_text_does_not_depend_on_names(tmp_path: Path) -> None:
    """Names of a model reach comments only, so that equal networks share compiled objects."""
    model = (Path(digits.__file__).parent / "digits.onnx").read_bytes()
    mcpc.compile(model, "host", tmp_path / "a.mcp26bin", emit=tmp_path / "a", golden=0)
    renamed = model.replace(b"conv1", b"*/\n\\?")
    mcpc.compile(renamed, "host", tmp_path / "b.mcp26bin", emit=tmp_path / "b", golden=0)
    kernels = [(tmp_path / side / "c" / "kernels_000.c").read_text() for side in "ab"]
    assert kernels[0] == kernels[1]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a/b*c", "a/b*c"),
        ("*/ int x; /*", "* / int x; / *"),
        ("/*/", "/ * /"),
        ("*\\ int x;", "*  int x;"),
        ("*\\\n/", "*  /"),
        ("*??/\r/", "*??/ /"),
    ],
)
def test_names_cannot_leave_a_comment(name: str, text: str) -> None:
    """A model's names are anybody's text; code after a comment's end would be compiled into the artifact."""
    assert comment(name) == text


@pytest.mark.parametrize("is_swapped", (False, True))
@pytest.mark.parametrize(("dtype", "is_one"), [(DType.float32, True), (DType.float64, False), (DType.float16, False)])
def test_a_number_times_its_sigmoid_is_one_function(dtype: DType, is_one: bool, is_swapped: bool) -> None:
    graph = Graph("silu")
    type = TensorType(dtype, (8,))
    x, other = graph.add_input("x", type), graph.add_input("other", type)
    gate = Node("Sigmoid", [x], [Value("gate", type)])
    factors = [gate.output, x] if is_swapped else [x, gate.output]
    product = Node("Mul", factors, [Value("product", type)])
    gated = Node("Mul", [gate.output, other], [Value("gated", type)])
    printer = Printer(lambda value: value.name)
    for node in (gate, product, gated):
        printer.node(node)
    texts = [line.split(" = ")[1] for line in printer.statements]
    assert ("v8f_silu(x);" in texts) == is_one
    assert len([text for text in texts if "silu" in text]) == is_one
