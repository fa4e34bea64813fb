"""Where buffers lie in the arena: planned at compile time where their sizes have limits, else by the plan entry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mcpc._schema import BufferT
from mcpc.dim_range import MOST_BYTES, largest
from mcpc.ir import Dim, SizeBound, dim, names_of, symbol

from . import memory_plan
from .address import Address
from .storage import Buffer


class Arena:
    """The places of ``buffers``. Where every symbol in their sizes has a limit in ``bounds``, each buffer gets room for
    its largest size at a fixed place, and running allocates nothing. Otherwise (``is_dynamic``) generated code plans
    the places for the sizes of a run with the same best-fit method, see plan.h."""

    def __init__(self, buffers: Sequence[Buffer], bounds: Mapping[str, SizeBound]) -> None:
        self.buffers = buffers
        self._index = {id(buffer): index for index, buffer in enumerate(buffers)}
        unlimited = {
            name
            for name in names_of(size for buffer in buffers for size in buffer.sizes)
            if largest(symbol(name), bounds) is None
        }
        limits = [
            None if unlimited & set(names_of(buffer.sizes)) else largest(buffer.nbytes, bounds) for buffer in buffers
        ]
        fixed = [limit for limit in limits if limit is not None and limit <= MOST_BYTES]
        self.is_dynamic = len(fixed) < len(buffers)
        lifetimes = [memory_plan.Lifetime(limit, b.first, b.last) for limit, b in zip(fixed, buffers, strict=False)]
        self._plan = memory_plan.plan([] if self.is_dynamic else lifetimes)
        self._limits = fixed

    @property
    def nbytes(self) -> int:
        """What a session allocates when it is made."""
        return self._plan.arena

    @property
    def live_set(self) -> int:
        return self._plan.live_set

    @property
    def offset_count(self) -> int:
        """Entries of env->offsets: per buffer its place, its size, and its position in the order of places."""
        return 3 * len(self.buffers) if self.is_dynamic else 0

    def address(self, buffer: Buffer, within: Dim) -> Address:
        index = self._index[id(buffer)]
        if self.is_dynamic:
            return Address("planned", index, within)
        return Address("arena", -1, dim(self._plan.offsets[index] + within))

    def records(self) -> list[BufferT]:
        """The plan, for people."""
        if self.is_dynamic:
            return []
        places = zip(self.buffers, self._plan.offsets, self._limits, strict=True)
        return [BufferT(buffer.name, offset, limit, buffer.first, buffer.last) for buffer, offset, limit in places]
