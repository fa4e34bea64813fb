"""The reader of the text form that :mod:`mcpc.ir_text` describes: a tokenizer and a recursive descent.

Beside what the printer writes, constants may be given as ``iota`` (0, 1, 2, …) and ``random(seed)``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import ml_dtypes
import numpy as np

from mcpc.dim_text import parse_dim
from mcpc.errors import ModelError
from mcpc.ir import Dim, DType, Graph, Node, Quant, TensorType, Value, is_static

_STRING = r'"(?:[^"\\\n]|\\.)*"'
_TOKEN = re.compile(
    rf"""(?P<space>[ \t\r]+|//[^\n]*)|(?P<newline>\n)
    |(?P<value>%(?:[A-Za-z0-9_./\-]+|{_STRING}))
    |(?P<digest>sha256:[0-9a-f]+)
    |(?P<bytes>b{_STRING})|(?P<string>{_STRING})
    |(?P<float>(?:\d+\.(?!\.)\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)f?|\d+f)
    |(?P<int>\d+)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<mark>\*\*|\.\.|[{{}}()\[\],:=@+\-*/.])""",
    re.VERBOSE | re.ASCII,
)
_MAX_DIGITS, _MAX_NESTING, _MAX_ELEMENTS = 400, 32, 1 << 26


T = TypeVar("T")


class Token(NamedTuple):
    kind: str
    text: str
    line: int


class _Tokens:
    """A cursor over the tokens of a text; ``kind`` is the current one's, a group of the tokenizer or the mark."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokenize(text))
        self._next = 0

    @property
    def kind(self) -> str:
        return self._tokens[self._next].kind

    @property
    def text(self) -> str:
        return self._tokens[self._next].text

    def take(self, kind: str = "") -> str:
        token = self._tokens[self._next]
        if kind and token.kind != kind:
            raise self.fail(f"expected {_SHOWN.get(kind, repr(kind))}, found {token.text!r}")
        if token.kind != "end":
            self._next += 1
        return token.text

    def accept(self, kind: str) -> bool:
        if self.kind != kind:
            return False
        self.take()
        return True

    def accept_word(self, word: str) -> bool:
        if self.kind != "name" or self.text != word:
            return False
        self.take()
        return True

    def expect_word(self, word: str) -> None:
        if not self.accept_word(word):
            raise self.fail(f"expected {word!r}, found {self.text!r}")

    def fail(self, message: str) -> ModelError:
        return ModelError("E110", f"line {self._tokens[self._next].line}: {message}")


_SHOWN = {"value": "a value such as %x", "string": "a quoted text", "int": "an integer", "name": "a name"}


def _tokenize(text: str) -> Sequence[Token]:
    tokens: list[Token] = []
    line, position = 1, 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ModelError("E110", f"line {line}: unexpected {text[position]!r}")
        kind, word = str(match.lastgroup), match.group()
        position = match.end()
        if kind == "newline":
            line += 1
        elif kind != "space":
            if kind in ("int", "float") and len(word) > _MAX_DIGITS:
                raise ModelError("E110", f"line {line}: a number of {len(word)} digits")
            if word.endswith('"'):
                word = _unquote(word[word.index('"') :], line)
            elif kind == "value":
                word = word[1:]
            tokens.append(Token(word if kind == "mark" else kind, word, line))
    tokens.append(Token("end", "the end of the text", line))
    return tokens


def _unquote(literal: str, line: int) -> str:
    try:
        return str(json.loads(literal, strict=False))
    except ValueError:
        raise ModelError("E110", f"line {line}: malformed text {literal}") from None


def parse_graph(text: str) -> Graph:
    """The graph that ``text`` describes, verified.

    Raises :class:`ModelError` E110 with the line where the text is malformed or holds a constant's digest only, and
    :class:`mcpc.errors.PassError` E200 where the graph is inconsistent.
    """
    tokens = _Tokens(text)
    tokens.expect_word("graph")
    graph = _Parser(tokens).graph(Graph(""), 0)
    tokens.take("end")
    graph.verify()
    return graph


def parse_type(text: str) -> TensorType:
    """The type that ``text`` (``float32[N, 3]@10``) describes; raises :class:`ModelError` E110."""
    tokens = _Tokens(text)
    result = _Parser(tokens).type()
    tokens.take("end")
    return result


