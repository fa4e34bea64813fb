"""Operators that sample images: GridSample, AffineGrid, RoiAlign, MaxRoiPool, Col2Im, CenterCropPad."""

from __future__ import annotations

from mcpc.ir import OPSET, Dim, Node, TensorType, dim, product
from mcpc.ops.context import (
    FLOATS,
    INDEX,
    InferContext,
    attribute,
    axes_of,
    choice,
    differ,
    expect,
    expect_rank,
    fail,
    integers,
    list_length,
    show,
    type_of,
    unify,
    vector,
)
from mcpc.ops.registry import ACCUMULATED, EXACT, Cost, OpDef, moves, register, traffic
from mcpc.ops.shape import divide_exactly
from mcpc.ops.window import Window, window_of

# ---- GridSample, AffineGrid

SAMPLE_MODES = ("linear", "nearest", "cubic")
PADDING_MODES = ("zeros", "border", "reflection")


def infer_grid_sample(node: Node, context: InferContext) -> list[TensorType]:
    """X [N, C, …], grid [N, …, axes] with coordinates innermost axis first -> [N, C, …]."""
    x, grid = type_of(node, 0), expect(node, 1, FLOATS)
    mode = choice(node, "mode", "linear", SAMPLE_MODES)
    choice(node, "padding_mode", "zeros", PADDING_MODES)
    if mode != "nearest":
        expect(node, 0, FLOATS)
    if x.shape is None or grid.shape is None:
        return [TensorType(x.dtype, None)]
    axes = len(x.shape) - 2
    if axes < 1 or len(grid.shape) != len(x.shape) or differ(grid.shape[-1], axes):
        fail(node, f"a grid of {show(grid)} does not fit {show(x)}")
    if mode == "cubic" and axes != 2:
        fail(node, "mode cubic is for images only", "E102")
    batch = unify(node, x.shape[0], grid.shape[0], "batches of input and grid")
    return [TensorType(x.dtype, (batch, x.shape[1], *grid.shape[1:-1]))]


def cost_grid_sample(node: Node) -> Cost:
    taps = {"nearest": 1, "linear": 2, "cubic": 4}[str(node.attrs.get("mode", "linear"))]
    axes = len(type_of(node, 0).dims) - 2
    return Cost(dim(2 * node.output.type.elements * taps**axes), traffic(node))


def infer_affine_grid(node: Node, context: InferContext) -> list[TensorType]:
    """theta [N, axes, axes + 1], size (N, C, …) -> grid [N, …, axes]."""
    theta = expect(node, 0, FLOATS)
    expect(node, 1, INDEX)
    expect_rank(node, 0, 3)
    sizes = vector(node, context, 1)
    if sizes is None and theta.shape is not None and isinstance(theta.shape[1], int):
        sizes = [None] * (theta.shape[1] + 2)
    if sizes is None:
        fail(node, "the number of axes is not known", "E108")
    if any(isinstance(size, int) and size < 0 for size in sizes):
        fail(node, f"size {sizes} is negative")
    axes = len(sizes) - 2
    if axes not in (2, 3):
        fail(node, f"size has {len(sizes)} entries, 4 or 5 are needed")
    if theta.shape is not None:
        wanted = (axes, axes + 1)
        if any(differ(size, want) for size, want in zip(theta.shape[1:], wanted, strict=True)):
            fail(node, f"theta is {show(theta)}, matrices of {axes} x {axes + 1} are needed")
    known = [context.data_size(node, 0, max(axis - 1, 0)) if size is None else size for axis, size in enumerate(sizes)]
    batch = known[0] if theta.shape is None else unify(node, theta.shape[0], known[0], "batches of theta and size")
    return [TensorType(theta.dtype, (batch, *known[2:], axes))]


def cost_affine_grid(node: Node) -> Cost:
    return Cost(dim(2 * node.output.type.elements * node.output.type.dims[-1]), traffic(node))


# ---- RoiAlign


def infer_roi_align(node: Node, context: InferContext) -> list[TensorType]:
    """X [N, C, H, W], rois [R, 4] as x1, y1, x2, y2, batch_indices [R] -> [R, C, output_height, output_width]."""
    x, rois, items = expect(node, 0, FLOATS), expect(node, 1, FLOATS), expect(node, 2, INDEX)
    for index, rank in enumerate((4, 2, 1)):
        expect_rank(node, index, rank)
    choice(node, "mode", "avg", ("avg", "max"))
    choice(node, "coordinate_transformation_mode", "half_pixel", ("half_pixel", "output_half_pixel"))
    height, width = attribute(node, "output_height", 1), attribute(node, "output_width", 1)
    if height < 1 or width < 1 or attribute(node, "sampling_ratio", 0) < 0:
        fail(node, "output_height, output_width or sampling_ratio is negative", "E102")
    if rois.shape is not None and differ(rois.shape[1], 4):
        fail(node, f"rois are {show(rois)}, four numbers each are needed")
    if rois.shape is None or items.shape is None:
        count: Dim = context.data_size(node, 0, 0)
    else:
        count = unify(node, rois.shape[0], items.shape[0], "the numbers of rois and batch_indices")
    if x.shape is None:
        return [TensorType(x.dtype, None)]
    return [TensorType(x.dtype, (count, x.shape[1], height, width))]


