"""The order of the steps of If and Loop, from the last one back, as :mod:`.schedule` builds it.

    If      branch → else;  then: …, → end;  else: …;  end       (results that are no step's go through copies)
    Loop    copies of the initial values, start → end;  head: …, collect, carry, next → head;  end: count

Bodies see what they capture as views. A carried value lies in one place in all iterations; where its size changes, the
symbol that its type names does, and places that depend on it are planned again. What is stacked lies in rows that
double where nobody knows their number beforehand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy

from mcpc.ir import Dim, Graph, Node, TensorType, Value, symbol
from mcpc.ops.control import LoopForm, decided

from .emit.control import Control
from .kernel import Label, Step
from .phases import has_checks

if TYPE_CHECKING:
    from .schedule import Scheduler


def schedule_if(s: Scheduler, node: Node) -> None:
    wanted = [(k, output) for k, output in enumerate(node.outputs) if output is not None and s.is_wanted(output)]
    if not wanted:
        return
    taken = decided(node, s.context)
    if taken is not None:
        for index, output in wanted:
            s.view(output, node.bodies[taken].outputs[index], 0)
        _body(s, node, node.bodies[taken], None)
        return
    control = Control(node, s.target, s.context)
    end, otherwise = Label(), Label()
    s.add(end)
    for name in ("else_branch", "then_branch"):
        body = node.bodies[name]
        for index, output in reversed(wanted):
            value = body.outputs[index]
            own = own_sizes(output, value.type.dims)
            if not own and s.may_lie_elsewhere(value):
                s.want(value)
                s.view(value, output, 0)
                continue
            s.add(control.copy(value, output))
            if own:
                s.add(control.set_sizes(own))
        _body(s, node, body, control)
        if name == "else_branch":
            s.add(otherwise)
            s.add(control.go(end))
    s.add(control.branch(otherwise))


def schedule_loop(s: Scheduler, node: Node) -> None:
    form = LoopForm.of(node)
    outputs = [*node.outputs, *[None] * (len(form.carried) + len(form.collected) - len(node.outputs))]
    if not any(output is not None and s.is_wanted(output) for output in outputs):
        return
    control = Control(node, s.target, s.context)
    for output, inner in zip(outputs, form.carried, strict=False):
        if output is not None:
            s.view(output, inner, 0)
    collected = [
        (value, output)
        for value, output in zip(form.collected, outputs[len(form.carried) :], strict=True)
        if output is not None and s.is_wanted(output)
    ]
    head, end = Label(), Label()
    is_counted = form.is_counted(s.context)
    #: Steps that give sizes their first value, one for each set of rows: what a later step plans again with any of
    #: these sizes must be no rows but its own.
    first: list[Step] = []
    count = next((output.type.dims[0] for _, output in collected), None)
    if isinstance(count, sympy.Symbol) and str(count.name) in s.born(node):
        if is_counted:
            first.append(control.first_count(form, count))
        else:
            s.add(control.set_count(form, count))
    s.loops.append((head, end))
    s.add(end)
    s.add(control.next(form, head))
    _carry(s, form, control)
    rows = [_collect(s, form, control, value, output, is_counted, first) for value, output in collected]
    _body(s, node, form.body, control)
    s.add(head)
    s.add(control.start(form, s.is_wanted(form.body.inputs[1]), rows, end))
    for step in reversed(first):
        s.add(step)
    for initial, inner in zip(reversed(form.initial), reversed(form.carried), strict=True):
        s.add(control.copy(initial, inner))
        own = own_sizes(inner, initial.type.dims)
        if own:
            s.add(control.set_sizes(own))


def own_sizes(value: Value, sizes: tuple[Dim, ...]) -> dict[sympy.Symbol, Dim]:
    """The symbols that are named after ``value``, in its type, with what they are to be."""
    named = {symbol(f"{value.name}:{axis}"): size for axis, size in enumerate(sizes)}
    return {size: named[size] for size in value.type.dims if isinstance(size, sympy.Symbol) and size in named}


def _body(s: Scheduler, node: Node, body: Graph, control: Control | None) -> None:
    captured = node.captured_inputs
    pairs = list(zip(body.inputs[len(body.inputs) - len(captured) :], captured, strict=True))
    s.nodes(body)
    for inner, outer in pairs:
        assert outer is not None
        if s.is_wanted(inner):
            s.view(inner, outer, 0)
    if control is not None and has_checks(body):
        enter = control.enter()
        s.entries[id(body)] = enter
        s.add(enter)


def _carry(s: Scheduler, form: LoopForm, control: Control) -> None:
    """The next values in the place of those before. Where a value's size changes, or it lies in the place of a carried
    one, it goes through a copy, so that none is overwritten before it is read."""
    places = {id(inner) for inner in form.carried}
    direct, stashed, taken = [], [], []
    for inner, value in zip(form.carried, form.following, strict=True):
        origin = s.origin(value)
        if origin is inner:
            continue
        own = own_sizes(inner, value.type.dims)
        if not own and id(origin) not in places:
            direct.append(control.copy(value, inner, "carry"))
            continue
        copy = s.temporary(f"{inner.name}.next", inner.type, list(own))
        to = own_sizes(copy, value.type.dims)
        back = own_sizes(inner, copy.type.dims)
        stashed += [*([control.set_sizes(to)] if to else []), control.copy(value, copy, "stash")]
        taken += [*([control.set_sizes(back)] if back else []), control.copy(copy, inner, "carry")]
    for step in reversed([*stashed, *direct, *taken]):
        s.add(step)


def _collect(
    s: Scheduler, form: LoopForm, control: Control, value: Value, output: Value, is_counted: bool,
    first: list[Step],
) -> Value:  # fmt: skip
    """Steps that append ``value`` to the rows of which ``output`` is a view; the rows."""
    count = output.type.dims[0]
    most = count if is_counted or not isinstance(count, sympy.Symbol) else s.context.bounds[str(count.name)][1]
    rows = s.temporary(f"{output.name}.rows", output.type, [] if most is not None else [count])
    if most is not None:
        rows.type = TensorType(output.dtype, (most, *output.type.dims[1:]))
    initial: list[sympy.Symbol] = []
    s.view(output, rows, 0)
    s.add(control.collect(form, value, rows))
    if most is None:
        capacity = rows.type.dims[0]
        assert isinstance(capacity, sympy.Symbol)
        initial.append(capacity)
        more = s.temporary(f"{output.name}.more", rows.type, [capacity])
        wanted = more.type.dims[0]
        assert isinstance(wanted, sympy.Symbol)
        enough = Label()
        for item in (
            enough,
            control.move_rows(form, more, rows),
            control.set_sizes({capacity: wanted}),
            control.move_rows(form, rows, more),
            control.room(form, capacity, wanted, enough),
        ):
            s.add(item)
    own = {size: own for size, own in own_sizes(output, (0, *value.type.dims)).items() if size != count}
    if own:
        same = Label()
        s.add(same)
        s.add(control.first_row(form, own, same))
        initial += own
    if initial:
        first.append(control.set_sizes(dict.fromkeys(initial, 0)))
    return rows
