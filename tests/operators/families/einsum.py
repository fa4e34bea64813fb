"""Einsum: everything that an equation may say."""

from __future__ import annotations

import numpy as np

from ..case import ONNX, Family
from ..graphs import Array
from ..graphs import Weight as W

FAMILY = Family("einsum")
#: An operand's shape where it is normally distributed.
Shape = tuple[int, ...]


def einsum(equation: str, *operands: Shape | Array | W, name: str = "", **case: object) -> None:
    FAMILY.op(name or equation, "Einsum", *operands, equation=equation, case={"tolerance": 1e-5, **case})


# ---- one operand
einsum("ij->ji", (3, 5))
einsum("ijk->kij", (2, 3, 4))
einsum("ij->", (3, 5))
einsum("ijk->j", (2, 3, 4))
einsum("ii", (4, 4))
einsum("ii->i", (4, 4))
einsum("bii->b", (2, 3, 3))
einsum("ibi->bi", (3, 2, 3))
einsum("iijj->ij", (2, 2, 3, 3))
einsum("iii->i", (3, 3, 3))
einsum("...ij->...ji", (2, 3, 4, 5))
einsum("...->...", (2, 3))
einsum("i...->...", (4, 2, 3))
einsum("...ii->...", (2, 4, 3, 3))
einsum("ba", (3, 5), name="ba, sorted")

# ---- two operands
einsum("ij,jk->ik", (3, 4), (4, 5))
einsum("ij,jk", (3, 4), (4, 5))
einsum("ij,kj->ik", (3, 4), (5, 4))
einsum("ji,jk->ki", (4, 3), (4, 5))
einsum("ij,jk->ik", (3, 4), W((4, 5)), name="ij,jk->ik, constant")
einsum("i,j->ij", (3,), (5,))
einsum("i,i->", (5,), (5,))
einsum("ij,ij->ij", (3, 5), (3, 5))
einsum("ij,ij->i", (3, 5), (3, 5))
einsum("ij,j->i", (3, 5), (5,))
einsum("ij,i->ji", (3, 5), (3,))
einsum("bij,bjk->bik", (2, 3, 4), (2, 4, 5))
einsum("bij,bkj->bik", (2, 3, 4), (2, 5, 4))
einsum("bhid,bhjd->bhij", (2, 2, 3, 4), (2, 2, 5, 4))
einsum("bihd,bjhd->bhij", (2, 3, 2, 4), (2, 5, 2, 4))
einsum("bhij,bjhd->bihd", (2, 2, 3, 5), (2, 5, 2, 4))
einsum("abcd,dcef->abef", (2, 3, 4, 5), (5, 4, 2, 3))
einsum("abc,cd->abd", (2, 3, 4), W((4, 5)))
einsum("bnd,de->bne", (2, 3, 4), (4, 5))
einsum("ij,kl->", (2, 3), (3, 2))
einsum("ij,kl->jk", (2, 3), (4, 2))
einsum("ij,jk->k", (3, 4), (4, 5))
einsum("ij,jj->i", (3, 4), (4, 4))
einsum("ncthw,cd->ndthw", (1, 3, 2, 4, 5), (3, 6))

# ---- ellipses
einsum("...ij,...jk->...ik", (2, 3, 4, 5), (2, 3, 5, 6))
einsum("...ij,...jk->...ik", (3, 4, 5), (1, 5, 6), name="...ij,...jk->...ik, broadcast")
einsum("...ij,jk->...ik", (2, 3, 4), (4, 5))
einsum("i...,i...->...", (3, 2), (3, 2))
einsum("...i,...i", (2, 3), (2, 3))
einsum("...,...->...", (2, 3), (1, 3))
einsum("b...d,de->b...e", (2, 3, 2, 4), (4, 5))

# ---- several operands
einsum("i,j,k->ijk", (2,), (3,), (4,))
einsum("ij,jk,kl->il", (2, 3), (3, 4), (4, 5))
einsum("bij,bjk,k->bi", (2, 3, 4), (2, 4, 5), (5,))
einsum("ij,ik,il->jkl", (2, 3), (2, 4), (2, 5))
einsum("a,ab,abc->abc", (2,), (2, 3), (2, 3, 4))
einsum("ij,jk,ik->", (2, 3), (3, 4), (2, 4))

# ---- the odd ones
einsum(" i j , j k -> i k ", (3, 4), (4, 5), name="spaces")
einsum("Aa,aB->AB", (3, 4), (4, 5))
einsum(",ij->ij", np.array(3, np.float32), (2, 3))
einsum("ij,jk->ik", np.zeros((0, 4), np.float32), (4, 5), name="no row")
einsum("ij,jk->ik", np.zeros((3, 0), np.float32), np.zeros((0, 5), np.float32), name="nothing to sum")
DOUBLES = np.linspace(-2, 2, 12).reshape(3, 4)
einsum("ij,kj->ik", DOUBLES, DOUBLES, name="float64")
INTEGERS = np.arange(12).reshape(3, 4)
einsum("ij,kj->ik", INTEGERS, INTEGERS, name="int64", judges=(ONNX,), because="ONNX Runtime lacks the type")
