"""Default values of inputs: initializers that a model also lists as inputs, which callers may override.

Before IR version 4 every initializer had to be listed, so there it says nothing. Since then ONNX, and ONNX Runtime,
take a listed one as an optional input.
"""

from __future__ import annotations

from collections.abc import Iterable

from onnx import GraphProto, ModelProto, NodeProto

from mcpc.onnx_structure import reads

#: The first IR version that does not ask for initializers among the inputs.
OVERRIDABLE_IR_VERSION = 4

#: Operators that read weights which compilers pack, or a position in a sequence, and the first such operand.
_PACKING = {
    "SequenceInsert": 2,
    **dict.fromkeys(("Conv", "ConvTranspose", "DeformConv", "BatchNormalization", "LSTM", "GRU", "RNN"), 1),
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear", "QLinearConv", "QLinearMatMul", "ConvInteger"), 1),
}

#: Operators whose later operands say what they do: shapes, axes, bounds.
_STEERED = frozenset(
    {"ConstantOfShape", "CumSum", "DFT", "Expand", "OneHot", "Pad", "Range", "Reshape", "Resize", "Slice", "Split"}
    | {"CumProd", "Squeeze", "Tile", "TopK", "Trilu", "Unsqueeze", "Upsample", "SequenceAt", "SequenceErase"}
    | {"SplitToSequence"}
)


def overridable(model: ModelProto) -> list[str]:
    """The initializers that callers of ``model`` may override, in the order of its inputs."""
    if model.ir_version < OVERRIDABLE_IR_VERSION:
        return []
    initial = {tensor.name for tensor in model.graph.initializer}
    return [value.name for value in model.graph.input if value.name in initial]


def must_stay_constant(graph: GraphProto, names: Iterable[str]) -> dict[str, str]:
    """Those of the initializers ``names`` that cannot be inputs, with the operator that needs a constant."""
    names = set(names)
    result: dict[str, str] = {}
    for node in graph.node:
        for name in names & reads(node) - result.keys():
            if any(operand == name and _is_constant(node, index) for index, operand in enumerate(node.input)):
                result[name] = node.op_type
    return result


def _is_constant(node: NodeProto, index: int) -> bool:
    if node.op_type in _PACKING:
        return index >= _PACKING[node.op_type]
    steers = node.op_type in _STEERED or node.op_type.startswith("Reduce")
    return steers and (index > 0 or node.op_type in ("ConstantOfShape", "Range"))
