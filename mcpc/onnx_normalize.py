"""Brings a model into the one form that the reader knows: no local functions, opset :data:`mcpc.ir.OPSET` and the
operators that later ones have added."""

from __future__ import annotations

import contextlib
import graphlib
import re
from typing import Any

import onnx
import onnx.inliner
import onnx.shape_inference
import onnx.version_converter
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from mcpc.errors import ModelError, Problems
from mcpc.ir import OPSET
from mcpc.onnx_legacy import HIDDEN, rewrite_after_conversion, rewrite_before_conversion
from mcpc.onnx_structure import free_names, label, opsets_of, subgraphs, walk
from mcpc.ops.registry import definitions, find

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
        problems.add(ModelError("E107", message))
        return False
    if 1 <= opset <= newest:
        return True
    message = f"the model needs opset {opset} of ai.onnx; this release knows opset versions 1 to {newest}"
    hint = "export the model with an older opset" if opset > newest else ""
    problems.add(ModelError("E107", message, hint=hint))
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
    for node in walk([*model.graph.node, *(node for function in model.functions for node in function.node)]):
        if (function := bodies.get((node.domain, node.op_type, node.overload))) is not None:
            given = {attribute.name for attribute in node.attribute}  # the inliner does not fill in the others
            node.attribute.extend(each for each in function.attribute_proto if each.name not in given)
    try:
        return onnx.inliner.inline_local_functions(model, convert_version=True)
    except Exception as error:  # the C++ inliner raises plain RuntimeError and its relatives
        raise ModelError("E107", f"local functions cannot be inlined: {_first_line(error)}") from None


def _expand_definitions(model: ModelProto) -> ModelProto:
    """``model`` with what ONNX declares by a function in place of the operators that nobody declares here."""
    opsets = opsets_of(model)
    if not any(_is_function(node, opsets) for node in walk(model.graph.node)):
        return model
    kept = [(definition.domain, definition.name) for definition in definitions()]
    for node in walk(model.graph.node):
        for graph in subgraphs(node) if _is_function(node, opsets) else ():
            _give_plain_names(graph)
    try:
        return onnx.inliner.inline_selected_functions(model, kept, exclude=True, inline_schema_functions=True)
    except Exception:  # the C++ inliner raises plain RuntimeError and its relatives; the operator is reported later
        return model


def _give_plain_names(graph: GraphProto) -> None:
    """Rename the tensors of a graph that is an attribute: ONNX puts them into its definition as text, which its parser
    reads back, and exporters write names with slashes and dots."""
    own = [value.name for value in graph.input] + [tensor.name for tensor in graph.initializer]
    own += [name for node in graph.node for name in node.output if name]
    names = {name: f"value_{index}" for index, name in enumerate(dict.fromkeys(own))}
    for named in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        named.name = names.get(named.name, named.name)
    for node in graph.node:
        node.name = ""
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]


def _is_function(node: NodeProto, opsets: dict[str, int]) -> bool:
    if find(node.domain, node.op_type) is not None:
        return False
    try:
        schema: Any = onnx.defs.get_schema(node.op_type, opsets.get(node.domain, 1), node.domain)
    except onnx.defs.SchemaError:
        return False
    return bool(schema.has_function or schema.has_context_dependent_function)


def convert_opset(model: ModelProto, problems: Problems) -> tuple[ModelProto | None, set[str]]:
    """``model`` at opset :data:`OPSET`, and the tensors that are lost since the nodes making them do not convert.

    Those nodes are reported with E107 and left out; their results are inputs of the model instead. None where even
    the rest does not convert. Operators that ONNX does not know stay as they are, and so do those that are newer.
    """
    model = _expand_definitions(model)
    opsets = opsets_of(model)
    opset = opsets.get("", OPSET)
    del model.opset_import[:]
    for domain, version in {**opsets, "": opset, HIDDEN: 1}.items():
        model.opset_import.append(helper.make_opsetid(domain, version))
    for node in walk(model.graph.node):
        if node.domain == "" and (not _is_known(node.op_type, opset) or _is_newer(node, opset)):
            node.domain = HIDDEN
    rewrite_before_conversion(model.graph, opset)
    lost: set[str] = set()
    converted, reason = _converted(model)
    if converted is None:
        with contextlib.suppress(Exception):  # with more shapes known, fewer nodes depend on those that fail
            model = onnx.shape_inference.infer_shapes(model)
        for node, why in _guilty(model):
            if lost.isdisjoint(node.input):
                message = f"{node.op_type} of opset {opset} cannot be converted to opset {OPSET}: {why}"
                problems.add(ModelError("E107", message, op=node.op_type, node=label(node)))
            lost.update(filter(None, node.output))
            model.graph.node.remove(node)
        shapes = {value.name: value for value in model.graph.value_info}
        untyped = helper.make_tensor_value_info
        model.graph.input.extend(shapes.get(name) or untyped(name, TensorProto.FLOAT, None) for name in sorted(lost))
        converted, reason = _converted(model)
    if converted is None:
        problems.add(ModelError("E107", f"opset {opset} cannot be converted to {OPSET}: {reason}"))
    if opset < OPSET:
        _convert_hidden_bodies((converted or model).graph, model, problems)
    for node in walk((converted or model).graph.node):
        if node.domain == HIDDEN:
            node.domain = ""
        if node.op_type == "Resize" and node.domain == "":
            _old_resize(node, opset, converted or model)
    rewrite_after_conversion((converted or model).graph, opset)
    return converted, lost


