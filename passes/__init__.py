"""The built-in passes; found through the entry-point group `mcpc.passes`."""

from mcpc.halves import Widen
from mcpc.pipeline import Pass

from .attention import FuseAttention
from .compress import Compress
from .cse import CommonSubexpressions
from .dce import DeadCode
from .fold import Fold
from .fuse import Fuse
from .halve import Halve
from .integer import Integer
from .lookup import Lookup
from .narrow import Narrow
from .propagate import Propagate
from .quantize import Quantize
from .quantize_dynamic import QuantizeDynamic
from .quantize_weights import QuantizeWeights
from .requantize import Requantize
from .simplify import Simplify
from .smooth import Smooth

#: Pass name -> class.
PASSES: dict[str, type[Pass]] = {
    cls.name: cls
    for cls in (
        Fold,
        Simplify,
        Lookup,
        Narrow,
        Compress,
        CommonSubexpressions,
        DeadCode,
        Halve,
        Widen,
        Smooth,
        Quantize,
        QuantizeDynamic,
        QuantizeWeights,
        Propagate,
        Requantize,
        Integer,
        FuseAttention,
        Fuse,
    )
}
