"""Which kernel runs a convolution: that of the least predicted time, as far as the file may grow for it.

Every kernel that is legal is a candidate, with the operations that it executes and the bytes that it stores. Winograd
kernels store up to 7 times the weights. These are read from memory once a run, which costs time beside the arithmetic,
and all together they may add :data:`MOST_GROWTH` to the graph's weights: what saves most a byte goes first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from mcpc.cost_model import bandwidth, roofline, typical_sizes, weight_bytes, work_of
from mcpc.ir import Dim, DType, Graph, Node, dim
from mcpc.kernel_class import KernelClass
from mcpc.pipeline import PassContext
from mcpc.target import Target

from .convolution import PackedConvolution
from .integer_winograd import FORM as FORM_OF_INTEGERS
from .integer_winograd import IntegerForm
from .region import Region
from .winograd import FORMS, HALF_FORMS, Form
from .winograd_line import LINE_FORMS, LineForm

#: What Winograd kernels may add to the weights of a graph, as a share of these in float32: with code, metadata and
#: self-test the file stays below one and a half times the weights.
MOST_GROWTH = 0.44

#: How much more time than a kernel of larger weights one of smaller weights may take: no prediction is closer.
MARGIN = 0.1

#: What it costs to go on to the next run of memory, in multiply-adds of a column.
RUN_COST = 5

#: Columns of a panel of float16, channels of a run of packed ones (tile_f16.h).
HALF_NR, HALF_EIGHT = 16, 8

#: Columns of half a panel, which cores compute alone where there are no more (tile.h).
HALF = 8


class Method(StrEnum):
    """The kernels of a convolution: conv_few.h, gemm.h (pixels, or runs of them), depthwise.h, conv.h, winograd.h,
    winograd_line.h."""

    PLANAR = "planar"
    POINTWISE = "pointwise"
    ROWS = "rows"
    DEPTHWISE = "depthwise"
    INDIRECT = "indirect"
    WINOGRAD = "winograd"
    WINOGRAD_LINE = "winograd line"


@dataclass(frozen=True)
class Candidate:
    """``operations`` by class as they are executed, ``nbytes`` of stored weights, predicted ``us`` on one core.
    ``form`` and ``block`` are fields of the shapes of winograd.h and winograd_line.h. ``is_exact``: its errors are in
    the range of those of others. ``is_measured``: so is ``us``."""

    method: Method
    operations: Mapping[KernelClass, Dim]
    nbytes: int
    us: float = 0.0
    form: Form | LineForm | IntegerForm | None = None
    block: int = 0
    is_exact: bool = True
    is_measured: bool = False

    @property
    def name(self) -> str:
        return self.form.name if self.form is not None else self.method


Choices = Mapping[int, Candidate]


def choose(graph: Graph, target: Target, ctx: PassContext) -> Choices:
    """The kernel of every convolution with packed weights, by the node's id; what was weighed is recorded in ``ctx``.

    Of its options ``winograd`` "off" leaves these kernels out, ``times`` holds measured times (:mod:`mcpc.tuning`),
    ``kernel`` names the one to take wherever it is legal.
    """
    ctx.pass_name = "kernels"
    nodes: list[Node] = []
    candidates: list[Sequence[Candidate]] = []
    for node, each in weighed(graph, target, ctx.options.get("times", {})):
        nodes.append(node)
        candidates.append(each if ctx.options.get("winograd", "auto") != "off" else [c for c in each if c.form is None])
    if "kernel" in ctx.options:
        named = [[c for c in each if c.name == ctx.options["kernel"]] for each in candidates]
        chosen = [given[0] if given else fastest_direct(each) for given, each in zip(named, candidates, strict=True)]
    else:
        stored = weight_bytes(graph)
        room = int((stored + weight_bytes(graph, DType.float16)) * MOST_GROWTH)
        chosen = within_budget(candidates, bandwidth(target.big_core, stored), room)
    for node, rivals, choice in zip(nodes, candidates, chosen, strict=True):
        if len(rivals) > 1:
            times = {f"{other.name} us": other.us for other in rivals}
            ctx.decide(node, choice.name, reason(rivals, choice), **times, bytes=choice.nbytes)
    return {id(node): choice for node, choice in zip(nodes, chosen, strict=True)}


def weighed(graph: Graph, target: Target, times: Mapping[str, float]) -> Iterator[tuple[Node, list[Candidate]]]:
    """The convolutions with packed weights and their candidates, each with the time from ``times``, else predicted."""
    sizes, stored = typical_sizes(graph), weight_bytes(graph)
    for node in graph.all_nodes():
        region = Region.of(node)
        conv = packed(region)
        if conv is None:
            continue
        if conv.is_half:
            rivals = halves(conv, region, target)
        elif region.anchor is not None and region.anchor.is_op("ConvInteger"):
            rivals = integers(conv, region, target)
        else:
            rivals = direct(conv, target.nr) + winograd(conv, target)
        candidates = []
        for each in rivals:
            work = replace(work_of(node, each.operations), weights=each.nbytes, weight_set=stored).at(sizes)
            measured = times.get(f"{key_of(node)}|{each.name}")
            us = roofline(work, target).us if measured is None else measured
            candidates.append(replace(each, us=us, is_measured=measured is not None))
        if candidates:
            yield node, candidates


def packed(region: Region) -> PackedConvolution | None:
    """The convolution of a region whose activations are floats of 32 or 16 bits, or bytes."""
    found = (PackedConvolution.of(region, dtype) for dtype in (DType.float32, DType.float16, DType.uint8, DType.int8))
    return next((each for each in found if each is not None), None)


def key_of(node: Node) -> str:
    """What a convolution computes, as far as its time depends on it."""
    region = Region.of(node)
    conv = packed(region)
    assert conv is not None
    shapes = [str(value.type) for value in (*node.inputs, *node.outputs) if value is not None]
    return f"{region.label} {conv.window} {conv.groups} {' '.join(shapes)}"


def within_budget(candidates: Sequence[Sequence[Candidate]], gbps: float, budget: int) -> list[Candidate]:
    """One of each. They start from the fastest that store the weights once; then those take more bytes, ``budget`` in
    all, whose saving a byte is the largest. Reading stored bytes at ``gbps`` counts as time of its own."""

    def cost(candidate: Candidate) -> float:
        return candidate.us + candidate.nbytes / gbps / 1e3

    chosen = [fastest_direct(each) for each in candidates]
    while True:
        steps = []
        for index, (now, each) in enumerate(zip(chosen, candidates, strict=True)):
            for other in each:
                more, saved = other.nbytes - now.nbytes, cost(now) - cost(other)
                if other.is_exact and 0 < more <= budget and saved > MARGIN * cost(now):
                    steps.append((saved / more, index, other))
        if not steps:
            return chosen
        _, index, other = max(steps, key=lambda step: step[0])
        budget -= other.nbytes - chosen[index].nbytes
        chosen[index] = other


def fastest_direct(candidates: Sequence[Candidate]) -> Candidate:
    """Of those that store each weight once."""
    return min((c for c in candidates if c.form is None), key=lambda c: c.us)


def reason(candidates: Sequence[Candidate], choice: Candidate) -> str:
    """In words, for people."""
    fastest = min(candidates, key=lambda c: c.us)
    if choice is fastest:
        return f"the least {'measured' if choice.is_measured else 'predicted'} time"
    if not fastest.is_exact:
        return f"the error of {fastest.name} is too large for so many channels"
    return f"{fastest.name} does not save enough for its {fastest.nbytes} bytes"


def direct(conv: PackedConvolution, nr: int) -> list[Candidate]:
    """The kernels that store each weight once."""
    group_out = conv.out_c // conv.groups
    columns = -(-group_out // nr) * nr
    depth = conv.taps * conv.group_in
    products = 2 * conv.pixels * (HALF if group_out <= HALF else columns)
    nbytes = conv.groups * columns * depth * conv.weight_dtype.bits // 8
    gemm = {KernelClass.GEMM: dim(products * depth)}
    planar = Candidate(
        Method.PLANAR, {KernelClass.CONV_PLANAR: dim(2 * conv.pixels * columns * depth)}, columns * depth * 4
    )
    if conv.is_row_major:
        return [planar]
    runs = {KernelClass.CONV: dim(products * conv.groups * conv.taps * (conv.group_in + RUN_COST))}
    if conv.in_c == 1 and conv.window.dilations[-1] == 1:  # taps of a row follow one another
        runs = {KernelClass.CONV: dim(products * (depth + RUN_COST * (conv.taps // int(conv.window.kernel[-1]))))}
    result = [Candidate(Method.INDIRECT, runs, nbytes)]
    if conv.is_pointwise:
        result = [Candidate(Method.POINTWISE, gemm, nbytes)]
    elif conv.is_row_product:
        result.append(Candidate(Method.ROWS, gemm, nbytes))
    elif conv.is_depthwise:
        lanes = -(-conv.out_c // 8) * 8
        result.append(
            Candidate(
                Method.DEPTHWISE,
                {KernelClass.DEPTHWISE: dim(2 * conv.pixels * lanes * conv.taps)},
                4 * lanes * conv.taps,
            )
        )
    if conv.in_c == 1 and conv.taps > 1 and conv.reads_planar:  # then row-major is channels-last too
        result.append(planar)
    return result


def winograd(conv: PackedConvolution, target: Target) -> list[Candidate]:
    """The kernels of winograd.h and winograd_line.h."""
    is_float = conv.weight_dtype is DType.float32
    if not conv.is_unit or conv.groups != 1 or conv.is_row_major or not is_float:
        return []
    if conv.window.kernel == (3, 3):
        return [_filtered(conv, form, target, target.nr) for form in FORMS]
    if conv.line is None:
        return []
    taps, lines, length = conv.line
    return [
        _winograd(Method.WINOGRAD_LINE, conv, form, form.tiles(lines, length), 4 * form.side, target, target.nr)
        for form in LINE_FORMS
        if form.taps == taps
    ]


def halves(conv: PackedConvolution, region: Region, target: Target) -> list[Candidate]:
    """The kernels of 3x3 windows over float16 activations, where there are several: conv_f16.h and winograd.h."""
    is_filtered = conv.window.kernel == (3, 3) and conv.is_unit and conv.groups == 1 and conv.in_c % HALF_EIGHT == 0
    assert region.anchor is not None
    weight = region.outer(region.anchor.inputs[1])
    if not is_filtered or weight is None or weight.data is None:
        return []
    columns, taps = -(-conv.out_c // HALF_NR) * HALF_NR, weight.data
    products = dim(conv.pixels * columns * conv.taps * (conv.in_c + RUN_COST))
    plain = Candidate(Method.INDIRECT, {KernelClass.CONV: products}, 2 * conv.taps * conv.in_c * columns)
    return [plain, *(_filtered(conv, form, target, HALF_NR) for form in HALF_FORMS if form.fits(taps))]


def integers(conv: PackedConvolution, region: Region, target: Target) -> list[Candidate]:
    """The kernels of 3x3 windows over bytes, where there are several: gemm_i8.h and winograd_i8.h, whose weights are no
    bytes that a neural processor could share."""
    is_filtered = (
        conv.window.kernel == (3, 3) and conv.is_unit and conv.groups == 1 and FORM_OF_INTEGERS.fits(conv.in_c)
    )
    if not is_filtered or not region.is_packed or not multiplies_pairs(target) or target.npu.zero_point_bias:
        return []
    form, depth, columns = FORM_OF_INTEGERS, conv.in_c, -(-conv.out_c // target.nr) * target.nr
    tiles, block = form.tiles(conv.y.dims[0], *conv.y.dims[2:]), form.block(depth, target.big_core.l2_kib << 10)
    direct = {KernelClass.INTEGER: dim(2 * conv.pixels * columns * conv.taps * depth)}
    filtered = {
        KernelClass.INTEGER: form.products(tiles, depth, columns),
        KernelClass.TRANSFORM: form.transforms(tiles, depth, columns),
    }
    return [
        Candidate(Method.INDIRECT, direct, conv.taps * depth * columns),
        Candidate(Method.WINOGRAD, filtered, form.nbytes(depth, columns), form=form, block=block),
    ]


def multiplies_pairs(target: Target) -> bool:
    """Whether the fastest exact products of bytes are those of pairs of 16 bits: where there is a dot product of bytes,
    as many more of these take less time."""
    return all("avx2" in each.features and "avx512bw" not in each.features for each in target.variants)


def _filtered(conv: PackedConvolution, form: Form, target: Target, nr: int) -> Candidate:
    tiles, nbytes = form.tiles(conv.y.dims[0], *conv.y.dims[2:]), form.itemsize * form.side**2
    return replace(
        _winograd(Method.WINOGRAD, conv, form, tiles, nbytes, target, nr), is_exact=conv.in_c <= form.deepest
    )


def _winograd(
    method: Method, conv: PackedConvolution, form: Form | LineForm, tiles: Dim, nbytes: int, target: Target, nr: int
) -> Candidate:
    """Of ``nbytes`` for each channel of input and column, in panels of ``nr`` columns."""
    columns = -(-conv.out_c // nr) * nr
    operations = {
        KernelClass.WINOGRAD: form.products(tiles, conv.in_c, columns),
        KernelClass.TRANSFORM: form.transforms(tiles, conv.in_c, columns),
    }
    block = form.block(conv.in_c, target.big_core.l2_kib << 10)
    return Candidate(method, operations, nbytes * conv.in_c * columns, form=form, block=block)
