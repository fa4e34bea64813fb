"""If, Loop and Scan: what they capture, carry and stack, nested in one another, with sizes that change."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from onnx import GraphProto, TensorProto, helper, numpy_helper

from ..case import ONNX, ORT, Family
from ..graphs import Graph
from ..graphs import Weight as W

FAMILY = Family("control")

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
BY_ORT = {"judges": (ORT,), "because": "onnx.reference runs no Loop without a condition, and stacks scalars as rows"}
BY_ORT_TOO = {"judges": (ORT,), "because": "onnx.reference scans forward along the first axis only"}


def body(g: Graph, name: str, inputs: dict[str, int], build: Callable[[Graph], Sequence[str]]) -> GraphProto:
    """A nested graph; what ``build`` feeds becomes an input of the whole that the body captures."""
    inner = Graph(f"{g.prefix}{name}/")
    outputs = build(inner)
    g.feeds |= inner.feeds
    return helper.make_graph(
        inner.nodes,
        name,
        [helper.make_tensor_value_info(f"{g.prefix}{each}", dtype, [] if each in "ic" else None)
         for each, dtype in inputs.items()],
        [helper.make_empty_tensor_value_info(output) for output in outputs],
        [numpy_helper.from_array(array, key) for key, array in inner.constants.items()],
    )  # fmt: skip


def flag(value: bool) -> np.ndarray:
    return np.array(value)


def count(value: int) -> np.ndarray:
    return np.array(value, np.int64)


def loop(
    g: Graph, limit: object, condition: object, initial: dict[str, object], step: Callable[[Graph], Sequence[str]],
    outputs: int, again: str = "",
) -> list[str]:  # fmt: skip
    """A Loop whose body sees i, c and the carried tensors under their names; ``step`` gives the next ones and what is
    stacked."""
    names = {"i": INT64, "c": BOOL, **dict.fromkeys(initial, FLOAT)}

    def build(b: Graph) -> Sequence[str]:
        results = step(b)
        goes_on = results[0] if again else b("Identity", f"{g.prefix}c")
        return [goes_on, *(results[1:] if again else results)]

    made = g("Loop", limit, condition, *initial.values(), outputs=outputs, body=body(g, "body", names, build))
    return [made] if isinstance(made, str) else list(made)


# ---- If


def branches(name: str, condition: bool) -> None:
    def build(g: Graph) -> str:
        x = g("Mul", (3, 4), (3, 4))
        then = body(g, "then", {}, lambda b: [b("Add", b("MatMul", x, W((4, 4))), x)])
        other = body(g, "else", {}, lambda b: [b("Neg", x)])
        return str(g("If", flag(condition), then_branch=then, else_branch=other))

    FAMILY.graph(name, build)


def unequal(name: str, condition: bool) -> None:
    """The branches' results differ in size."""

    def build(g: Graph) -> list[str]:
        x = g("Abs", (3, 4))
        then = body(g, "then", {}, lambda b: [b("Concat", x, x, axis=0), b("ReduceSum", x)])
        starts, ends, axes = (W(np.array([value])) for value in (0, 1, 0))
        other = body(g, "else", {}, lambda b: [b("Slice", x, starts, ends, axes), b("ReduceMax", x)])
        first, second = g("If", flag(condition), outputs=2, then_branch=then, else_branch=other)
        return [g("Relu", first), second, g("Shape", first)]

    FAMILY.graph(name, build)


def in_branches(name: str, outer: bool, inner: bool) -> None:
    def build(g: Graph) -> str:
        x, deep = g.input((2, 5)), g.input(flag(inner))

        def nested(b: Graph) -> list[str]:
            y = b("Sin", x)
            return [
                b(
                    "If",
                    deep,
                    then_branch=body(b, "then", {}, lambda c: [c("Mul", y, x)]),
                    else_branch=body(b, "else", {}, lambda c: [c("Sub", y, x)]),
                )
            ]

        then = body(g, "then", {}, nested)
        other = body(g, "else", {}, lambda b: [b("Identity", x)])
        return str(g("If", flag(outer), then_branch=then, else_branch=other))

    FAMILY.graph(name, build)


for taken in (True, False):
    word = "then" if taken else "else"
    branches(f"If takes {word}", taken)
    unequal(f"If of unequal sizes takes {word}", taken)
    in_branches(f"If in If, {word} then", taken, True)
    in_branches(f"If in If, {word} else", taken, False)


def of_one_size(g: Graph) -> list[str]:
    """A branch that nobody takes need not fit: its types are not looked at."""
    x = g.input((2, 3))
    one = g.constant(flag(True))
    then = body(g, "then", {}, lambda b: [b("Neg", x)])
    other = body(g, "else", {}, lambda b: [b("MatMul", x, x)])
    return [g("Exp", g("If", one, then_branch=then, else_branch=other))]