class _Parser:
    def __init__(self, tokens: _Tokens) -> None:
        self._tokens = tokens

    # ---- graphs

    def graph(self, outer: Graph, depth: int) -> Graph:
        """A graph, its keyword already taken, that shares names with ``outer``."""
        tokens = self._tokens
        if depth > _MAX_NESTING:
            raise tokens.fail("graphs are nested too deeply")
        graph = outer.nested(tokens.take("string"))
        own: dict[str, Value] = {}
        tokens.take("{")
        while not tokens.accept("}"):
            if tokens.accept_word("meta"):
                key = tokens.take("string")
                tokens.take("=")
                graph.metadata[key] = tokens.take("string")
            elif tokens.accept_word("dim"):
                self._bounds(graph)
            elif tokens.accept_word("assume"):
                left = parse_dim(tokens)
                tokens.take("=")
                right = parse_dim(tokens)
                graph.assumptions[left, right] = tokens.take("string")
            elif tokens.accept_word("input"):
                value = self._declared(own)
                graph.add_input(value.name, value.type)
                own[value.name] = graph.inputs[-1]
            elif tokens.accept_word("const"):
                value = self._declared(own)
                tokens.take("=")
                value.data = self._data(value.type)
            elif tokens.accept_word("output"):
                graph.outputs.append(self._used(own))
            elif tokens.kind == "value" or tokens.text == "_":
                self._node(graph, own, depth)
            else:
                raise tokens.fail(f"expected a statement, found {tokens.text!r}")
        return graph

    def _bounds(self, graph: Graph) -> None:
        tokens = self._tokens
        name = tokens.take("string") if tokens.kind == "string" else tokens.take("name")
        tokens.expect_word("in")
        low = int(tokens.take("int"))
        tokens.take("..")
        high: Dim | None = None
        if tokens.kind == "int":
            high = int(tokens.take())
        elif tokens.accept("("):
            high = parse_dim(tokens)
            tokens.take(")")
        graph.bounds[name] = low, high

    def _node(self, graph: Graph, own: dict[str, Value], depth: int) -> None:
        tokens = self._tokens
        declared: dict[str, Value] = {}
        outputs = self._list_until("=", lambda: None if tokens.accept_word("_") else self._declared(declared, own))
        path = [self._word("an operator")]
        while tokens.accept("."):
            path.append(self._word("an operator"))
        tokens.take("(")
        inputs = self._list_until(")", lambda: None if tokens.accept_word("_") else self._used(own))
        attrs: dict[str, Any] = {}
        if tokens.accept("{"):
            outer = Graph("") if path == ["mcpc", "Fused"] else graph
            self._list_until("}", lambda: self._attribute(attrs, outer, depth))
        name = tokens.take() if tokens.kind == "string" else ""
        graph.append(Node(path[-1], inputs, outputs, attrs, name, ".".join(path[:-1])))
        own.update(declared)

    def _declared(self, own: dict[str, Value], *others: dict[str, Value]) -> Value:
        name = self._tokens.take("value")
        if any(name in scope for scope in (own, *others)):
            raise self._tokens.fail(f"%{name} is defined twice")
        self._tokens.take(":")
        own[name] = Value(name, self.type())
        return own[name]

    def _used(self, known: dict[str, Value]) -> Value:
        name = self._tokens.take("value")
        if name not in known:
            raise self._tokens.fail(f"%{name} is not defined above")
        return known[name]

    def _word(self, what: str) -> str:
        if self._tokens.kind not in ("name", "string"):
            raise self._tokens.fail(f"expected {what}, found {self._tokens.text!r}")
        return self._tokens.take()

    def _list_until(self, end: str, item: Callable[[], T]) -> list[T]:
        items: list[T] = []
        while not self._tokens.accept(end):
            if items:
                self._tokens.take(",")
            items.append(item())
        return items

    # ---- types

    def type(self) -> TensorType:
        """``float32[N, 3]``, then a layout, ``pitch(…)``, ``quant(…)`` and ``sparse(…)`` where given."""
        tokens = self._tokens
        name = tokens.take("name")
        if name not in DType.__members__:
            raise tokens.fail(f"{name!r} is no element type")
        tokens.take("[")
        shape = None
        if not tokens.accept("*"):
            shape = tuple(self._list_until("]", lambda: parse_dim(tokens)))
        else:
            tokens.take("]")
        layout, quant, sparsity, pitch = None, None, None, None
        if tokens.accept("@"):
            layout = self._layout(shape)
        if tokens.accept_word("pitch"):
            tokens.take("(")
            pitch = parse_dim(tokens)
            tokens.take(")")
        if tokens.accept_word("quant"):
            quant = self._quant()
        if tokens.accept_word("sparse"):
            tokens.take("(")
            sparsity = tokens.take("string")
            tokens.take(")")
        return TensorType(DType[name], shape, layout, quant, sparsity, pitch)

    def _layout(self, shape: tuple[Any, ...] | None) -> tuple[int, ...]:
        tokens = self._tokens
        if tokens.accept("("):
            layout = tuple(self._list_until(")", lambda: int(tokens.take("int"))))
        else:
            layout = tuple(int(digit) for digit in tokens.take("int"))
        if shape is None or sorted(layout) != list(range(len(shape))):
            raise tokens.fail(f"layout {layout} does not order the dimensions")
        return layout

    def _quant(self) -> Quant:
        tokens = self._tokens
        fields: dict[str, Any] = {}
        tokens.take("(")
        self._list_until(")", lambda: self._attribute(fields, Graph(""), 0))
        if not {"scale", "zero_point"} <= fields.keys() <= {"scale", "zero_point", "axis"}:
            raise tokens.fail("quant needs scale and zero_point, and may have axis")
        return Quant(tuple(map(float, fields["scale"])), tuple(fields["zero_point"]), fields.get("axis"))

    # ---- attributes and data

    def _attribute(self, attrs: dict[str, Any], outer: Graph, depth: int) -> None:
        key = self._word("an attribute")
        self._tokens.take("=")
        attrs[key] = self._attribute_value(outer, depth)

    def _attribute_value(self, outer: Graph, depth: int) -> Any:
        tokens = self._tokens
        if tokens.kind == "string":
            return tokens.take()
        if tokens.kind == "bytes":
            return tokens.take().encode("latin-1", "replace")
        if depth > _MAX_NESTING:
            raise tokens.fail("the lists are nested too deeply")
        if tokens.accept("["):
            return self._list_until("]", lambda: self._attribute_value(outer, depth + 1))
        if tokens.accept_word("graph"):
            return self.graph(outer, depth + 1)
        if tokens.accept_word("tensor"):
            tokens.take("(")
            type = self.type()
            tokens.take(",")
            data = self._data(type)
            tokens.take(")")
            return data
        if tokens.kind == "name" and tokens.text in DType.__members__:
            return DType[tokens.take()]
        return self._number()

    def _number(self) -> int | float | bool:
        tokens = self._tokens
        negative = tokens.accept("-")
        if tokens.kind == "int":
            number: int | float = int(tokens.take())
        elif tokens.kind == "float":
            text = tokens.take()
            with np.errstate(over="ignore"):
                number = float(np.float32(text[:-1])) if text.endswith("f") else float(text)
        elif tokens.kind == "name" and tokens.text in _NAMED and not negative:
            return _NAMED[tokens.take()]
        elif tokens.accept_word("inf"):
            number = math.inf
        elif tokens.accept_word("nan"):
            number = math.nan
        else:
            raise tokens.fail(f"expected a number, found {tokens.text!r}")
        return -number if negative else number

    def _data(self, type: TensorType) -> np.ndarray[Any, Any]:
        tokens = self._tokens
        if not is_static(type.shape) or type.elements > _MAX_ELEMENTS:
            raise tokens.fail(f"a constant cannot be {type}")
        shape, size = type.static_shape, math.prod(type.static_shape)
        if tokens.kind == "digest":
            raise tokens.fail("the constant's numbers are not in the text, only their digest")
        if tokens.accept_word("iota"):
            return self._array(range(size), type.dtype).reshape(shape)
        if tokens.accept_word("bytes"):
            return self._raw(type.dtype, size).reshape(shape)
        if tokens.kind == "name" and tokens.text in ("splat", "random"):
            word = tokens.take()
            tokens.take("(")
            number = self._number()
            tokens.take(")")
            if word == "splat":
                return np.full(shape, self._array([number], type.dtype)[0])
            return _random(type.dtype, shape, int(number))
        numbers = self._list_until("]", self._number) if tokens.accept("[") else [self._number()]
        if len(numbers) != size:
            raise tokens.fail(f"{len(numbers)} numbers for {type}, which has {size} elements")
        return self._array(numbers, type.dtype).reshape(shape)

    def _array(self, numbers: Sequence[int | float | bool], dtype: DType) -> np.ndarray[Any, Any]:
        try:
            return array_of(numbers, dtype)
        except (OverflowError, ValueError, TypeError):
            raise self._tokens.fail(f"a number does not fit {dtype.name}") from None

    def _raw(self, dtype: DType, size: int) -> np.ndarray[Any, Any]:
        self._tokens.take("(")
        text = self._tokens.take("string")
        self._tokens.take(")")
        try:
            return np.frombuffer(bytes.fromhex(text), np.uint8).view(dtype.numpy)[:size].copy()
        except ValueError:
            raise self._tokens.fail(f"the bytes do not make {size} elements of {dtype.name}") from None


