"""NonMaxSuppression: a step that counts the boxes kept, and one that writes them."""

from __future__ import annotations

from mcpc.ir import DType, dim

from ..kernel import KernelBuilder, unsupported
from .registry import emits, finds_sizes


def _call(b: KernelBuilder, output: str) -> str:
    anchor = b.anchor
    boxes, scores = b.outer(anchor.inputs[0]), b.outer(anchor.inputs[1])
    for value in (anchor.inputs[0], anchor.inputs[1], anchor.input(3), anchor.input(4)):
        if value is not None and b.outer(value).dtype is not DType.float32:
            raise unsupported(b.node, f"an operand of type {value.dtype.name}")
    items, classes, count = scores.type.dims
    scalars = [f"*{b.input(value)}" if (value := anchor.input(index)) is not None else "0" for index in (2, 3, 4)]
    fields = [f".items = {b.size(items)}, .classes = {b.size(classes)}, .boxes = {b.size(count)}"]
    fields.append(f".is_center = {int(anchor.attrs.get('center_point_box', 0))}")
    fields.append(f".most = {scalars[0]}, .overlap = {scalars[1]}, .score = {scalars[2]}")
    fields.append(f".has_score = {int(anchor.input(4) is not None)}")
    b.headers.append("detect.h")
    work = f"(int64_t *)(void *){b.workspace(dim(16 * count))}"
    return f"nms_f32((nms_shape){{{', '.join(fields)}}}, {b.input(boxes)}, {b.input(scores)}, {output}, {work})"


@finds_sizes("NonMaxSuppression")
def count_boxes(b: KernelBuilder) -> None:
    b.set_size(b.node.output.type.dims[0], _call(b, "0"))


@emits("NonMaxSuppression")
def non_max_suppression(b: KernelBuilder) -> None:
    """One unit: which boxes are kept depends on those before."""
    b.label = "non max suppression"
    b.line(f"{_call(b, b.output())};")
