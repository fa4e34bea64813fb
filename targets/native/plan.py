"""The C text of the plan entry: checks of sizes, output shapes, and places in the arena where sizes have no limit.

It runs for the symbols of the inputs before step 0, and again after each step that finds sizes in the data, for what
these decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mcpc.ir import Dim, Graph, is_static, names_of

from .arena import Arena
from .ctext import indent, size, size_variable, uses_variable
from .kernel import Step


class Phases:
    """When symbols become known: 0 for those of inputs, ``n`` for those that step ``n`` - 1 finds."""

    def __init__(self, graph: Graph, steps: Sequence[Step]) -> None:
        self._known = dict.fromkeys(graph.symbols(), 0)
        for index, step in enumerate(steps):
            for name in step.sets:
                self._known.setdefault(name, index + 1)

    @property
    def all(self) -> list[int]:
        return sorted({0, *self._known.values()})

    def of(self, sizes: Iterable[Dim]) -> int | None:
        """The phase in which all of ``sizes`` are known; None where a size is never found, since no step needs it."""
        names = names_of(sizes)
        if any(name not in self._known for name in names):
            return None
        return max((self._known[name] for name in names), default=0)

    def found_in(self, phase: int) -> list[str]:
        return [name for name, known in self._known.items() if known == phase]


def plan_text(graph: Graph, steps: Sequence[Step], arena: Arena, symbols: Sequence[str]) -> str:
    phases = Phases(graph, steps)
    indices = {id(step.node): index for index, step in enumerate(steps)}
    lines = ["(void)step;", f"env->plan_bytes = {arena.nbytes}u;"] if not arena.is_dynamic else ["(void)step;"]
    for phase in phases.all:
        body = [
            *_bounds(graph, phases, phase),
            *_checks(graph, indices, phases, phase),
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


def _checks(graph: Graph, indices: dict[int, int], phases: Phases, phase: int) -> list[str]:
    """What type inference took for granted: equal sizes, and none below 0."""
    lines = []
    steps = {node.name: indices[id(node)] for node in graph.nodes if id(node) in indices}
    for (left, right), node_name in graph.assumptions.items():
        if phases.of((left, right)) == phase and not (is_static((left, right))):
            step = steps.get(node_name, 0)
            lines.append(
                f"if ({size(left)} != {size(right)}) "
                f"return plan_fault(env, {step}, MCP26_DATA_SHAPE, {size(left)}, {size(right)});"
            )
    seen: set[Dim] = set()
    for node in graph.nodes:
        for value in node.outputs:
            for item in (value.shape if value is not None else None) or ():
                if isinstance(item, int) or item in seen or item.is_nonnegative:
                    continue
                seen.add(item)
                if phases.of((item,)) == phase:
                    step = indices.get(id(node), 0)
                    lines.append(
                        f"if ({size(item)} < 0) return plan_fault(env, {step}, MCP26_DATA_SHAPE, {size(item)}, 0);"
                    )
    return lines


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
            lines.append(f"env->offsets[{index}] = UINT64_MAX;")
            lines.append(
                f"env->offsets[{count + index}] = plan_bytes((const int64_t[]){{{sizes}}}, {len(buffer.sizes)});"
            )
    if lines:
        lines += [f"int32_t status = plan_place(env, lives, {count}, {phase});", "if (status) return status;"]
    return lines


def _lives(arena: Arena, phases: Phases) -> str:
    if not arena.is_dynamic:
        return ""
    entries = [f"    {{{b.first}, {b.last}, {phases.of(b.sizes) or 0}}}," for b in arena.buffers]
    return "\n".join(["static const plan_life lives[] = {", *entries, "};", "", ""])
