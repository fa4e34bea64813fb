"""Control flow: If, Loop and Scan. Their bodies read nothing from outside, see :attr:`mcpc.ir.Node.bodies`.

What steps of a body cost is stated by the operators in it; the node itself costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mcpc.errors import Problems
from mcpc.ir import OPSET, Dim, DType, Graph, Node, TensorType, Value, names_of, symbol
from mcpc.ops.context import (
    InferContext,
    attribute,
    axis_of,
    expect,
    fail,
    integers,
    larger,
    object_array,
    same,
    show,
    simpler,
    unify,
)
from mcpc.ops.inference import infer_nodes
from mcpc.ops.registry import EXACT, Cost, OpDef, register


def _free(node: Node) -> Cost:
    return Cost(0, 0)


def _body(node: Node, name: str, inputs: int, outputs: int) -> Graph:
    """The body called ``name``, which has this many inputs of its own, and at least this many outputs."""
    body = node.bodies.get(name)
    if body is None:
        fail(node, f"attribute {name} holds no graph", "E102")
    own = len(body.inputs) - len(node.captured_inputs)
    if own != inputs or len(body.outputs) < outputs:
        what = f"{own} inputs and {len(body.outputs)} outputs"
        fail(node, f"{name} has {what} where {inputs} and at least {outputs} are needed")
    return body


def _infer_body(
    node: Node, body: Graph, types: Sequence[TensorType], context: InferContext, true: Value | None = None
) -> None:
    """Infer the types in ``body``, whose own inputs have these ``types``; ``true`` is one that is known to hold."""
    for inner, type in zip(body.inputs, types, strict=False):
        inner.type = _plain(type)
        context.remember(inner, object_array([1]).reshape([1] * len(type.dims)) if inner is true else None)
    for inner, outer in zip(body.inputs[len(types) :], node.captured_inputs, strict=True):
        assert outer is not None
        inner.type = _plain(outer.type)
        context.remember(inner, context.contents(outer))
    nested, problems = context.nested(), Problems()
    infer_nodes(body, problems, nested)
    problems.raise_if_any()
    body.assumptions = nested.assumptions


def _plain(type: TensorType) -> TensorType:
    return replace(type, layout=None, pitch=None, quant=None, sparsity=None)


def _expect_one(node: Node, index: int, dtype: DType) -> None:
    """Input ``index`` is left out, or one element of ``dtype``."""
    value = node.input(index)
    if value is not None and (value.dtype is not dtype or value.shape not in ((), (1,), None)):
        fail(node, f"input {index} (%{value.name}) is {show(value.type)}, one {dtype.name} is needed")


def _scalar(context: InferContext, value: Value | None) -> Dim | None:
    """The only element of a tensor, None where it is not known."""
    contents = context.contents(value)
    item: Dim | None = None if contents is None or contents.size != 1 else contents.ravel()[0]
    return item


# ---- If


def decided(node: Node, context: InferContext) -> str | None:
    """The attribute with the branch that an If takes in every run, None where only the run decides."""
    condition = _scalar(context, node.inputs[0])
    return ("then_branch" if condition else "else_branch") if isinstance(condition, int) else None


def infer_if(node: Node, context: InferContext) -> list[TensorType]:
    """What both branches give. A branch that is never taken is not looked at: it need not fit."""
    if len(node.own_inputs) != 1:
        fail(node, f"If has {len(node.own_inputs)} inputs where its condition is needed")
    expect(node, 0, {DType.bool})
    _expect_one(node, 0, DType.bool)
    known, problems = set(context.bounds), Problems()
    taken = decided(node, context)
    results = []
    for name in (taken,) if taken is not None else ("then_branch", "else_branch"):
        body = _body(node, name, 0, len(node.outputs))
        with problems.collect():
            _infer_body(node, body, [], context)
        results.append([_plain(value.type) for value in body.outputs])
    problems.raise_if_any()
    if len(results) == 1:
        return results[0]
    born = set(context.bounds) - known
    return [_either(node, index, a, b, born, context) for index, (a, b) in enumerate(zip(*results, strict=False))]


def _either(node: Node, index: int, a: TensorType, b: TensorType, born: set[str], context: InferContext) -> TensorType:
    """The type of output ``index``, which is one of the two; sizes ``born`` in the branches are not known outside."""
    if a.dtype is not b.dtype:
        fail(node, f"the branches make {show(a)} and {show(b)} of output {index}")
    if a.shape is None or b.shape is None:
        return TensorType(a.dtype, None)
    if len(a.shape) != len(b.shape):
        hint = "fix the sizes that decide it with --dim or --input-shape"
        fail(node, f"the rank of output {index} depends on the condition: {show(a)} or {show(b)}", "E108", hint)
    sizes: list[Dim] = []
    for axis, (one, other) in enumerate(zip(a.shape, b.shape, strict=True)):
        is_inner = bool(born & set(names_of((one, other))))
        if same(one, other) and not is_inner:
            sizes.append(simpler(one, other))
        else:
            sizes.append(context.data_size(node, index, axis, 0, None if is_inner else larger(one, other)))
    return TensorType(a.dtype, tuple(sizes))


# ---- Loop


@dataclass(frozen=True)
class LoopForm:
    """The parts of a Loop. ``carried`` inputs and outputs of the body go from one iteration to the next, the other
    outputs (``collected``) are stacked."""

    limit: Value | None
    condition: Value | None
    initial: tuple[Value, ...]
    body: Graph
    counter: Value
    carried: tuple[Value, ...]
    again: Value
    following: tuple[Value, ...]
    collected: tuple[Value, ...]

    @classmethod
    def of(cls, node: Node) -> LoopForm:
        own = node.own_inputs
        limit, condition = (own[index] if index < len(own) else None for index in (0, 1))
        initial = own[2:]
        count = len(initial)
        body = _body(node, "body", 2 + count, 1 + count)
        if any(value is None for value in initial):
            fail(node, "a carried value has no initial one")
        outputs = body.outputs
        carried = tuple(body.inputs[2 : 2 + count])
        following = tuple(outputs[1 : 1 + count])
        initial_values = tuple(value for value in initial if value is not None)
        collected = tuple(outputs[1 + count :])
        return cls(limit, condition, initial_values, body, body.inputs[0], carried, outputs[0], following, collected)

    def is_counted(self, context: InferContext) -> bool:
        """Whether the iterations are as many as ``limit`` says: no condition ends the loop before."""
        conditions = [self.again] if self.condition is None else [self.again, self.condition]
        return self.limit is not None and all(_scalar(context, value) == 1 for value in conditions)


def infer_loop(node: Node, context: InferContext) -> list[TensorType]:
    """Sizes of carried values that change from one iteration to the next are symbols; they are named after the body's
    input and stand for the current size, behind the loop for the last one."""
    _expect_one(node, 0, DType.int64)
    _expect_one(node, 1, DType.bool)
    form = LoopForm.of(node)
    known = set(context.bounds)
    counter, again = (
        TensorType(dtype, (1,) if value.shape == (1,) else ())
        for dtype, value in zip((DType.int64, DType.bool), form.body.inputs, strict=False)
    )
    types = _steady(node, form, [counter, again], context)
    _expect_condition(node, form)
    born = set(context.bounds) - known
    count = _count(node, form, born, context)
    stacked = []
    for index, value in enumerate(form.collected, len(form.carried)):
        if value.shape is None:
            stacked.append(TensorType(value.dtype, None))
            continue
        sizes = [
            context.data_size(node, index, axis) if born & set(names_of([size])) else size
            for axis, size in enumerate(value.shape, 1)
        ]
        stacked.append(TensorType(value.dtype, (count, *sizes)))
    return [*types, *stacked]


def _steady(node: Node, form: LoopForm, first: Sequence[TensorType], context: InferContext) -> list[TensorType]:
    """The types of the carried values in every iteration, inferred until nothing changes any more."""
    types = [_plain(value.type) for value in form.initial]
    while True:
        _infer_body(node, form.body, [*first, *types], context, form.body.inputs[1])
        wider = [
            _wider(node, inner, type, value.type, context)
            for inner, type, value in zip(form.carried, types, form.following, strict=True)
        ]
        if wider == types:
            return types
        types = wider


def _wider(node: Node, inner: Value, now: TensorType, then: TensorType, context: InferContext) -> TensorType:
    """The type of a carried value that is ``now`` in one iteration and ``then`` in the next."""
    if now.dtype is not then.dtype:
        fail(node, f"%{inner.name} is {show(now)}, and {show(then)} in the next iteration")
    if now.shape is None or then.shape is None:
        return TensorType(now.dtype, None)
    if len(now.shape) != len(then.shape):
        fail(node, f"%{inner.name} is {show(now)}, and {show(then)} in the next iteration: its rank changes", "E108")
    sizes: list[Dim] = []
    for axis, (size, other) in enumerate(zip(now.shape, then.shape, strict=True)):
        current = symbol(f"{inner.name}:{axis}")
        if size != current and not same(size, other):
            context.bounds[str(current.name)] = 0, None
            size = current
        sizes.append(size)
    return TensorType(now.dtype, tuple(sizes))


def _expect_condition(node: Node, form: LoopForm) -> None:
    if form.again.dtype is not DType.bool or form.again.shape not in ((), (1,), None):
        fail(node, f"the body's condition is {show(form.again.type)}, one bool is needed")


def _count(node: Node, form: LoopForm, born: set[str], context: InferContext) -> Dim:
    """How many iterations there are."""
    limit = None if form.limit is None else _scalar(context, form.limit)
    most = None if limit is None or born & set(names_of([limit])) else larger(limit, 0)
    if most is not None and form.is_counted(context):
        return most
    return context.data_size(node, len(form.carried), 0, 0, most)


# ---- Scan


@dataclass(frozen=True)
class ScanForm:
    """The parts of a Scan; axes and directions (1: from the end) of each scanned input and stacked output."""

    initial: tuple[Value, ...]
    scanned: tuple[Value, ...]
    body: Graph
    input_axes: tuple[int, ...]
    input_reversed: tuple[bool, ...]
    output_axes: tuple[int, ...]
    output_reversed: tuple[bool, ...]

    @classmethod
    def of(cls, node: Node) -> ScanForm:
        inputs = [value for value in node.own_inputs if value is not None]
        if len(inputs) != len(node.own_inputs):
            fail(node, "an input is left out")
        count = attribute(node, "num_scan_inputs", 0)
        if not 1 <= count <= len(inputs):
            fail(node, f"attribute num_scan_inputs is {count}, there are {len(inputs)} inputs", "E102")
        states = len(inputs) - count
        body = _body(node, "body", len(inputs), states)
        outputs = len(body.outputs) - states
        scanned = tuple(inputs[states:])
        ranks = [value.type.rank for value in scanned]
        if any(rank is None for rank in ranks):
            fail(node, "the rank of a scanned input is not known", "E108")
        axes = _listed(node, "scan_input_axes", count)
        return cls(
            tuple(inputs[:states]),
            scanned,
            body,
            tuple(axis_of(node, axis, rank or 0) for axis, rank in zip(axes, ranks, strict=True)),
            tuple(direction == 1 for direction in _listed(node, "scan_input_directions", count)),
            tuple(_listed(node, "scan_output_axes", outputs)),
            tuple(direction == 1 for direction in _listed(node, "scan_output_directions", outputs)),
        )


def _listed(node: Node, name: str, count: int) -> list[int]:
    values = integers(node, name, [0] * count)
    if len(values) != count:
        fail(node, f"attribute {name} has {len(values)} entries where {count} are needed", "E102")
    return values


def infer_scan(node: Node, context: InferContext) -> list[TensorType]:
    form = ScanForm.of(node)
    length: Dim | None = None
    elements = []
    for value, axis in zip(form.scanned, form.input_axes, strict=True):
        sizes = value.type.dims
        length = sizes[axis] if length is None else unify(node, length, sizes[axis], "lengths of scanned inputs")
        elements.append(TensorType(value.dtype, (*sizes[:axis], *sizes[axis + 1 :])))
    assert length is not None
    states = [_plain(value.type) for value in form.initial]
    _infer_body(node, form.body, [*states, *elements], context)
    for index, (state, value) in enumerate(zip(states, form.body.outputs, strict=False)):
        if state.dtype is not value.dtype or state.rank != value.type.rank:
            fail(node, f"state {index} is {show(state)}, and {show(value.type)} behind the body")
    results = []
    for value, axis in zip(form.body.outputs[len(states) :], form.output_axes, strict=True):
        if value.shape is None:
            results.append(TensorType(value.dtype, None))
        else:
            where = axis_of(node, axis, len(value.shape) + 1)
            results.append(TensorType(value.dtype, (*value.shape[:where], length, *value.shape[where:])))
    return [*(_plain(value.type) for value in form.body.outputs[: len(states)]), *results]


register(
    OpDef("If", infer_if, _free, EXACT),
    OpDef("Loop", infer_loop, _free, EXACT),
    OpDef("Scan", infer_scan, _free, EXACT, versions=(8, OPSET)),
)