def _convert_hidden_bodies(graph: GraphProto, model: ModelProto, problems: Problems) -> None:
    """Convert what the converter has not looked into: the graphs that hidden nodes of ``graph`` hold, which are of the
    opset of ``model``. Reports those that do not convert with E107."""
    for node in graph.node:
        for body in subgraphs(node):
            captured = free_names(body)
            if node.domain == HIDDEN:
                alone = ModelProto(ir_version=model.ir_version, opset_import=model.opset_import, graph=body)
                untyped = helper.make_tensor_value_info
                alone.graph.input.extend(untyped(name, TensorProto.FLOAT, None) for name in sorted(captured))
                converted, reason = _converted(alone)
                if converted is None:
                    what = f"the body of {node.op_type} cannot be converted to opset {OPSET}: {reason}"
                    problems.add(ModelError("E107", what, op=node.op_type, node=label(node)))
                    continue
                kept = [value for value in converted.graph.input if value.name not in captured]
                body.CopyFrom(converted.graph)
                del body.input[:]
                body.input.extend(kept)
            _convert_hidden_bodies(body, model, problems)


def _old_resize(node: NodeProto, opset: int, model: ModelProto) -> None:
    """Say in today's terms how a Resize of this opset, or an Upsample, finds its elements: the converter does not.

    Until opset 10, coordinates were position / scale, and the nearest element the one before (enlarging) or behind
    (shrinking). Until opset 12 there was tf_half_pixel_for_nn, half a pixel behind half_pixel.
    """
    if opset < 11:
        scales = node.input[2]
        tensors = [tensor for tensor in model.graph.initializer if tensor.name == scales]
        tensors += [
            a.t for each in model.graph.node if scales in each.output for a in each.attribute if a.name == "value"
        ]
        shrinks = any((numpy_helper.to_array(tensor) < 1).any() for tensor in tensors)
        _set_text(node, "coordinate_transformation_mode", "asymmetric")
        _set_text(node, "nearest_mode", "ceil" if shrinks else "floor")
    text = {attribute.name: attribute.s for attribute in node.attribute}
    if text.get("coordinate_transformation_mode") == b"tf_half_pixel_for_nn" and text.get("nearest_mode") == b"floor":
        _set_text(node, "coordinate_transformation_mode", "half_pixel")
        _set_text(node, "nearest_mode", "round_prefer_ceil")


def _set_text(node: NodeProto, name: str, value: str) -> None:
    kept = [attribute for attribute in node.attribute if attribute.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute(name, value)])


#: Nodes of one operator that are tried one by one to find which of them does not convert.
_TRIES = 32


def _is_known(op: str, opset: int) -> bool:
    try:
        onnx.defs.get_schema(op, opset, "")
    except onnx.defs.SchemaError:
        return False
    return True


def _is_newer(node: NodeProto, opset: int) -> bool:
    """Whether ONNX added or changed a node's operator after :data:`OPSET`. What was changed got more types and
    attributes: these operators are declared as they are in the newest opset. Of the attributes, those that only say
    what holds without them go, so that the node is one of the older opset where it can be."""
    schema = onnx.defs.get_schema(node.op_type, opset, "")
    if schema.since_version <= OPSET:
        return False
    for attribute in list(node.attribute):
        declared = schema.attributes.get(attribute.name)
        if declared is not None and attribute == declared.default_value:
            node.attribute.remove(attribute)
    return True


def _converted(model: ModelProto) -> tuple[ModelProto | None, str]:
    """The converted model, or None and the reason."""
    if opsets_of(model)[""] == OPSET:
        return model, ""
    try:
        return onnx.version_converter.convert_version(model, OPSET), ""
    except Exception as error:  # the C++ converter raises plain RuntimeError and its relatives
        return None, re.sub(r"^.*Assertion .* failed: ", "", _first_line(error))


def _guilty(model: ModelProto) -> list[tuple[NodeProto, str]]:
    """The nodes that do not convert, and why: those that fail where all others are hidden."""

    def reason(candidates: list[NodeProto]) -> str:
        outputs = {tuple(node.output) for node in candidates}
        trial = ModelProto()
        trial.CopyFrom(model)
        for node in trial.graph.node:
            if tuple(node.output) not in outputs:
                node.domain = HIDDEN
        return _converted(trial)[1]

    by_op: dict[str, list[NodeProto]] = {}
    for node in model.graph.node:
        if node.domain == "":
            by_op.setdefault(node.op_type, []).append(node)
    result = []
    for nodes in by_op.values():
        if why := reason(nodes):
            single = [(node, reason([node])) for node in nodes] if len(nodes) <= _TRIES else []
            result += [(node, text) for node, text in single if text] or [(node, why) for node in nodes]
    return result


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
