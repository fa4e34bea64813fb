"""How each operator becomes a kernel: one function an operator, registered by name.

An emitter gets a :class:`~mcpc.targets.native.kernel.KernelBuilder` for a region whose anchor is its operator and
adds the call of a kernel header. It raises ModelError E102 for a form it does not take; :func:`refusal` asks
beforehand."""

from . import (
    attention,
    channels,
    deform,
    detect,
    elementwise,
    index,
    integer,
    linear,
    move,
    normalize,
    quantize,
    random,
    recurrent,
    reduce,
    resize,
    scan,
    search,
    select,
    signal,
    sizes,
    spatial,
    state,
    vision,
    windows,
)
from .move import copy_step
from .registry import emit, emit_sizes, emitters, in_place, known_contents, refusal

__all__ = [
    "attention",
    "channels",
    "copy_step",
    "deform",
    "detect",
    "elementwise",
    "emit",
    "emit_sizes",
    "emitters",
    "in_place",
    "index",
    "integer",
    "known_contents",
    "linear",
    "move",
    "normalize",
    "quantize",
    "random",
    "recurrent",
    "reduce",
    "refusal",
    "resize",
    "scan",
    "search",
    "select",
    "signal",
    "sizes",
    "spatial",
    "state",
    "vision",
    "windows",
]
