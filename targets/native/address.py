"""Where a kernel's operand lies, as C text."""

from __future__ import annotations

from dataclasses import dataclass

from mcpc.ir import Dim

from .ctext import size

_BASES = {
    "arena": "env->arena",
    "planned": "env->arena + env->offsets[{}]",
    "input": "env->inputs[{}].data",
    "output": "env->outputs[{}].data",
    "constant": "env->shards[{}].base",
    "symbols": "env->symbols",
    "state": "env->state",
}


@dataclass(frozen=True)
class Address:
    """``offset`` bytes from the start of the arena, of buffer ``index`` whose place is planned at run time, of an
    input, of an output, of a shard, or of the session's state; or the table of symbol values."""

    kind: str
    index: int
    offset: Dim

    @property
    def text(self) -> str:
        base = _BASES[self.kind].format(self.index)
        return base if self.offset == 0 else f"{base} + {size(self.offset)}"
