"""One specialised C function, and the step that calls it."""

from __future__ import annotations

import copy
import hashlib
import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sympy

from mcpc.cost_model import Work, work_of
from mcpc.dtypes import pack
from mcpc.errors import ModelError
from mcpc.ir import Dim, DType, Node, TensorType, Value, names_of
from mcpc.kernel_class import KernelClass
from mcpc.ops import InferContext
from mcpc.target import Target

from .choice import Candidate
from .ctext import c_type, indent, literal, size, size_variable, uses_variable
from .expression import Printer, load, vector_type
from .iteration import rows_and_columns
from .region import Region

Array = np.ndarray[Any, Any]

#: Operands whose table is copied to the stack.
MOST_COPIED = 256

#: Stands for a kernel's own name in its text, so that equal kernels have equal text.
SELF = "KERNEL"


@dataclass(frozen=True)
class Kernel:
    """A C function of type mcp26_body whose argument is a table of operand pointers (``const void *const *``)."""

    label: str
    text: str

    @property
    def name(self) -> str:
        digest = hashlib.sha256(self.text.encode()).hexdigest()[:10]
        return f"{re.sub(r'[^a-z0-9]+', '_', self.label.lower()).strip('_')}_{digest}"

    @property
    def source(self) -> str:
        return self.text.replace(SELF, self.name)

    @property
    def prototype(self) -> str:
        # Hidden here too, not only where it is defined: its address is taken, and need not go through a table then.
        return f"MCP26_HIDDEN int32_t {self.name}(mcp26_env *, void *, int64_t, int64_t, uint32_t);"


@dataclass(frozen=True, eq=False)
class Workspace:
    """Arena memory that one step needs for itself, shared by its workers."""

    nbytes: Dim


@dataclass(frozen=True)
class Symbols:
    """The table of symbol values, for functions that see the operands only."""


@dataclass(frozen=True, eq=False)
class State:
    """Memory that keeps what a step writes there from run to run of a session; zero at first."""

    nbytes: int


@dataclass(frozen=True, eq=False)
class ByteWeights:
    """Packed int8 weights that a neural processor may read too. ``layout`` names the axes for its loader."""

    data: Array
    layout: str

    def stored(self, zero_point_bias: int) -> Array:
        """What lies in the file: int8, or uint8 around ``zero_point_bias``."""
        return self.data.view(np.uint8) + np.uint8(zero_point_bias) if zero_point_bias else self.data


Operand = Value | Array | ByteWeights | Workspace | Symbols | State


@dataclass(eq=False)
class Label:
    """A place between steps, to jump to."""


@dataclass
class Step:
    """What a node became: ``operands`` fill the kernel's pointer table, ``outputs`` are those that it writes. ``units``
    and ``grain`` are C expressions of the parallel loop over ``symbols``. ``sets`` are the sizes that the step finds in
    the data. ``scratch`` is in bytes a worker. Where the kernel returns 1, ``jump`` says what comes next. ``work`` is
    what costs are stated of."""

    node: Node
    region: Region
    kernel: Kernel
    operands: list[Operand]
    outputs: tuple[Value, ...]
    units: str
    grain: str
    symbols: tuple[str, ...]
    sets: tuple[str, ...]
    scratch: int
    work: Work
    jump: Label | None = None


