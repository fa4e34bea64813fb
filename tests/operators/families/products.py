"""Gemm in all its forms, MatMul of all ranks."""

from __future__ import annotations

import numpy as np

from ..case import ONNX, Family
from ..graphs import Array
from ..graphs import Weight as W

FAMILY = Family("products")
op = FAMILY.op

# ---- Gemm: both transpositions, constant and computed B, every shape of C, alpha and beta
for trans_a in (0, 1):
    for trans_b in (0, 1):
        for kind in ("constant", "computed"):
            b = (9, 5) if trans_b else (5, 9)
            op(
                f"Gemm, transA {trans_a}, transB {trans_b}, {kind} B",
                "Gemm",
                (5, 7) if trans_a else (7, 5),
                W(b) if kind == "constant" else b,
                W((9,)),
                transA=trans_a,
                transB=trans_b,
                alpha=0.5,
                beta=2.0,
            )
for shape in ((), (1,), (9,), (1, 1), (1, 9), (7, 1), (7, 9)):
    text = "x".join(map(str, shape)) or "scalar"
    c = shape or np.array(0.5, np.float32)
    op(f"Gemm, C {text}", "Gemm", (7, 5), W((5, 9)), W(c), beta=-1.5)
    op(f"Gemm, computed C {text}", "Gemm", (7, 5), W((5, 9)), c, alpha=2.0)
op("Gemm without C", "Gemm", (3, 5), W((5, 18)), alpha=1.5)
op("Gemm, constant A", "Gemm", W((3, 5)), (5, 4), W((4,)))
op("Gemm of one row", "Gemm", (1, 33), W((33, 70)), W((70,)))
op("Gemm of one column", "Gemm", (13, 6), W((6, 1)), W((1,)))
op("Gemm of depth 1", "Gemm", (13, 1), W((1, 8)))
op("Gemm over several blocks of rows", "Gemm", (203, 7), W((7, 19)))
op("Gemm of great depth", "Gemm", (5, 1500), W((1500, 9)))

# ---- MatMul: ranks 1 to 4 on both sides, constant and computed, batches that broadcast
for left, right in (
    ((5,), (5,)),
    ((5,), (5, 3)),
    ((4, 5), (5,)),
    ((4, 5), (5, 3)),
    ((2, 4, 5), (5,)),
    ((5,), (2, 5, 3)),
    ((2, 4, 5), (5, 3)),
    ((4, 5), (2, 5, 3)),
    ((2, 4, 5), (2, 5, 3)),
    ((1, 4, 5), (2, 5, 3)),
    ((2, 4, 5), (1, 5, 3)),
    ((2, 3, 4, 5), (5, 9)),
    ((2, 3, 4, 5), (2, 3, 5, 9)),
    ((2, 3, 4, 5), (3, 5, 9)),
    ((2, 1, 4, 5), (1, 3, 5, 9)),
    ((3, 4, 5), (2, 1, 5, 9)),
    ((1, 1, 4, 5), (2, 3, 5, 17)),
    ((2, 3, 4, 5), (5,)),
):
    text = f"{'x'.join(map(str, left))} by {'x'.join(map(str, right))}"
    op(f"MatMul {text}", "MatMul", left, right)
    op(f"MatMul {text}, constant", "MatMul", left, W(right))
op("MatMul, constant at the left", "MatMul", W((4, 5)), (2, 5, 3))
op("MatMul, both sides alike", "MatMul", *[np.arange(16, dtype=np.float32).reshape(4, 4)] * 2)
op(
    "MatMul, infinities and NaN",
    "MatMul",
    np.array([[np.inf, 1, 2], [1, np.nan, 0], [1, 2, 3]], np.float32),
    W((3, 10)),
)


FAMILY.graph("MatMul of one tensor by itself", lambda g: g("MatMul", x := g.input((6, 6)), x))
op("MatMul, several blocks of each of a batch", "MatMul", (2, 130, 300), (2, 300, 50))
for rows in (1, 2, 3, 4, 6, 7, 13, 25):
    op(f"MatMul, {rows} rows, 21 columns", "MatMul", (rows, 11), W((11, 21)))

# ---- types without tuned kernels
BY_ONNX = {"judges": (ONNX,), "because": "ONNX Runtime lacks the type"}
for kind in (np.float64, np.int32, np.int64, np.uint32, np.uint64):
    text = np.dtype(kind).name

    def whole(*shape: int, kind: type = kind) -> Array:
        low = 0 if np.dtype(kind).kind == "u" else -9
        return (np.arange(int(np.prod(shape))) * 7 % 19 + low).astype(kind).reshape(shape)

    case = BY_ONNX
    FAMILY.op(f"MatMul, {text}", "MatMul", whole(7, 5), whole(5, 19), case=case)
    FAMILY.op(f"MatMul, {text}, constant", "MatMul", whole(2, 3, 5), W(whole(5, 8)), case=case)
    FAMILY.op(f"MatMul, {text}, batches", "MatMul", whole(2, 3, 4, 5), whole(2, 3, 5, 9), case=case)
    FAMILY.op(f"MatMul, {text}, batches broadcast", "MatMul", whole(2, 1, 4, 5), whole(3, 5, 9), case=case)
    FAMILY.op(f"MatMul, {text}, vectors", "MatMul", whole(5), whole(5), case=case)
    FAMILY.op(f"Gemm, {text}", "Gemm", whole(3, 5), whole(7, 5), whole(7), transB=1, case=case)
    FAMILY.op(
        f"Gemm, {text}, C added twice", "Gemm", whole(5, 3), W(whole(5, 7)), whole(3, 1), transA=1, beta=2.0, case=case
    )
    FAMILY.graph(
        f"MatMul, {text}, a chain behind",
        lambda g, whole=whole: g("Relu", g("Cast", g("MatMul", whole(3, 4), whole(4, 9)), to=1)),
        **case,
    )
    FAMILY.graph(
        f"MatMul, {text}, transposed",
        lambda g, whole=whole: g("MatMul", whole(2, 3, 4, 5), g("Transpose", whole(2, 3, 9, 5), perm=[0, 1, 3, 2])),
        **case,
    )
