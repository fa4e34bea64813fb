"""Scalar expressions of operators as C over 8-lane vectors.

An operand of a type is a vector of it, see :data:`VECTORS`. A bool is a mask, a v8i of 0 and -1. Floats of 16 bits and
fewer are computed as v8f, integers of 4 and 2 bits as bytes; each operator's result is rounded to them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mcpc import ops
from mcpc.errors import TargetError
from mcpc.ir import DType, Node, Value
from mcpc.ops import expr as e
from mcpc.ops.quantize import divided_in

from .ctext import c_type, literal

VECTORS: dict[DType, str] = {
    DType.float32: "v8f",
    DType.float64: "v8d",
    DType.int8: "v8c",
    DType.int16: "v8s",
    DType.int32: "v8i",
    DType.int64: "v8l",
    DType.uint8: "v8b",
    DType.uint16: "v8w",
    DType.uint32: "v8u",
    DType.uint64: "v8q",
}
#: Types stored in fewer bits than they are computed in: the name of the conversions in narrow.h.
NARROW: dict[DType, str] = {
    DType.float16: "half",
    DType.bfloat16: "bfloat",
    DType.float8e4m3fn: "e4m3",
    DType.float8e4m3fnuz: "e4m3z",
    DType.float8e5m2: "e5m2",
    DType.float8e5m2fnuz: "e5m2z",
    DType.float8e8m0: "e8m0",
    DType.float4e2m1: "e2m1",
    DType.int4: "i4",
    DType.uint4: "u4",
    DType.int2: "i2",
    DType.uint2: "u2",
}
#: Vectors of signed integers, which masks become, by size of the elements.
MASKS = {1: "v8c", 2: "v8s", 4: "v8i", 8: "v8l"}
UNSIGNED = {1: "v8b", 2: "v8w", 4: "v8u", 8: "v8q"}

#: How the names of kernels that are written once for every type end.
SUFFIXES: dict[DType, str] = {
    DType.float32: "f32",
    DType.float64: "f64",
    **{DType[f"int{bits}"]: f"i{bits}" for bits in (8, 16, 32, 64)},
    **{DType[f"uint{bits}"]: f"u{bits}" for bits in (8, 16, 32, 64)},
}

#: Primitives that are one C operator on every arithmetic vector.
INFIX = {"add": "+", "sub": "-", "mul": "*", "bitand": "&", "bitor": "|", "bitxor": "^"}
COMPARE = {"eq": "==", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
LOGIC = {"and": "&", "or": "|", "xor": "^"}
#: float32 and float64 functions of vmath.h, vmath_double.h and simd.h, called v8f_<name> and v8d_<name>.
FLOAT_FUNCTIONS = (
    *("abs", "neg", "floor", "ceil", "round", "sqrt", "max", "min", "fmod", "pow"),
    *("exp", "expm1", "log", "log1p", "tanh", "sigmoid", "erf", "gelu", "sin", "cos", "tan", "asin", "acos", "atan"),
    *("sinh", "cosh", "asinh", "acosh", "atanh", "pow2_down", "pow2_up", "pow2_nearest"),
)
#: Functions whose results are operands, perhaps with another sign, or whole numbers beside them.
CHOOSING = ("abs", "neg", "max", "min", "floor", "ceil", "round")
#: float16 functions of narrow.h, called v8f_half_<name>.
HALF_FUNCTIONS = (*CHOOSING, "sqrt")
#: Integer functions of simd.h, called <vector>_<name>.
INTEGER_FUNCTIONS = {"div": "div", "mod": "mod", "fmod": "rem"}
SHIFTS = {"shl": "<<", "shr": ">>"}


def computed_in(dtype: DType) -> DType:
    """The type that elements of a stored type are computed in."""
    if dtype not in NARROW:
        return dtype
    return DType.float32 if dtype.is_float else DType.uint8 if dtype.name.startswith("u") else DType.int8


def vector_type(dtype: DType) -> str:
    """The C vector of a stored type; bool is a mask once loaded."""
    return "v8i" if dtype is DType.bool else VECTORS[computed_in(dtype)]


def load(dtype: DType, pointer: str, stride: str, lanes: str) -> str:
    """Eight elements at ``pointer``: neighbours where ``stride`` is "1", one repeated where it is "0"."""
    if dtype is DType.bool:
        return f"v8i_mask_from_bool({_load('v8b', pointer, stride, lanes)})"
    if dtype in NARROW:
        return f"{vector_type(dtype)}_from_{NARROW[dtype]}({_load(_bits(dtype), pointer, stride, lanes)})"
    return _load(vector_type(dtype), pointer, stride, lanes)


def load_packed(dtype: DType, bits: int, pointer: str, index: str) -> str:
    """Eight neighbours from element ``index`` on of a constant that is packed to ``bits`` an element."""
    name = NARROW.get(dtype, f"{'u' if dtype is DType.uint8 else 'i'}{bits}")
    return f"{vector_type(dtype)}_from_{name}(v8b_unpack({pointer}, {bits}, {index}))"


def _bits(dtype: DType) -> str:
    """The vector of what is stored of a narrow type."""
    return "v8w" if dtype.itemsize == 2 else "v8b"


def _load(vector: str, pointer: str, stride: str, lanes: str) -> str:
    if stride == "0":
        return f"{vector}_splat(*({pointer}))"
    if stride == "1":
        return f"{vector}_load({pointer}, {lanes})"
    return f"{vector}_load_strided({pointer}, {stride}, {lanes})"


def store(dtype: DType, pointer: str, value: str, lanes: str) -> str:
    if dtype is DType.bool:
        return f"v8b_store({pointer}, v8b_from_mask({value}), {lanes});"
    if dtype in NARROW:
        return f"{_bits(dtype)}_store({pointer}, {NARROW[dtype]}_from_{vector_type(dtype)}({value}), {lanes});"
    return f"{vector_type(dtype)}_store({pointer}, {value}, {lanes});"


class Printer:
    """Prints nodes of a chain as C statements.

    ``operand(value)`` gives the C text of a value that the chain does not compute. ``statements`` grows as nodes
    are printed; a result is the name of a variable in it.
    """

    def __init__(self, operand: Callable[[Value], str], prefix: str = "t") -> None:
        self._operand = operand
        self._prefix = prefix
        self._results: dict[int, str] = {}
        self._stored: dict[str, str] = {}  # what is stored of a variable of one of NARROW, where that was computed
        self._sigmoids: dict[str, str] = {}  # by the text of a float32 sigmoid's result: that of its argument
        self.statements: list[str] = []

    def define(self, value: Value, text: str) -> None:
        self._results[id(value)] = text

    def text(self, value: Value) -> str:
        if id(value) not in self._results:
            self._results[id(value)] = self._operand(value)
        return self._results[id(value)]

    def node(self, node: Node) -> None:
        """Add the statements that compute an elementwise node's output."""
        tree = ops.expression(node)
        assert tree is not None, node
        out = node.output
        if (
            node.is_op("QuantizeLinear")
            and out.dtype in (DType.int8, DType.uint8)
            and divided_in(node) is DType.float32
        ):
            self.define(out, self._variable(self._quantized(node), out.dtype))
            return
        texts: dict[int, tuple[str, DType | None]] = {}
        trees = list(e.postorder(tree))
        uses: dict[int, int] = {}
        for item in trees:
            for child in item.args:
                uses[id(child)] = uses.get(id(child), 0) + 1
        for item in trees:
            if item.op == "arg":
                value = node.inputs[int(item.value)]  # type: ignore[arg-type]
                assert value is not None
                texts[id(item)] = (self.text(value), value.dtype)
            elif item.op == "const":
                texts[id(item)] = ("", None)
            else:
                text, dtype = self._apply(node, item, [texts[id(child)] for child in item.args])
                if uses.get(id(item), 0) > 1:
                    text = self._variable(text, dtype)
                texts[id(item)] = (text, dtype)
        text, kind = texts[id(tree)]
        if kind is None:
            text = self._constant(tree, out.dtype)
        elif kind is not out.dtype:
            text = convert(text, kind, out.dtype)
        elif kind in NARROW and not (tree.op == "cast" or _chooses(tree, kind)):
            text = _rounded(text, out.dtype)
        self.define(out, self._variable(text, out.dtype))

    def _variable(self, text: str, dtype: DType | None) -> str:
        assert dtype is not None
        name = f"{self._prefix}{len(self.statements)}"
        opening = f"{vector_type(dtype)}_from_{NARROW.get(dtype)}("
        if text.startswith(opening):
            self._stored[name] = f"{name}_bits"
            self.statements.append(f"{_bits(dtype)} {name}_bits = {text.removeprefix(opening).removesuffix(')')};")
            text = f"{opening}{name}_bits)"
        self.statements.append(f"{vector_type(dtype)} {name} = {text};")
        if text in self._sigmoids:
            self._sigmoids[name] = self._sigmoids[text]
        return name

    def store(self, value: Value, pointer: str, lanes: str) -> str:
        """The statement that stores a value; what was rounded to be stored is not rounded again."""
        text = self.text(value)
        if text in self._stored:
            return f"{_bits(value.dtype)}_store({pointer}, {self._stored[text]}, {lanes});"
        return store(value.dtype, pointer, text, lanes)

    def _quantized(self, node: Node) -> str:
        """Bytes of a QuantizeLinear (narrow.h)."""
        x, scale, zero = node.inputs[0], node.inputs[1], node.input(2)
        assert x is not None and scale is not None
        steps = convert(self.text(x), x.dtype, DType.float32)
        if scale.data is None or (scale.data != 1).any():
            steps = f"({steps} / {convert(self.text(scale), scale.dtype, DType.float32)})"
        origin = "(v8s)0" if zero is None else convert(self.text(zero), zero.dtype, DType.int16)
        return f"{vector_type(node.output.dtype)}_from_steps({steps}, {origin})"

    @staticmethod
    def _constant(item: e.Expr, dtype: DType) -> str:
        number = item.value
        assert isinstance(number, (int, float))
        if dtype is DType.bool:
            return f"(v8i){-1 if number else 0}"
        if not dtype.is_float and int(number) != number:
            raise TargetError("E102", f"native code combines no {number:g} with {dtype.name}")
        return f"({vector_type(dtype)}){literal(number, dtype)}"

    def _apply(self, node: Node, item: e.Expr, args: Sequence[tuple[str, DType | None]]) -> tuple[str, DType]:
        kinds = args[1:] if item.op == "where" else args
        dtype = next((kind for _, kind in kinds if kind is not None), None)
        if dtype is None:
            dtype = node.output.dtype if node.output.dtype is not DType.bool else DType.float32
        if item.op == "cast":
            assert isinstance(item.value, DType)
            return convert(args[0][0], dtype, item.value), item.value
        if item.op == "pow" and not dtype.is_float:
            return self._integer_power(item, dtype, args), dtype
        texts = []
        for index, (text, kind) in enumerate(args):
            wanted = DType.bool if item.op == "where" and index == 0 else dtype
            if kind is None:
                text = self._constant(item.args[index], wanted)
            elif kind is not wanted:
                text = convert(text, kind, wanted)
            texts.append(text)
        result = DType.bool if e.PRIMITIVES[item.op].is_bool else dtype
        printed = _primitive(item.op, computed_in(dtype), texts)
        if dtype is DType.float32 and item.op == "sigmoid" and printed is not None:
            self._sigmoids[printed] = texts[0]
        if item.op == "mul":
            printed = self._silu(*texts) or self._silu(*reversed(texts)) or printed
        if dtype is DType.float16 and item.op in HALF_FUNCTIONS and all(_chooses(each, dtype) for each in item.args):
            printed = f"v8f_half_{item.op}({', '.join(texts)})"
        if printed is None:
            raise TargetError(
                "E102",
                f"native code has no {item.op} of {dtype.name} yet",
                op=node.op,
                node=node.name,
            )
        return printed, result

    def _silu(self, factor: str, sigmoid: str) -> str | None:
        """A product that has a function of its own: of a float32 number and its sigmoid."""
        return f"v8f_silu({factor})" if self._sigmoids.get(sigmoid) == factor else None

    def _integer_power(self, item: e.Expr, dtype: DType, args: Sequence[tuple[str, DType | None]]) -> str:
        """The power of an integer has its type, whatever the exponent's: exact for integers, else truncated."""
        kind = args[1][1]
        wide = [DType.int64, DType.float64 if kind is not None and kind.is_float else DType.int64]
        base, exponent = (
            self._constant(operand, wanted) if own is None else convert(text, own, wanted)
            for operand, (text, own), wanted in zip(item.args, args, wide, strict=True)
        )
        power = "v8l_pow_v8d" if wide[1].is_float else "v8l_pow"
        return convert(f"{power}({base}, {exponent})", DType.int64, dtype)


