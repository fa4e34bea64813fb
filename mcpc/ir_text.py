"""The text form of graphs, `.mcir`: what dumps, golden tests and error messages show. :mod:`mcpc.ir_parser` reads it.

    graph "digits" {
      dim N in 1..16
      assume N = M "add"
      input %x: float32[N, 1, 8, 8]
      const %w: float32[8, 1, 3, 3] = sha256:1a2b3c4d5e6f
      const %zero: float32[] = 0.0
      %y: float32[N, 8, 8, 8]@0231 = Conv(%x, %w, _) {pads = [1, 1, 1, 1]} "node name"
      %z: float32[N, 8, 8, 8] = mcpc.Fused(%y, %zero) {
        body = graph "epilogue" { ... }
      }
      output %z
    }

``dim`` bounds a symbol, ``assume`` states sizes that a node needs to be equal. ``_`` is an operand that is left out,
``float32[*]`` a tensor of unknown rank, ``@0231`` a layout, ``pitch(96)`` the size of the innermost dimension of what
the tensor is a part of, ``0.1f`` the float32 nearest to 0.1 where an attribute's 64-bit number would print long.
Constants print inline while they are small, as ``splat(0.5)`` where all elements are the same, else as a digest of
their bytes. The same graph gives the same text.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from mcpc.dim_text import format_dim, quote
from mcpc.ir import Dim, DType, Graph, Node, Quant, TensorType, Value, symbol
from mcpc.ir_parser import array_of, parse_graph

__all__ = ["INLINE", "format_graph", "format_type", "parse_graph"]

#: Constants of at most this many elements print inline.
INLINE = 16

# Constants of at least this many equal elements print as a splat.
_SPLAT = 5

_INDENT = "  "
_PLAIN_VALUE = re.compile(r"[A-Za-z0-9_./\-]+\Z", re.ASCII)
_PLAIN_OP = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*\Z", re.ASCII)


def format_graph(graph: Graph, inline: int = INLINE) -> str:
    """``graph`` as text ending in a newline; constants of at most ``inline`` elements show their numbers."""
    return "".join(line + "\n" for line in _graph_lines(graph, inline))


def format_type(type: TensorType) -> str:
    """E.g. ``float32[N, 3, 224, 224]@0231``."""
    dims = "*" if type.shape is None else ", ".join(format_dim(size) for size in type.shape)
    text = f"{type.dtype.name}[{dims}]"
    if type.layout is not None:
        single_digits = len(type.layout) <= 10
        text += "@" + ("".join(map(str, type.layout)) if single_digits else f"({', '.join(map(str, type.layout))})")
    if type.pitch is not None:
        text += f" pitch({format_dim(type.pitch)})"
    if type.quant is not None:
        text += " " + _format_quant(type.quant)
    if type.sparsity is not None:
        text += f" sparse({quote(type.sparsity)})"
    return text


def _format_quant(quant: Quant) -> str:
    scale = ", ".join(_format_float(value) for value in quant.scale)
    axis = "" if quant.axis is None else f", axis = {quant.axis}"
    return f"quant(scale = [{scale}], zero_point = [{', '.join(map(str, quant.zero_point))}]{axis})"


# ---- graphs and nodes


def _graph_lines(graph: Graph, inline: int) -> Iterator[str]:
    yield f"graph {quote(graph.name)} {{"
    for key, text in sorted(graph.metadata.items()):
        yield f"{_INDENT}meta {quote(key)} = {quote(text)}"
    for name, (low, high) in sorted(graph.bounds.items()):
        yield f"{_INDENT}dim {_format_symbol(name)} in {low}..{_format_limit(high)}"
    for (left, right), node_name in graph.assumptions.items():
        yield f"{_INDENT}assume {format_dim(left)} = {format_dim(right)} {quote(node_name)}"
    for value in graph.inputs:
        yield f"{_INDENT}input {_declared(value)}"
    for value in graph.constants():
        assert value.data is not None
        yield f"{_INDENT}const {_declared(value)} = {_format_data(value.data, inline)}"
    for node in graph.nodes:
        for line in _node_lines(node, inline):
            yield _INDENT + line
    for value in graph.outputs:
        yield f"{_INDENT}output {_format_name(value)}"
    yield "}"


def _format_limit(high: Dim | None) -> str:
    return "" if high is None else str(high) if isinstance(high, int) else f"({format_dim(high)})"


def _node_lines(node: Node, inline: int) -> Iterator[str]:
    results = ", ".join("_" if value is None else _declared(value) for value in node.outputs)
    operands = ", ".join("_" if value is None else _format_name(value) for value in node.inputs)
    head = f"{results} = {_format_op(node)}({operands})"
    name = f" {quote(node.name)}" if node.name else ""
    attributes = sorted(node.attrs.items())
    if not any(isinstance(value, Graph) for _, value in attributes):
        inside = ", ".join(f"{_format_key(key)} = {_format_attribute(value)}" for key, value in attributes)
        yield head + (f" {{{inside}}}" if inside else "") + name
        return
    yield head + " {"
    for index, (key, value) in enumerate(attributes):
        comma = "," if index + 1 < len(attributes) else ""
        lines = list(_graph_lines(value, inline)) if isinstance(value, Graph) else [_format_attribute(value)]
        lines[0] = f"{_format_key(key)} = {lines[0]}"
        lines[-1] += comma
        for line in lines:
            yield _INDENT + line
    yield "}" + name


def _declared(value: Value) -> str:
    return f"{_format_name(value)}: {format_type(value.type)}"


def _format_name(value: Value) -> str:
    return "%" + (value.name if _PLAIN_VALUE.match(value.name) else quote(value.name))


def _format_op(node: Node) -> str:
    full = f"{node.domain}.{node.op}" if node.domain else node.op
    if _PLAIN_OP.match(full) and "." not in node.op:
        return full
    return (quote(node.domain) + "." if node.domain else "") + quote(node.op)


def _format_key(key: str) -> str:
    return key if _PLAIN_OP.match(key) and "." not in key else quote(key)


def _format_symbol(name: str) -> str:
    return format_dim(symbol(name))


# ---- attributes and data


def _format_attribute(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(_format_attribute(item) for item in value)}]"
    if isinstance(value, np.ndarray):
        return f"tensor({format_type(Value.constant('', value).type)}, {_format_data(value, INLINE)})"
    if isinstance(value, DType):
        return value.name
    if isinstance(value, int | np.integer):
        return str(int(value))
    if isinstance(value, float | np.floating):
        return _format_float(float(value))
    if isinstance(value, bytes):
        return "b" + json.dumps(value.decode("latin-1"))
    assert isinstance(value, str), f"an attribute cannot be {type(value)}"
    return quote(value)


def _format_float(value: float) -> str:
    """Shortest text that gives the number back; ``f`` marks one to be rounded to float32."""
    with np.errstate(over="ignore"):
        single = np.float32(value)
    exact, short = repr(value), str(single)
    return short + "f" if float(single) == value and len(short) < len(exact) else exact


def _format_data(data: np.ndarray[Any, Any], inline: int) -> str:
    flat = np.ascontiguousarray(data).reshape(-1)
    stored, width = flat.view(np.uint8), flat.dtype.itemsize
    if flat.size >= _SPLAT and np.array_equal(stored[:width], stored[-width:]):
        number = _format_number(flat[0])
        if np.array_equal(stored[width:], stored[:-width]) and _survives([number], flat[:1]):
            return f"splat({number})"
    if flat.size > inline:
        return f"sha256:{hashlib.sha256(stored.data).hexdigest()[:12]}"
    numbers = [_format_number(item) for item in flat]
    if not _survives(numbers, flat):
        return f"bytes({quote(stored.tobytes().hex())})"
    return numbers[0] if data.ndim == 0 else f"[{', '.join(numbers)}]"


def _format_number(item: Any) -> str:
    """One element of an array."""
    dtype = DType.of(item.dtype)
    if dtype is DType.bool:
        return "true" if item else "false"
    if not dtype.is_float:
        return str(int(item))
    return (
        str(item) if item.dtype.kind == "f" else repr(float(item))
    )  # numpy's floats print shortest, ml_dtypes' do not


def _survives(numbers: list[str], flat: np.ndarray[Any, Any]) -> bool:
    """Whether the parser would make the same bytes of ``numbers``; NaNs with a payload are lost in text."""
    dtype = DType.of(flat)
    if not dtype.is_float:
        return True
    return array_of([float(number) for number in numbers], dtype).tobytes() == flat.tobytes()
