"""Sizes that are known when the artifact runs: one artifact for all of them, checked, and planned in the arena."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

import mcpc
from mcpc.errors import RuntimeFault
from mcpc.ops.context import larger
from mcpc.reference import run_model

Array = np.ndarray[Any, Any]
Feeds = Mapping[str, Array]


def text_model(text: str, **constants: Array) -> bytes:
    """A model in ONNX's text form, its outputs of any shape; ``constants`` become initializers."""
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]>\n{text}')
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
    return bytes(model.SerializeToString())


def image_model() -> bytes:
    """Convolutions, a branch that is resized back, pooling and a product: N, H and W are symbolic."""
    rng = np.random.default_rng(1)
    return text_model(
        """image (float[N, 3, H, W] x) => (float[N, 5] classes, float[N, 8, h, w] features) {
            a = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(x, w0)
            b = Relu(a)
            c = MaxPool<kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1>(b)
            size = Shape(b)
            d = Resize<mode = "nearest">(c, , , size)
            features = Add(b, d)
            mean = GlobalAveragePool(features)
            flat = Flatten(mean)
            classes = MatMul(flat, w1)
        }""",
        w0=rng.standard_normal((8, 3, 3, 3), np.float32),
        w1=rng.standard_normal((8, 5), np.float32),
    )


def images(*shapes: tuple[int, ...]) -> list[dict[str, Array]]:
    rng = np.random.default_rng(2)
    return [{"x": rng.standard_normal(shape, np.float32)} for shape in shapes]


SIZES = images(
    (1, 3, 16, 16), (4, 3, 61, 33), (1, 3, 5, 7), (2, 3, 96, 128), (1, 3, 1, 1), (0, 3, 16, 16), (3, 3, 24, 40)
)


