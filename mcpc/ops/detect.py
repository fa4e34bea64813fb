"""NonMaxSuppression: the boxes of every class that do not overlap better ones."""

from __future__ import annotations

from mcpc.ir import OPSET, Dim, DType, Node, TensorType, dim
from mcpc.ops.context import (
    FLOATS,
    InferContext,
    attribute,
    differ,
    expect,
    expect_rank,
    fail,
    show,
    smaller,
    type_of,
    unify,
)
from mcpc.ops.registry import EXACT, Cost, OpDef, register, traffic


def infer_non_max_suppression(node: Node, context: InferContext) -> list[TensorType]:
    """Boxes [items, boxes, 4], scores [items, classes, boxes], then up to three scalars: how many boxes of a class at
    most, how much of two boxes may overlap, what their score must exceed → (item, class, box) for each box kept."""
    boxes, scores = expect(node, 0, FLOATS), expect(node, 1, FLOATS)
    for index, rank in ((0, 3), (1, 3)):
        expect_rank(node, index, rank)
    for index, dtypes in ((2, {DType.int64}), (3, FLOATS), (4, FLOATS)):
        if node.input(index) is not None:
            scalar = expect(node, index, dtypes)
            expect_rank(node, index, 0, 1)
            if scalar.rank == 1:
                unify(node, scalar.dims[0], 1, f"the elements of input {index}")
    if attribute(node, "center_point_box", 0) not in (0, 1):
        fail(node, f"center_point_box is {node.attrs['center_point_box']}", "E102")
    high: Dim | None = None
    if boxes.shape is not None and scores.shape is not None:
        if differ(boxes.shape[2], 4):
            fail(node, f"boxes are {show(boxes)}, four numbers each are needed")
        items = unify(node, boxes.shape[0], scores.shape[0], "the items of boxes and scores")
        count = unify(node, boxes.shape[1], scores.shape[2], "the numbers of boxes and scores")
        most = context.contents(node.input(2))
        if node.input(2) is None:
            count = 0
        elif most is not None and most.size == 1 and isinstance(most.item(), int):
            count = smaller(count, max(0, int(most.item())))
        high = dim(items * scores.shape[1] * count)
    return [TensorType(DType.int64, (context.data_size(node, 0, 0, 0, high), 3))]


def cost_non_max_suppression(node: Node) -> Cost:
    """A comparison of each box with a few others."""
    return Cost(dim(64 * type_of(node, 1).elements), traffic(node))


register(OpDef("NonMaxSuppression", infer_non_max_suppression, cost_non_max_suppression, EXACT, (10, OPSET)))
