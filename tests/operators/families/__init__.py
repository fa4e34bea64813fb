"""All cases, a module a theme."""

from ..case import Family
from . import (
    convolution,
    elementwise,
    empty,
    epilogues,
    layouts,
    movement,
    normalization,
    pooling,
    products,
    recurrent,
    reductions,
    resizing,
    storage,
)

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        convolution.FAMILY,
        convolution.ONE_AXIS,
        products.FAMILY,
        pooling.FAMILY,
        elementwise.FAMILY,
        reductions.FAMILY,
        resizing.FAMILY,
        normalization.FAMILY,
        recurrent.FAMILY,
        movement.FAMILY,
        layouts.FAMILY,
        epilogues.FAMILY,
        storage.FAMILY,
        empty.FAMILY,
    )
}
