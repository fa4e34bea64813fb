"""Types, contents and expressions of operators, against ONNX Runtime and ONNX's own schemas."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import helper
from onnx.reference import ReferenceEvaluator

from mcpc import ops
from mcpc.errors import ErrorGroup, McpcError, ModelError
from mcpc.ir import MCPC, OPSET, DType, Graph, Node, TensorType, Value, dim, symbol
from mcpc.onnx_tensors import type_code
from mcpc.onnx_writer import to_model
from mcpc.ops.contrib import Contrib
from mcpc.ops.expr import evaluate
from mcpc.ops.move import slice_length
from mcpc.ops.registry import NEWEST

Array = np.ndarray[Any, Any]
F32 = np.float32


def random(*shape: int, dtype: Any = F32) -> Array:
    numbers = np.asarray(np.random.default_rng(sum(shape) + 1).standard_normal(shape) * 3)
    return numbers.astype(dtype) if dtype is not bool else numbers > 0


def ints(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


def build(
    op: str, arrays: Sequence[Array | None], attrs: dict[str, Any], outputs: int, constant: Sequence[int], symbols: bool
) -> Graph:
    """A graph of one node. With ``symbols`` every size above 1 of an input is the symbol 'd<size>'."""
    graph = Graph("one")
    operands: list[Value | None] = []
    for index, array in enumerate(arrays):
        if array is None:
            operands.append(None)
        elif index in constant:
            operands.append(graph.constant(f"x{index}", array))
        else:
            shape = tuple(symbol(f"d{n}") if symbols and n > 1 else n for n in array.shape)
            operands.append(graph.add_input(f"x{index}", TensorType(DType.of(array), shape)))
    results = [Value(graph.fresh(f"y{index}"), TensorType(DType.float32, None)) for index in range(outputs)]
    graph.append(Node(op, operands, results, attrs, "the_node"))
    graph.outputs = list(results)
    return graph


def run(graph: Graph, arrays: Sequence[Array | None]) -> list[Array]:
    """The outputs that ONNX Runtime computes."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = ort.InferenceSession(to_model(graph).SerializeToString(), options, ["CPUExecutionProvider"])
    names = {value.name for value in graph.inputs}
    return list(session.run(None, {f"x{i}": a for i, a in enumerate(arrays) if f"x{i}" in names}))


def check(
    op: str,
    arrays: Sequence[Array | None],
    attrs: dict[str, Any] | None = None,
    *,
    outputs: int = 1,
    constant: Sequence[int] = (),
) -> None:
    """Inferred types equal what ONNX Runtime computes, for fixed and for symbolic sizes."""
    fixed = build(op, arrays, attrs or {}, outputs, constant, symbols=False)
    ops.infer_graph(fixed)
    expected = run(fixed, arrays)
    assert [(v.dtype.numpy, v.shape) for v in fixed.outputs] == [(a.dtype, a.shape) for a in expected]
    open_sizes = build(op, arrays, attrs or {}, outputs, constant, symbols=True)
    ops.infer_graph(open_sizes)
    sizes = {symbol(f"d{n}"): n for array in arrays if array is not None for n in array.shape}
    for value, array in zip(open_sizes.outputs, expected, strict=True):
        assert value.shape is not None and len(value.shape) == array.ndim
        for inferred, actual in zip(value.shape, array.shape, strict=True):
            known = inferred if isinstance(inferred, int) else dim(inferred.subs(sizes))
            assert known == actual, f"{value.type} for {array.shape}"


