"""The text form of graphs: what is printed is what is read."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpc.errors import ModelError, PassError
from mcpc.ir import DType, Graph, Node, Quant, TensorType, Value, symbol
from mcpc.ir_parser import parse_type
from mcpc.ir_text import format_graph, format_type, parse_graph

EVERYTHING = """\
graph "every thing" {
  meta "made by" = "a \\"test\\"\\n"
  dim "?" in 0..
  dim N in 1..16
  input %x: float32[N, 1, 8, "?"]
  const %z: float32[] = -0.0
  const %s: float32[100] = splat(0.1)
  const %b: bool[2] = [true, false]
  const %h: float16[3] = [0.1, inf, nan]
  const %q: bfloat16[3] = [0.10009765625, 1.0, -2.5]
  const %c: int4[3] = [1, -2, 3]
  const %n: float32[2] = bytes("0100c07f0000c0ff")
  const %none: float32[0, 3] = []
  %y: float32[N, 8, 2*N + 1, floor("?"/2 - 1/2)]@0231, _ = Conv(%x, _, %z) {alpha = 0.01f, b = b"\\u00ff", e = [], \
pads = [1, -1], s = "a", third = 0.3333333333333333, to = float32, v = tensor(int8[2], [1, 2])} "node name"
  %"a b": int8[*] = com.microsoft.Foo(%s, %b, %h, %q, %c, %n, %none)
  %d: int8[] quant(scale = [0.5, 0.25], zero_point = [3, -4], axis = 1) sparse("2:4") = "a-b"."Foo"(%y)
  %f: float32[2] = mcpc.Fused(%x, %s) {
    body = graph "inner" {
      input %x: float32[N, 1, 8, "?"]
      input %s: float32[100]
      %o: float32[2] = Add(%x, %s)
      output %o
    },
    kind = "elementwise"
  }
  output %"a b"
  output %f
}
"""


def test_print_and_parse_are_inverse() -> None:
    assert format_graph(parse_graph(EVERYTHING)) == EVERYTHING


def test_what_was_parsed() -> None:
    graph = parse_graph(EVERYTHING)
    conv, foo, _, fused = graph.nodes
    assert graph.name == "every thing"
    assert graph.bounds == {"?": (0, None), "N": (1, 16)}
    assert graph.metadata == {"made by": 'a "test"\n'}
    assert graph.inputs[0].shape == (symbol("N"), 1, 8, symbol("?"))
    assert conv.inputs[1] is None and conv.outputs[1] is None and conv.name == "node name"
    assert conv.output.type.layout == (0, 2, 3, 1)
    assert conv.attrs["alpha"] == float(np.float32(0.01)) and conv.attrs["third"] == 1 / 3
    assert conv.attrs["b"] == b"\xff" and conv.attrs["e"] == [] and conv.attrs["to"] is DType.float32
    assert foo.domain == "com.microsoft" and foo.output.shape is None
    assert graph.nodes[2].output.type.quant == Quant((0.5, 0.25), (3, -4), 1)
    assert fused.body is not None and fused.body.inputs[0].shape == graph.inputs[0].shape
    by_name = {value.name: value.data for value in graph.constants()}
    assert np.signbit(by_name["z"]).all()  # type: ignore[arg-type]
    assert by_name["n"].tobytes().hex() == "0100c07f0000c0ff"  # type: ignore[union-attr]
    assert by_name["c"].dtype == ml_dtypes.int4  # type: ignore[union-attr]


def test_control_flow_bodies_are_given_what_they_capture() -> None:
    text = """\
