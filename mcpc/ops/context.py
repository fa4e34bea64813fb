"""What shape inference knows beyond the types of a node's inputs, and the checks that all operators share."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import NoReturn

import numpy as np
import sympy

from mcpc.dim_text import format_dim
from mcpc.errors import ModelError
from mcpc.ir import Dim, DType, Node, SizeBound, TensorType, Value, dim, is_static, symbol
from mcpc.ops.registry import Contents

#: Tensors with more elements than this are data, not shapes: their contents are not followed.
SMALL = 1024

INTEGERS = frozenset(t for t in DType if t.name in {f"{u}int{n}" for u in ("", "u") for n in (8, 16, 32, 64)})
FLOATS = frozenset({DType.float32, DType.float16, DType.bfloat16, DType.float64})
FLOAT8 = frozenset({DType.float8e4m3fn, DType.float8e4m3fnuz, DType.float8e5m2, DType.float8e5m2fnuz})
ALL_FLOATS = FLOATS | FLOAT8
NUMBERS = INTEGERS | FLOATS
#: What ONNX lets take part in products and sums.
WIDE = FLOATS | {DType.int32, DType.int64, DType.uint32, DType.uint64}
INDEX = frozenset({DType.int32, DType.int64})
ALL = frozenset(DType)


#: Pairs of sizes that the node whose types are being inferred takes for equal; None where nobody asks.
_assumed: ContextVar[list[tuple[Dim, Dim]] | None] = ContextVar("assumed", default=None)


class InferContext:
    """What is found out while types are inferred: ``contents`` of small integer tensors, as numbers or symbols;
    ``bounds`` of the sizes that only data can show; ``assumptions`` as in :class:`mcpc.ir.Graph`."""

    def __init__(self) -> None:
        self._contents: dict[Value, Contents] = {}  # keeps the values: another at the same address is another
        self.bounds: dict[str, SizeBound] = {}
        self.assumptions: dict[tuple[Dim, Dim], str] = {}

    def contents(self, value: Value | None) -> Contents | None:
        """The elements of an integer or bool tensor (None where one is unknown); None where nothing is known."""
        if value is None:
            return None
        if value.data is not None and value.data.size <= SMALL:
            if value.dtype in INTEGERS:
                return value.data.astype(object)
            if value.dtype is DType.bool:
                return value.data.astype(np.int64).astype(object)
        if value.shape is not None and 0 in value.shape and is_static(value.shape):
            return np.empty([int(size) for size in value.shape], dtype=object)
        return self._contents.get(value)

    def nested(self) -> InferContext:
        """The context of a control-flow body, whose assumptions hold where it runs only."""
        inner = InferContext()
        inner._contents, inner.bounds = self._contents, self.bounds
        return inner

    def remember(self, value: Value, contents: Contents | None) -> None:
        """Keep what ``value`` holds. Elements that its type may not hold are forgotten."""
        self._contents.pop(value, None)
        if contents is None or contents.size > SMALL or value.dtype not in INTEGERS | {DType.bool}:
            return
        low, high = (0, 1) if value.dtype is DType.bool else _limits(value.dtype)
        flat = [_normal(item, low, high) for item in contents.ravel()]
        if any(item is not None for item in flat):
            self._contents[value] = object_array(flat).reshape(contents.shape)

    def data_size(
        self, node: Node, output: int, axis: int | str, low: int = 0, high: Dim | None = None
    ) -> sympy.Symbol:
        """The symbol for a size that only data can show, within low … high (None: no limit), named after the output and
        the axis, or what else it counts."""
        value = node.outputs[output] if output < len(node.outputs) else None
        name = f"{value.name if value is not None else node.name}:{axis}"
        self.bounds[name] = low, high
        return symbol(name)

    @contextmanager
    def assuming(self, node: Node) -> Iterator[None]:
        """Within the block, what :func:`assume_equal` is told goes to ``assumptions``."""
        pairs: list[tuple[Dim, Dim]] = []
        token = _assumed.set(pairs)
        try:
            yield
        finally:
            _assumed.reset(token)
            for pair in pairs:
                self.assumptions.setdefault(pair, node.name)


def _limits(dtype: DType) -> tuple[int, int]:
    info = np.iinfo(dtype.numpy)
    return int(info.min), int(info.max)


def _normal(item: object, low: int, high: int) -> Dim | None:
    if isinstance(item, sympy.Expr) and not item.is_Integer:
        return item
    if item is None or not low <= int(item) <= high:  # type: ignore[call-overload]
        return None
    return int(item)  # type: ignore[call-overload]


def object_array(items: Sequence[object]) -> Contents:
    """A 1-D object array; numpy would look into the items otherwise."""
    result = np.empty(len(items), dtype=object)
    for index, item in enumerate(items):
        result[index] = item
    return result


# ---- checks


def fail(node: Node, message: str, code: str = "E104", hint: str = "") -> NoReturn:
    raise ModelError(code, message, op=node.op, node=node.name, hint=hint)


def show(type: TensorType) -> str:
    return str(replace(type, layout=None, pitch=None, quant=None, sparsity=None))


def shown(shape: Iterable[Dim]) -> str:
    return f"[{', '.join(map(format_dim, shape))}]"


def type_of(node: Node, index: int) -> TensorType:
    """The type of a required input."""
    value = node.input(index)
    if value is None:
        fail(node, f"input {index} is missing")
    return value.type


def optional_type(node: Node, index: int) -> TensorType | None:
    value = node.input(index)
    return None if value is None else value.type


def expect(node: Node, index: int, dtypes: Iterable[DType]) -> TensorType:
    """The type of a required input whose element type must be one of ``dtypes``."""
    type, value = type_of(node, index), node.inputs[index]
    if type.dtype not in dtypes and value is not None:
        fail(node, f"input {index} (%{value.name}) is {type.dtype.name}, which {node.op} does not take")
    return type


def same_dtype(node: Node, *indices: int) -> DType:
    """The element type that these inputs (those that are there) share."""
    present = [(i, t) for i in indices if (t := optional_type(node, i)) is not None]
    if not present:
        fail(node, f"{node.op} has no input")
    if len({t.dtype for _, t in present}) > 1:
        listed = ", ".join(f"%{node.inputs[i].name}: {show(t)}" for i, t in present)  # type: ignore[union-attr]
        fail(node, f"inputs of {node.op} differ in type: {listed}")
    return present[0][1].dtype


def expect_rank(node: Node, index: int, *ranks: int) -> None:
    type = optional_type(node, index)
    if type is not None and type.rank is not None and type.rank not in ranks:
        wanted = " or ".join(map(str, ranks))
        fail(node, f"input {index} has rank {type.rank} ({show(type)}), {wanted} is needed")


def axis_of(node: Node, axis: int, rank: int) -> int:
    """``axis`` counted from the front; E104 where it is out of range."""
    if not -rank <= axis < rank:
        fail(node, f"axis {axis} is out of range for rank {rank}")
    return axis % rank


def axes_of(node: Node, axes: Iterable[int], rank: int) -> list[int]:
    result = [axis_of(node, axis, rank) for axis in axes]
    if len(set(result)) != len(result):
        fail(node, f"axes {list(axes)} name an axis twice")
    return result


def known_ints(node: Node, context: InferContext, index: int) -> list[int] | None:
    """The integers that a required input holds; None where only data can show them."""
    type_of(node, index)
    contents = context.contents(node.inputs[index])
    if contents is None or any(not isinstance(item, int) for item in contents.ravel()):
        return None
    return [int(item) for item in contents.ravel()]


def list_length(node: Node, *indices: int) -> Dim | None:
    """The number of elements that these 1-D inputs (those that are there) share; None where it is not known."""
    length: Dim | None = None
    for index in indices:
        expect_rank(node, index, 1)
        type = optional_type(node, index)
        if type is None or type.shape is None:
            continue
        own = type.shape[0]
        length = own if length is None else unify(node, own, length, f"the lengths of the inputs {indices}")
    return length


def vector(node: Node, context: InferContext, index: int) -> list[Dim | None] | None:
    """The elements of a 1-D integer input, None each where unknown; None where even their number is."""
    expect_rank(node, index, 1)
    contents = context.contents(node.input(index))
    if contents is not None:
        return list(contents)
    shape = type_of(node, index).shape
    if shape is None or not isinstance(shape[0], int):
        return None
    if shape[0] > SMALL:
        fail(node, f"input {index} has {shape[0]} elements where one per dimension is needed")
    return [None] * shape[0]


def attribute(node: Node, name: str, default: int) -> int:
    value = node.attrs.get(name, default)
    if not isinstance(value, int):
        fail(node, f"attribute {name} is {value!r}, an integer is needed", "E102")
    return value


def integers(node: Node, name: str, default: Sequence[int] = ()) -> list[int]:
    """An attribute that is a list of integers."""
    values = node.attrs.get(name, default)
    if not isinstance(values, list | tuple) or not all(isinstance(value, int) for value in values):
        fail(node, f"attribute {name} is {values!r}, integers are needed", "E102")
    return list(values)


def number(node: Node, name: str, default: float) -> float:
    """ONNX stores numbers as float32: so is ``default``."""
    value = node.attrs.get(name, float(np.float32(default)))
    if not isinstance(value, int | float):
        fail(node, f"attribute {name} is {value!r}, a number is needed", "E102")
    return float(value)


def choice(node: Node, name: str, default: str, choices: Sequence[str]) -> str:
    value = node.attrs.get(name, default)
    if not isinstance(value, str) or value not in choices:
        fail(node, f"attribute {name} is {value!r}, one of {', '.join(choices)} is needed", "E102")
    return str(value)


# ---- arithmetic on sizes


def same(a: Dim, b: Dim) -> bool:
    """Whether two sizes are known to be equal."""
    if a == b:
        return True
    if isinstance(a, int) and isinstance(b, int):
        return False
    return bool(sympy.expand(a - b) == 0)


def differ(a: Dim, b: Dim) -> bool:
    """Whether two sizes that must be equal are known not to be. Where that is not certain, they are taken for equal:
    see :func:`assume_equal`."""
    if isinstance(a, int) and isinstance(b, int):
        return a != b
    difference = sympy.expand(a - b)
    if difference.is_zero is False:
        return True
    assume_equal(a, b)
    return False


def floor_div(a: Dim, b: int) -> Dim:
    if isinstance(a, int):
        return a // b
    return a if b == 1 else dim(sympy.floor(a / sympy.Integer(b)))


def ceil_div(a: Dim, b: int) -> Dim:
    return a if b == 1 else floor_div(dim(a + b - 1), b)


# Types are inferred again after every pass, and sympy takes long over a Max in a Min in a Max.
@functools.lru_cache(4096)
def smaller(a: Dim, b: Dim) -> Dim:
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else dim(sympy.Min(a, b))


@functools.lru_cache(4096)
def larger(a: Dim, b: Dim) -> Dim:
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else dim(sympy.Max(a, b))


def assume_equal(a: Dim, b: Dim) -> Dim:
    """The simpler of two sizes that must be equal for the node to be valid. Where that is not certain, code checks it
    in every run."""
    if not same(a, b):
        pairs = _assumed.get()
        if pairs is not None:
            pairs.append((a, b) if str(a) <= str(b) else (b, a))
    return simpler(a, b)


def simpler(a: Dim, b: Dim) -> Dim:
    """The size that is easier to compute: a number, or fewer operations."""
    if isinstance(a, int) or isinstance(b, int):
        return a if isinstance(a, int) else b
    return a if sympy.count_ops(a) <= sympy.count_ops(b) else b


def unify(node: Node, a: Dim, b: Dim, what: str) -> Dim:
    """The common value of two sizes that must be equal."""
    if differ(a, b):
        fail(node, f"{what}: {a} and {b} must be equal")
    return simpler(a, b)


def broadcast(node: Node, shapes: Sequence[tuple[Dim, ...] | None]) -> tuple[Dim, ...] | None:
    """ONNX's multidirectional broadcasting; None where a rank is unknown.

    Sizes that are not known to be equal are taken to be so, since a symbol rarely stands for 1: see
    :func:`assume_equal`.
    """
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes):
        return None
    rank = max(map(len, known), default=0)
    result: list[Dim] = []
    for axis in range(-rank, 0):
        size: Dim = 1
        for shape in known:
            other = shape[axis] if -axis <= len(shape) else 1
            if other == 1 or same(size, other):
                continue
            if size == 1:
                size = other
            elif isinstance(size, int) and isinstance(other, int):
                fail(node, "shapes do not broadcast: " + " and ".join(map(shown, known)))
            else:
                size = assume_equal(size, other)
        result.append(size)
    return tuple(result)
