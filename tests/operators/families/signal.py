"""Fourier transforms, framed ones, and windows."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from ..case import ONNX, ORT, Family
from ..graphs import Array, Graph
from ..graphs import Weight as W

FAMILY = Family("signal")
op = FAMILY.op

LOOSE = {"tolerance": 1e-5}
BY_ONNX = {"judges": (ONNX,), "because": "ONNX Runtime's angles are float32, or it lacks the form", **LOOSE}


def number(value: int) -> W:
    return W(np.array(value, np.int64))


def told(value: int) -> Array:
    """A number that only a run shows."""
    return np.array(value, np.int64)


# ---- DFT
for n in (1, 2, 5, 8, 60, 64, 129, 143):
    op(f"DFT of {n} real samples", "DFT", (2, n, 1), None, number(1), case=BY_ONNX)
    op(f"DFT of {n} complex samples", "DFT", (2, n, 2), None, number(1), case=BY_ONNX)
    op(f"DFT of {n}, one side", "DFT", (2, n, 1), None, number(1), onesided=1, case=BY_ONNX)
    op(f"DFT of {n}, inverse", "DFT", (2, n, 2), None, number(1), inverse=1, case=BY_ONNX)
    if n > 1:
        op(f"DFT of {n}, one side, inverse", "DFT", (2, n, 2), None, number(1), onesided=1, inverse=1, case=BY_ONNX)
        op(
            f"DFT to {n}, one side, inverse",
            "DFT",
            (2, 9, 2),
            number(n),
            number(1),
            onesided=1,
            inverse=1,
            case=BY_ONNX,
        )
for axis in (-2, -3, -4, 0, 2):
    op(f"DFT over axis {axis}", "DFT", (3, 4, 5, 2), None, number(axis), case=BY_ONNX)
op("DFT, default axis", "DFT", (3, 4, 1), case=BY_ONNX)
op("DFT, padded", "DFT", (2, 5, 1), number(8), number(1), case=BY_ONNX)
op("DFT, cut", "DFT", (2, 9, 2), number(4), number(1), case=BY_ONNX)
op("DFT, padded, one side", "DFT", (2, 5, 3, 1), number(7), number(1), onesided=1, case=BY_ONNX)
op("DFT, float64", "DFT", np.linspace(-1, 1, 24).reshape(2, 6, 2), None, number(1), case=BY_ONNX)
for name, n, axis in (("whole", None, 1), ("padded", 12, 1), ("cut", 3, 2), ("of one", 1, -2), ("front", 7, 0)):
    length = None if n is None else told(n)
    op(f"DFT as told, {name}", "DFT", (3, 9, 5, 2), length, told(axis), case=BY_ONNX)
    op(f"DFT as told, {name}, inverse", "DFT", (3, 9, 5, 2), length, told(axis), inverse=1, case=BY_ONNX)
    op(f"DFT as told, {name}, one side", "DFT", (3, 9, 5, 1), length, told(axis), onesided=1, case=BY_ONNX)
    op(
        f"DFT as told, {name}, one side, inverse",
        "DFT",
        (3, 9, 5, 2),
        length,
        told(axis),
        onesided=1,
        inverse=1,
        case=BY_ONNX,
    )
op("DFT to a length as told", "DFT", (2, 9, 2), told(11), number(1), case=BY_ONNX)
op("DFT, float64, as told", "DFT", np.linspace(-1, 1, 24).reshape(2, 6, 2), told(10), told(1), case=BY_ONNX)
op("DFT of many lines", "DFT", (3, 40, 17, 1), None, number(1), onesided=1, case=BY_ONNX)
FAMILY.graph("DFT of a length by shape", lambda g: by_shape(g), **BY_ONNX)


def by_shape(g: Graph) -> Any:
    """Zeros behind, up to twice as many samples."""
    x = g.input((2, 9, 1))
    return g("DFT", x, g("Mul", g("Squeeze", g("Shape", x, start=1, end=2)), number(2)), number(1))


# ---- STFT
HANN = np.hanning(17)[:16].astype(np.float32)
op("STFT", "STFT", (2, 64, 1), number(8), W(HANN), case=BY_ONNX)
op("STFT, both sides", "STFT", (2, 64, 1), number(8), W(HANN), number(16), onesided=0, case=BY_ONNX)
op("STFT without a window", "STFT", (1, 50, 1), number(7), None, number(12), case=BY_ONNX)
op("STFT of complex signals", "STFT", (2, 50, 2), number(7), None, number(12), onesided=0, case=BY_ONNX)
op("STFT of one frame", "STFT", (2, 16, 1), number(8), W(HANN), case=BY_ONNX)
op("STFT, steps as told", "STFT", (2, 64, 1), told(5), HANN, case=BY_ONNX)
op("STFT, steps and frames as told", "STFT", (2, 64, 1), told(3), None, told(15), case=BY_ONNX)
op("STFT, all as told", "STFT", (2, 64, 1), told(8), HANN, told(16), onesided=0, case=BY_ONNX)

# ---- windows
for name in ("HannWindow", "HammingWindow", "BlackmanWindow"):
    for periodic in (0, 1):
        op(f"{name}, periodic {periodic}", name, number(10), periodic=periodic, case=BY_ONNX)
        op(f"{name}, periodic {periodic}, as told", name, told(10), periodic=periodic, case=BY_ONNX)
op("HannWindow of one", "HannWindow", number(1), case=BY_ONNX)
op("HammingWindow of one", "HammingWindow", told(1), case=BY_ONNX)
op("HannWindow, float64", "HannWindow", number(7), output_datatype=TensorProto.DOUBLE, case=BY_ONNX)
op(
    "MelWeightMatrix",
    "MelWeightMatrix",
    *(number(8), number(64), number(16000), W(np.array(20, np.float32)), W(np.array(8000, np.float32))),
    case={"judges": (ORT,), "because": "rounded otherwise"},
)
op(
    "MelWeightMatrix as told",
    "MelWeightMatrix",
    *(told(8), told(64), told(16000), np.array(20, np.float32), np.array(8000, np.float32)),
    case={"judges": (ORT,), "because": "rounded otherwise"},
)
