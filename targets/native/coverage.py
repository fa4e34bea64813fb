"""How each operator is run, as the registries have it."""

from __future__ import annotations

from mcpc.ops import Elementwise, OpDef

from . import emit, quantized, views

#: Operators that are the order of steps, see :mod:`.control`.
CONTROL_FLOW = ("If", "Loop")


def ways(definition: OpDef) -> list[str]:
    """See :meth:`mcpc.codegen.Family.ways`."""
    name, found = definition.name, []
    if isinstance(definition, Elementwise):
        found.append("elementwise")
    if definition.domain == "":
        if name in views.VIEWS:
            found.append("view")
        if name in quantized.REWRITTEN:
            found.append(f"lowered by {quantized.LowerQuantized.name}")
        if name in CONTROL_FLOW:
            found.append("order of steps")
    if emit.called(definition.domain, name) in emit.emitters:
        found.append("kernel")
    if not found and definition.contents is not None:
        found.append("computed from sizes")
    return found