def convert(text: str, source: DType, target: DType) -> str:
    """``text`` of type ``source`` as ``target``, as ONNX Cast does."""
    if source is target:
        return text
    if target in NARROW:
        if source is DType.float64 and target.is_float:
            return _rounded(f"v8f_odd_from_v8d({text})", target)
        return _rounded(convert(text, source, computed_in(target)), target)
    if source in NARROW:
        return convert(text, computed_in(source), target)
    vector = vector_type(target)
    if target is DType.bool:
        return _mask(f"({text} != 0)", source)
    if source is DType.bool:
        ones = f"(v8i)({text} & 1)"
        return ones if vector == "v8i" else f"__builtin_convertvector({ones}, {vector})"
    if source is DType.float32 and target in (DType.int32, DType.int64):
        return f"{vector}_from_v8f({text})"
    if source.is_float and target is DType.uint64:
        return f"v8q_from_v8d({convert(text, source, DType.float64)})"
    if source.is_float and not target.is_float:
        # Through int64, which holds every narrower integer: the low bits are what a C cast of a wrapped value gives.
        wide = f"v8l_from_{vector_type(source)}({text})"
        return wide if target is DType.int64 else f"__builtin_convertvector({wide}, {vector})"
    return f"__builtin_convertvector({text}, {vector})"


