"""Depthwise convolutions take the pointwise ones before and behind them into one kernel, where that pays
(separable.h)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from mcpc.cost_model import bandwidth, roofline, weight_bytes, work_of
from mcpc.ir import Dim, DType, Graph, Node, Value, is_static
from mcpc.kernel_class import KernelClass
from mcpc.ops.linear import convolution_of
from mcpc.pipeline import Pass, PassContext
from mcpc.rewrite import control_flow_graphs, replace_by_fused
from mcpc.target import Core, Target

from .region import SEPARABLE, Region
from .strided import channels_last

#: Pixels that a band's products have at least: enough for whole tiles.
BAND_PIXELS = 48

#: Chunks that there must be for workers to share.
LEAST_CHUNKS = 4

#: Rows of a kernel up to which a ring of rows is worth its memory.
MOST_ROWS = 16


@dataclass(frozen=True)
class Bands:
    """How a separable kernel goes through the image: ``band`` rows of output at a time, from a ring of ``ring`` rows of
    expanded input. ``overlap``: rows of input that two neighbouring bands read. ``grain``: bands of a chunk for the
    thread pool, whose first rows are expanded twice."""

    band: int
    ring: int
    overlap: int
    grain: int

    @classmethod
    def of(cls, depthwise: Region) -> Bands:
        assert depthwise.anchor is not None
        window = convolution_of(depthwise.anchor).window
        in_w = _image(depthwise, 0).type.static_shape[3]
        items, _, out_h, _ = depthwise.node.output.type.static_shape
        stride, reach = window.strides[0], int(window.extent(0))
        band = min(max(out_h, 1), -(-BAND_PIXELS // max(in_w * stride, 1)))
        rows = (band - 1) * stride + reach
        overlap = max(reach - stride, 0)
        shared = items * -(-out_h // band) // LEAST_CHUNKS
        grain = max(1, min(-(-8 * overlap // (band * stride)), shared))
        return cls(band, 1 << (rows - 1).bit_length(), overlap, grain)

    def chunks(self, depthwise: Region) -> int:
        items, _, out_h, _ = depthwise.node.output.type.static_shape
        return -(-items * -(-out_h // self.band) // self.grain)

    def repeated(self, depthwise: Region) -> float:
        """The part of the expanded rows that are computed twice, where every chunk is another worker's."""
        items, _, in_h, _ = _image(depthwise, 0).type.static_shape
        return max(self.chunks(depthwise) - items, 0) * self.overlap / (items * in_h)


@dataclass(frozen=True)
class FuseSeparable(Pass):
    """Runs when layouts are settled. The parts stay nodes of the new node's body, so that each keeps what is fused
    behind it."""

    name: ClassVar[str] = "fuse-separable"

    def __call__(self, graph: Graph, ctx: PassContext) -> Graph:
        stored = weight_bytes(graph)
        for inner in control_flow_graphs(graph):
            for node in list(inner.nodes):
                depthwise = _convolution(node) if inner.owns(node) else None
                if depthwise is not None and is_depthwise(depthwise):
                    _fuse(inner, depthwise, stored, ctx)
        return graph


def _fuse(graph: Graph, depthwise: Region, stored: int, ctx: PassContext) -> None:
    target = ctx.target
    if not isinstance(target, Target):
        return
    before = _pointwise(_image(depthwise, 0).producer, graph)
    users = depthwise.node.output.users
    behind = _pointwise(users[0], graph) if len(users) == 1 else None
    if before is not None and not _is_read_once(graph, before, depthwise):
        before = None
    if behind is not None and not _is_read_once(graph, depthwise, behind):
        behind = None
    apart = [part for part in (before, depthwise, behind) if part is not None]
    choices = [parts for parts in (apart, apart[:-1], apart[1:]) if len(parts) > 1 and depthwise in parts]
    if Bands.of(depthwise).chunks(depthwise) < LEAST_CHUNKS:
        choices = []
    room = target.big_core.l2_kib << 9  # the other half is for weights and what streams through
    costs = [(parts, *_times(parts, stored, target)) for parts in choices if _scratch(parts) <= room]
    worth = [(parts, split, fused) for parts, split, fused in costs if fused < split]
    if worth:
        parts, split, fused = max(worth, key=lambda each: each[1] - each[2])
        names = " and ".join("depthwise" if part is depthwise else "pointwise" for part in parts)
        reason = f"{names} in one kernel: rows between stay in a near cache"
        ctx.decide(depthwise.node, "fuse", reason, split_us=split, fused_us=fused)
        _merge(graph, [part.node for part in parts])
    elif costs:
        parts, split, fused = costs[0]
        reason = "what lies between it and pointwise convolutions is in a near cache anyway"
        ctx.decide(depthwise.node, "keep", reason, split_us=split, fused_us=fused)


