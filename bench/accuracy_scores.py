"""How good answers are, all in percent, and what of it a quantised network may lose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Measure:
    """``score`` rates answers, one a sample, given those of the float32 network. A quantised network should have
    ``least`` at least, or lose no more than ``drop`` points against the float32 network; where both are None, it only
    tells."""

    name: str
    score: Callable[[Sequence[Any], Sequence[Any]], float]
    least: float | None = None
    drop: float | None = None

    def is_met(self, score: float, reference: float) -> bool:
        """Whether a score is good enough; ``reference`` is that of the float32 network."""
        least = self.least if self.least is not None else -np.inf
        if self.drop is not None:
            least = max(least, reference - self.drop)
        return score >= least - 1e-9

    @property
    def goal(self) -> str:
        """What is wanted, in words; empty where nothing is."""
        if self.least is not None:
            return f"≥ {self.least:g}"
        return f"drop ≤ {self.drop:g}" if self.drop is not None else ""


def agreement(answers: Sequence[Any], wanted: Sequence[Any]) -> float:
    """The share of equal answers."""
    return 100 * float(np.mean([a == b for a, b in zip(answers, wanted, strict=True)]))


def character_accuracy(texts: Sequence[str], wanted: Sequence[str]) -> float:
    """1 - edit distance / length, over all texts together, blanks left out on both sides."""
    pairs = [("".join(a.split()), "".join(b.split())) for a, b in zip(texts, wanted, strict=True)]
    return 100 * (1 - sum(edit_distance(a, b) for a, b in pairs) / sum(len(b) for _, b in pairs))


def edit_distance(a: str, b: str) -> int:
    """Characters to insert, delete or replace (Levenshtein, 1966)."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        above, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            above, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, above + (x != y))
    return row[-1]


def f_measure(
    found: Sequence[Sequence[Any]], wanted: Sequence[Sequence[Any]], matches: Callable[[Any, Any], bool]
) -> float:
    """Of what was found in all samples together: the harmonic mean of the shares that are right and that were found.
    Each thing matches one at most, the first in its sample that is left."""
    hits = total = 0
    for those, these in zip(found, wanted, strict=True):
        left = list(these)
        total += len(those) + len(these)
        for each in those:
            at = next((index for index, other in enumerate(left) if matches(each, other)), None)
            if at is not None:
                hits += 1
                del left[at]
    return 200 * hits / total if total else 100.0


def cosine(vectors: Sequence[Array], wanted: Sequence[Array]) -> float:
    """The mean cosine of vectors of length 1."""
    return 100 * float(np.mean([np.dot(a, b) for a, b in zip(vectors, wanted, strict=True)]))


def same_nearest(vectors: Sequence[Array], wanted: Sequence[Array]) -> float:
    """The share of vectors of length 1 whose nearest other one is the same in both lists."""
    return agreement(*(list(_nearest(np.stack(each))) for each in (vectors, wanted)))


def _nearest(vectors: Array) -> Array:
    similarity = vectors @ vectors.T
    np.fill_diagonal(similarity, -np.inf)
    nearest: Array = similarity.argmax(1)
    return nearest
