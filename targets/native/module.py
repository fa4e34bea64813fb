"""The C text of an artifact: translation units with the kernels, and one with the steps, the plan and the entry
points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mcpc.ir import Graph, is_static

from .address import Address
from .arena import Arena
from .ctext import comment, indent, size, size_variable, uses_variable
from .kernel import Kernel, Step
from .phases import Phases
from .plan import plan_text
from .toolchain import Unit

#: Kernels of one translation unit: few enough to compile in parallel and to be cached apart, enough to share start-up.
KERNELS_PER_UNIT = 4


@dataclass(frozen=True)
class Call:
    """A step and its operands' places. ``parallel``: whether handing the work to the thread pool saves more than it
    costs, a C expression where that depends on sizes. ``jump``: the step to go to where the kernel returns 1."""

    step: Step
    addresses: Sequence[Address]
    title: str
    parallel: bool | str
    jump: int | None = None


def kernels_of(calls: Sequence[Call]) -> list[Kernel]:
    """The distinct kernels in the order of their first call."""
    return list({call.step.kernel.name: call.step.kernel for call in calls}.values())


def units(graph: Graph, calls: Sequence[Call], phases: Phases, arena: Arena, symbols: Sequence[str]) -> list[Unit]:
    """All translation units; the last one holds the steps. ``symbols`` are the names of all sizes, in order."""
    kernels = kernels_of(calls)
    result = []
    for start in range(0, len(kernels), KERNELS_PER_UNIT):
        group = kernels[start : start + KERNELS_PER_UNIT]
        text = "\n".join(['#include "kernel.h"', "", *(kernel.source for kernel in group)])
        result.append(Unit(f"kernels_{start // KERNELS_PER_UNIT:03d}", _symbol_accessors(symbols, text)))
    result.append(Unit("steps", _symbol_accessors(symbols, _steps(graph, calls, kernels, phases, arena, symbols))))
    return result


def _symbol_accessors(symbols: Sequence[str], text: str) -> str:
    for index, name in enumerate(symbols):
        text = text.replace(f"SYMBOL({name!r})", f"env->symbols[{index}]")
        text = text.replace(f"SYMBOL_INDEX({name!r})", str(index))
    return text


def _steps(
    graph: Graph, calls: Sequence[Call], kernels: Sequence[Kernel], phases: Phases, arena: Arena, symbols: Sequence[str]
) -> str:
    headers = sorted({line for kernel in kernels for line in kernel.text.splitlines() if line.startswith("#include")})
    parts = ['#include "kernel.h"', '#include "plan.h"', *headers, "", *(kernel.prototype for kernel in kernels), ""]
    parts.append(plan_text(graph, [call.step for call in calls], phases, arena, symbols))
    for index, call in enumerate(calls):
        parts.append(_step(index, call, phases, symbols))
    cases = [f"case {index}: return step_{index}(env);" for index in range(len(calls))]
    parts += [
        '__attribute__((visibility("default"))) int64_t mcp26_entry(mcp26_env *env, uint32_t step) {',
        "    switch (step) {",
        indent(cases),
        "    default: return MCP26_STEP_DATA;",
        "    }",
        "}",
        "",
    ]
    return "\n".join(parts)


def _step(index: int, call: Call, phases: Phases, symbols: Sequence[str]) -> str:
    step, parallel = call.step, call.parallel
    name = step.kernel.name
    alone = f"{name}(env, args, 0, {step.units}, 0)"
    together = f"env->parallel_for(env, {name}, args, {step.units}, {step.grain})"
    lines = []
    elements = [value.type.elements for value in step.outputs]
    if elements and not is_static(elements):  # kernels count on there being something to compute
        lines.append(f"if ({' && '.join(f'{size(count)} == 0' for count in elements)}) return {index + 1};")
    run = f"{parallel} ? {together} : {alone}" if isinstance(parallel, str) else together if parallel else alone
    lines += [
        "const void *args[] = {",
        *(f"    {address.text}," for address in call.addresses),
        "};",
        f"int32_t status = {run};",
        *([f"if (status == 1) return {call.jump};"] if call.jump is not None else []),
        f"if (status) return step_failed(env, {index}, status);",
    ]
    for phase in phases.after(step):
        lines += [f"status = plan_again(env, {phase}, plan);", "if (status) return status;"]
    lines.append(f"return {index + 1};")
    text = "\n".join(lines)
    names = [symbol for symbol in symbols if uses_variable(text, symbol)]
    lines[:0] = [f"const int64_t {size_variable(symbol)} = SYMBOL({symbol!r});" for symbol in names]
    title = comment(f"step {index}: {call.title}")
    return f"/* {title} */\nstatic int64_t step_{index}(mcp26_env *env) {{\n{indent(lines)}\n}}\n"