def _convolution(node: Node | None) -> Region | None:
    """``node`` as a static float32 convolution of a channels-last image by plain constant weights."""
    if node is None or not (node.is_op("Conv") or (node.body is not None and node.attrs["kind"] == "epilogue")):
        return None
    region = Region.of(node)
    anchor = region.anchor
    if anchor is None or not anchor.is_op("Conv") or region.expansions:
        return None
    constants = [region.outer(value) for value in anchor.inputs[1:] if value is not None]
    image, result = _image(region, 0), node.output
    fits = all(
        value.dtype is DType.float32 and value.type.rank == 4 and is_static(value.shape)
        and value.type.layout == channels_last(4) and value.type.elements != 0
        for value in (image, result)
    )  # fmt: skip
    return region if fits and all(value is not None and value.dtype is DType.float32 and value.is_constant
                                  for value in constants) else None  # fmt: skip


def _image(region: Region, index: int) -> Value:
    """The graph's value behind an operand of the anchor."""
    assert region.anchor is not None
    value = region.outer(region.anchor.inputs[index])
    assert value is not None
    return value


def is_depthwise(region: Region) -> bool:
    assert region.anchor is not None
    convolution = convolution_of(region.anchor)
    channels = _image(region, 0).type.dims[1]
    is_single = convolution.groups == channels == region.node.output.type.dims[1] != 1
    return is_single and int(convolution.window.extent(0)) <= MOST_ROWS


def _pointwise(node: Node | None, graph: Graph) -> Region | None:
    region = _convolution(node) if node is not None and graph.owns(node) else None
    if region is None or region.anchor is None:
        return None
    convolution = convolution_of(region.anchor)
    window, sizes = convolution.window, [value.type.dims[2:] for value in (_image(region, 0), region.node.output)]
    is_dense = window.kernel == window.strides == (1, 1) and sizes[0] == sizes[1]
    return region if convolution.groups == 1 and is_dense else None


def _is_read_once(graph: Graph, producer: Region, reader: Region) -> bool:
    """Whether only the anchor of ``reader`` reads what ``producer`` makes."""
    value = producer.node.output
    assert reader.anchor is not None
    inner = reader.anchor.inputs[0]
    assert inner is not None
    uses = [value, inner] if inner is not value else [value]
    return not graph.is_output(value) and _image(reader, 0) is value and all(len(each.users) == 1 for each in uses)


# ---- what it costs


def _operations(part: Region) -> dict[KernelClass, int]:
    assert part.anchor is not None
    items, channels, *image = part.node.output.type.static_shape
    depth = _image(part, 1).type.elements // channels
    kind = KernelClass.DEPTHWISE if is_depthwise(part) else KernelClass.GEMM
    return {kind: int(2 * items * channels * image[0] * image[1] * depth)}


def _times(parts: Sequence[Region], stored: int, target: Target) -> tuple[float, float]:
    """Microseconds of ``parts`` apart and as one kernel, but for what both read and write.

    What one kernel stores for the next to load counts in full: it comes in bursts that computing does not hide. Apart,
    it lies where all that the first of the two reads and writes has room; else in the scratch.
    """
    core = target.big_core
    split = fused = 0.0
    for part, follower in zip(parts, [*parts[1:], None], strict=True):
        work = work_of(part.node, _operations(part))
        us = roofline(replace(work, weight_set=stored), target).compute
        split += us + target.launch_us
        fused += us
        if follower is None:
            continue
        nbytes = part.node.output.type.nbytes
        split += _passed_on(nbytes, work.traffic, core)
        fused += _passed_on(nbytes, _scratch(parts), core)
        if not is_depthwise(part):
            fused += us * Bands.of(follower).repeated(follower)
    return split, fused + target.launch_us


def _passed_on(nbytes: Dim, working_set: Dim, core: Core) -> float:
    """Microseconds to store and load ``nbytes`` where ``working_set`` bytes lie. Beyond the second cache a line is read
    before it is written."""
    transfers = 2 if working_set <= core.l2_kib << 10 else 3
    return transfers * float(nbytes) / bandwidth(core, working_set) / 1e3


def _scratch(parts: Sequence[Region]) -> int:
    depthwise = next(part for part in parts if is_depthwise(part))
    return 4 * scratch_floats(depthwise, depthwise is not parts[0], depthwise is not parts[-1])


def scratch_floats(depthwise: Region, is_expanded: bool, is_projected: bool) -> int:
    """As separable.h asks for a worker."""
    bands = Bands.of(depthwise)
    _, channels, _, in_w = _image(depthwise, 0).type.static_shape
    out_w = depthwise.node.output.type.static_shape[3]
    return channels * (is_expanded * bands.ring * in_w + is_projected * bands.band * out_w)


# ---- the rewrite


def _merge(graph: Graph, parts: Sequence[Node]) -> None:
    """Put one node whose body holds ``parts``, each the only reader of the one before, into the place of the last."""
    sink = parts[-1]
    body = Graph(f"{SEPARABLE}:{sink.output.name}")
    operands: list[Value] = []
    inner: dict[int, Value] = {}
    for part in parts:
        for value in part.inputs:
            if value is not None and id(value) not in inner:
                inner[id(value)] = body.add_input(value.name, value.type)
                operands.append(value)
        inner[id(part.output)] = result = Value(body.fresh(part.output.name), part.output.type)
        inputs = [None if value is None else inner[id(value)] for value in part.inputs]
        body.append(Node(part.op, inputs, [result], part.attrs, part.name, part.domain))
    body.outputs = [inner[id(sink.output)]]
    replace_by_fused(graph, parts, SEPARABLE, operands, body)