CASES: list[tuple[str, list[Array | None], dict[str, Any], dict[str, Any]]] = [
    ("MatMul", [random(2, 3, 4), random(4, 5)], {}, {}),
    ("MatMul", [random(4), random(2, 4, 5)], {}, {}),
    ("MatMul", [random(2, 3, 4), random(4)], {}, {}),
    ("MatMul", [random(4), random(4)], {}, {}),
    ("MatMul", [random(1, 3, 4), random(6, 4, 2)], {}, {}),
    ("Gemm", [random(3, 4), random(4, 5), random(5)], {}, {}),
    ("Gemm", [random(4, 3), random(5, 4), random(3, 1)], {"transA": 1, "transB": 1, "alpha": 0.5}, {}),
    ("Gemm", [random(3, 4), random(4, 5), random()], {}, {}),
    ("Softmax", [random(2, 3)], {"axis": 0}, {}),
    ("LogSoftmax", [random(2, 3)], {}, {}),
    ("ArgMax", [random(2, 3, 4)], {"axis": -2, "keepdims": 0}, {}),
    ("ArgMin", [random(2, 3, 4)], {}, {}),
    ("CumSum", [random(2, 3), np.array(1)], {"exclusive": 1}, {"constant": [1]}),
    ("BatchNormalization", [random(2, 3, 4), *[abs(random(3))] * 4], {}, {}),
    ("GlobalAveragePool", [random(2, 3, 4, 5)], {}, {}),
    ("GlobalMaxPool", [random(2, 3, 4)], {}, {}),
    ("Flatten", [random(2, 3, 4)], {"axis": -1}, {}),
    ("Flatten", [random(2, 3, 4)], {"axis": 0}, {}),
    ("Flatten", [random(2, 3, 4)], {}, {}),
    ("Squeeze", [random(2, 1, 4, 1), ints(1, -1)], {}, {"constant": [1]}),
    ("Unsqueeze", [random(2, 3), ints(0, -1)], {}, {"constant": [1]}),
    ("Unsqueeze", [random(2, 3), ints(3, 1)], {}, {"constant": [1]}),
    ("Transpose", [random(2, 3, 4)], {}, {}),
    ("Transpose", [random(2, 3, 4)], {"perm": [1, 2, 0]}, {}),
    ("DepthToSpace", [random(1, 12, 2, 3)], {"blocksize": 2, "mode": "CRD"}, {}),
    ("SpaceToDepth", [random(2, 3, 4, 6)], {"blocksize": 2}, {}),
    ("Shape", [random(2, 3, 4)], {}, {}),
    ("Shape", [random(2, 3, 4)], {"start": -2, "end": 9}, {}),
    ("Shape", [random(2, 3, 4)], {"start": 2, "end": 1}, {}),
    ("Size", [random(2, 3, 4)], {}, {}),
    ("Identity", [random(2, 3)], {}, {}),
    ("Dropout", [random(2, 3)], {}, {"outputs": 2}),
    ("Concat", [random(2, 3), random(2, 4), random(2, 3)], {"axis": -1}, {}),
    ("Split", [random(2, 7)], {"axis": 1, "num_outputs": 3}, {"outputs": 3}),
    ("Split", [random(7, 2), ints(3, 0, 4)], {}, {"outputs": 3, "constant": [1]}),
    ("Gather", [random(2, 3, 4), ints(-1, 0)], {"axis": 1}, {}),
    ("Gather", [random(2, 3, 4), np.array(1)], {"axis": -1}, {}),
    ("GatherElements", [random(2, 3), ints(0, 1, 1, -1).reshape(2, 2)], {"axis": 1}, {}),
    ("Expand", [random(2, 1, 4), ints(3, 1, 5, 1)], {}, {"constant": [1]}),
    ("Expand", [random(3, 1), ints(4)], {}, {"constant": [1]}),
    ("Tile", [random(2, 3), ints(2, 3)], {}, {"constant": [1]}),
    ("ConstantOfShape", [ints(2, 0, 3)], {"value": np.array([7], np.int64)}, {"constant": [0]}),
    ("ConstantOfShape", [ints()], {}, {"constant": [0]}),
    ("Range", [np.array(10), np.array(-5), np.array(-4)], {}, {"constant": [0, 1, 2]}),
    ("Range", [np.array(0.5, F32), np.array(3.0, F32), np.array(0.4, F32)], {}, {"constant": [0, 1, 2]}),
    ("Where", [random(1, 3) > 0, random(2, 1), random(3)], {}, {}),
    ("Clip", [random(2, 3), None, np.array(1, F32)], {}, {}),
    ("PRelu", [random(2, 3, 4), random(3, 1)], {}, {}),
    ("Max", [random(2, 1), random(3), random(1, 1)], {}, {}),
    ("Cast", [random(2, 3)], {"to": DType.int32}, {}),
    ("CastLike", [random(2, 3), ints(1)], {}, {}),
    ("Pow", [random(2, 3), ints(2)], {}, {}),
    ("LSTM", [random(5, 3, 2), random(2, 16, 2), random(2, 16, 4)], {"hidden_size": 4, "direction": "bidirectional"},
     {"outputs": 3, "constant": [1, 2]}),
    ("GRU", [random(5, 3, 2), random(1, 12, 2), random(1, 12, 4)], {"hidden_size": 4},
     {"outputs": 2, "constant": [1, 2]}),
    ("RNN", [random(5, 3, 2), random(1, 4, 2), random(1, 4, 4)], {"hidden_size": 4},
     {"outputs": 2, "constant": [1, 2]}),
    ("ConvTranspose", [random(1, 4, 5, 6), random(4, 3, 3, 2)],
     {"group": 2, "strides": [2, 3], "output_padding": [1, 0], "pads": [1, 0, 0, 1], "dilations": [2, 1]},
     {"constant": [1]}),
    ("ConvTranspose", [random(1, 2, 5), random(2, 3, 3)], {"strides": [2], "auto_pad": "SAME_UPPER"},
     {"constant": [1]}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_types_equal_onnx_runtimes(case: tuple[str, list[Array | None], dict[str, Any], dict[str, Any]]) -> None:
    op, arrays, attrs, more = case
    check(op, arrays, attrs, **more)


def test_transposed_convolution_with_a_given_output_shape() -> None:
    arrays, attrs = [random(1, 2, 5), random(2, 3, 3)], {"strides": [2], "output_shape": [11]}
    graph = build("ConvTranspose", arrays, attrs, 1, [1], symbols=False)
    ops.infer_graph(graph)
    assert run(graph, arrays)[0].shape == graph.outputs[0].shape
    open_sizes = build("ConvTranspose", arrays, attrs, 1, [1], symbols=True)
    ops.infer_graph(open_sizes)
    assert open_sizes.outputs[0].shape == (1, 3, 11)


@settings(max_examples=25)
@given(st.data())
def test_convolutions(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 2))
    per_axis = lambda low, high: data.draw(st.lists(st.integers(low, high), min_size=rank, max_size=rank))  # noqa: E731
    groups, kernel = data.draw(st.integers(1, 3)), per_axis(1, 3)
    sizes = per_axis(5, 9)
    attrs: dict[str, Any] = {"group": groups, "strides": per_axis(1, 3), "dilations": per_axis(1, 2)}
    auto = data.draw(st.sampled_from(["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"]))
    if auto == "NOTSET":
        attrs["pads"] = per_axis(0, 2) + per_axis(0, 2)
    else:
        attrs["auto_pad"] = auto
        if auto != "VALID":
            attrs["dilations"] = [1] * rank
    x, w = random(1, 2 * groups, *sizes), random(3 * groups, 2, *kernel)
    check("Conv", [x, w, random(3 * groups)], attrs, constant=[1, 2])


@settings(max_examples=25)
@given(st.data())
def test_pools(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 2))
    per_axis = lambda low, high: data.draw(st.lists(st.integers(low, high), min_size=rank, max_size=rank))  # noqa: E731
    attrs: dict[str, Any] = {"kernel_shape": per_axis(2, 4), "strides": per_axis(1, 4)}
    auto = data.draw(st.sampled_from(["NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"]))
    if auto == "NOTSET":
        attrs["pads"] = per_axis(0, 1) + per_axis(0, 1)
        attrs["ceil_mode"] = data.draw(st.integers(0, 1))
        attrs["dilations"] = per_axis(1, 2)
    else:
        attrs["auto_pad"] = auto
        attrs["strides"] = [min(stride, 2) for stride in attrs["strides"]]  # ONNX Runtime refuses gaps between windows
    op = data.draw(st.sampled_from(["MaxPool", "AveragePool"]))
    check(op, [random(1, 2, *per_axis(7, 12))], attrs, outputs=data.draw(st.integers(1, 2)) if op == "MaxPool" else 1)


