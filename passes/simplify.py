"""The same computation by fewer and cheaper operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mcpc.ir import Graph
from mcpc.pipeline import Pass, PassContext
from mcpc.rewrite import apply_rules

from .rules import (
    activations,
    affine,
    arithmetic,
    concats,
    noops,
    normalization,
    pads,
    products,
    reshapes,
    rotary,
    slices,
    transposes,
)

#: Every rule. Where several look at an operator, the first that applies wins.
RULES = (
    noops.drop_identity,
    noops.drop_dropout,
    noops.drop_cast_to_same_type,
    noops.merge_cast_after_widening,
    noops.drop_shape_operator_to_same_type,
    noops.drop_tile_by_one,
    noops.drop_pad_by_nothing,
    noops.drop_slice_of_everything,
    noops.shorten_concat,
    noops.drop_operator_of_one,
    noops.drop_neutral_operand,
    noops.drop_double_inverse,
    noops.reshape_instead_of_reducing_one,
    reshapes.softmax_without_flattening,
    reshapes.merge_reshapes,
    transposes.merge_transposes,
    transposes.reshape_instead_of_moving_ones,
    transposes.cancel_transposes_around_elementwise,
    transposes.read_transposed_operand,
    transposes.transpose_without_merging_batches,
    transposes.drop_ones_before_transposing,
    affine.fold_batch_normalization,
    affine.split_batch_normalization,
    affine.fold_constant_into_bias,
    affine.fold_constant_into_weights,
    affine.merge_matmul_and_add,
    affine.merge_constants,
    pads.merge_pad_into_conv,
    pads.merge_pad_into_average_pool,
    pads.merge_pad_into_max_pool,
    concats.merge_concats,
    concats.join_split_parts,
    slices.merge_slices,
    slices.slice_instead_of_gathering_neighbours,
    products.multiply_by_part,
    rotary.rotate_in_one,
    normalization.normalize_in_one,
    normalization.normalize_in_the_form_of_batches,
    normalization.scale_in_normalization,
    normalization.shift_in_normalization,
    activations.gelu_in_one,
    arithmetic.replace_power,
    arithmetic.merge_bounds,
    arithmetic.pool_instead_of_reducing,
    arithmetic.pool_globally,
)


@dataclass(frozen=True)
class Simplify(Pass):
    """Applies :data:`RULES` until none applies; one decision a rule says how often it did."""

    name: ClassVar[str] = "simplify"

    def __call__(self, graph: Graph, ctx: PassContext) -> Graph:
        for rule, count in sorted(apply_rules(graph, RULES).items()):
            ctx.decide(rule, "apply", "same result by less", times=count)
        return graph
