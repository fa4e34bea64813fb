"""Products of integers in a form that ONNX Runtime computes exactly.

On x86-64 without VNNI its kernels add pairs of products of uint8 and int8 with saturation to 16 bits. That concerns the
second factor of matrices where it is signed, and of convolutions, whose weights are the first, where it is not; factors
of one type are widened. A byte of one type is that of the other, with its highest bit turned, less 128.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import onnx

Array = np.ndarray[Any, Any]

#: Operator -> the indices of its weights, of their zero point and of the other factor's (None: that is uint8), and the
#: type in which weights are multiplied exactly whatever the other is.
EXACT: dict[str, tuple[int, int, int | None, type[np.generic]]] = {
    "MatMulInteger": (1, 3, 2, np.uint8),
    "QLinearMatMul": (3, 5, 2, np.uint8),
    "MatMulIntegerToFloat": (1, 5, 4, np.uint8),
    "DynamicQuantizeMatMul": (1, 3, None, np.uint8),
    "QGemm": (3, 5, 2, np.uint8),
    "ConvInteger": (1, 3, 2, np.int8),
    "QLinearConv": (3, 5, 2, np.int8),
}

_TURNED = {np.dtype(np.int8): np.dtype(np.uint8), np.dtype(np.uint8): np.dtype(np.int8)}


def without_saturation(model: Path | str | bytes) -> Path | str | bytes:
    """``model`` with the constant weights of its integer products, and their constant zero points, in the type that is
    computed exactly; as it is where there are none to change."""
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    from mcpc.onnx_structure import walk

    if isinstance(model, bytes) and not any(name.encode() in model for name in EXACT):
        return model
    try:
        proto = onnx.load_from_string(model) if isinstance(model, bytes) else onnx.load(model, load_external_data=False)
    except (DecodeError, OSError):  # who runs it says what is wrong
        return model
    found = [node for node in walk(proto.graph.node) if node.op_type in EXACT]
    if not found:
        return model
    if not isinstance(model, bytes):
        proto = onnx.load(model)
        found = [node for node in walk(proto.graph.node) if node.op_type in EXACT]
    constants = {tensor.name: tensor for tensor in proto.graph.initializer}
    for node in proto.graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            constants[node.output[0]] = node.attribute[0].t
    changed = [_change(node, constants, proto) for node in found]
    try:
        return bytes(proto.SerializeToString()) if any(changed) else model
    except ValueError:  # beyond 2 GiB, where it has its weights in other files
        return model


def _change(node: onnx.NodeProto, constants: dict[str, onnx.TensorProto], proto: onnx.ModelProto) -> bool:
    from onnx import numpy_helper

    at, zero_at, other_at, wanted = EXACT[node.op_type]
    zero = node.input[zero_at] if zero_at < len(node.input) else ""
    if node.input[at] not in constants or (zero and zero not in constants):
        return False
    weights = numpy_helper.to_array(constants[node.input[at]])
    if weights.dtype not in _TURNED or weights.dtype == wanted:
        return False
    other = constants.get(node.input[other_at]) if other_at is not None and other_at < len(node.input) else None
    if other is not None and numpy_helper.to_array(other).dtype == weights.dtype:
        return False  # exact as they are; not all operators take what is mixed the other way
    point = numpy_helper.to_array(constants[zero]) if zero else np.zeros((), weights.dtype)
    node.input.extend([""] * (zero_at + 1 - len(node.input)))
    for index, array in ((at, weights), (zero_at, point)):
        name = f"{node.input[index] or node.output[0]}:{np.dtype(wanted).name}"
        if name not in constants:
            constants[name] = numpy_helper.from_array((array.view(np.uint8) ^ np.uint8(128)).view(wanted), name)
            proto.graph.initializer.append(constants[name])
        node.input[index] = name
    return True
