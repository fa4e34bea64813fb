"""The kinds of kernels that targets state a rate for."""

from __future__ import annotations

from enum import StrEnum


class KernelClass(StrEnum):
    """What a kernel does, as far as its speed depends on it. A rate is in 1e9 operations a second on one core; an
    operation is what :class:`mcpc.ops.Cost` counts (a multiply-add is two), of ``MOVE`` and
    ``FAR_MOVE`` an element that is written."""

    #: Products with packed weights, of more rows than a few.
    GEMM = "gemm"
    #: Products with packed weights of so few rows that each weight is used a few times only.
    GEMV = "gemv"
    #: Products of two activations.
    MATMUL = "matmul"
    #: Convolutions as products whose rows are gathered by pointers.
    CONV = "conv"
    #: Convolutions of row-major images with few channels.
    CONV_PLANAR = "conv_planar"
    DEPTHWISE = "depthwise"
    #: The products of a Winograd convolution, as they are executed.
    WINOGRAD = "winograd"
    #: The transforms of a Winograd convolution.
    TRANSFORM = "transform"
    #: Products of integers of 8 bits.
    INTEGER = "integer"
    ATTENTION = "attention"
    RECURRENT = "recurrent"
    POOL = "pool"
    #: Reductions, Softmax and normalizations.
    REDUCE = "reduce"
    ELEMENTWISE = "elementwise"
    #: Copies in another order: transposes, gathers, resizes.
    MOVE = "move"
    #: Copies whose results the second cache does not hold: lines that are written must come and go.
    FAR_MOVE = "far_move"
    #: What goes element by element, with decisions between.
    SCALAR = "scalar"