FAMILY.graph("If with a constant condition", of_one_size, judges=(ONNX,), because="ONNX Runtime infers both branches")


def constants_and_inputs(g: Graph) -> list[str]:
    """Branches that compute nothing: a captured tensor, a constant, the same twice."""
    x = g.input((2, 2))
    w = g.constant((2, 2))
    then = body(g, "then", {}, lambda b: [b("Identity", x), b("Identity", x)])
    other = body(g, "else", {}, lambda b: [b("Identity", w), b("Identity", x)])
    return list(g("If", flag(False), outputs=2, then_branch=then, else_branch=other))


FAMILY.graph("If of what is there", constants_and_inputs)

# ---- Loop


def sums(name: str, trips: int, condition: np.ndarray | None, known: bool = False) -> None:
    """A carried vector, and a stack of what it was."""

    def build(g: Graph) -> list[str]:
        x, h = g.input((5,)), f"{g.prefix}h"
        limit = g.constant(count(trips)) if known else count(trips)

        def step(b: Graph) -> list[str]:
            after = b("Add", b("Mul", h, W(np.array(0.5, np.float32))), x)
            return [after, b("Identity", after), b("Identity", f"{g.prefix}i")]

        last, *stacked = loop(g, limit, condition, {"h": x}, step, 3)
        is_run = trips > 0 and (condition is None or condition)
        if not is_run:  # ONNX Runtime takes sizes for 0 that no iteration shows
            stacked = [g("Shape", each, end=1) for each in stacked]
        return [last, *stacked]

    FAMILY.graph(name, build, **BY_ORT)


for trips in (1, 7, 40):
    sums(f"Loop, {trips} times", trips, None)
    sums(f"Loop, {trips} times as the model says", trips, None, known=True)
sums("Loop, no times", 0, None)
sums("Loop, less than no times", -3, None)
sums("Loop with a condition that holds", 4, flag(True))
sums("Loop with a condition that does not", 4, flag(False))


def until(name: str, limit: int | None, below: float) -> None:
    """Numbers are swapped and added while they are small: the count is found on the way."""

    def build(g: Graph) -> list[str]:
        end = g.input(np.array(below, np.float32))
        first, second = (g.input(np.array(value, np.float32)) for value in (0, 1))

        def step(b: Graph) -> list[str]:
            total = b("Add", f"{g.prefix}a", f"{g.prefix}b")
            return [b("Less", total, end), b("Identity", f"{g.prefix}b"), total, b("Identity", total)]

        start = None if limit is None else count(limit)
        return loop(g, start, flag(True), {"a": first, "b": second}, step, 3, again="less")

    FAMILY.graph(name, build, **BY_ORT)


for below in (3, 100, 1e12):
    until(f"Loop while sums are below {below:g}", None, below)
    until(f"Loop while sums are below {below:g}, 12 times at most", 12, below)


def growing(name: str, trips: int, initial: int, axis: int) -> None:
    """What is carried gets longer."""

    def build(g: Graph) -> list[str]:
        shape = (initial, 2) if axis == 0 else (2, initial)
        piece = g.input((1, 2) if axis == 0 else (2, 1))
        h = f"{g.prefix}h"
        (made,) = loop(g, count(trips), None, {"h": shape}, lambda b: [b("Concat", h, piece, axis=axis)], 1)
        return [g("Relu", made), g("Shape", made)]

    FAMILY.graph(name, build, **BY_ORT)


for axis in (0, 1):
    for trips in (1, 3, 30):
        growing(f"Loop that grows along {axis}, {trips} times", trips, 2, axis)
growing("Loop that grows from nothing", 5, 0, 0)


def two_grow(g: Graph) -> list[str]:
    """Two carried tensors exchange their places while one of them grows."""
    piece = g.input((1,))
    a, b = f"{g.prefix}a", f"{g.prefix}b"

    def step(c: Graph) -> list[str]:
        return [c("Identity", b), c("Concat", a, piece, axis=0)]

    return loop(g, count(6), None, {"a": (2,), "b": (1,)}, step, 2)


FAMILY.graph("Loop whose tensors exchange places and grow", two_grow, **BY_ORT)


def rotating(g: Graph) -> list[str]:
    names = [f"{g.prefix}{name}" for name in ("p", "q", "r")]

    def step(c: Graph) -> list[str]:
        return [c("Identity", names[1]), c("Identity", names[2]), c("Identity", names[0])]

    return loop(g, count(4), None, {"p": (3,), "q": (3,), "r": (3,)}, step, 3)


FAMILY.graph("Loop that rotates what it carries", rotating, **BY_ORT)


def unchanged(g: Graph) -> list[str]:
    a, b = f"{g.prefix}v", f"{g.prefix}w"
    return loop(g, count(3), None, {"v": (3,), "w": (3,)}, lambda c: [c("Add", a, b), c("Identity", b)], 2)


FAMILY.graph("Loop that leaves one as it is", unchanged, **BY_ORT)


