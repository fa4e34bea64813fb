"""Steps of control flow: branches, counters, and what goes from one iteration to the next.

A kernel that returns 1 lets its step jump. :mod:`mcpc.targets.native.control` puts the steps in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import sympy

from mcpc.ir import Dim, DType, Node, Value, dim
from mcpc.ops import InferContext
from mcpc.ops.control import LoopForm
from mcpc.target import Target

from ..kernel import KernelBuilder, Label, Step
from ..region import Region
from .sizes import element

#: Bytes of a copy that are worth a thread's while.
COPY_GRAIN = 1 << 16


class Control:
    """Makes the steps of one control-flow ``node``."""

    def __init__(self, node: Node, target: Target, context: InferContext) -> None:
        self.node = node
        self.target = target
        self.context = context

    def step(
        self,
        label: str,
        fill: Callable[[KernelBuilder], None],
        outputs: Sequence[Value] = (),
        jump: Label | None = None,
    ) -> Step:
        builder = KernelBuilder(Region.of(self.node), self.target, self.context)
        builder.label = f"{self.node.op} {label}"
        fill(builder)
        return replace(builder.build(), outputs=tuple(outputs), jump=jump)

    def go(self, label: Label) -> Step:
        """An unconditional jump."""
        return self.step("end", lambda b: b.line("return 1;"), jump=label)

    def enter(self) -> Step:
        """What stands before a body whose sizes have to be checked."""
        return self.step("enter", lambda b: None)

    def branch(self, otherwise: Label) -> Step:
        return self.step(
            "branch", lambda b: b.line(f"return !*{b.input(self.node.inputs[0], 'uint8_t')};"), jump=otherwise
        )

    def set_sizes(self, sizes: Mapping[sympy.Symbol, Dim]) -> Step:
        """Give each symbol its value, all at once."""

        def fill(b: KernelBuilder) -> None:
            for symbol, value in sizes.items():
                b.set_size(symbol, b.size(value))

        return self.step("sizes", fill)

    def copy(self, source: Value, target: Value, what: str = "copy") -> Step:
        """``target``'s bytes from ``source``, which is as large."""

        def fill(b: KernelBuilder) -> None:
            _move(b, b.target(target), b.input(source, "uint8_t"), target.type.nbytes)

        return self.step(what, fill, [target])

    # ---- Loop

    def first_count(self, form: LoopForm, count: sympy.Symbol) -> Step:
        """Before a loop that no condition ends: how many iterations there will be."""

        def fill(b: KernelBuilder) -> None:
            b.line(f"const int64_t count = max_size({_limit(b, form)}, 0);")
            b.line("int32_t status = sizes_check(env, count);", "if (status) return status;")
            b.set_size(count, "count")

        return self.step("sizes", fill)

    def start(self, form: LoopForm, uses_condition: bool, rows: Sequence[Value], end: Label) -> Step:
        """Before the first iteration; takes the memory of ``rows``. Jumps where there is no iteration."""

        def fill(b: KernelBuilder) -> None:
            b.line(f"*{b.target(form.counter, 'int64_t')} = 0;")
            if uses_condition:
                b.line(f"*{b.target(form.body.inputs[1])} = 1;")
            for value in rows:
                b.target(value)
            given = "" if form.condition is None else f" || !*{b.input(form.condition, 'uint8_t')}"
            b.line(f"return {_limit(b, form)} <= 0{given};")

        return self.step("start", fill, [form.counter], jump=end)

    def next(self, form: LoopForm, head: Label) -> Step:
        """Behind an iteration: jumps to the next one, where there is one."""

        def fill(b: KernelBuilder) -> None:
            known = b.context.contents(form.again)
            holds = known is not None and known.ravel()[0] == 1
            again = "" if holds else f" && *{b.input(form.again, 'uint8_t')}"
            counter = b.target(form.counter, "int64_t")
            b.line(f"return ++*{counter} < {_limit(b, form)}{again};")

        return self.step("next", fill, jump=head)

    def set_count(self, form: LoopForm, count: sympy.Symbol) -> Step:
        """Behind the loop: how many iterations there were."""
        return self.step("count", lambda b: b.set_size(count, f"*{b.input(form.counter, 'int64_t')}"))

    def collect(self, form: LoopForm, value: Value, rows: Value) -> Step:
        """Append ``value`` to ``rows``."""

        def fill(b: KernelBuilder) -> None:
            nbytes = value.type.nbytes
            at = f"*{b.input(form.counter, 'int64_t')} * {b.size(nbytes)}"
            _move(b, f"({b.target(rows)} + {at})", b.input(value, "uint8_t"), nbytes)

        return self.step("collect", fill, [rows])

    def first_row(self, form: LoopForm, sizes: Mapping[sympy.Symbol, Dim], otherwise: Label) -> Step:
        """In the first iteration ``sizes`` of what is collected are found; later ones have to have the same."""

        def fill(b: KernelBuilder) -> None:
            b.headers.append("sizes.h")
            counter = b.input(form.counter, "int64_t")
            for symbol, value in sizes.items():
                now, found = b.size(symbol), b.size(value)
                b.line(f"if (*{counter} && {now} != {found}) return sizes_differ(env, {now}, {found});")
            b.line(f"if (*{counter}) return 1;")
            for symbol, value in sizes.items():
                b.set_size(symbol, b.size(value))

        return self.step("row", fill, jump=otherwise)

    def room(self, form: LoopForm, capacity: Dim, more: sympy.Symbol, enough: Label) -> Step:
        """Jumps where there is room for another row, else finds how much to take."""

        def fill(b: KernelBuilder) -> None:
            now = b.size(capacity)
            b.line(f"if (*{b.input(form.counter, 'int64_t')} < {now}) return 1;")
            b.set_size(more, f"max_size(2 * {now}, 16)")

        return self.step("room", fill, jump=enough)

    def move_rows(self, form: LoopForm, source: Value, target: Value) -> Step:
        """The rows that are there already."""

        def fill(b: KernelBuilder) -> None:
            row = dim(source.type.nbytes / source.type.dims[0])
            _move(
                b, b.target(target), b.input(source, "uint8_t"), f"*{b.input(form.counter, 'int64_t')} * {b.size(row)}"
            )

        return self.step("rows", fill, [target])


def _move(b: KernelBuilder, target: str, source: str, nbytes: Dim | str) -> None:
    b.headers.append("move.h")
    if isinstance(nbytes, str):  # only the kernel can tell
        b.line(f"move_run_8({target}, {source}, {nbytes});")
    else:
        b.line(f"move_run_8({target} + begin, {source} + begin, end - begin);")
        b.units, b.grain = b.size(nbytes), str(COPY_GRAIN)


def _limit(b: KernelBuilder, form: LoopForm) -> str:
    """The largest number of iterations."""
    if form.limit is None:
        return "INT64_MAX"
    b.headers.append("sizes.h")
    assert form.limit.dtype is DType.int64
    return element(b, form.limit, 0)
