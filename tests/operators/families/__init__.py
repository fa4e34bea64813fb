"""All cases, a module a theme."""

from ..case import Family
from . import (
    attention,
    contrib,
    contrib_quantized,
    convolution,
    einsum,
    elementwise,
    empty,
    epilogues,
    indexing,
    layouts,
    movement,
    normalization,
    pooling,
    products,
    quantize,
    recurrent,
    reductions,
    resizing,
    searching,
    selection,
    storage,
    transposed,
    vision,
)

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        convolution.FAMILY,
        convolution.ONE_AXIS,
        transposed.FAMILY,
        products.FAMILY,
        einsum.FAMILY,
        pooling.FAMILY,
        elementwise.FAMILY,
        reductions.FAMILY,
        resizing.FAMILY,
        vision.FAMILY,
        normalization.FAMILY,
        attention.FAMILY,
        contrib.FAMILY,
        contrib_quantized.FAMILY,
        recurrent.FAMILY,
        movement.FAMILY,
        indexing.FAMILY,
        searching.FAMILY,
        selection.FAMILY,
        layouts.FAMILY,
        epilogues.FAMILY,
        quantize.FAMILY,
        quantize.STORED,
        storage.FAMILY,
        empty.FAMILY,
    )
}
