"""The ONNX reader: what it reads, and how it answers to broken models."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper
from onnx.numpy_helper import from_array

from mcpc.errors import ErrorGroup, McpcError, ModelError, Problems, UsageError
from mcpc.ir import OPSET, DType, Graph, TensorType, symbol
from mcpc.onnx_reader import read

FLOAT = TensorProto.FLOAT
Array = np.ndarray[Any, Any]


def tensor(name: str, *shape: int | str | None, dtype: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def model(
    nodes: list[NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    constants: dict[str, Array] | None = None,
    opset: int = 17,
    **more: Any,
) -> ModelProto:
    initializers = [from_array(array, name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(nodes, "test", inputs, outputs, initializers)
    imports = more.pop("opset_imports", [helper.make_opsetid("", opset)])
    return helper.make_model(graph, opset_imports=imports, ir_version=10, **more)


def node(op: str, inputs: str, outputs: str, name: str = "", **attrs: Any) -> NodeProto:
    """A node whose tensors are listed with blanks between them, '_' for one that is left out."""
    reads, makes = (["" if n == "_" else n for n in text.split()] for text in (inputs, outputs))
    return helper.make_node(op, reads, makes, name=name, **attrs)


def relu(**more: Any) -> ModelProto:
    return model([node("Relu", "x", "y")], [tensor("x", 2, 3)], [tensor("y", 2, 3)], **more)


def errors_of(source: ModelProto | Path | bytes, **options: Any) -> list[McpcError]:
    """The faults that reading reports; there must be some."""
    with pytest.raises(McpcError) as caught:
        read(source, **options)
    return caught.value.errors if isinstance(caught.value, ErrorGroup) else [caught.value]


def codes_of(source: ModelProto | Path | bytes, **options: Any) -> list[str]:
    return [error.code for error in errors_of(source, **options)]


# ---- what it reads


def test_values_nodes_types_and_metadata(tmp_path: Path) -> None:
    w = np.ones((4, 3), np.float32)
    nodes = [node("Gemm", "x w _", "h", transB=1), node("Relu", "h", "y", "act")]
    original = model(nodes, [tensor("x", "N", 3)], [tensor("y", "N", 4)], {"w": w}, producer_name="maker")
    path = tmp_path / "m.onnx"
    onnx.save(original, path)
    graph = read(path)
    graph.verify()
    assert [(n.op, n.name) for n in graph.nodes] == [("Gemm", "h"), ("Relu", "act")]
    assert graph.nodes[0].attrs == {"transB": 1}
    assert graph.inputs[0].type == TensorType(DType.float32, (symbol("N"), 3))
    assert graph.outputs[0].type == TensorType(DType.float32, (symbol("N"), 4))
    assert graph.nodes[0].inputs[1] is not None and np.array_equal(graph.nodes[0].inputs[1].data, w)  # type: ignore[arg-type]
    assert graph.metadata["source.sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (graph.metadata["producer"], graph.metadata["opset"]) == ("maker", "17")


def test_a_model_in_memory_is_not_changed() -> None:
    original = model(
        [node("Constant", "", "c", value=from_array(np.ones(5000, np.float32))), node("Add", "x c", "y")],
        [tensor("x", 5000)],
        [tensor("y", 5000)],
    )
    before = original.SerializeToString(deterministic=True)
    assert read(original).outputs[0].shape == (5000,)
    assert original.SerializeToString(deterministic=True) == before


@pytest.mark.parametrize("kind", ["value", "value_int", "value_ints", "value_float", "value_floats", "initializer"])
def test_every_kind_of_constant(kind: str) -> None:
    arrays: dict[str, Array] = {
        "value": np.array([1.5, 2.5], np.float32),
        "value_int": np.array(3, np.int64),
        "value_ints": np.array([3, 4], np.int64),
        "value_float": np.array(0.5, np.float32),
        "value_floats": np.array([0.5, 1.5], np.float32),
        "initializer": np.array([7], np.int32),
    }
    wanted = arrays[kind]
    code = helper.np_dtype_to_tensor_dtype(wanted.dtype)
    value: Any = from_array(wanted) if kind == "value" else wanted.tolist()
    nodes = [] if kind == "initializer" else [node("Constant", "", "c", **{kind: value})]
    constants = {"c": wanted} if kind == "initializer" else {}
    graph = read(model([*nodes, node("Identity", "c", "y")], [], [tensor("y", *wanted.shape, dtype=code)], constants))
    assert [n.op for n in graph.nodes] == ["Identity"]
    constant = graph.nodes[0].inputs[0]
    assert constant is not None and constant.data is not None
    assert constant.data.dtype == wanted.dtype and np.array_equal(constant.data, wanted)


@pytest.mark.parametrize("dtype", DType)
def test_every_element_type_of_initializers_and_attributes(dtype: DType) -> None:
    numbers = np.array([[0, 1], [1, 0]]).astype(dtype.numpy)
    code = helper.np_dtype_to_tensor_dtype(dtype.numpy)
    graph = read(model([node("Identity", "c", "y")], [], [tensor("y", 2, 2, dtype=code)], {"c": numbers}, opset=21))
    constant = graph.nodes[0].inputs[0]
    assert constant is not None and constant.data is not None and constant.dtype is dtype
    assert constant.data.tobytes() == numbers.tobytes()


def test_typed_fields_hold_numbers_too() -> None:
    for code, numbers in ((FLOAT, [1.5, -2]), (TensorProto.INT8, [-3, 4]), (TensorProto.FLOAT16, [15360, 0])):
        proto = TensorProto(name="c", data_type=code, dims=[2])
        getattr(proto, "float_data" if code == FLOAT else "int32_data").extend(numbers)
        original = model([node("Identity", "c", "y")], [], [tensor("y", 2, dtype=code)])
        original.graph.initializer.append(proto)
        constant = read(original).nodes[0].inputs[0]
        assert constant is not None and constant.data is not None
        assert constant.data.tolist() == ([1.0, 0.0] if code == TensorProto.FLOAT16 else numbers)


def test_unnamed_sizes_get_names_of_their_own() -> None:
    original = model(
        [node("Relu", "x", "y")], [tensor("x", None, "?", "x.0", "?")], [tensor("y", None, None, None, None)]
    )
    shape = read(original).inputs[0].shape
    assert shape == (symbol("x.0_"), symbol("x.1"), symbol("x.0"), symbol("x.3"))


def sparse(name: str, values: list[float], indices: Array, *dims: int) -> onnx.SparseTensorProto:
    numbers = helper.make_tensor(name, FLOAT, [len(values)], values)
    return helper.make_sparse_tensor(numbers, from_array(indices, f"{name}.i"), list(dims))


def test_sparse_constants_are_filled_in() -> None:
    linear, pairs = np.array([1, 4]), np.array([[0, 2], [1, 0]])
    nodes = [node("Constant", "", "c", sparse_value=sparse("", [1, 2], linear, 2, 3)), node("Add", "c w", "y")]
    original = model(nodes, [], [tensor("y", 2, 3)])
    original.graph.sparse_initializer.append(sparse("w", [3, 4], pairs, 2, 3))
    data = [value.data.tolist() for value in read(original).constants() if value.data is not None]
    assert data == [[[0, 1, 0], [0, 2, 0]], [[0, 0, 3], [4, 0, 0]]]


@pytest.mark.parametrize(
    ("indices", "dims", "message"),
    [
        (np.array([1, 6]), (2, 3), "E100.*an index lies outside"),
        (np.array([[0, 0], [0, -1]]), (2, 3), "E100.*an index lies outside"),
        (np.array([1]), (2, 3), "E100.*do not fit its values"),
        (np.array([[0], [1]]), (2, 3), "E100.*do not fit its values"),
        (np.array([0, 1]), (2**40, 2**20), "E111.*too large"),
    ],
)
def test_a_malformed_sparse_constant_is_refused(indices: Array, dims: tuple[int, ...], message: str) -> None:
    original = model([node("Relu", "w", "y", name="n")], [], [tensor("y", None, None)])
    original.graph.sparse_initializer.append(sparse("w", [3, 4], indices, *dims))
    with pytest.raises(ModelError, match=message) as caught:
        read(original)
    assert caught.value.node == "n"


def test_attributes_that_a_call_leaves_out_have_the_functions_default() -> None:
    leaky = node("LeakyRelu", "x", "y")
    leaky.attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="a", type=onnx.AttributeProto.FLOAT))
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    function = helper.make_function("f", "F", ["x"], ["y"], [leaky], opsets[:1], [], [helper.make_attribute("a", 0.25)])
    calls = [node("F", "x", "u", domain="f"), node("F", "u", "y", domain="f", a=0.5)]
    original = model(calls, [tensor("x", 2)], [tensor("y", 2)], opset_imports=opsets, functions=[function])
    assert [each.attrs["alpha"] for each in read(original).nodes] == [0.25, 0.5]
    assert [len(call.attribute) for call in original.graph.node] == [0, 1]  # the model is left as it was


def test_text_is_refused_once_where_it_is_read() -> None:
    labels = TensorProto(name="labels", data_type=TensorProto.STRING, dims=[2], string_data=[b"cat", b"dog"])
    nodes = [node("Gather", "labels i", "found", name="lookup"), node("Equal", "found s", "y", name="same")]
    inputs = [tensor("i", 2, dtype=TensorProto.INT64), tensor("s", 2, dtype=TensorProto.STRING)]
    original = model(nodes, inputs, [tensor("y", 2, dtype=TensorProto.BOOL)])
    original.graph.initializer.append(labels)
    assert [(error.code, error.node) for error in errors_of(original)] == [("E109", "lookup"), ("E109", "same")]


def unranked(original: ModelProto, *names: str) -> ModelProto:
    for value in (*original.graph.input, *original.graph.output):
        if value.name in names:
            value.type.tensor_type.ClearField("shape")
    return original


def test_an_undeclared_rank_is_what_the_nodes_take() -> None:
    pooled = model([node("GlobalMaxPool", "x", "p"), node("Flatten", "p", "y")], [tensor("x")], [tensor("y")])
    weighted = model(
        [node("Conv", "x w", "y")], [tensor("x")], [tensor("y")], {"w": np.zeros((4, 3, 1, 1), np.float32)}
    )
    assert read(unranked(weighted, "x", "y")).inputs[0].shape == (symbol("x.0"), 3, symbol("x.2"), symbol("x.3"))
    by_output = unranked(relu(), "x")
    assert read(by_output).inputs[0].type.rank == 2
    for original in (unranked(relu(), "x", "y"), unranked(pooled, "x", "y")):
        with pytest.raises(ModelError, match=r"E108.*declared without a shape.*any rank") as caught:
            read(original)
        assert "--input-shape x:" in caught.value.hint
        assert read(original, shapes={"x": (1, None, 5)}).inputs[0].shape == (1, symbol("x.1"), 5)


def test_where_smaller_ranks_broadcast_the_largest_is_taken_and_told() -> None:
    told: list[tuple[str, str, str]] = []
    wanted = {"minus": np.array([-1, -1], np.int64)}
    nodes = [node("Shape", "x", "s"), node("Where", "c s minus", "t"), node("Expand", "x t", "y")]
    original = model(nodes, [tensor("x"), tensor("c", 2, dtype=TensorProto.BOOL)], [tensor("y")], wanted)
    graph = read(unranked(original, "x", "y"), tell=lambda *each: told.append(each))
    assert graph.inputs[0].type.rank == 2
    assert [(name, action) for name, action, _ in told] == [("x", "rank")] and "1 would fit too" in told[0][2]
    assert set(graph.bounds) <= {"y:0", "y:1"}  # nothing is left of the ranks that were tried


def with_default(original: ModelProto, *names: str) -> ModelProto:
    for item in original.graph.initializer:
        if item.name in names:
            original.graph.input.append(tensor(item.name, *item.dims, dtype=item.data_type))
    return original


def test_an_initializer_listed_as_an_input_is_its_default() -> None:
    weights = {"w": np.ones((2, 2), np.float32), "b": np.full(2, 3, np.float32)}
    told: list[tuple[str, str, str]] = []
    original = with_default(
        model([node("MatMul", "x w", "m"), node("Add", "m b", "y")], [tensor("x", 2, 2)], [tensor("y", 2, 2)], weights),
        "w",
    )
    graph = read(original, tell=lambda *each: told.append(each))
    assert [(value.name, value.default is not None) for value in graph.inputs] == [("x", False), ("w", True)]
    assert np.array_equal(graph.inputs[1].default, weights["w"])  # type: ignore[arg-type]
    assert [each[:2] for each in told] == [("w", "keep")]
    assert [value.name for value in read(original, freeze_defaults=True).inputs] == ["x"]
    original.ir_version = 3  # where every initializer had to be listed
    assert [value.name for value in read(original).inputs] == ["x"]


def test_shapes_and_packed_weights_stay_constants() -> None:
    weights: dict[str, Array] = {"w": np.ones((4, 3, 1, 1), np.float32), "s": np.array([1, -1], np.int64)}
    nodes = [node("Conv", "x w", "c"), node("Reshape", "c s", "y")]
    original = with_default(model(nodes, [tensor("x", 1, 3, 2, 2)], [tensor("y", 1, 16)], weights), "w", "s")
    told: list[tuple[str, str, str]] = []
    graph = read(original, tell=lambda *each: told.append(each))
    assert [value.name for value in graph.inputs] == ["x"] and graph.outputs[0].shape == (1, 16)
    assert [each[:2] for each in told] == [("w", "freeze"), ("s", "freeze")]
    assert "Conv takes it as a constant" in told[0][2] and "Reshape" in told[1][2]


def test_a_default_must_fit_its_declaration() -> None:
    original = model([node("Add", "x w", "y")], [tensor("x", 2)], [tensor("y", 2)], {"w": np.ones(2, np.float32)})
    original.graph.input.append(tensor("w", 3))
    assert "input w is float32[3], its default is float32[2]" in errors_of(original)[0].message


def test_a_declared_output_shape_that_is_wrong_is_told() -> None:
    told: list[tuple[str, str, str]] = []
    original = model([node("Relu", "x", "y")], [tensor("x", 2, "N")], [tensor("y", 3, "other")])
    graph = read(original, tell=lambda *each: told.append(each))
    assert graph.outputs[0].shape == (2, symbol("N"))
    assert told == [("y", "correct", "the output is declared as [3, ?], but is float32[2, N]")]


def test_sizes_can_be_fixed_and_bounded() -> None:
    original = model([node("Relu", "x", "y")], [tensor("x", "N", "H", 3)], [tensor("y", "N", "H", 3)])
    graph = read(original, dims={"N": 4, "H": (1, 16)})
    assert (graph.outputs[0].shape, graph.bounds) == ((4, symbol("H"), 3), {"H": (1, 16)})
    assert read(original, shapes={"x": (2, 5, 3)}).outputs[0].shape == (2, 5, 3)
    two = model([node("Add", "x z", "y")], [tensor("x", "N", 3), tensor("z", "N", 3)], [tensor("y", "N", 3)])
    assert read(two, shapes={"x": (2, 3)}).inputs[1].shape == (2, 3)


def test_a_size_that_is_named_as_a_sum_has_the_bounds_of_its_parts() -> None:
    total = "past + sequence + 1"
    inputs = [tensor("x", "past"), tensor("z", "sequence"), tensor("m", total)]
    original = model([node("Relu", "m", "y")], inputs, [tensor("y", total)])
    assert read(original, dims={"past": (0, 5)}).bounds == {"past": (0, 5)}
    bounds = read(original, dims={"past": (0, 5), "sequence": (1, 3)}).bounds
    assert bounds == {"past": (0, 5), "sequence": (1, 3), total: (2, 9)}
    assert read(original, dims={"past": (0, 5), "sequence": 2}).bounds == {"past": (0, 5), total: (3, 8)}
    assert read(original, dims={"past": 4, "sequence": 2}).outputs[0].shape == (7,)
    assert read(original, dims={"past": 4, "sequence": 2, total: (1, 20)}).bounds == {total: (1, 20)}


@pytest.mark.parametrize(
    "options",
    [
        {"dims": {"M": 3}},
        {"dims": {"N": -1}},
        {"dims": {"N": (4, 2)}},
        {"shapes": {"z": (1, 2)}},
        {"shapes": {"x": (1, 2)}},
        {"shapes": {"x": (1, 2, 4)}},
        {"shapes": {"x": (1, 2, 3)}, "dims": {"N": 2}},
    ],
    ids=str,
)
def test_sizes_that_do_not_fit_are_a_usage_error(options: dict[str, Any]) -> None:
    original = model([node("Relu", "x", "y")], [tensor("x", "N", "H", 3)], [tensor("y", "N", "H", 3)])
    (error,) = errors_of(original, **options)
    assert isinstance(error, UsageError) and error.code == "E001"


def test_fixing_a_size_settles_what_two_symbols_leave_open() -> None:
    original = model([node("Add", "a b", "y")], [tensor("a", "M"), tensor("b", "N")], [tensor("y", None)])
    assert list(read(original).assumptions) == [(symbol("M"), symbol("N"))]
    assert not read(original, dims={"M": 3, "N": 3}).assumptions


def test_outputs_may_be_inputs_and_constants() -> None:
    graph = read(model([], [tensor("x", 2)], [tensor("x", 2), tensor("w", 2)], {"w": np.ones(2, np.float32)}))
    graph.verify()
    assert graph.outputs[0] is graph.inputs[0] and graph.outputs[1].is_constant


def test_optional_operands_and_results_that_are_left_out() -> None:
    nodes = [node("Clip", "x _ top", "c"), node("LSTM", "c w r", "_ h", hidden_size=1)]
    constants = {"top": np.array(1, np.float32), "w": np.ones((1, 4, 2), "f"), "r": np.ones((1, 4, 1), "f")}
    graph = read(model(nodes, [tensor("x", 3, 1, 2)], [tensor("h", 1, 1, 1)], constants))
    clip, lstm = graph.nodes
    assert clip.input(1) is None and clip.input(2) is not None
    assert lstm.outputs[0] is None and lstm.outputs[1] is graph.outputs[0] and lstm.name == "h"


def test_nodes_in_any_order_and_with_the_same_name() -> None:
    nodes = [node("Relu", "h", "y", "same"), node("Neg", "x", "h", "same")]
    graph = read(model(nodes, [tensor("x", 2)], [tensor("y", 2)]))
    graph.verify()
    assert [n.op for n in graph.nodes] == ["Neg", "Relu"]
    assert len({n.name for n in graph.nodes}) == 2


def test_a_long_chain_needs_no_recursion() -> None:
    nodes = [node("Neg", f"t{i}", f"t{i + 1}") for i in range(3000)]
    graph = read(model(nodes, [tensor("t0", 2)], [tensor("t3000", 2)]))
    assert len(graph.nodes) == 3000 and graph.outputs[0].shape == (2,)


# ---- opsets and functions


def test_older_opsets_are_converted() -> None:
    squeeze = model([node("Squeeze", "x", "y", axes=[1])], [tensor("x", 2, 1)], [tensor("y", 2)], opset=11)
    graph = read(squeeze)
    axes = graph.nodes[0].inputs[1]
    assert axes is not None and axes.data is not None and axes.data.tolist() == [1]
    assert graph.outputs[0].shape == (2,)
    # Softmax of opset 12 and before normalises over all axes from the given one on.
    assert (
        len(
            read(
                model([node("Softmax", "x", "y", axis=1)], [tensor("x", 2, 3, 4)], [tensor("y", 2, 3, 4)], opset=9)
            ).nodes
        )
        > 1
    )


def test_the_highest_of_two_imports_counts() -> None:
    imports = [helper.make_opsetid("", version) for version in (13, 11)]
    original = model(
        [node("Softmax", "x", "y", axis=1)], [tensor("x", 2, 3, 4)], [tensor("y", 2, 3, 4)], opset_imports=imports
    )
    graph = read(original)
    assert [n.op for n in graph.nodes] == ["Softmax"] and graph.metadata["opset"] == "13"


def test_the_long_name_of_the_standard_domain() -> None:
    original = relu(opset_imports=[helper.make_opsetid("ai.onnx", 17)])
    original.graph.node[0].domain = "ai.onnx"
    assert read(original).nodes[0].is_op("Relu")


def functions_model() -> ModelProto:
    """y = twice(x), twice(x) = scaled(x, 2) + scaled(x, 3), scaled(x, by) = x · by of opset 12."""
    scaled = helper.make_function(
        "f", "Scaled", ["x"], ["y"],
        [helper.make_node("Constant", [], ["t"]), helper.make_node("Mul", ["x", "t"], ["y"])],
        [helper.make_opsetid("", 17)], ["by"],
    )  # fmt: skip
    scaled.node[0].attribute.add(name="value_float", ref_attr_name="by", type=onnx.AttributeProto.FLOAT)
    call = lambda by, out: helper.make_node("Scaled", ["x"], [out], domain="f", by=by)  # noqa: E731
    twice = helper.make_function(
        "f", "Twice", ["x"], ["y"],
        [call(2.0, "a"), call(3.0, "b"), helper.make_node("Add", ["a", "b"], ["y"])],
        [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)],
    )  # fmt: skip
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    nodes = [helper.make_node("Twice", ["x"], ["h"], domain="f"), helper.make_node("Twice", ["h"], ["y"], domain="f")]
    return model(nodes, [tensor("x", 2)], [tensor("y", 2)], opset_imports=imports, functions=[scaled, twice])


def test_functions_are_inlined() -> None:
    graph = read(functions_model())
    graph.verify()
    assert [n.op for n in graph.nodes] == ["Mul", "Mul", "Add"] * 2
    scales = [n.inputs[1].data.item() for n in graph.nodes if n.op == "Mul"]  # type: ignore[union-attr]
    assert scales == [2.0, 3.0, 2.0, 3.0]


def test_functions_that_call_themselves_are_refused() -> None:
    original = functions_model()
    original.functions[0].node.append(helper.make_node("Twice", ["x"], ["z"], domain="f"))
    (error,) = errors_of(original)
    assert error.code == "E103" and "cycle" in error.message and "Twice" in error.message


def test_functions_that_multiply_without_end_are_refused() -> None:
    original = functions_model()
    for level in range(40):
        callee = f"L{level - 1}" if level else "Twice"
        calls = [helper.make_node(callee, ["x"], [out], domain="f") for out in "ab"]
        body = [*calls, helper.make_node("Add", ["a", "b"], ["y"])]
        imports = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
        original.functions.append(helper.make_function("f", f"L{level}", ["x"], ["y"], body, imports))
    original.graph.node[0].op_type = "L39"
    (error,) = errors_of(original)
    assert error.code == "E103" and "expand" in error.message


@pytest.mark.parametrize("opset", [0, 999])
def test_unknown_opsets(opset: int) -> None:
    (error,) = errors_of(relu(opset=opset))
    assert error.code == "E107" and str(opset) in error.message and str(onnx.defs.onnx_opset_version()) in error.message


def test_only_a_newer_opset_is_advised_to_be_older() -> None:
    none = relu()
    del none.opset_import[:]
    advice = "export the model with an older opset"
    assert [errors_of(each)[0].hint for each in (relu(opset=999), relu(opset=0), none)] == [advice, "", ""]


def test_nodes_that_cannot_be_converted_are_named_beside_other_faults() -> None:
    nodes = [
        node("Reshape", "x", "a", "no_shape"),
        node("LSTM", "s w r", "b", "old_lstm", hidden_size=1),
        node("NoSuchOp", "x", "c", "unknown"),
        node("Add", "b b", "d", "follows"),
        node("Relu", "b", "z", "follows_too"),
        node("Relu", "x", "e", "fine"),
    ]
    constants = {"w": np.ones((1, 4, 3), np.float32), "r": np.ones((1, 4, 1), np.float32)}
    inputs = [tensor("x", 2, 3), tensor("s", 2, 1, 3)]
    found = errors_of(model(nodes, inputs, [tensor("e", 2, 3)], constants, opset=6))
    assert {(error.code, error.node) for error in found} == {
        ("E107", "no_shape"), ("E107", "old_lstm"), ("E101", "unknown"),
    }  # fmt: skip
    assert all("opset 6" in error.message for error in found)


# ---- external data


def external(folder: Path, location: str, offset: int = 4096, write: bool = True) -> Path:
    """A model whose weight of 64 × 64 numbers lies in ``location``."""
    weight = np.arange(4096, dtype=np.float32).reshape(64, 64)
    if write:
        (folder / location).write_bytes(b"\0" * offset + weight.tobytes())
    original = model([node("MatMul", "x w", "y")], [tensor("x", 2, 64)], [tensor("y", 2, 64)])
    proto = original.graph.initializer.add(name="w", data_type=FLOAT, dims=[64, 64], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", offset), ("length", weight.nbytes)):
        proto.external_data.add(key=key, value=str(value))
    path = folder / "model.onnx"
    path.write_bytes(original.SerializeToString())
    return path


@pytest.mark.parametrize("offset", [0, 4096, 6])
def test_external_data_are_mapped(tmp_path: Path, offset: int, monkeypatch: pytest.MonkeyPatch) -> None:
    path = external(tmp_path, "w.bin", offset)
    monkeypatch.chdir("/")
    weight = read(path).nodes[0].inputs[1]
    assert weight is not None and isinstance(weight.data, np.memmap)
    assert np.array_equal(weight.data, np.arange(4096, dtype=np.float32).reshape(64, 64))


def test_missing_and_short_external_data(tmp_path: Path) -> None:
    (error,) = errors_of(external(tmp_path, "gone.bin", write=False))
    assert error.code == "E105" and "gone.bin" in error.message
    path = external(tmp_path, "short.bin")
    (tmp_path / "short.bin").write_bytes(b"\0" * 5000)
    (error,) = errors_of(path)
    assert error.code == "E105" and "short.bin" in error.message and "16384 bytes" in error.message
    assert codes_of(onnx.load(path, load_external_data=False)) == ["E105"]


@pytest.mark.parametrize("location", ["../out.bin", "/etc/passwd", "sub/../../out.bin", "C:\\out.bin", "..\\out.bin"])
def test_external_data_outside_the_folder_are_refused(tmp_path: Path, location: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "out.bin").write_bytes(b"\0" * 20480)
    (error,) = errors_of(external(folder, location, write=False))
    assert error.code == "E106" and repr(location) in error.message and "outside" in error.message


def test_external_data_behind_a_link_outside_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "out.bin").write_bytes(b"\0" * 20480)
    (folder / "link.bin").symlink_to(tmp_path / "out.bin")
    assert codes_of(external(folder, "link.bin", write=False)) == ["E106"]


# ---- broken models


def test_bytes_that_are_no_model(tmp_path: Path) -> None:
    data = relu().SerializeToString()
    path = tmp_path / "cut.onnx"
    path.write_bytes(data[: len(data) // 2])
    for source in (path, b"", b"hello", data[:-3], Path(__file__)):
        (error,) = errors_of(source)
        assert error.code == "E100"
    assert "cut.onnx" in str(errors_of(path)[0])
    (error,) = errors_of(model([node("Neg", "x\0 y", "z")], [tensor("x\0", 2), tensor("y", 2)], [tensor("z", 2)]))
    assert error.code == "E100" and "no text" in error.message  # a C program would see the name x
    named = model([node("Neg", "x", "y")], [tensor("x", 2)], [tensor("y", 2)])
    named.graph.node[0].attribute.append(helper.make_attribute("body", helper.make_graph([], "inner graph", [], [])))
    (error,) = errors_of(named.SerializeToString().replace(b"inner graph", b"\xff\xfe\xfd\xfc\xfb graph"))
    assert error.code == "E100" and "no text" in error.message
    assert codes_of(tmp_path / "none.onnx") == ["E002"]


def test_cycles_missing_and_double_producers() -> None:
    cycle = model(
        [node("Add", "x b", "a", "first"), node("Neg", "a", "b", "second")], [tensor("x", 2)], [tensor("b", 2)]
    )
    (error,) = errors_of(cycle)
    assert error.code == "E103" and "cycle" in error.message and "first" in error.message
    missing = model([node("Add", "x nowhere", "y", "adder")], [tensor("x", 2)], [tensor("y", 2), tensor("lost", 2)])
    found = errors_of(missing)
    assert [error.code for error in found] == ["E103", "E103"]
    assert "nowhere" in found[0].message and found[0].node == "adder" and "lost" in found[1].message
    for twice in (
        model([node("Neg", "x", "y", "one"), node("Abs", "x", "y", "two")], [tensor("x", 2)], [tensor("y", 2)]),
        model([node("Neg", "x", "x", "one")], [tensor("x", 2)], [tensor("x", 2)]),
        model([node("Neg", "x", "y")], [tensor("x", 2), tensor("x", 2)], [tensor("y", 2)]),
    ):
        (error,) = errors_of(twice)
        assert error.code == "E103" and "two producers" in error.message
    double = model([node("Add", "x w", "y")], [tensor("x", 2)], [tensor("y", 2)], {"w": np.ones(2, np.float32)})
    double.graph.initializer.append(double.graph.initializer[0])
    assert set(codes_of(double)) == {"E103"}
    (error,) = errors_of(model([node("Neg", "x", "y")], [tensor("x", 2)], []))
    assert error.code == "E103" and "no outputs" in error.message


def test_contents_of_the_wrong_length() -> None:
    for change in ("raw", "field", "none", "dims"):
        original = model([node("Add", "x w_bad", "y")], [tensor("x", 4)], [tensor("y", 4)])
        proto = original.graph.initializer.add(name="w_bad", data_type=FLOAT, dims=[4])
        if change == "raw":
            proto.raw_data = b"\0" * 12
        elif change == "field":
            proto.float_data.extend([1, 2, 3])
        elif change == "dims":
            proto.dims[:] = [-4]
        (error,) = errors_of(original)
        assert error.code == "E100" and "w_bad" in error.message


def test_types_that_are_not_supported() -> None:
    text = model(
        [node("Identity", "s", "y")],
        [tensor("s", 2, dtype=TensorProto.STRING)],
        [tensor("y", 2, dtype=TensorProto.STRING)],
    )
    assert set(codes_of(text)) == {"E109"}
    complex_ = relu()
    complex_.graph.input[0].type.tensor_type.elem_type = TensorProto.COMPLEX64
    assert [(e.code, "complex64" in e.message) for e in errors_of(complex_)] == [("E109", True)]
    sequence = relu()
    sequence.graph.input[0].CopyFrom(helper.make_tensor_sequence_value_info("x", FLOAT, [2]))
    (error,) = errors_of(sequence)
    assert error.code == "E109" and "sequence" in error.message
    cast = model(
        [node("Cast", "x", "y", "to_text", to=TensorProto.STRING)], [tensor("x", 2)], [tensor("y", 2, dtype=8)]
    )
    assert "E109" in codes_of(cast)


def test_a_declared_output_type_that_is_wrong() -> None:
    original = relu()
    original.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    (error,) = errors_of(original)
    assert error.code == "E104" and "int64" in error.message and "float32" in error.message


def test_a_declared_output_shape_may_be_stale() -> None:
    assert read(model([node("Relu", "x", "y")], [tensor("x", "N", 3)], [tensor("y", 1, 3)])).outputs[0].shape == (
        symbol("N"),
        3,
    )


def test_every_problem_is_reported_in_one_run() -> None:
    nodes = [
        node("FancyNms", "x", "a", "unknown_1", domain="acme.ops"),
        node("Add", "x i", "b", "mixed_types"),
        node("NoSuchOp", "x", "c", "unknown_2"),
        node("MatMul", "x w", "d", "inner_sizes"),
        node("Neg", "a", "follows_an_unknown"),
        node("Concat", "x label", "e", axis=0),
    ]
    original = model(
        nodes,
        [tensor("x", 2, 3), tensor("i", 2, 3, dtype=TensorProto.INT64)],
        [tensor("b", 2, 3)],
        {"w": np.ones((4, 5), np.float32)},
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("acme.ops", 3)],
    )
    original.graph.initializer.append(
        TensorProto(name="label", data_type=TensorProto.STRING, dims=[1], string_data=[b"dog"])
    )
    found = errors_of(original)
    assert [(error.code, error.node) for error in found] == [
        ("E109", "e"), ("E101", "unknown_1"), ("E104", "mixed_types"), ("E101", "unknown_2"), ("E104", "inner_sizes"),
    ]  # fmt: skip
    assert "FancyNms" in found[1].message and "acme.ops" in found[1].message and "opset 3" in found[1].message
    assert "NoSuchOp" in found[3].message and "opset 17" in found[3].message


def test_unknown_operators_are_reported_inside_control_flow_and_beside_other_faults() -> None:
    branch = helper.make_graph([node("Strange", "x", "o", "inner", domain="acme")], "b", [], [tensor("o", 2)])
    nodes = [node("If", "c", "y", "branching", then_branch=branch, else_branch=branch)]
    inputs = [tensor("x", 2), tensor("c", dtype=TensorProto.BOOL)]
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("acme", 1)]
    found = errors_of(model(nodes, inputs, [tensor("y", 2)], opset_imports=imports))
    assert sorted(error.node for error in found) == ["inner", "inner.2"]
    broken = model([*nodes, node("Neg", "nothing", "z")], inputs, [tensor("y", 2)], opset_imports=imports)
    assert {(error.code, error.node) for error in errors_of(broken)} >= {("E101", "inner"), ("E103", "z")}


def test_problems_can_be_collected() -> None:
    problems = Problems()
    graph = read(model([node("NoSuchOp", "x", "y")], [tensor("x", 2)], [tensor("y", 2)]), problems)
    assert isinstance(graph, Graph) and [error.code for error in problems.errors] == ["E101"]


def test_corrupt_bytes_never_crash() -> None:
    """Each byte of a model may be another: the reader reads it, or says what is wrong."""
    nodes = [node("Conv", "x w", "h", pads=[1, 1]), node("Reshape", "h s", "y")]
    constants = {"w": np.ones((2, 1, 3), np.float32), "s": np.array([0, -1])}
    data = bytearray(model(nodes, [tensor("x", "N", 1, 8)], [tensor("y", "N", 16)], constants).SerializeToString())
    generator = random.Random(7)
    refused = 0
    for _ in range(400):
        damaged = bytearray(data)
        for _ in range(generator.randint(1, 3)):
            damaged[generator.randrange(len(damaged))] = generator.randrange(256)
        try:
            read(bytes(damaged)).verify()
        except McpcError:
            refused += 1
    assert refused > 100


def test_the_opset_of_graphs_is_one() -> None:
    assert onnx.defs.onnx_opset_version() >= OPSET
    assert isinstance(errors_of(b"")[0], ModelError)


def test_a_size_that_a_node_fixes_is_fixed() -> None:
    """Exporters leave all sizes open, also those that weights decide."""
    weights = {"w": np.zeros((4, 3, 1, 1), np.float32), "v": np.zeros((4, 2), np.float32)}
    nodes = [
        node("Conv", "x w", "c", name="conv"), node("GlobalAveragePool", "c", "g"), node("Flatten", "g", "f"),
        node("Add", "f z", "a"), node("Gemm", "a v", "y", name="head"),
    ]  # fmt: skip
    original = model(nodes, [tensor("x", "N", "C", "H", "W"), tensor("z", "N", "K")], [tensor("y", None)], weights)
    unranked(original, "y")
    told: list[tuple[str, str, str]] = []
    graph = read(original, tell=lambda *each: told.append(each))
    assert [value.shape for value in graph.inputs] == [
        (symbol("N"), 3, symbol("H"), symbol("W")), (symbol("N"), 4)
    ]  # fmt: skip
    assert not graph.assumptions
    assert ("C", "fix", "this size is 3: node conv takes no other") in told
    outside = read(original, dims={"C": (5, 9)})
    assert outside.inputs[0].shape is not None and outside.inputs[0].shape[1] == symbol("C")
    assert list(outside.assumptions) == [(3, symbol("C"))]  # which code refuses in the run


@pytest.mark.parametrize(
    ("op", "inputs", "weight"),
    [("MatMul", ("N", "K"), (4, 2)), ("Gemm", ("N", "K"), (4, 2)), ("Conv", ("N", "K", "L"), (2, 4, 1))],
)
def test_inner_sizes_are_never_taken_for_equal_unchecked(op: str, inputs: tuple[str, ...], weight: Any) -> None:
    """A product that trusted them would read beyond its operands."""
    original = model([node(op, "x w", "y")], [tensor("x", *inputs), tensor("w", "M", *weight[1:])], [tensor("y")])
    if op == "Conv":
        original.graph.input[1].CopyFrom(tensor("w", 2, "M", 1))
    graph = read(unranked(original, "y"))
    assert [set(map(str, pair)) for pair in graph.assumptions] == [{"K", "M"}]