def check(session: mcpc.Session, model: bytes, feeds: Feeds) -> None:
    names = [output.name for output in session.get_outputs()]
    for name, got, want in zip(names, session.run(None, feeds), run_model(model, feeds, names), strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape, name
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return mcpc.compile(image_model(), "host", tmp_path_factory.mktemp("dynamic") / "image.mcp26bin")


def test_one_artifact_serves_sizes_that_grow_and_shrink(artifact: Path) -> None:
    with mcpc.load(artifact, threads=2) as session:
        for feeds in SIZES * 2:
            check(session, image_model(), feeds)


@pytest.mark.parametrize("shape", [(1, 3, 0, 16), (2, 3, 8, 0), (1, 3, 0, 0), (0, 3, 0, 0)], ids=str)
def test_images_without_pixels(shape: tuple[int, ...], artifact: Path) -> None:
    with mcpc.load(artifact, threads=2) as session:
        classes, features = session.run(None, *images(shape))
    assert classes.shape == (shape[0], 5) and features.shape[:2] == (shape[0], 8) and features.size == 0


def test_sessions_of_different_sizes_run_side_by_side(artifact: Path) -> None:
    faults: list[BaseException] = []

    def work(order: list[dict[str, Array]]) -> None:
        try:
            with mcpc.load(artifact, threads=1) as session:
                for feeds in order * 5:
                    check(session, image_model(), feeds)
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=(order,)) for order in (SIZES, SIZES[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults, faults


def test_outputs_of_one_size_outlive_runs_of_another(artifact: Path) -> None:
    with mcpc.load(artifact) as session:
        first = session.run(None, SIZES[0])
        copies = [array.copy() for array in first]
        session.run(None, SIZES[1])
        for kept, copy in zip(first, copies, strict=True):
            np.testing.assert_array_equal(kept, copy)


def test_unbounded_sizes_are_visible_in_the_metadata(artifact: Path) -> None:
    report = mcpc.inspect(artifact)
    assert report["unbounded"] is True
    with mcpc.load(artifact) as session:
        assert session.get_inputs()[0].shape == ["N", 3, "H", "W"]


def test_bounded_sizes_have_a_fixed_arena(tmp_path: Path) -> None:
    bounds = {"N": (0, 4), "H": (1, 96), "W": (1, 128)}
    path = mcpc.compile(image_model(), "host", tmp_path / "bounded.mcp26bin", dims=bounds)
    largest = mcpc.compile(
        image_model(), "host", tmp_path / "fixed.mcp26bin", dims={name: high for name, (_, high) in bounds.items()}
    )
    assert mcpc.inspect(path)["unbounded"] is False
    arena = mcpc.inspect(largest)["arena_bytes"]
    assert arena <= mcpc.inspect(path)["arena_bytes"] <= 1.5 * arena
    with mcpc.load(path) as session:
        for feeds in SIZES:
            check(session, image_model(), feeds)
        with pytest.raises(RuntimeFault, match="W") as caught:
            session.run(None, *images((1, 3, 16, 129)))
        assert caught.value.code == "E602"
        check(session, image_model(), SIZES[0])


def test_sizes_taken_for_equal_are_checked(tmp_path: Path) -> None:
    model = text_model("sum (float[A, 4] a, float[B, 4] b) => (float[C, 4] y) { y = Add(a, b) }")
    path = mcpc.compile(model, "host", tmp_path / "sum.mcp26bin")
    ones = np.ones((3, 4), np.float32)
    with mcpc.load(path) as session:
        check(session, model, {"a": ones, "b": ones})
        with pytest.raises(RuntimeFault, match=r"3 and 5.*'b' \[5, 4\]") as caught:
            session.run(None, {"a": ones, "b": np.ones((5, 4), np.float32)})
        assert caught.value.code == "E603"
        check(session, model, {"a": ones[:2], "b": ones[:2]})


@pytest.mark.parametrize(
    ("node", "fits", "does_not"),
    [
        ("wanted = Constant<value_ints = [2, -1, 3]>() y = Reshape(x, wanted)", (1, 3, 4, 6), (1, 3, 5, 3)),
        ("y = DepthToSpace<blocksize = 2>(x)", (1, 8, 3, 2), (1, 9, 3, 2)),
        ("y = SpaceToDepth<blocksize = 2>(x)", (1, 3, 4, 2), (1, 3, 4, 3)),
    ],
    ids=["Reshape", "DepthToSpace", "SpaceToDepth"],
)
def test_sizes_that_do_not_divide_are_an_error(
    node: str, fits: tuple[int, ...], does_not: tuple[int, ...], tmp_path: Path
) -> None:
    model = text_model(f"divided (float[N, C, H, W] x) => (float[a, b, c] y) {{ {node} }}")
    path = mcpc.compile(model, "host", tmp_path / "divided.mcp26bin", golden=0)
    with mcpc.load(path) as session:
        check(session, model, {"x": np.ones(fits, np.float32)})
        with pytest.raises(RuntimeFault, match="sizes do not fit together") as caught:
            session.run(None, {"x": np.ones(does_not, np.float32)})
        assert caught.value.code == "E603"


@pytest.mark.parametrize(
    ("repeats", "said"),
    [([-1, 2], r"size -2 is negative.*'x' \[2, 3\]"), ([2**50, 1], r"size \d+ is beyond its bound")],
)
def test_a_size_that_the_data_make_impossible_is_told(repeats: list[int], said: str, tmp_path: Path) -> None:
    model = text_model("tile (float[N, M] x, int64[2] r) => (float[a, b] y) { y = Tile(x, r) }")
    path = mcpc.compile(model, "host", tmp_path / "tile.mcp26bin", golden=0)
    with mcpc.load(path) as session, pytest.raises(RuntimeFault, match=said) as caught:
        session.run(None, {"x": np.ones((2, 3), np.float32), "r": np.array(repeats, np.int64)})
    assert caught.value.code == "E603"


def test_an_image_smaller_than_the_window_is_an_error(tmp_path: Path) -> None:
    model = text_model(
        "small (float[1, 1, H, 8] x) => (float[1, 2, h, w] y) { y = Conv(x, w) }", w=np.ones((2, 1, 5, 5), np.float32)
    )
    path = mcpc.compile(model, "host", tmp_path / "small.mcp26bin", golden=0)
    with mcpc.load(path) as session:
        check(session, model, {"x": np.ones((1, 1, 5, 8), np.float32)})
        with pytest.raises(RuntimeFault) as caught:
            session.run(None, {"x": np.ones((1, 1, 3, 8), np.float32)})
        assert caught.value.code == "E603"


def test_arithmetic_on_sizes_takes_no_step(tmp_path: Path) -> None:
    """Heads split and merged by computed shapes: Reshape is a view, and nothing computes its operand."""
    model = text_model(
        """heads (float[B, S, 8] x) => (float[B, S, 8] y) {
            shape = Shape(x)
            zero = Constant<value = int64[1] {0}>()
            one = Constant<value = int64[1] {1}>()
            batch = Gather(shape, zero)
            length = Gather(shape, one)
            heads = Constant<value = int64[2] {2, 4}>()
            rest = Constant<value = int64[1] {-1}>()
            split = Concat<axis = 0>(batch, length, heads)
            a = Reshape(x, split)
            b = Neg(a)
            merge = Concat<axis = 0>(batch, length, rest)
            y = Reshape(b, merge)
        }"""
    )
    path = mcpc.compile(model, "host", tmp_path / "heads.mcp26bin")
    assert [step["op"] for step in mcpc.inspect(path)["steps"]] == ["Neg"]
    with mcpc.load(path) as session:
        for shape in ((1, 3, 8), (5, 2, 8), (1, 1, 8)):
            check(session, model, {"x": np.random.default_rng(3).standard_normal(shape, np.float32)})


def test_sizes_are_data_where_an_operator_reads_them(tmp_path: Path) -> None:
    model = text_model(
        """mean (float[N, M] x) => (float y, int64[2] shape, int64 half) {
            total = ReduceSum<keepdims = 0>(x)
            shape = Shape(x)
            count = Size(x)
            n = Cast<to = 1>(count)
            y = Div(total, n)
            two = Constant<value = int64 {2}>()
            half = Div(count, two)
        }"""
    )
    path = mcpc.compile(model, "host", tmp_path / "mean.mcp26bin")
    with mcpc.load(path) as session:
        for shape in ((2, 3), (7, 11), (1, 1)):
            check(session, model, {"x": np.ones(shape, np.float32)})


#: Inputs and body of a model whose sizes are data, and cases: the shape of x, then the integer inputs.
DATA: dict[str, tuple[str, str, list[tuple[Any, ...]]]] = {
    "Reshape": ("float[N, 6] x, int64[3] s", "y = Reshape(x, s)", [((2, 6), [0, -1, 3]), ((4, 6), [2, 6, 2])]),
    "Expand": ("float[N, 1] x, int64[3] s", "y = Expand(x, s)", [((3, 1), [2, 1, 4]), ((1, 1), [1, 5, 1])]),
    "Tile": ("float[N, 2] x, int64[2] s", "y = Tile(x, s)", [((3, 2), [2, 3]), ((2, 2), [0, 1])]),
    "ConstantOfShape": (
        "float[1] x, int64[2] s",
        "z = ConstantOfShape(s) y = Add(z, x)",
        [((1,), [2, 3]), ((1,), [0, 4])],
    ),
    "Pad": ("float[N, 2] x, int64[4] s", "y = Pad(x, s)", [((3, 2), [1, 0, 2, 3]), ((1, 2), [0, 0, 0, 0])]),
    "Slice": (
        "float[N, 2] x, int64[2] s, int64[2] e",
        "y = Slice(x, s, e)",
        [((9, 2), [-4, 0], [8, 9]), ((3, 2), [2, 1], [1, 2])],
    ),
}


@pytest.mark.parametrize("op", DATA)
def test_sizes_from_data(op: str, tmp_path: Path) -> None:
    inputs, body, cases = DATA[op]
    model = text_model(f"data ({inputs}) => (float y) {{ {body.replace(') ', ')' + chr(10))} }}")
    path = mcpc.compile(model, "host", tmp_path / "data.mcp26bin", golden=0)
    with mcpc.load(path) as session:
        for shape, *integers in cases * 2:
            x = np.random.default_rng(4).standard_normal(shape, np.float32)
            names = [value.name for value in session.get_inputs() if value.name != "x"]
            check(session, model, {"x": x, **{n: np.array(i, np.int64) for n, i in zip(names, integers, strict=True)}})


@pytest.mark.parametrize(
    ("op", "sizes"),
    [
        ("Reshape", [5, 5, 5]),
        ("Reshape", [-7, 1, 1]),
        ("Expand", [2**62, 2**62, 2**62]),
        ("Expand", [2, 7, 1]),
        ("Tile", [2**62, 2**62]),
        ("Tile", [-1, 1]),
        ("ConstantOfShape", [2**46, 2**46]),
        ("ConstantOfShape", [-1, 2]),
        ("Pad", [2**62, 2**62, 2**62, 2**62]),
        ("Pad", [-9, 0, 0, 0]),
    ],
)
def test_hostile_sizes_from_data_are_errors(op: str, sizes: list[int], tmp_path: Path) -> None:
    inputs, body, cases = DATA[op]
    model = text_model(f"data ({inputs}) => (float y) {{ {body.replace(') ', ')' + chr(10))} }}")
    path = mcpc.compile(model, "host", tmp_path / "data.mcp26bin", golden=0)
    shape = cases[0][0]
    with mcpc.load(path) as session:
        x = np.ones(shape, np.float32)
        with pytest.raises(RuntimeFault) as caught:
            session.run(None, {"x": x, "s": np.array(sizes, np.int64)})
        assert caught.value.code in ("E602", "E603", "E605")


def test_a_small_output_buffer_is_refused_before_it_is_written(tmp_path: Path) -> None:
    inputs, body, _ = DATA["Tile"]
    path = mcpc.compile(
        text_model(f"data ({inputs}) => (float y) {{ {body} }}"),
        "host",
        tmp_path / "tile.mcp26bin",
        golden=0,
        dims={"N": (1, 4)},
    )
    with mcpc.load(path) as session:
        room = np.zeros(8, np.float32)
        session.bind("x", np.ones((2, 2), np.float32))
        session.bind("s", np.array([2, 3], np.int64))
        session.bind("y", room[:4].reshape(2, 2))
        with pytest.raises(RuntimeFault):
            session.run_bound()
        assert not room.any()


@pytest.mark.parametrize("dims", [{}, {"N": (0, 2**40)}], ids=["unbounded", "bounded by more than there is"])
def test_outputs_outlive_the_memory_that_a_longer_one_replaces(dims: dict[str, Any], tmp_path: Path) -> None:
    model = text_model("step (float[N, 1048576] x) => (float[N, 1048576] y) { y = Neg(x) }")
    path = mcpc.compile(model, "host", tmp_path / "step.mcp26bin", golden=0, dims=dims)
    assert mcpc.inspect(path)["unbounded"] is True
    with mcpc.load(path) as session:
        session.bind("x", np.ones((1, 2**20), np.float32))
        (short,) = session.run_bound()
        session.bind("x", np.ones((8, 2**20), np.float32))
        session.run_bound()
        assert (short == -1).all()


def test_bounds_whose_product_leaves_64_bits(tmp_path: Path) -> None:
    model = text_model("step (float[N, M] x) => (float[N, M] y) { y = Neg(x) }")
    path = mcpc.compile(model, "host", tmp_path / "step.mcp26bin", dims={"N": (1, 2**40), "M": (1, 2**40)})
    with mcpc.load(path) as session:
        check(session, model, {"x": np.ones((3, 5), np.float32)})


@pytest.mark.parametrize("names", [("?", "p2o.DynamicDimension.1"), ("a.b", "a_2e_b")])  # "." is _2e_ in C's names
def test_odd_names_of_sizes(names: tuple[str, str], tmp_path: Path) -> None:
    def tensor(name: str, *sizes: str | int) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes)

    graph = helper.make_graph(
        [helper.make_node("Mul", ["a", "b"], ["y"])],
        "odd",
        [tensor("a", *names), tensor("b", 1, names[1])],
        [tensor("y", "unrelated", "?")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    path = mcpc.compile(model, "host", tmp_path / "odd.mcp26bin")
    rng = np.random.default_rng(5)
    with mcpc.load(path) as session:
        for n, m in ((1, 1), (5, 9), (2, 16)):
            feeds = {"a": rng.standard_normal((n, m), np.float32), "b": rng.standard_normal((1, m), np.float32)}
            check(session, model, feeds)


def test_slices_of_slices_compile_in_time(tmp_path: Path) -> None:
    """Lengths that nest Min in Max are simplified once, not once a pass."""
    body = "".join(f"c{i} = Concat<axis = 0>(d{i}, d{i}) d{i + 1} = Slice(c{i}, s, e) " for i in range(5))
    model = text_model(
        f"chain (float[N, 2] d0) => (float[M, 2] y) {{ {body} y = Neg(d5) }}", s=np.array([1]), e=np.array([7])
    )
    larger.cache_clear()
    path = mcpc.compile(model, "host", tmp_path / "chain.mcp26bin", golden=0)
    assert larger.cache_info().hits > 3 * larger.cache_info().misses
    with mcpc.load(path) as session:
        for size in (4, 1, 0):
            check(session, model, {"d0": np.ones((size, 2), np.float32)})


def test_a_size_named_like_one_that_data_show(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("Compress", ["x", "c"], ["y"], axis=0)],
        "names",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["y:0", 3]),
            helper.make_tensor_value_info("c", TensorProto.BOOL, ["y:0"]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    path = mcpc.compile(model, "host", tmp_path / "names.mcp26bin")
    with mcpc.load(path) as session:
        for count in (4, 0, 2):
            x = np.arange(12, dtype=np.float32).reshape(4, 3)
            check(session, model, {"x": x, "c": np.arange(4) < count})


def test_the_device_tool_takes_sizes(tmp_path: Path, run_on_aarch64: Any) -> None:
    path = mcpc.compile(image_model(), "aarch64", tmp_path / "image.mcp26bin", dims={"N": (1, 4)})
    said = run_on_aarch64(path)
    assert "size     N: at least 1, at most 4\n" in said.stdout and "growing" in said.stdout
    assert run_on_aarch64(path, "--selftest").returncode == 0
    assert run_on_aarch64(path, "--bench", "2", "--dim", "N=2", "--dim", "H=20", "--dim", "W=12").returncode == 0
    beyond = run_on_aarch64(path, "--bench", "2", "--dim", "N=5")
    assert beyond.returncode == 1 and "N must be at least 1 and at most 4, got 5" in beyond.stderr
    unknown = run_on_aarch64(path, "--bench", "2", "--dim", "M=5")
    assert unknown.returncode == 2 and "it has N, H, W" in unknown.stderr


@pytest.mark.parametrize("symbols", [1, 150])
def test_hundreds_of_parts_are_joined(tmp_path: Path, symbols: int) -> None:
    """More than one table of parts, and of a size each where that is symbolic."""
    count = 600
    inputs = [
        helper.make_tensor_value_info(f"x{index}", TensorProto.FLOAT, [2, f"N{index % symbols}"])
        for index in range(count)
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, None])
    node = helper.make_node("Concat", [value.name for value in inputs], ["y"], axis=1)
    graph = helper.make_graph([node], "many", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = mcpc.compile(model.SerializeToString(), "host", tmp_path / "many.mcp26bin", golden=0)
    rng = np.random.default_rng(3)
    feeds = {f"x{i}": rng.standard_normal((2, 1 + i % symbols % 5), np.float32) for i in range(count)}
    with mcpc.load(path) as session:
        np.testing.assert_array_equal(session.run(None, feeds)[0], np.concatenate([*feeds.values()], 1))