def cost_roi_align(node: Node) -> Cost:
    """Four taps a sample."""
    samples = max(2, attribute(node, "sampling_ratio", 0)) ** 2
    return Cost(dim(8 * node.output.type.elements * samples), traffic(node))


def infer_max_roi_pool(node: Node, context: InferContext) -> list[TensorType]:
    """X [N, C, H, W], rois [R, 5] as item, x1, y1, x2, y2 -> [R, C, *pooled_shape]."""
    x, rois = expect(node, 0, FLOATS), expect(node, 1, FLOATS)
    expect_rank(node, 0, 4)
    expect_rank(node, 1, 2)
    pooled = list(node.attrs.get("pooled_shape") or [])
    if len(pooled) != 2 or any(not isinstance(size, int) or size < 1 for size in pooled):
        fail(node, f"pooled_shape is {pooled}", "E102")
    if rois.shape is not None and differ(rois.shape[1], 5):
        fail(node, f"rois are {show(rois)}, five numbers each are needed")
    if x.shape is None or rois.shape is None:
        return [TensorType(x.dtype, None)]
    return [TensorType(x.dtype, (rois.shape[0], x.shape[1], *pooled))]


# ---- Col2Im


def col2im_window(node: Node, context: InferContext) -> Window:
    """The block and how it moves over the image. Sizes of the block that only data can show are symbols."""
    count = list_length(node, 1, 2)
    if not isinstance(count, int):
        fail(node, "the number of the image's axes is not known", "E108")
    block, most = vector(node, context, 2) or [None] * count, type_of(node, 0).dims[1]
    sizes = [context.data_size(node, 0, f"block{i}", 1, most) if size is None else size for i, size in enumerate(block)]
    return window_of(node, sizes)


def infer_col2im(node: Node, context: InferContext) -> list[TensorType]:
    """[N, C * block elements, blocks] -> [N, C, …]: blocks are added up where they overlap."""
    x = expect(node, 0, FLOATS)
    for index in (1, 2):
        expect(node, index, INDEX)
    expect_rank(node, 0, 3)
    if x.shape is None:
        return [TensorType(x.dtype, None)]
    window = col2im_window(node, context)
    image = vector(node, context, 1) or [None] * len(window.kernel)
    sizes = [context.data_size(node, 0, 2 + axis) if size is None else size for axis, size in enumerate(image)]
    taps = product(window.kernel)
    if isinstance(x.shape[1], int) and isinstance(taps, int) and x.shape[1] % taps:
        fail(node, f"{x.shape[1]} channels do not divide into blocks of {taps}")
    unify(node, x.shape[2], product(window.output(node, sizes)), "the number of blocks")
    return [TensorType(x.dtype, (x.shape[0], divide_exactly(x.shape[1], taps), *sizes))]


def cost_col2im(node: Node) -> Cost:
    return Cost(type_of(node, 0).elements, traffic(node))


# ---- CenterCropPad


def infer_center_crop_pad(node: Node, context: InferContext) -> list[TensorType]:
    x = type_of(node, 0)
    expect(node, 1, INDEX)
    if x.shape is None:
        return [TensorType(x.dtype, None)]
    axes = axes_of(node, integers(node, "axes") or range(len(x.shape)), len(x.shape))
    sizes = vector(node, context, 1) or [None] * len(axes)
    if len(sizes) != len(axes):
        fail(node, f"{len(sizes)} sizes for {len(axes)} axes")
    shape = list(x.shape)
    for axis, size in zip(axes, sizes, strict=True):
        if isinstance(size, int) and size < 0:
            fail(node, f"sizes {sizes} are negative")
        shape[axis] = context.data_size(node, 0, axis) if size is None else size
    return [TensorType(x.dtype, tuple(shape))]


register(
    OpDef("GridSample", infer_grid_sample, cost_grid_sample, ACCUMULATED, (16, OPSET)),
    OpDef("AffineGrid", infer_affine_grid, cost_affine_grid, ACCUMULATED, (20, OPSET)),
    OpDef("RoiAlign", infer_roi_align, cost_roi_align, ACCUMULATED, (10, OPSET)),
    OpDef("MaxRoiPool", infer_max_roi_pool, moves, EXACT),
    OpDef("Col2Im", infer_col2im, cost_col2im, ACCUMULATED, (18, OPSET)),
    OpDef("CenterCropPad", infer_center_crop_pad, moves, EXACT, (18, OPSET)),
)
