"""The C text of the plan entry: checks of sizes, output shapes, and places in the arena where sizes have no limit.

It runs for the symbols of the inputs before step 0, and again after each step that finds sizes in the data, for what
these decide. What a control-flow body takes for granted is checked where it is entered, or later.
"""

from __future__ import annotations

from collections.abc import Sequence

from mcpc.ir import Dim, Graph, is_static
from mcpc.rewrite import control_flow_graphs

from .arena import Arena
from .ctext import indent, size, size_variable, uses_variable
from .kernel import Step
from .phases import Phases, unproven


def plan_text(graph: Graph, steps: Sequence[Step], phases: Phases, arena: Arena, symbols: Sequence[str]) -> str:
    lines = ["(void)step;", f"env->plan_bytes = {arena.nbytes}u;"] if not arena.is_dynamic else ["(void)step;"]
    for phase in phases.all:
        body = [
            *_bounds(graph, phases, phase),
            *_checks(graph, steps, phases, phase),
            *_shapes(graph, phases, phase),
            *_places(arena, phases, phase),
        ]
        if not body:
            continue
        text = "\n".join(body)
        variables = [
            f"const int64_t {size_variable(name)} = SYMBOL({name!r});" for name in symbols if uses_variable(text, name)
        ]
        lines += [f"if (step == {phase}) {{", *(f"    {line}" for line in (*variables, *body)), "}"]
    return (
        f"{_lives(arena, phases)}"
        # Steps call the plan too: what is exported would be called through a table.
        f"static int32_t plan(mcp26_env *env, uint32_t step) {{\n{indent(lines)}\n    return 0;\n}}\n\n"
        '__attribute__((visibility("default"))) int32_t mcp26_plan(mcp26_env *env, uint32_t step) {\n'
        "    return plan(env, step);\n}\n"
    )


def _bounds(graph: Graph, phases: Phases, phase: int) -> list[str]:
    """Sizes that steps found stay within what they were declared to be; the runtime checks those of inputs."""
    lines = []
    for name in phases.found_in(phase) if phase else ():
        low, high = graph.bounds.get(name, (0, None))
        limits = [f"{size_variable(name)} < {low}"]
        limits += [] if high is None else [f"{size_variable(name)} > {size(high)}"]
        bound = str(low) if high is None else size(high)
        lines.append(
            f"if ({' || '.join(limits)}) "
            f"return plan_fault(env, {phase - 1}, MCP26_DATA_BOUND, {size_variable(name)}, {bound});"
        )
    return lines


def _checks(graph: Graph, steps: Sequence[Step], phases: Phases, phase: int) -> list[str]:
    """What type inference took for granted: equal sizes, and none below 0."""
    indices = {step.node.name: index for index, step in enumerate(steps)}
    lines: dict[str, None] = {}

    def check(condition: str, node: str, left: Dim, right: Dim) -> None:
        numbers = f"{indices.get(node, 0)}, MCP26_DATA_SHAPE, {size(left)}, {size(right)}"
        lines.setdefault(f"if ({condition}) return plan_fault(env, {numbers});")

    for body in control_flow_graphs(graph):
        own = None if body is graph else body
        for (left, right), name in body.assumptions.items():
            if phases.of((left, right), own) == phase and not is_static((left, right)):
                check(f"{size(left)} != {size(right)}", name, left, right)
        seen: set[Dim] = set()
        for node, item in unproven(body.nodes):
            if item not in seen and phases.of((item,), own) == phase:
                check(f"{size(item)} < 0", node.name, item, 0)
            seen.add(item)
    return list(lines)


def _shapes(graph: Graph, phases: Phases, phase: int) -> list[str]:
    return [
        f"env->outputs[{index}].shape[{axis}] = {size(length)};"
        for index, value in enumerate(graph.outputs)
        for axis, length in enumerate(value.type.dims)
        if phases.of((length,)) == phase
    ]


def _places(arena: Arena, phases: Phases, phase: int) -> list[str]:
    if not arena.is_dynamic:
        return []
    count = len(arena.buffers)
    lines = []
    for index, buffer in enumerate(arena.buffers):
        if phases.of(buffer.sizes) == phase:
            sizes = ", ".join(map(size, buffer.sizes))
            lines.append(
                f"env->offsets[{count + index}] = plan_bytes((const int64_t[]){{{sizes}}}, {len(buffer.sizes)});"
            )
    if lines or phase == 0:
        lines += [f"int32_t status = plan_place(env, lives, {count}, {phase});", "if (status) return status;"]
    return lines


def _lives(arena: Arena, phases: Phases) -> str:
    if not arena.is_dynamic:
        return ""
    entries = [f"    {{{b.first}, {b.last}, {phases.of(b.sizes) or 0}}}," for b in arena.buffers]
    return "\n".join(["static const plan_life lives[] = {", *entries, "};", "", ""])