_NAMED: dict[str, bool] = {"true": True, "false": False}


def array_of(numbers: Sequence[int | float | bool], dtype: DType) -> np.ndarray[Any, Any]:
    """A 1-D array of ``numbers``; raises ``OverflowError`` or ``TypeError`` where one does not fit ``dtype``."""
    if dtype.is_float:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(numbers, np.float64).astype(dtype.numpy)
    if any(isinstance(number, float) for number in numbers):
        raise TypeError("a fraction among integers")
    if dtype.bits < 8:  # ml_dtypes would wrap the number
        info = ml_dtypes.iinfo(dtype.numpy)
        if any(not info.min <= number <= info.max for number in numbers):
            raise OverflowError
        return np.asarray(numbers, np.int8).astype(dtype.numpy)
    return np.asarray(numbers, dtype.numpy)


def _random(dtype: DType, shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    """Unit-variance floats, integers 0 … 7 (fewer where the type ends before), or fair bools; the same numbers for the
    same seed."""
    rng = np.random.default_rng(abs(seed))
    if dtype.is_float:
        numbers = rng.standard_normal(shape)
        return np.asarray(np.abs(numbers) if dtype is DType.float8e8m0 else numbers).astype(dtype.numpy)
    end = 2 if dtype is DType.bool else min(8, int(ml_dtypes.iinfo(dtype.numpy).max) + 1)
    return np.asarray(rng.integers(0, end, shape)).astype(dtype.numpy)
