"""The demonstration: compile a real network for this machine, put real data through it, compare with ONNX Runtime."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mcpc.benchmark import Timing, onnxruntime_session, take_turns

#: What :func:`mcpc.compile` reports while it works.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Report:
    """One model's results. ``answers`` says what the data showed; times in milliseconds, one thread."""

    name: str
    task: str
    model: Path
    artifact: Path
    compile_seconds: float
    answers: str
    max_difference: float
    latency: dict[str, Timing]
    open: dict[str, Timing]

    @property
    def model_bytes(self) -> int:
        return self.model.stat().st_size

    @property
    def artifact_bytes(self) -> int:
        return self.artifact.stat().st_size

    def to_json(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "model": str(self.model),
            "artifact": str(self.artifact),
            "model_bytes": self.model_bytes,
            "artifact_bytes": self.artifact_bytes,
            "latency": {name: timing.to_json() for name, timing in self.latency.items()},
            "open": {name: timing.to_json() for name, timing in self.open.items()},
        }


def digits(folder: Path, progress: Progress) -> Report:
    """The bundled network on the images of scikit-learn's digits that its training never saw."""
    from mcpc.loader import load
    from mcpc.models.digits import MODEL, held_out

    artifact, seconds = _compile(MODEL, folder / "digits.mcp26bin", progress)
    images, labels = held_out()
    feeds = [{"image": image[None]} for image in images]
    with load(artifact, threads=1) as session:
        judge = onnxruntime_session(MODEL, 1)
        ours = np.concatenate([session.run(None, feed)[0] for feed in feeds])
        theirs = np.concatenate([judge.run(None, feed)[0] for feed in feeds])
        latency = take_turns(
            {"mcpc": lambda: session.run(None, feeds[0]), "onnxruntime": lambda: judge.run(None, feeds[0])}
        )
    accuracy, reference = (float((each.argmax(1) == labels).mean()) for each in (ours, theirs))
    return Report(
        name="digits",
        task=f"read {len(labels)} handwritten digits that training never saw",
        model=MODEL,
        artifact=artifact,
        compile_seconds=seconds,
        answers=f"{accuracy:.2%} right (ONNX Runtime {reference:.2%})",
        max_difference=float(np.abs(ours - theirs).max()),
        latency=latency,
        open=_time_opening(MODEL, artifact),
    )


def voice_activity(model: Path, folder: Path, progress: Progress) -> Report:
    """silero-vad, the zoo's file ``model``, on five seconds of synthetic speech, its state fed back call by call."""
    from mcpc.loader import load
    from mcpc.models import inputs

    artifact, seconds = _compile(model, folder / "silero-vad.mcp26bin", progress)
    audio, speaks = inputs.speech(5)
    frames = inputs.vad_frames(audio)
    truth = speaks[: len(frames) * inputs.VAD_HOP : inputs.VAD_HOP]

    def listen(run: Callable[[None, dict[str, Any]], list[Any]]) -> Any:
        """The probability of speech in each frame."""
        state, result = np.zeros((2, 1, 128), np.float32), []
        for frame in frames:
            probability, state = run(None, {"input": frame[None], "state": state})
            result.append(float(probability[0, 0]))
        return np.array(result)

    feed = {"input": frames[0][None], "state": np.zeros((2, 1, 128), np.float32)}
    with load(artifact, threads=1) as session:
        judge = onnxruntime_session(model, 1)
        ours, theirs = listen(session.run), listen(judge.run)
        latency = take_turns({"mcpc": lambda: session.run(None, feed), "onnxruntime": lambda: judge.run(None, feed)})
    right, reference = (float(((each > 0.5) == truth).mean()) for each in (ours, theirs))
    return Report(
        name="silero-vad",
        task=f"find the speech in {len(frames)} frames of 32 ms of synthetic audio",
        model=model,
        artifact=artifact,
        compile_seconds=seconds,
        answers=f"{right:.1%} of the frames right (ONNX Runtime {reference:.1%})",
        max_difference=float(np.abs(ours - theirs).max()),
        latency=latency,
        open=_time_opening(model, artifact),
    )


def _compile(model: Path, output: Path, progress: Progress) -> tuple[Path, float]:
    from mcpc.compiler import compile as compile_model

    began = time.perf_counter()
    path = compile_model(model, "host", output, progress=progress)
    return path, time.perf_counter() - began


def _time_opening(model: Path, artifact: Path) -> dict[str, Timing]:
    from mcpc.loader import load

    return take_turns(
        {"mcpc": lambda: load(artifact, threads=1).close(), "onnxruntime": lambda: onnxruntime_session(model, 1)},
        rounds=3,
        turn_ms=50,
    )