graph "outer" {
  input %c: bool[]
  input %x: float32[2]
  const %one: float32[] = 1.0
  %y: float32[2] = Add(%x, %one)
  %z: float32[2] = If(%c, %y) {
    captured = 1,
    else_branch = graph "else" {
      input %y.1: float32[2]
      %e: float32[2] = Neg(%y.1)
      output %e
    },
    then_branch = graph "then" {
      input %y.2: float32[2]
      const %two: float32[] = 2.0
      %t: float32[2] = Mul(%y.2, %two)
      output %t
    }
  }
  output %z
}
"""
    graph = parse_graph(text)
    assert format_graph(graph) == text
    branch = graph.nodes[1].bodies["then_branch"]
    assert branch.fresh("e") != "e"  # names are unique over all graphs


def test_large_constants_print_as_digests_that_tell_them_apart() -> None:
    def text(*numbers: float) -> str:
        graph = Graph("g")
        data = np.zeros(100, np.float32)
        data[: len(numbers)] = numbers
        graph.emit("Relu", [graph.constant("w", data)], [TensorType(DType.float32, (100,))])
        return format_graph(graph)

    assert "= sha256:" in text(1.0)
    assert text(1.0) == text(1.0) != text(2.0)
    with pytest.raises(ModelError, match=r"E110.*line 2.*digest"):
        parse_graph(text(1.0))


def test_constants_may_be_generated() -> None:
    graph = parse_graph("""graph "g" {
      const %i: int32[2, 3] = iota
      const %r: float32[50] = random(7)
      const %s: uint8[2] = splat(3)
      %y: float32[*] = Foo(%i, %r, %s)
    }""")
    iota, random, splat = (value.data for value in graph.nodes[0].inputs if value is not None)
    assert iota is not None and random is not None and splat is not None
    assert iota.tolist() == [[0, 1, 2], [3, 4, 5]] and iota.dtype == np.int32
    assert 0.5 < random.std() < 1.5 and np.unique(random).size == 50
    assert splat.tolist() == [3, 3]


SIZES = st.recursive(
    st.integers(0, 9) | st.sampled_from([symbol("N"), symbol("M"), symbol("p2o.Dim.1"), symbol("floor")]),
    lambda inner: st.one_of(
        st.builds(lambda a, b: a + b, inner, inner),
        st.builds(lambda a, b: a - b, inner, inner),
        st.builds(lambda a, b: a * b, inner, inner),
        st.builds(lambda a, b: sympy.floor(sympy.sympify(a) / b), inner, st.integers(1, 5)),
        st.builds(lambda a, b: sympy.ceiling(sympy.sympify(a) / b), inner, st.integers(1, 5)),
        st.builds(sympy.Max, inner, inner),
        st.builds(sympy.Min, inner, inner),
        st.builds(lambda a, b: sympy.Mod(a, b), inner, st.integers(1, 5)),
    ),
    max_leaves=6,
).map(lambda size: sympy.sympify(size).doit())  # of Max(N, Min(1, Max(2, N))) sympy leaves Max(N, Min(1, 2)) else


@settings(max_examples=150)
@given(SIZES)
def test_sizes_are_read_back_equal(size: sympy.Expr | int) -> None:
    text = f"int8[{format_type(TensorType(DType.int8, (sympy.sympify(size),)))[5:-1]}]"
    again = parse_type(text).dims[0]
    assert sympy.simplify(sympy.sympify(again) - size) == 0
    assert format_type(parse_type(text)) == text


@pytest.mark.parametrize("dtype", list(DType))
def test_numbers_of_every_type_are_read_back_to_the_last_bit(dtype: DType) -> None:
    stored = np.random.default_rng(3).integers(0, 256, 12 * dtype.itemsize, np.uint8)
    used = 1 if dtype is DType.bool else 2 ** min(8, dtype.bits) - 1
    data = (stored & np.uint8(used)).view(dtype.numpy)
    graph = Graph("g")
    graph.append(Node("Foo", [graph.constant("w", data)], [Value("y", TensorType(DType.int8, None))]))
    again = parse_graph(format_graph(graph)).nodes[0].inputs[0]
    assert again is not None and again.data is not None
    assert again.data.tobytes() == data.tobytes() and again.data.dtype == data.dtype


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("input %x float32[2]", r"line 2: expected ':'"),
        ("input %x: float33[2]", "'float33' is no element type"),
        ("input %x: float32[2", "line 3: expected ','"),
        ("input %x: float32[N/0]", "division by zero"),
        ("input %x: float32[Mod(N, 0)]", "Mod"),
        ("input %x: float32[N**999]", "exponent"),
        ("input %x: float32[" + "(" * 99 + "N" + ")" * 99 + "]", "nested"),
        ("input %x: float32[" + "-" * 999 + "N]", "nested"),
        ("input %x: float32[2, 3]@021", "layout"),
        ("input %x: float32[2] input %x: float32[2]", "%x is defined twice"),
        ("%y: float32[2] = Relu(%z)", "%z is not defined above"),
        ("%y: float32[2] = Relu(", "expected a value"),
        ("const %w: float32[2] = [1.0]", "1 numbers for float32.2., which has 2 elements"),
        ("const %w: int8[1] = [300]", "does not fit int8"),
        ("const %w: int32[1] = [1.5]", "does not fit int32"),
        ("const %w: float32[99999, 99999] = splat(0.0)", "a constant cannot be"),
        ("const %w: float32[N] = splat(0.0)", "a constant cannot be"),
        ('const %w: float32[1] = bytes("00")', "do not make 1 elements"),
        ("output %y", "%y is not defined above"),
        ("nonsense", "expected a statement, found 'nonsense'"),
        ("input %x: float32[2] ;", "unexpected ';'"),
        ('meta "a" = "\\q"', "malformed text"),
        ("input %x: float32[" + "9" * 999 + "]", "a number of 999 digits"),
        ("%y: float32[2] = Foo() {a = " + "graph \"\" { %y: float32[2] = Foo() {a = " * 40, "nested too deeply"),
        ("%y: float32[2] = Foo() {a = " + "[" * 2000, "nested too deeply"),
    ],
)  # fmt: skip
def test_malformed_text_is_refused_with_its_line(statement: str, message: str) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        parse_graph(f'graph "g" {{\n{statement}\n}}')
    assert caught.value.code == "E110"


def test_an_inconsistent_graph_is_refused() -> None:
    with pytest.raises(PassError, match="E200"):
        parse_graph("""graph "g" {
          input %x: float32[2]
          %y: float32[2] = mcpc.Fused(%x) {body = graph "b" { }}
          output %y
        }""")
