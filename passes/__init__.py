"""The built-in passes; found through the entry-point group `mcpc.passes`."""

from mcpc.pipeline import Pass

from .compress import Compress
from .attention import FuseAttention
from .cse import CommonSubexpressions
from .dce import DeadCode
from .fold import Fold
from .fuse import Fuse
from .simplify import Simplify

#: Pass name -> class.
PASSES: dict[str, type[Pass]] = {
    cls.name: cls for cls in (Fold, Simplify, Compress, CommonSubexpressions, DeadCode, FuseAttention, Fuse)
}
