"""Brings a model into the one form that the reader knows: no local functions, opset :data:`mcpc.ir.OPSET`."""

from __future__ import annotations

import graphlib
import re

import onnx
import onnx.inliner
import onnx.version_converter
from onnx import ModelProto

from mcpc.errors import ModelError, Problems
from mcpc.ir import OPSET
from mcpc.onnx_structure import opsets_of, walk

#: A model that grows beyond this many nodes by inlining is refused: nested functions can multiply without end.
MOST_NODES = 1_000_000


def check_opset(model: ModelProto, problems: Problems) -> bool:
    """Whether this release knows the model's opset of ai.onnx; reports E107 where not."""
    opset = opsets_of(model).get("")
    newest = onnx.defs.onnx_opset_version()
    if opset is None:
        if not any(node.domain in ("", "ai.onnx") for node in model.graph.node):
            return True
        message = "the model imports no opset of ai.onnx, but uses its operators"
    elif 1 <= opset <= newest:
        return True
    else:
        message = f"the model needs opset {opset} of ai.onnx; this release knows opset versions 1 to {newest}"
    problems.add(ModelError("E107", message, hint="export the model with an older opset"))
    return False


def inline_functions(model: ModelProto) -> ModelProto:
    """``model`` without local functions. E103 where they call each other in a circle, or expand beyond bounds."""
    if not model.functions:
        return model
    bodies = {(f.domain, f.name, f.overload): f for f in model.functions}
    calls = {
        key: [(n.domain, n.op_type, n.overload) for n in walk(f.node) if (n.domain, n.op_type, n.overload) in bodies]
        for key, f in bodies.items()
    }
    try:
        order = list(graphlib.TopologicalSorter(calls).static_order())
    except graphlib.CycleError as error:
        names = " → ".join(f"{domain}::{name}" for domain, name, _ in error.args[1])
        raise ModelError("E103", f"local functions call each other in a cycle: {names}") from None
    size: dict[tuple[str, str, str], int] = {}
    for key in order:
        size[key] = len(bodies[key].node) + sum(size[callee] for callee in calls[key])
    total = sum(size.get((n.domain, n.op_type, n.overload), 1) for n in walk(model.graph.node))
    if total > MOST_NODES:
        raise ModelError("E103", f"local functions expand to {total} nodes, {MOST_NODES} are the most")
    try:
        return onnx.inliner.inline_local_functions(model, convert_version=True)
    except Exception as error:  # the C++ inliner raises plain RuntimeError and its relatives
        raise ModelError("E107", f"local functions cannot be inlined: {_first_line(error)}") from None


def convert_opset(model: ModelProto, problems: Problems) -> ModelProto | None:
    """``model`` at opset :data:`OPSET`. None, with an E107 for every node at fault, where that fails."""
    opsets = opsets_of(model)
    del model.opset_import[:]
    for domain, version in opsets.items():
        model.opset_import.append(onnx.helper.make_opsetid(domain, version))
    if opsets.get("", OPSET) == OPSET:
        return model
    try:
        return onnx.version_converter.convert_version(model, OPSET)
    except Exception as error:  # the C++ converter raises plain RuntimeError and its relatives
        text = _first_line(error)
    guilty = re.search(r"(?:for|Upgrading|Adapter.*?) (\w+)\s*$", text) or re.search(r"\bfor (\w+)", text)
    nodes = [node for node in model.graph.node if guilty is not None and node.op_type == guilty.group(1)]
    message = f"opset {opsets['']} cannot be converted to {OPSET}: {text}"
    for node in nodes:
        problems.add(ModelError("E107", message, op=node.op_type, node=node.name))
    if not nodes:
        problems.add(ModelError("E107", message))
    return None


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
