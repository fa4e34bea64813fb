"""Input data for the sample models that means something to them."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

#: silero-vad: samples a second, new samples a call, and samples of the call before that it wants again.
VAD_RATE, VAD_HOP, VAD_CONTEXT = 16000, 512, 64


#: Of eight syllables the last two are silent.
SYLLABLES_A_SECOND, PHRASE, SPOKEN = 5, 8, 6


def speech(seconds: float, seed: int = 0) -> tuple[Array, Array]:
    """Speech-like audio, float32 [samples] in -1..1 at 16 kHz, and where it speaks, bool [samples].

    Syllables of a noise burst and a voiced vowel, in phrases with pauses between. Source and filter as in Fant,
    Acoustic Theory of Speech Production (1960): harmonics of a gliding pitch, weighted by their distance from
    three formants.
    """
    rng = np.random.default_rng(seed)
    time = np.arange(int(seconds * VAD_RATE)) / VAD_RATE
    at = time * SYLLABLES_A_SECOND

    def glide(low: float, high: float) -> Array:
        """A random value a syllable, held for 70 % of it, then blended smoothly into the next."""
        values = rng.uniform(low, high, int(seconds * SYLLABLES_A_SECOND) + 2)
        blend = np.clip((at % 1 - 0.7) / 0.3, 0, 1)
        blend = blend**2 * (3 - 2 * blend)
        index = at.astype(int)
        result: Array = values[index] * (1 - blend) + values[index + 1] * blend
        return result

    formants = [(glide(300, 800), 90, 1.0), (glide(900, 2300), 110, 0.5), (glide(2400, 3000), 150, 0.25)]
    pitch = glide(100, 160) * (1 + 0.02 * np.sin(2 * np.pi * 5 * time))
    phase = 2 * np.pi * np.cumsum(pitch) / VAD_RATE
    voice = np.zeros_like(time)
    for harmonic in range(1, 40):
        frequency = harmonic * pitch
        weight = sum(gain / (1 + ((frequency - centre) / width) ** 2) for centre, width, gain in formants)
        voice += weight * (frequency < VAD_RATE / 2) * np.sin(harmonic * phase)
    speaks = at % PHRASE < SPOKEN
    loudness = np.clip(at % 1 / 0.1, 0, 1) * np.clip((1 - at % 1) / 0.25, 0, 1)
    noise = rng.standard_normal(len(time))
    consonants = np.diff(noise, prepend=0) * np.exp(-(((at % 1 - 0.02) / 0.05) ** 2))
    audio = (0.6 * voice / np.abs(voice).max() * loudness + 0.1 * consonants) * speaks + 0.001 * noise
    return np.clip(audio, -1, 1).astype(np.float32), speaks


def vad_frames(audio: Array) -> Array:
    """Audio [samples] cut as silero-vad reads it: float32 [calls, 576], 64 samples of context before 512 new ones."""
    calls = len(audio) // VAD_HOP
    padded = np.concatenate([np.zeros(VAD_CONTEXT, np.float32), audio[: calls * VAD_HOP].astype(np.float32)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, VAD_CONTEXT + VAD_HOP)
    return windows[::VAD_HOP].copy()
