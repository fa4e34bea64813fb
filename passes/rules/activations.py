"""Activations out of the operators that exporters write for them."""

from __future__ import annotations

from math import isclose, sqrt

from mcpc.ir import DType, Graph, Node, Value
from mcpc.rewrite import Patch, made_by, only_user, rule

from .shapes import constant_scalar, same_type


@rule("Mul")
def gelu_in_one(node: Node, graph: Graph) -> Patch | None:
    """0.5 x (1 + erf(x / sqrt(2))), its factors in any order, is Gelu (D. Hendrycks, K. Gimpel, Gaussian Error Linear
    Units, 2016)."""
    scale, others = _factors(node, graph)
    if node.output.dtype is not DType.float32 or scale != 0.5 or len(others) != 2:
        return None
    for x, rest in (others, others[::-1]):
        if same_type(x, node.output) and only_user(rest, graph) and _is_one_and_erf(rest, x, graph):
            patch = Patch(graph, node)
            return patch.replace(patch.add("Gelu", [x], {}, node.output.type))
    return None


def _factors(node: Node, graph: Graph) -> tuple[float, list[Value]]:
    """The product of the constant scalars, and the other operands, of multiplications that nothing else reads."""
    scale, others = 1.0, list[Value]()
    for value in node.inputs:
        number, inner = constant_scalar(value), made_by(value, "Mul")
        if number is not None:
            scale *= number
        elif inner is not None and value is not None and only_user(value, graph):
            more, rest = _factors(inner, graph)
            scale, others = scale * more, [*others, *rest]
        elif value is not None:
            others.append(value)
    return scale, others


def _is_one_and_erf(value: Value, x: Value, graph: Graph) -> bool:
    """Whether ``value`` is 1 + erf(x / sqrt(2))."""
    total = made_by(value, "Add")
    if total is None or not any(constant_scalar(operand) == 1.0 for operand in total.inputs):
        return False
    erf = next((node for operand in total.inputs if (node := made_by(operand, "Erf")) is not None), None)
    scaled = made_by(erf.inputs[0], "Mul", "Div") if erf is not None else None
    if erf is None or scaled is None or not only_user(erf.output, graph) or x not in scaled.inputs:
        return False
    number = constant_scalar(next((operand for operand in scaled.inputs if operand is not x), None))
    if number is None or (scaled.is_op("Div") and scaled.inputs[0] is not x):
        return False
    return isclose(number, sqrt(2) if scaled.is_op("Div") else sqrt(0.5), rel_tol=1e-6)