_BORDERS = st.integers(-8, 8) | st.sampled_from([2**31 - 1, -(2**31), 2**63 - 1, -(2**63)])


@settings(max_examples=40)
@given(st.integers(1, 6), _BORDERS, _BORDERS, st.integers(-3, 3).filter(bool))
def test_slices(size: int, start: int, end: int, step: int) -> None:
    # ONNX Runtime takes the largest integers for "to the end" backwards too; ONNX clamps them like any other.
    assume(step > 0 or end not in (2**31 - 1, 2**63 - 1))
    check("Slice", [random(2, size), ints(start), ints(end), ints(-1), ints(step)], constant=[1, 2, 3, 4])


@settings(max_examples=25)
@given(st.data())
def test_reductions(data: st.DataObject) -> None:
    op = data.draw(st.sampled_from([d.name for d in ops.definitions() if d.name.startswith("Reduce")]))
    axes = data.draw(st.none() | st.lists(st.integers(-3, 2), unique_by=lambda axis: axis % 3, max_size=3))
    attrs = {"keepdims": data.draw(st.integers(0, 1)), "noop_with_empty_axes": data.draw(st.integers(0, 1))}
    check(op, [abs(random(2, 3, 4)), None if axes is None else ints(*axes)], attrs, constant=[1])


@settings(max_examples=25)
@given(
    st.permutations([2, 3, 4]), st.lists(st.integers(0, 3), min_size=4, max_size=4), st.integers(-1, 3), st.booleans()
)
def test_reshapes(shape: list[int], groups: list[int], free: int, zeros: bool) -> None:
    """The factors 2, 2, 2, 3 of the input's size form the target's sizes; one may be -1, those that stay may be 0."""
    target = [math.prod(f for f, g in zip((2, 2, 2, 3), groups, strict=True) if g == axis) for axis in range(4)]
    if zeros:
        target = [0 if axis < 3 and size == shape[axis] else size for axis, size in enumerate(target)]
    if free >= 0:
        target[free] = -1
    check("Reshape", [random(*shape), ints(*target)], constant=[1])


@settings(max_examples=40)
@given(st.lists(st.integers(-1, 2), min_size=4, max_size=4), st.sampled_from(["constant", "reflect", "edge", "wrap"]))
def test_pads(pads: list[int], mode: str) -> None:
    assume(mode in ("constant",) or min(pads) >= 0)
    check("Pad", [random(2, 3, 4), ints(*pads), None, ints(-1, 1)], {"mode": mode}, constant=[1, 3])


@settings(max_examples=25)
@given(st.lists(st.lists(st.sampled_from([1, 3]), max_size=4), min_size=2, max_size=2))
def test_broadcasting(shapes: list[list[int]]) -> None:
    check("Add", [random(*shapes[0]), random(*shapes[1])])


def test_cumulative_sizes_of_zero() -> None:
    check("MatMul", [random(0, 3), random(3, 2)])
    check("Add", [random(0, 1), random(3)])
    check("Slice", [random(0, 3), ints(0), ints(2), ints(0)], constant=[1, 2, 3])


# ---- expressions

