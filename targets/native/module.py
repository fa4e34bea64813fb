"""The C text of an artifact: translation units with the kernels, and one with the steps, the plan and the entry
points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mcpc.ir import Graph

from .ctext import comment, indent, size, size_variable
from .kernel import Kernel, Step
from .toolchain import Unit

#: Kernels of one translation unit: few enough to compile in parallel and to be cached apart, enough to share start-up.
KERNELS_PER_UNIT = 4


@dataclass(frozen=True)
class Call:
    """A step and the C expressions of its operands' addresses. ``parallel`` is False where handing the work to the
    thread pool costs more than it saves."""

    step: Step
    addresses: Sequence[str]
    title: str
    parallel: bool


def kernels_of(calls: Sequence[Call]) -> list[Kernel]:
    """The distinct kernels in the order of their first call."""
    return list({call.step.kernel.name: call.step.kernel for call in calls}.values())


def units(graph: Graph, calls: Sequence[Call], arena_bytes: int) -> list[Unit]:
    """All translation units; the last one holds the steps."""
    kernels = kernels_of(calls)
    result = []
    for start in range(0, len(kernels), KERNELS_PER_UNIT):
        group = kernels[start : start + KERNELS_PER_UNIT]
        text = "\n".join(['#include "kernel.h"', "", *(kernel.source for kernel in group)])
        result.append(Unit(f"kernels_{start // KERNELS_PER_UNIT:03d}", _symbol_accessors(graph, text)))
    result.append(Unit("steps", _steps(graph, calls, kernels, arena_bytes)))
    return result


def _symbol_accessors(graph: Graph, text: str) -> str:
    for index, name in enumerate(graph.symbols()):
        text = text.replace(f"SYMBOL({name!r})", f"env->symbols[{index}]")
    return text


def _steps(graph: Graph, calls: Sequence[Call], kernels: Sequence[Kernel], arena_bytes: int) -> str:
    headers = sorted({line for kernel in kernels for line in kernel.text.splitlines() if line.startswith("#include")})
    parts = ['#include "kernel.h"', *headers, "", *(kernel.prototype for kernel in kernels), ""]
    for index, call in enumerate(calls):
        parts.append(_step(index, call))
    cases = [f"case {index}: return step_{index}(env);" for index in range(len(calls))]
    parts += [
        '__attribute__((visibility("default"))) int64_t mcp26_entry(mcp26_env *env, uint32_t step) {',
        "    switch (step) {",
        indent(cases),
        "    default: return MCP26_STEP_DATA;",
        "    }",
        "}",
        "",
        _plan(graph, arena_bytes),
    ]
    return _symbol_accessors(graph, "\n".join(parts))


def _step(index: int, call: Call) -> str:
    step = call.step
    lines = [f"const int64_t {size_variable(name)} = SYMBOL({name!r});" for name in step.symbols]
    lines.append("const void *args[] = {")
    lines += [f"    {address}," for address in call.addresses]
    lines.append("};")
    name = step.kernel.name
    if call.parallel:
        lines.append(f"int32_t status = env->parallel_for(env, {name}, args, {step.units}, {step.grain});")
    else:
        lines.append(f"int32_t status = {name}(env, args, 0, {step.units}, 0);")
    lines.append(f"return status ? status : {index + 1};")
    title = comment(f"step {index}: {call.title}")
    return f"/* {title} */\nstatic int64_t step_{index}(mcp26_env *env) {{\n{indent(lines)}\n}}\n"


def _plan(graph: Graph, arena_bytes: int) -> str:
    lines = ["(void)step;", f"env->plan_bytes = {arena_bytes}u;"]
    for index, value in enumerate(graph.outputs):
        for axis, length in enumerate(value.type.dims):
            lines.append(f"env->outputs[{index}].shape[{axis}] = {size(length)};")
    text = indent(lines)
    return (
        '__attribute__((visibility("default"))) int32_t mcp26_plan(mcp26_env *env, uint32_t step) {\n'
        f"{text}\n    return 0;\n}}\n"
    )


def address(kind: str, index: int, offset: int) -> str:
    """The C expression of an operand's address."""
    base = {
        "arena": "env->arena",
        "input": f"env->inputs[{index}].data",
        "output": f"env->outputs[{index}].data",
        "constant": f"env->shards[{index}].base",
    }[kind]
    return f"{base} + {offset}" if offset else base
