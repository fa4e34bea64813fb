"""Notes in music with basic-pitch (Bittner et al., 2022, arXiv:2203.09893)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

#: Samples a second, and samples that the network reads at once: two seconds less a hop.
RATE, WINDOW = 22050, 43844

#: Samples between the beginnings of two frames of an output.
HOP = 256

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


@dataclass(frozen=True)
class Note:
    """A MIDI key from ``onset`` to ``end``, in seconds."""

    key: int
    onset: float
    end: float


def played(score: Sequence[Note], harmonics: int = 5) -> Array:
    """Notes of a plucked string, float32 [1, 43844, 1]: overtones that fade the sooner the higher they are, for two
    seconds at most."""
    time = np.arange(WINDOW) / RATE
    audio = np.zeros(WINDOW)
    for note in score:
        frequency = 440 * 2 ** ((note.key - 69) / 12)
        since = np.maximum(time - note.onset, 0)
        loudness = np.clip(since / 0.005, 0, 1) * np.clip((note.end - time) / 0.02, 0, 1)
        for harmonic in range(1, harmonics + 1):
            fading = np.exp(-since * harmonic) / harmonic**1.5
            audio += loudness * fading * np.sin(2 * np.pi * frequency * harmonic * since)
    audio *= 0.5 / max(np.abs(audio).max(), 1e-9)
    return audio.astype(np.float32).reshape(1, WINDOW, 1)


def heard(notes: Array, onsets: Array, onset: float = 0.5, threshold: float = 0.3, frames: int = 11) -> list[Note]:
    """The notes of the first window, by key and time. As in the paper's post-processing one begins where the onset is
    likeliest and likelier than ``onset``; it lasts while its key is likelier than ``threshold``, or until the next
    begins, for ``frames`` at least."""
    result = []
    for key in range(notes.shape[2]):
        likely = np.pad(onsets[0, :, key], 1)
        is_peak = (likely[1:-1] >= likely[:-2]) & (likely[1:-1] > likely[2:]) & (likely[1:-1] > onset)
        begins = np.flatnonzero(is_peak)
        silent = np.append(np.flatnonzero(notes[0, :, key] <= threshold), notes.shape[1])
        for begin in begins:
            limit = begins[begins > begin].min(initial=notes.shape[1])
            end = min(int(silent[np.searchsorted(silent, begin + 1)]), int(limit))
            if end - begin >= frames:
                result.append(Note(LOWEST_KEY + key, int(begin) * HOP / RATE, end * HOP / RATE))
    return result