#: What ``run`` computes each primitive with: numpy.
NUMPY: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "min": np.minimum, "max": np.maximum, "fmod": np.fmod,
    "mod": np.mod, "pow": lambda a, b: np.power(a, b).astype(a.dtype), "neg": np.negative, "abs": np.abs,
    "div": lambda a, b: (a / b).astype(b.dtype) if isinstance(b, np.ndarray) else a / b,
    "sign": np.sign, "floor": np.floor, "ceil": np.ceil, "round": np.rint, "sqrt": np.sqrt, "exp": np.exp,
    "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "tanh": np.tanh, "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "erf": np.vectorize(math.erf, otypes=[F32]), "eq": np.equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor, "not": np.logical_not,
    "isnan": np.isnan, "isinf": np.isinf, "where": np.where, "bitand": np.bitwise_and, "bitor": np.bitwise_or,
    "bitxor": np.bitwise_xor, "bitnot": np.bitwise_not, "shl": np.left_shift, "shr": np.right_shift,
    "cast": lambda x, dtype: x.astype(dtype.numpy),
    "gelu": lambda x: x * (1 + NUMPY["erf"](x * F32(math.sqrt(0.5)))) / 2,
    **{name: getattr(np, name) for name in ("sin", "cos", "tan", "sinh", "cosh")},
    **{name: getattr(np, name.replace("a", "arc", 1)) for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh")},
}  # fmt: skip

SPECIAL = np.array([-np.inf, -3.5, -2.5, -1.0, -0.5, -0.0, 0.0, 0.25, 0.5, 1.0, 1.5, 2.5, 4.0, np.inf, np.nan], F32)
FINITE = SPECIAL[1:-2]

