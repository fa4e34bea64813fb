"""Fourier transforms, framed ones, and windows."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from ..case import ONNX, ORT, Family
from ..graphs import Weight as W

FAMILY = Family("signal")
op = FAMILY.op

LOOSE = {"tolerance": 1e-5}
BY_ONNX = {"judges": (ONNX,), "because": "ONNX Runtime's angles are float32, or it lacks the form", **LOOSE}


def number(value: int) -> W:
    return W(np.array(value, np.int64))


# ---- DFT
for n in (1, 2, 5, 8, 60, 129):
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

# ---- STFT
HANN = np.hanning(17)[:16].astype(np.float32)
op("STFT", "STFT", (2, 64, 1), number(8), W(HANN), case=BY_ONNX)
op("STFT, both sides", "STFT", (2, 64, 1), number(8), W(HANN), number(16), onesided=0, case=BY_ONNX)
op("STFT without a window", "STFT", (1, 50, 1), number(7), None, number(12), case=BY_ONNX)

# ---- windows
for name in ("HannWindow", "HammingWindow", "BlackmanWindow"):
    for periodic in (0, 1):
        op(f"{name}, periodic {periodic}", name, number(10), periodic=periodic, case=BY_ONNX)
op("HannWindow, float64", "HannWindow", number(7), output_datatype=TensorProto.DOUBLE, case=BY_ONNX)
op(
    "MelWeightMatrix",
    "MelWeightMatrix",
    *(number(8), number(64), number(16000), W(np.array(20, np.float32)), W(np.array(8000, np.float32))),
    case={"judges": (ORT,), "because": "rounded otherwise"},
)
