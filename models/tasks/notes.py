"""Notes in music with basic-pitch (Bittner et al., 2022, arXiv:2203.09893)."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

#: Samples a second, and samples that the network reads at once: two seconds less a hop.
RATE, WINDOW = 22050, 43844

#: The MIDI number of the lowest of the 88 keys; A4 is 69.
LOWEST_KEY = 21

#: The outputs by what they are: [windows, 172 frames, 88 keys], and three bins a key for contours.
NOTES, ONSETS, CONTOURS = "StatefulPartitionedCall:1", "StatefulPartitionedCall:2", "StatefulPartitionedCall:0"


def tone(keys: tuple[int, ...], harmonics: int = 5) -> Array:
    """Two seconds of a chord of MIDI keys, float32 [1, 43844, 1], from sines whose overtones fade."""
    time = np.arange(WINDOW) / RATE
    audio = np.zeros(WINDOW)
    for key in keys:
        frequency = 440 * 2 ** ((key - 69) / 12)
        for harmonic in range(1, harmonics + 1):
            audio += np.sin(2 * np.pi * frequency * harmonic * time) / harmonic**2
    audio *= 0.5 / np.abs(audio).max()
    return audio.astype(np.float32).reshape(1, WINDOW, 1)


def sounding(notes: Array, threshold: float = 0.3) -> list[int]:
    """MIDI keys that sound in at least half of the frames of the first window."""
    shares = (notes[0] > threshold).mean(0)
    return [LOWEST_KEY + int(key) for key in np.flatnonzero(shares >= 0.5)]