class KernelBuilder:
    """Collects the text and the operands of one kernel.

    Emitters ask for pointers (:meth:`input`, :meth:`output`, :meth:`constant`), add body lines, and set ``units``: the
    number of items of the parallel loop, of which the body runs [begin, end). ``context`` knows the contents of small
    integer tensors. ``scratch`` is in bytes a worker, see :attr:`worker_scratch`. ``operations``: what the kernel
    executes but for its elementwise operators, where the operators' declarations do not tell (see
    :func:`mcpc.cost_model.work_of`). ``choice`` is the kernel to take, where there are several.
    """

    def __init__(
        self, region: Region, target: Target, context: InferContext | None = None, choice: Candidate | None = None
    ) -> None:
        self.region = region
        self.node = region.node
        self.built_for = target
        self.nr = target.nr
        self.context = context if context is not None else InferContext()
        self.choice = choice
        self.label = region.label
        self._prefix = SELF
        self.headers: list[str] = []
        self.units = "1"
        self.grain = "1"
        self.scratch = 0
        self.operations: dict[KernelClass, Dim] | None = None
        self._operands: list[Operand] = []
        self._functions: list[str] = []
        self._lines: list[str] = []
        self._symbols: dict[str, None] = {}
        self._sets: dict[str, None] = {}

    def part(self, region: Region, name: str) -> KernelBuilder:
        """A builder for one of several regions that this kernel computes: it adds to the same text and operands, under
        names of its own."""
        part = copy.copy(self)
        part.region, part.node, part._prefix = region, region.node, f"{SELF}_{name}"
        return part

    # ---- operands

    def _pointer(self, operand: Operand) -> int:
        for index, known in enumerate(self._operands):
            if known is operand or (isinstance(known, Symbols) and isinstance(operand, Symbols)):
                return index
        self._operands.append(operand)
        return len(self._operands) - 1

    def input(self, value: Value | None, type: str = "") -> str:
        """C text of a pointer to the elements of an operand of the region, as ``type`` (default: the element's)."""
        outer = self.region.outer(value)
        assert outer is not None
        return f"ARG({type or c_type(outer.dtype)}, {self._pointer(outer)})"

    def output(self, index: int = 0, type: str = "") -> str:
        value = self.node.outputs[index]
        assert value is not None
        return f"OUT({type or c_type(value.dtype)}, {self._pointer(value)})"

    def target(self, value: Value, type: str = "uint8_t") -> str:
        """A pointer to where ``value``, which need be no output of the node, is written."""
        return f"OUT({type}, {self._pointer(value)})"

    def outer(self, value: Value | None) -> Value:
        """The graph's value behind a required operand of the anchor."""
        outer = self.region.outer(value)
        assert outer is not None
        return outer

    @property
    def anchor(self) -> Node:
        assert self.region.anchor is not None
        return self.region.anchor

    @property
    def worker_scratch(self) -> str:
        """The running worker's ``scratch`` bytes."""
        return "(float *)(void *)(env->scratch + worker * env->scratch_stride)"

    def workspace(self, nbytes: Dim) -> str:
        """A ``uint8_t *`` to memory that lives during this step only, one for all workers."""
        return f"OUT(uint8_t, {self._pointer(Workspace(nbytes))})"

    def state(self, nbytes: int) -> str:
        """A ``uint8_t *`` to memory of the step that outlives a run; only one worker may write there."""
        return f"OUT(uint8_t, {self._pointer(State(nbytes))})"

    def constant(self, data: Array, type: str = "float") -> str:
        """A pointer to packed weights; equal arrays share one place in the file."""
        return f"ARG({type}, {self._pointer(data)})"

    def byte_weights(self, data: Array, layout: str) -> str:
        """A pointer to packed int8 weights, which kernels read less BYTE_BIAS (gemm_i8.h)."""
        return f"ARG(int8_t, {self._pointer(ByteWeights(data, layout))})"

    def packed(self, value: Value) -> tuple[str, int] | None:
        """A pointer to the elements of a constant as ``v8b_unpack`` reads them (narrow.h), and their bits; None where
        4 bits do not hold all of them."""
        outer = self.outer(value)
        bits = None if outer.data is None else bits_of(outer.data)
        if outer.data is None or bits is None:
            return None
        packed = pack(outer.data.transpose(outer.type.order), bits)
        return self.constant(np.pad(packed, (0, 8)), "uint8_t"), bits

    # ---- text

    def size(self, value: Dim) -> str:
        self._symbols.update(dict.fromkeys(names_of([value])))
        return size(value)

    def set_size(self, value: Dim, text: str) -> None:
        """Make the C expression ``text`` the value of a size that only data show (see :meth:`InferContext.unknown`).
        A bound is checked by the plan."""
        assert isinstance(value, sympy.Symbol)
        self._sets[str(value.name)] = None
        self.line(f"SYMBOL({str(value.name)!r}) = {text};")

    def line(self, *lines: str) -> None:
        self._lines.extend(lines)

    def function(self, text: str) -> None:
        self._functions.append(text)

    def call(self, name: str, *arguments: str | Dim) -> None:
        texts = [argument if isinstance(argument, str) else self.size(argument) for argument in arguments]
        self.line(f"{name}({', '.join(texts)});")

    def epilogue(self) -> str:
        """The name of the function that finishes 8 results: bias is not part of it, see :meth:`epilogue_with`."""
        return self.epilogue_with(None)

    def epilogue_with(self, bias: Array | None) -> str:
        """Define the region's epilogue, with ``bias`` [columns] added first, and return its name.

        The chain sees the anchor's result as rows x columns, columns being the innermost dimension in memory.
        """
        region = self.region
        if bias is None and not region.chain:
            return "epilogue_none"
        result = self.node.output.type
        fetched: list[str] = []
        printer = Printer(lambda value: self._epilogue_operand(value, result, fetched))
        lines: list[str] = []
        if bias is not None:
            lines.append(f"acc = acc + v8f_load({self.constant(bias)} + n, lanes);")
        printer.define(self.anchor.output, "acc")
        for node in region.chain:
            printer.node(node)
        self.headers.append("vmath.h")
        lines += printer.statements
        if fetched:
            lines.insert(0, f"if (lanes == 0) {{ {' '.join(dict.fromkeys(fetched))} return acc; }}")
        lines.append(f"return {printer.text(region.result) if region.chain else 'acc'};")
        name = f"{self._prefix}_epilogue"
        self.function(
            f"MCP26_INLINE v8f {name}(v8f acc, const void *const *args, int64_t m, int64_t n, int64_t lanes) {{\n"
            f"    (void)args, (void)m, (void)n, (void)lanes;\n{indent(lines)}\n}}"
        )
        return name

    def finish(self, added: Node | None = None) -> str:
        """Define the function that computes the region's chain from 8 sums of integers and stores its result (the
        byte_finish of gemm_i8.h), and return its name. The chain sees the sums as :meth:`epilogue_with` says; its first
        node is ``added`` where the kernel computes that one."""
        region, result = self.region, self.node.output.type
        printer = Printer(lambda value: self._epilogue_operand(value, result, []))
        printer.define((added or self.anchor).output, "sum")
        for node in region.chain:
            if node is not added:
                printer.node(node)
        self.headers.append("vmath.h")
        row = result.dims[result.order[-1]] if result.pitch is None else result.pitch
        stored = printer.store(region.result, f"{self.output()} + m * {self.size(row)} + n", "lanes")
        name = f"{self._prefix}_finish"
        self.function(
            f"MCP26_INLINE void {name}(v8i sum, const void *const *args, int64_t m, int64_t n, int64_t lanes) {{\n"
            f"{indent([*printer.statements, stored])}\n}}"
        )
        return name

    def _epilogue_operand(self, value: Value, result: TensorType, fetched: list[str]) -> str:
        """C text of 8 elements of an operand; what fetches them, where each row has its own, goes to ``fetched``."""
        outer = self.region.outer(value)
        assert outer is not None
        if outer.data is not None and outer.data.size == 1:
            return scalar(outer)
        steps = rows_and_columns(result, outer.type)
        assert steps is not None, f"{outer!r} is not an epilogue operand of {self.node!r}"
        row, column = steps
        terms = [self.input(value)]
        if row != 0:
            terms.append("m" if row == 1 else f"m * {self.size(row)}")
        if column != 0:
            terms.append("n" if column == 1 else f"n * {self.size(column)}")
        if row != 0 and column == 1:
            fetched.append(f"__builtin_prefetch({' + '.join(terms)});")
        return load(outer.dtype, " + ".join(terms), self.size(column), "lanes")

    def _with_sizes(self, function: str) -> str:
        """``function`` with the sizes that it uses as variables; its operands are ``args``."""
        names = [name for name in self._symbols if uses_variable(function, name)]
        if not names:
            return function
        table = self._pointer(Symbols())
        head, body = function.split("{\n", 1)
        lines = [
            f"const int64_t {size_variable(name)} = ARG(int64_t, {table})[SYMBOL_INDEX({name!r})];" for name in names
        ]
        return f"{head}{{\n{indent(lines)}\n{body}"

    def _arguments(self) -> list[str]:
        """Lines that declare ``args``: a copy, which no store can change, so that pointers stay in registers; where
        there are far more of them, the table itself."""
        if not 0 < len(self._operands) <= MOST_COPIED:
            return ["    const void *const *args = arg;"]
        return [
            f"    const void *args[{len(self._operands)}];",
            "    __builtin_memcpy(args, arg, sizeof args);",
        ]

    def build(self) -> Step:
        node = self.node
        text = "\n".join(
            [
                *(f'#include "{header}"' for header in dict.fromkeys(self.headers)),
                "",
                *map(self._with_sizes, self._functions),
                f"int32_t {SELF}(mcp26_env *env, void *arg, int64_t begin, int64_t end, uint32_t worker) {{",
                *self._arguments(),
                "    (void)env, (void)args, (void)begin, (void)end, (void)worker;",
                *(f"    const int64_t {size_variable(name)} = SYMBOL({name!r});" for name in self._symbols),
                indent(self._lines),
                "    return 0;",
                "}",
                "",
            ]
        )
        kernel = Kernel(self.label, text)
        work = work_of(node, self.operations)
        if self.choice is not None:
            work = replace(work, weights=self.choice.nbytes)
        return Step(
            node,
            self.region,
            kernel,
            self._operands,
            tuple(output for output in node.outputs if output is not None),
            self.units,
            self.grain,
            tuple(self._symbols),
            tuple(self._sets),
            self.scratch,
            work,
        )


def bits_of(data: Array) -> int | None:
    """Those of a type of 4 and fewer, or those that hold all of these integers of 8: 2, 4, None where it takes more."""
    dtype = DType.of(data)
    if dtype.bits < 8 or dtype not in (DType.int8, DType.uint8) or data.size == 0:
        return dtype.bits if dtype.bits < 8 else None
    low, high, sign = int(data.min()), int(data.max()), int(dtype is DType.int8)
    return next((bits for bits in (2, 4) if -sign << bits - 1 <= low and high < 1 << bits - sign), None)


def scalar(value: Value) -> str:
    """A one-element constant as a vector literal."""
    assert value.data is not None
    item = value.data.reshape(-1)[0]
    if value.dtype is DType.bool:
        return f"(v8i){-1 if item else 0}"
    return f"({vector_type(value.dtype)}){literal(item, value.dtype)}"


def unsupported(node: Node, what: str, hint: str = "") -> ModelError:
    return ModelError(
        "E102", f"{node.op}: {what} is not supported by native code", op=node.op, node=node.name, hint=hint
    )