def found(g: Graph) -> list[str]:
    """Each iteration finds sizes in the data, and its rows are as long as these say."""
    x = g.input(np.array([0, 1, 0, 2, 3], np.float32))

    def step(b: Graph) -> list[str]:
        return [b("Add", f"{g.prefix}t", b("ReduceSum", b("Compress", x, b("Cast", x, to=BOOL)), keepdims=0)),
                b("NonZero", x)]  # fmt: skip

    return loop(g, count(4), None, {"t": np.array(1, np.float32)}, step, 2)


FAMILY.graph("Loop that finds sizes", found, **BY_ORT)


def shrinking(g: Graph) -> list[str]:
    """What is carried shrinks until a condition ends the loop, so that tensors move while rows of two lengths grow."""
    v, zero = f"{g.prefix}v", g.constant(np.array(0, np.float32))

    def step(b: Graph) -> list[str]:
        positive = b("Compress", v, b("Greater", v, zero))
        rest = b("Sub", positive, g.constant(np.array(1, np.float32)))
        again = b("Greater", b("Size", rest), W(count(1)))
        return [again, rest, b("Size", rest), b("NonZero", b("Slice", v, W(np.array([0])), W(np.array([2]))))]

    return loop(g, None, flag(True), {"v": g.input(np.arange(40, dtype=np.float32) + 0.5)}, step, 3, again="co")


FAMILY.graph("Loop that shrinks while it stacks", shrinking, **BY_ORT)


def collatz(g: Graph) -> list[str]:
    """Loop in Loop, If in Loop, with trip counts and sizes that change from one iteration to the next."""
    x = g.input((4, 3))
    two = g.constant(np.array([2], np.float32))
    total = f"{g.prefix}total"

    def step(b: Graph) -> list[str]:
        row = b("Gather", x, f"{g.prefix}i", axis=0)
        v, j = f"{b.prefix}v", f"{b.prefix}i"

        def inner(c: Graph) -> list[str]:
            even = c("Equal", c("Mod", j, W(count(2))), W(count(0)))
            longer = c(
                "If",
                even,
                then_branch=body(c, "then", {}, lambda d: [d("Concat", v, two, axis=0)]),
                else_branch=body(c, "else", {}, lambda d: [d("Mul", v, two)]),
            )
            return [longer, c("ReduceSum", longer, keepdims=0)]

        trips = b("Add", f"{g.prefix}i", W(count(1)))
        grown, each = loop(b, trips, None, {"v": row}, inner, 2)
        after = b("Add", b("Add", total, b("ReduceMax", grown, keepdims=0)), b("ReduceSum", each, keepdims=0))
        return [after, b("Shape", grown)]

    return loop(g, count(4), None, {"total": np.array(0, np.float32)}, step, 2)


FAMILY.graph("Loop in Loop around If", collatz, **BY_ORT)


def convolutions(g: Graph) -> list[str]:
    """Kernels with their own layouts inside, and a residual that is carried."""
    h = f"{g.prefix}h"

    def step(b: Graph) -> list[str]:
        made = b("Relu", b("Conv", h, W((4, 4, 3, 3)), W((4,)), pads=[1, 1, 1, 1]))
        return [b("Add", b("Mul", made, W(np.array(0.1, np.float32))), h)]

    return [g("Conv", loop(g, count(3), None, {"h": (1, 4, 6, 6)}, step, 1)[0], W((2, 4, 1, 1)))]


FAMILY.graph("Loop of convolutions", convolutions, **BY_ORT)

# ---- Scan


def scan(
    name: str, axes: tuple[int, int], directions: tuple[int, int], out_axis: int, out_direction: int, **options: object
) -> None:
    def build(g: Graph) -> list[str]:
        shapes = [(5, 3) if axis == 0 else (3, 5) for axis in axes]
        state, a, b = (f"{g.prefix}{each}" for each in "sab")

        def step(c: Graph) -> list[str]:
            total = c("Add", c("Add", c("MatMul", state, W((3, 3))), a), b)
            return [c("Tanh", total), c("Identity", total)]

        inner = body(g, "body", dict.fromkeys("sab", FLOAT), step)
        return list(
            g(
                "Scan", (3,), *shapes, outputs=2, body=inner, num_scan_inputs=2, scan_input_axes=list(axes),
                scan_input_directions=list(directions), scan_output_axes=[out_axis],
                scan_output_directions=[out_direction],
            )
        )  # fmt: skip

    FAMILY.graph(name, build, **options)


scan("Scan", (0, 0), (0, 0), 0, 0)
scan("Scan along other axes", (1, 0), (0, 0), 1, 0, **BY_ORT_TOO)
scan("Scan backward", (0, 1), (1, 0), 0, 1, **BY_ORT_TOO)
scan("Scan backward along other axes", (1, 1), (1, 1), -1, 1, **BY_ORT_TOO)
