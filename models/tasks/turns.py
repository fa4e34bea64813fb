"""Has a speaker finished? smart-turn (Pipecat's smart-turn v3) reads the features of Whisper (Radford et al., 2022,
arXiv:2212.04356): the logarithm of the power in 80 mel bands, every 10 ms, over the last 8 seconds."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

RATE, SECONDS, BANDS = 16000, 8, 80

#: Samples of a frame, and between the beginnings of two.
FRAME, HOP = 400, 160


def features(audio: Array) -> Array:
    """Audio [samples] at 16 kHz as float32 [1, 80, 800]: its last 8 seconds, silence before it where it is shorter."""
    count = RATE * SECONDS
    samples = np.zeros(count, np.float32)
    recent = np.asarray(audio[-count:], np.float32)
    samples[count - len(recent) :] = recent
    samples = (samples - samples.mean()) / np.sqrt(samples.var() + 1e-7)

    padded = np.pad(samples.astype(np.float64), FRAME // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, FRAME)[::HOP][:-1]
    spectrum = np.abs(np.fft.rfft(frames * np.hanning(FRAME + 1)[:-1], axis=1)) ** 2
    loudness = np.log10(np.maximum(mel_filters() @ spectrum.T, 1e-10))
    loudness = np.maximum(loudness, loudness.max() - 8)
    scaled: Array = ((loudness + 4) / 4).astype(np.float32)
    return scaled[None]


def mel_filters() -> Array:
    """Triangles over the spectrum, float64 [80, 201], of equal area, evenly spaced on Slaney's mel scale.

    Slaney, Auditory Toolbox (1998): linear to 1 kHz, at 200 / 3 Hz a mel, then logarithmic, 27 mels for a factor 6.4.
    """
    step = np.log(6.4) / 27
    mels = np.linspace(0, 15 + np.log(RATE / 2 / 1000) / step, BANDS + 2)
    edges = np.where(mels < 15, mels * 200 / 3, 1000 * np.exp(step * (mels - 15)))[:, None]
    frequencies = np.linspace(0, RATE / 2, FRAME // 2 + 1)
    rising = (frequencies - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - frequencies) / (edges[2:] - edges[1:-1])
    filters: Array = np.maximum(0, np.minimum(rising, falling)) * 2 / (edges[2:] - edges[:-2])
    return filters
