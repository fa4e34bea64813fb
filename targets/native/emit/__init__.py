"""How each operator becomes a kernel: one function an operator, registered by name.

An emitter gets a :class:`~mcpc.targets.native.kernel.KernelBuilder` for a region whose anchor is its operator and
adds the call of a kernel header. It raises ModelError E102 for a form it does not take; :func:`refusal` asks
beforehand."""

from . import elementwise, linear, move, recurrent, reduce, spatial
from .move import copy_step
from .registry import emit, emitters, in_place, refusal

__all__ = [
    "copy_step",
    "elementwise",
    "emit",
    "emitters",
    "in_place",
    "linear",
    "move",
    "recurrent",
    "reduce",
    "refusal",
    "spatial",
]