def _rounded(text: str, dtype: DType) -> str:
    """What one of :data:`NARROW` is computed in, rounded to it."""
    vector = vector_type(dtype)
    return f"{vector}_from_{NARROW[dtype]}({NARROW[dtype]}_from_{vector}({text}))"


def _chooses(tree: e.Expr, dtype: DType) -> bool:
    """Whether ``tree`` over elements of one of :data:`NARROW` gives such elements without rounding."""
    if tree.op == "const":
        with np.errstate(over="ignore"):
            return dtype.is_float and float(np.array(tree.value).astype(dtype.numpy)) == tree.value
    if tree.op == "where":
        return all(_chooses(each, dtype) for each in tree.args[1:])
    return tree.op == "arg" or (tree.op in CHOOSING and all(_chooses(each, dtype) for each in tree.args))


def _mask(comparison: str, dtype: DType) -> str:
    """A comparison of ``dtype`` vectors as a v8i mask."""
    return comparison if dtype.itemsize == 4 or dtype is DType.bool else f"__builtin_convertvector({comparison}, v8i)"


def _primitive(op: str, dtype: DType, args: Sequence[str]) -> str | None:
    """C text of one primitive on operands of ``dtype``; None where there is none."""
    if op in LOGIC:
        return f"({args[0]} {LOGIC[op]} {args[1]})"
    if op == "not":
        return f"(~{args[0]})"
    if op in COMPARE:
        return _mask(f"({args[0]} {COMPARE[op]} {args[1]})", dtype)
    if op == "where":
        is_wide_enough = dtype.itemsize == 4 or dtype is DType.bool
        mask = args[0] if is_wide_enough else f"__builtin_convertvector({args[0]}, {MASKS[dtype.itemsize]})"
        return f"({mask} ? {args[1]} : {args[2]})"
    if dtype is DType.bool:
        return None
    if op in INFIX and not (op.startswith("bit") and dtype.is_float):
        return f"({args[0]} {INFIX[op]} {args[1]})"
    if op == "div" and dtype.is_float:
        return f"({args[0]} / {args[1]})"
    if op == "isnan" and dtype.is_float:
        return _mask(f"({args[0]} != {args[0]})", dtype)
    vector = vector_type(dtype)
    if dtype.is_float:
        if op == "isinf":
            return _mask(f"({vector}_abs({args[0]}) == ({vector})__builtin_inff())", dtype)
        if op == "sign":
            one = literal(1, dtype)
            return f"({args[0]} > 0 ? ({vector}){one} : {args[0]} < 0 ? ({vector})-{one} : {args[0]})"
        return f"{vector}_{op}({', '.join(args)})" if op in FLOAT_FUNCTIONS else None
    is_unsigned = dtype.name.startswith("u")
    if op in ("max", "min"):
        return f"__builtin_elementwise_{op}({', '.join(args)})"
    if op == "neg":
        return f"(-{args[0]})"
    if op == "bitnot":
        return f"(~{args[0]})"
    if op == "abs":
        return args[0] if is_unsigned else f"__builtin_elementwise_abs({args[0]})"
    if op == "sign":  # comparisons give 0 and -1
        return f"(({vector})({args[0]} != 0) & 1)" if is_unsigned else f"({vector})(({args[0]} < 0) - ({args[0]} > 0))"
    if op in INTEGER_FUNCTIONS:
        return f"{vector}_{INTEGER_FUNCTIONS[op]}({', '.join(args)})"
    if op in SHIFTS:  # by as many bits as there are, or a negative number of them, copies of the sign are left
        amount = f"__builtin_convertvector({args[1]}, {UNSIGNED[dtype.itemsize]})"
        mask = f"({MASKS[dtype.itemsize]})({amount} < {8 * dtype.itemsize})"
        left = f"{args[0]} >> {8 * dtype.itemsize - 1}" if op == "shr" and not is_unsigned else f"{vector}_splat(0)"
        return f"{vector}_select({mask}, {args[0]} {SHIFTS[op]} {args[1]}, {left})"
    return None


def supported(node: Node) -> str | None:
    """Why an elementwise node has no native code, None where it has."""
    try:
        for value in (*node.inputs, *node.outputs):
            if value is not None:
                vector_type(value.dtype)
                c_type(value.dtype)
        Printer(lambda value: "x").node(node)
    except TargetError as error:
        return error.message
    return None