#: Operands (where not one of special numbers) and attributes to try, by operator.
TRIALS: dict[str, list[tuple[list[Array], dict[str, Any]]]] = {
    **{name: [([FINITE, FINITE[::-1] + F32(0.75)], {})] for name in ("Add", "Sub", "Mul", "Div", "Less", "LessOrEqual",
       "Greater", "GreaterOrEqual", "Equal", "PRelu")},
    "Div": [([FINITE, FINITE[::-1] + F32(0.75)], {}), ([ints(7, -7, 7, -7), ints(2, 2, -2, -2)], {})],
    "Mod": [([ints(7, -7, 7, -7), ints(3, 3, -3, -3)], {}), ([FINITE, FINITE[::-1] + F32(0.75)], {"fmod": 1}),
            ([ints(7, -7, 7, -7), ints(3, 3, -3, -3)], {"fmod": 1})],
    "Pow": [([abs(FINITE) + F32(0.1), FINITE], {}), ([ints(-2, 3), ints(3, 2)], {})],
    **{name: [([SPECIAL, SPECIAL[::-1].copy()], {})] for name in ("Min", "Max")},
    **{name: [([FINITE, FINITE[::-1], FINITE * 2], {})] for name in ("Sum", "Mean")},
    "Clip": [([SPECIAL], {}), ([SPECIAL, np.array(-1, F32)], {}), ([SPECIAL, np.array(-1, F32), np.array(2, F32)], {})],
    "Where": [([FINITE > 0, FINITE, -FINITE], {})],
    **{name: [([np.array([True, True, False, False]), np.array([True, False, True, False])], {})]
       for name in ("And", "Or", "Xor")},
    "Not": [([np.array([True, False])], {})],
    **{name: [([np.array([12, 10, 255], np.uint8), np.array([10, 3, 1], np.uint8)], {})]
       for name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")},
    "BitwiseNot": [([np.array([12, 0, 255], np.uint8)], {})],
    "BitShift": [([np.array([12, 1, 255], np.uint8), np.array([1, 3, 2], np.uint8)], {"direction": d})
                 for d in ("LEFT", "RIGHT")],
    "Cast": [([FINITE], {"to": DType.int32}), ([FINITE], {"to": DType.bool}), ([FINITE], {"to": DType.float64})],
    "CastLike": [([FINITE, ints(1)], {})],
    "IsInf": [([SPECIAL], {"detect_negative": n, "detect_positive": p}) for n in (0, 1) for p in (0, 1)],
    "Acosh": [([abs(FINITE) + 1], {})], "Asin": [([FINITE / 4], {})], "Acos": [([FINITE / 4], {})],
    "Atanh": [([FINITE / 5], {})], "Log": [([abs(FINITE) + F32(0.1)], {})], "Sqrt": [([abs(FINITE)], {})],
    "Reciprocal": [([FINITE + F32(0.1)], {})],
    **{name: [([FINITE], {}), ([FINITE], {"alpha": 0.7})] for name in ("Elu", "Celu", "LeakyRelu", "ThresholdedRelu")},
    "Selu": [([FINITE], {}), ([FINITE], {"alpha": 0.7, "gamma": 1.5})],
    "Swish": [([FINITE], {"alpha": 0.7}), ([FINITE], {})],
    "HardSigmoid": [([FINITE], {}), ([FINITE], {"alpha": 0.3, "beta": 0.4})],
    "Shrink": [([FINITE], {}), ([FINITE], {"lambd": 1.2, "bias": 0.4})],
    "Gelu": [([FINITE], {}), ([FINITE], {"approximate": "tanh"})],
    "QuantizeLinear": [([FINITE, np.array(0.5, F32)], {}),
                       ([FINITE * 100, np.array(0.5, F32), np.array(3, np.int8)], {}),
                       ([FINITE, abs(FINITE) + F32(0.1)], {"axis": 0})],
    "DequantizeLinear": [([np.array([-128, 3, 127], np.int8), np.array(0.3, F32), np.array(-128, np.int8)], {}),
                         ([np.array([1 << 30, -5], np.int32), np.array([0.3, 0.7], F32)], {"axis": 0})],
}  # fmt: skip

ELEMENTWISE = [definition for definition in ops.definitions() if isinstance(definition, ops.Elementwise)]


@pytest.mark.parametrize("definition", ELEMENTWISE, ids=lambda definition: definition.name)
def test_expressions_compute_what_onnx_runtime_computes(definition: ops.Elementwise) -> None:
    for arrays, attrs in TRIALS.get(
        definition.name, [([SPECIAL if definition.name in ("IsNaN", "Relu") else FINITE], {})]
    ):
        graph = build(definition.name, arrays, attrs, 1, [], symbols=False)
        ops.infer_graph(graph)
        try:
            expected = run(graph, arrays)[0]
        except ort.capi.onnxruntime_pybind11_state.NotImplemented:
            expected = reference(graph, arrays)
        with np.errstate(all="ignore"):
            actual = np.asarray(evaluate(definition.expression(graph.nodes[0]), dict(enumerate(arrays)), NUMPY))
        actual = actual.astype(graph.outputs[0].dtype.numpy)
        np.testing.assert_allclose(actual, expected, rtol=2e-6, atol=1e-6, err_msg=f"{definition.name} {attrs}")


def reference(graph: Graph, arrays: Sequence[Array]) -> Array:
    """ONNX's own evaluation, for what ONNX Runtime lacks."""
    session = ReferenceEvaluator(to_model(graph))
    results: Any = session.run(None, {f"x{i}": a for i, a in enumerate(arrays)})
    return np.asarray(results[0])


# ---- the registry against ONNX's schemas

ML_OPS = [each for each in ops.definitions() if each.domain == "ai.onnx.ml"]
ONNX_OPS = [each for each in ops.definitions() if each.domain == "" and not isinstance(each, Contrib)]


@pytest.mark.parametrize("definition", ONNX_OPS, ids=lambda definition: definition.name)
def test_first_version_is_onnxs(definition: ops.OpDef) -> None:
    history = [
        s.since_version for s in onnx.defs.get_all_schemas_with_history() if (s.domain, s.name) == ("", definition.name)
    ]
    assert definition.versions == (min(history), OPSET if min(history) <= OPSET else NEWEST)


@pytest.mark.parametrize("definition", ELEMENTWISE, ids=lambda definition: definition.name)
def test_attributes_and_types_are_onnxs(definition: ops.Elementwise) -> None:
    schema = onnx.defs.get_schema(definition.name, NEWEST, "")
    defaults = {p.name: p.default for p in inspect.signature(definition.build).parameters.values()}
    for name, attribute in schema.attributes.items():
        if attribute.required:
            continue
        wanted = helper.get_attribute_value(attribute.default_value)
        assert defaults[name] == (wanted.decode() if isinstance(wanted, bytes) else pytest.approx(wanted)), name
    if definition.name in ("Where", "Cast", "CastLike", "QuantizeLinear", "DequantizeLinear"):
        return
    attrs = {"direction": "LEFT"} if definition.name == "BitShift" else {}
    accepted = set()
    for dtype in DType:
        operands = [Value(f"x{i}", TensorType(dtype, (2,))) for i in range(schema.min_input)]
        try:
            definition.infer(
                Node(definition.name, operands, [Value("y", TensorType(dtype, None))], attrs), ops.InferContext()
            )
        except ModelError:
            continue
        accepted.add(
            f"tensor({ {'float32': 'float', 'float64': 'double'}.get(dtype.name, dtype.name) })".replace(" ", "")
        )
    known = {f"tensor({helper.tensor_dtype_to_string(type_code(d)).split('.')[1].lower()})" for d in DType}
    assert accepted == set(schema.inputs[0].types) & known


# ---- contents of shape tensors


def chain() -> Graph:
    """Reshape of x [N, 3, H] to [N, 3 · H] through Shape, Gather, Mul, Unsqueeze and Concat."""
    graph = Graph("chain")
    n, h = symbol("N"), symbol("H")
    x = graph.add_input("x", TensorType(DType.float32, (n, 3, h)))
    unknown = TensorType(DType.int64, None)
    (shape,) = graph.emit("Shape", [x], [unknown])
    pick = lambda i: graph.emit("Gather", [shape, graph.constant("i", np.array(i))], [unknown], {"axis": 0})[0]  # noqa: E731
    (width,) = graph.emit("Mul", [pick(1), pick(2)], [unknown])
    axes = graph.constant("axes", ints(0))
    parts = [graph.emit("Unsqueeze", [value, axes], [unknown])[0] for value in (pick(0), width)]
    (target,) = graph.emit("Concat", parts, [unknown], {"axis": 0})
    graph.outputs = list(graph.emit("Reshape", [x, target], [TensorType(DType.float32, None)]))
    return graph


def test_shape_arithmetic_is_followed() -> None:
    graph = chain()
    ops.infer_graph(graph)
    assert graph.outputs[0].shape == (symbol("N"), 3 * symbol("H"))


def test_sizes_that_only_data_show_are_symbols_of_their_own() -> None:
    graph = build("Reshape", [random(2, 6), ints(2, 2, 3)], {}, 1, [], symbols=False)
    ops.infer_graph(graph)
    assert graph.outputs[0].shape == (symbol("y0:0"), symbol("y0:1"), symbol("y0:2"))


def test_expand_to_minus_one_through_where() -> None:
    """Exporters replace -1 by the input's size: Where(Equal(shape, -1), ones, shape)."""
    graph = Graph("where")
    x = graph.add_input("x", TensorType(DType.float32, (symbol("N"), 1)))
    unknown = TensorType(DType.int64, None)
    wanted = graph.constant("wanted", ints(-1, 4))
    (equal,) = graph.emit("Equal", [wanted, graph.constant("minus", ints(-1))], [unknown])
    (shape,) = graph.emit("Where", [equal, graph.constant("ones", ints(1, 1)), wanted], [unknown])
    graph.outputs = list(graph.emit("Expand", [x, shape], [TensorType(DType.float32, None)]))
    ops.infer_graph(graph)
    assert graph.outputs[0].shape == (symbol("N"), 4)


# ---- what does not fit

BAD: list[tuple[str, list[Array | None], dict[str, Any], str, str]] = [
    ("Add", [random(2), ints(1, 2)], {}, "E104", "float32.*int64"),
    ("Add", [random(2), random(3)], {}, "E104", "broadcast"),
    ("Add", [random(2)], {}, "E102", "Add"),
    ("Add", [random(2), None], {}, "E102", "missing"),
    ("Relu", [random(2)], {"alpha": 1.0}, "E102", "alpha"),
    ("LeakyRelu", [random(2)], {"alpha": "much"}, "E102", "much"),
    ("And", [random(2), random(2)], {}, "E104", "float32"),
    ("MatMul", [random(2, 3), random(4, 5)], {}, "E104", "inner sizes"),
    ("MatMulInteger", [random(2, 3, dtype=np.int8), random(4, 5, dtype=np.int8)], {}, "E104", "of MatMulInteger"),
    ("MatMulInteger", [random(2, 3), random(3, 5)], {}, "E104", "float32, which MatMulInteger does not take"),
    ("MatMulInteger", [*[random(2, 2, dtype=np.int8)] * 2, random(3, dtype=np.int8)], {}, "E104", "one number or 2"),
    ("MatMulInteger", [*[random(2, 2, dtype=np.int8)] * 2, np.array(1, np.uint8)], {}, "E104", "zero point of input 0"),
    ("ConvInteger", [random(1, 3, 4, 4, dtype=np.int8), random(2, 4, 2, 2, dtype=np.int8)], {}, "E104", "3 channels"),
    ("QuantizeLinear", [random(2, 3), random(2)], {"axis": 1}, "E104", "the scale of float32"),
    ("QuantizeLinear", [random(2, 3), random(2)], {"axis": 2}, "E104", "axis 2 is out of range"),
    ("QuantizeLinear", [random(2, 3), random(1), random(1, dtype=np.int32)], {}, "E102", "cannot make int32"),
    ("DequantizeLinear", [random(2, 3, dtype=np.int8), random(2, 1)], {"block_size": 2}, "E104", "the scale of int8"),
    ("DequantizeLinear", [random(2, 3, dtype=np.int8), random(3)], {"block_size": -2}, "E102", "block_size is -2"),
    ("DequantizeLinear", [random(2, dtype=np.int8), random(1), np.array(1, np.uint8)], {}, "E104", "the zero point is"),
    ("DynamicQuantizeLinear", [random(2, 3, dtype=np.int8)], {}, "E104", "int8, which DynamicQuantizeLinear"),
    ("Gemm", [random(2, 3), random(3, 5), random(4)], {}, "E104", "broadcast"),
    ("Concat", [random(2, 3), random(2)], {"axis": 0}, "E104", "ranks"),
    ("Concat", [random(2, 3), random(2, 4)], {"axis": 0}, "E104", "must be equal"),
    ("Concat", [random(2)], {"axis": 1}, "E104", "out of range"),
    ("Conv", [random(1, 3, 8, 8), random(4, 2, 3, 3)], {}, "E104", "3 channels"),
    ("Conv", [random(1, 2, 8, 8), random(4, 2, 3, 3)], {"strides": [0, 1]}, "E102", "strides"),
    ("Conv", [random(1, 2, 8, 8), random(4, 2, 3, 3)], {"auto_pad": "SAME"}, "E102", "auto_pad"),
    ("Conv", [random(1, 2, 8), random(4, 2, 3, 3)], {}, "E104", "ranks"),
    ("MaxPool", [random(1, 2, 8)], {}, "E102", "kernel_shape"),
    ("ConvTranspose", [random(1, 2, 4), random(2, 3, 3)], {"pads": [9, 9]}, "E104", "nothing is left"),
    ("ConvTranspose", [random(1, 2, 4), random(2, 3, 3)], {"output_padding": [-1]}, "E102", "output_padding"),
    ("MaxUnpool", [random(1, 1, 1), ints(0).reshape(1, 1, 1)], {"kernel_shape": [2], "pads": [9, 9]}, "E104", "left"),
    ("LpPool", [random(1, 2, 8)], {"kernel_shape": [2], "p": 0}, "E102", "p is 0"),
    ("Resize", [random(1, 2), None, np.array([1, 2], F32), ints(3, 4)], {}, "E104", "not both"),
    ("Resize", [random(1, 2), None, None, ints(3)], {}, "E104", "1 sizes for 2 axes"),
    ("Resize", [random(1, 0), None, None, ints(1, 4)], {}, "E104", "is empty"),
    ("Resize", [random(1, 2), None, np.array([1, 2], F32)], {"mode": "area"}, "E102", "nearest, linear, cubic"),
    ("GridSample", [random(1, 2, 4, 4), random(1, 3, 3, 3)], {}, "E104", "grid"),
    ("RoiAlign", [random(1, 2, 4, 4), random(3, 5), ints(0, 0, 0)], {}, "E104", "four numbers"),
    ("NonMaxSuppression", [random(1, 5, 4), random(1, 1, 6)], {}, "E104", "numbers of boxes"),
    ("Col2Im", [random(1, 6, 4), ints(3), ints(4)], {}, "E104", "do not divide"),
    ("AffineGrid", [random(1, 2, 3), ints(1, 1, -2, 3)], {}, "E104", "negative"),
    ("LRN", [random(1, 2, 3)], {"size": 0}, "E102", "size"),
    ("GroupNormalization", [random(1, 4, 3), random(4), random(4)], {"num_groups": 3}, "E104", "3 groups"),
    ("MaxPool", [random(1, 2, 2)], {"kernel_shape": [5]}, "E104", "does not fit"),
    ("Reshape", [random(2, 3), ints(4, -1)], {}, "E104", "do not divide"),
    ("Reshape", [random(2, 3), ints(7)], {}, "E104", "do not fit"),
    ("Reshape", [random(2, 3), ints(-1, -1)], {}, "E104", "no shape"),
    ("Squeeze", [random(2, 3), ints(0)], {}, "E104", "squeezed"),
    ("Transpose", [random(2, 3)], {"perm": [0, 0]}, "E104", "perm"),
    ("Gather", [random(2, 3), ints(5)], {}, "E104", "out of range"),
    ("Split", [random(5), ints(1, 2)], {}, "E104", "Split"),
    ("Slice", [random(5), ints(0), ints(2), ints(0), ints(0)], {}, "E104", "step"),
    ("MaxPool", [random(1, 1, 5, 5)], {"kernel_shape": ["2", "2"]}, "E102", "kernel_shape"),
    ("CenterCropPad", [random(5), ints(3)], {"axes": ["0"]}, "E102", "axes"),
    ("MeanVarianceNormalization", [random(1, 2, 3, 3)], {"axes": 1}, "E102", "axes"),
    ("TfIdfVectorizer", [ints(1, 2)], {"ngram_counts": 1, "mode": "TF"}, "E102", "ngram_counts"),
    ("Slice", [random(5), ints(0), ints(2, 3)], {}, "E104", "lengths of the inputs"),
    ("Pad", [random(5), ints(1)], {}, "E104", "pads"),
    ("Pad", [random(3), ints(3, 0)], {"mode": "reflect"}, "E104", "reflection"),
    ("LSTM", [random(5, 3, 2), random(1, 16, 2), random(1, 16, 5)], {"hidden_size": 4}, "E104", "hidden_size"),
    ("BatchNormalization", [random(2, 3), *[random(4)] * 4], {}, "E104", "channels"),
    ("Dropout", [random(2), None, np.array(1)], {}, "E104", "input 2"),
    ("ReduceSum", [random(2, 3), ints(2)], {}, "E104", "out of range"),
    ("ReduceSum", [random(2, 3), ints(0, -2)], {}, "E104", "twice"),
]


@pytest.mark.parametrize("case", BAD, ids=lambda case: f"{case[0]}-{case[4]}")
def test_what_does_not_fit_is_an_error(case: tuple[str, list[Array | None], dict[str, Any], str, str]) -> None:
    op, arrays, attrs, code, words = case
    constant = [i for i, array in enumerate(arrays) if i and array is not None and array.dtype.kind in "ib"]
    graph = build(op, arrays, attrs, 2 if op == "Split" else 1, [] if op == "Add" else constant, symbols=False)
    with pytest.raises(ModelError, match=words) as caught:
        ops.infer_graph(graph)
    assert (caught.value.code, caught.value.node, caught.value.op) == (code, "the_node", op)


def test_two_symbols_are_taken_to_be_equal_and_that_is_recorded() -> None:
    graph = Graph("symbols")
    a, b = (graph.add_input(n, TensorType(DType.float32, (symbol(n),))) for n in "ab")
    (total,) = graph.emit("Add", [a, b], [a.type], name="sum")
    ops.infer_graph(graph)
    assert total.shape == (symbol("a"),)
    assert graph.assumptions == {(symbol("a"), symbol("b")): "sum"}


def test_every_fault_is_reported_and_what_follows_one_is_not() -> None:
    graph = Graph("faults")
    x = graph.add_input("x", TensorType(DType.float32, (2,)))
    (a,) = graph.emit("Nonsense", [x], [x.type], name="first")
    (b,) = graph.emit("Add", [a, graph.constant("c", random(3))], [x.type], name="follows")
    graph.emit("Add", [x, graph.constant("d", random(3))], [x.type], name="second")
    graph.emit("Relu", [b], [x.type], name="follows_too")
    with pytest.raises(ErrorGroup) as caught:
        ops.infer_graph(graph)
    assert [(error.code, error.node) for error in caught.value.errors] == [("E101", "first"), ("E104", "second")]


def test_layouts_stay_and_fused_bodies_follow_their_operands() -> None:
    body = Graph("body")
    inner = body.add_input("i", TensorType(DType.float32, (1,)))
    body.outputs = list(body.emit("Relu", [inner], [inner.type]))
    graph = Graph("outer")
    n = symbol("N")
    x = graph.add_input("x", TensorType(DType.float32, (n, 3, 4, 4)))
    stale = TensorType(DType.float32, (1, 1, 1, 1), layout=(0, 2, 3, 1))
    (y,) = graph.emit("Fused", [x], [stale], {"body": body}, domain=MCPC)
    graph.outputs = [y]
    ops.infer_graph(graph)
    assert y.type == TensorType(DType.float32, (n, 3, 4, 4), layout=(0, 2, 3, 1))
    assert inner.shape == (n, 3, 4, 4)
    assert ops.get(graph.nodes[0]).cost(graph.nodes[0]) == ops.Cost(48 * n, 2 * 48 * 4 * n)


def test_costs() -> None:
    graph = build("Conv", [random(1, 8, 10, 10), random(16, 2, 3, 3)], {"group": 4}, 1, [1], symbols=False)
    ops.infer_graph(graph)
    node = graph.nodes[0]
    cost = ops.get(node).cost(node)
    assert cost.flops == 2 * (16 * 8 * 8) * (2 * 9)
    assert cost.bytes == 4 * (800 + 288 + 1024)
    for definition in ONNX_OPS:
        assert definition.tolerance in (ops.EXACT, ops.ROUNDED, ops.ACCUMULATED)


@settings(max_examples=150)
@given(st.data())
def test_arbitrary_nodes_never_crash(data: st.DataObject) -> None:
    """Inference answers with types or an McpcError, whatever the operands and attributes are."""
    definition = data.draw(st.sampled_from([*ONNX_OPS, *ML_OPS]))
    version = definition.versions[1] if definition.domain else NEWEST
    attributes = onnx.defs.get_schema(definition.name, version, definition.domain).attributes
    values: st.SearchStrategy[Any] = (
        st.integers(-3, 3)
        | st.floats(-2, 2)
        | st.sampled_from(["", "SAME_UPPER", "reflect"])
        | st.lists(st.integers(-2, 3), max_size=4)
        | st.lists(st.floats(-2, 2), max_size=3)
        | st.lists(st.sampled_from(["LEAF", "BRANCH_LEQ"]), max_size=3)
        | st.sampled_from([random(1), ints(2, 2)])
    )
    attrs = data.draw(st.dictionaries(st.sampled_from([*attributes, "other"]), values, max_size=3))
    sizes = st.integers(0, 4) | st.just(symbol("N"))
    operands: list[Value | None] = []
    for index in range(data.draw(st.integers(0, 5))):
        kind = data.draw(st.sampled_from(["none", "float", "int", "bool", "constant", "unranked"]))
        shape = tuple(data.draw(st.lists(sizes, max_size=4)))
        if kind == "none":
            operands.append(None)
        elif kind == "constant":
            numbers = data.draw(st.lists(st.integers(-3, 4) | st.just(2**63 - 1), max_size=4))
            operands.append(Value.constant(f"x{index}", ints(*numbers)))
        else:
            dtype = {"int": DType.int64, "bool": DType.bool}.get(kind, DType.float32)
            operands.append(Value(f"x{index}", TensorType(dtype, None if kind == "unranked" else shape)))
    outputs = [Value(f"y{i}", TensorType(DType.float32, None)) for i in range(data.draw(st.integers(1, 3)))]
    node = Node(definition.name, operands, outputs, attrs, "node", definition.domain)
    try:
        ops.infer_node(node, ops.InferContext())
    except McpcError:
        return
    for output in outputs:
        assert output.shape is None or all(not isinstance(size, int) or size >= 0 for size in output.shape), output


@pytest.mark.parametrize("step", [1, 3])
def test_lengths_of_slices_name_the_axis_once(step: int) -> None:
    """For every way to count start and end they are Python's, and slices of slices do not double their text."""
    positions = (-(2**62), -7, -3, -1, 0, 1, 3, 7, 2**62)
    for start, end in ((start, end) for start in positions for end in positions):
        length = slice_length(symbol("N"), start, end, step)
        assert length is not None
        text = str(length)
        assert text.count("N") <= 1 or start < 0 <= end < 2**62, text
        for size in range(12):
            found = length if isinstance(length, int) else length.subs(symbol("N"), size)
            assert found == len(range(size)[start:end:step]), (start, end, size, text)
