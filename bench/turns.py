"""Contestants in processes of their own, timed in turns (A B A B …), so that all meet the same disturbances."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mcpc.benchmark import Timing

WORKER = str(Path(__file__).with_name("worker.py"))

#: Some tools of runtimes call pip: it must find nothing to install.
ENVIRONMENT = {**os.environ, "PIP_NO_INDEX": "1"}
Array = np.ndarray[Any, Any]


class Unable(Exception):
    """A contestant cannot run this model; the text says why."""


def prepare(python: str, name: str, model: Path, feeds: Path, folder: Path) -> Path:
    """The file that contestant ``name`` runs, made of ``model`` by the tools in ``python``'s environment."""
    command = [python, WORKER, "prepare", name, str(model), str(feeds), str(folder)]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False, env=ENVIRONMENT
    )
    return Path(_answer(done.stdout))


class Contestant:
    """A worker process (worker.py)."""

    def __init__(self, python: str, name: str, prepared: Path, threads: int, feeds: Path) -> None:
        command = [python, WORKER, "run", name, str(prepared), str(threads), str(feeds)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=ENVIRONMENT,
        )

    def __call__(self, *words: object) -> Any:
        assert self._process.stdin and self._process.stdout
        try:
            self._process.stdin.write(" ".join(map(str, words)) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise Unable("the process ended") from None
        return _answer(self._process.stdout.readline())

    def outputs(self, file: Path) -> list[Array]:
        self("outputs", file)
        with np.load(file) as stored:
            return [stored[f"arr_{index}"] for index in range(len(stored.files))]

    def __enter__(self) -> Contestant:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


@dataclass(frozen=True)
class Starts:
    """Median milliseconds to load, and of the first run after it."""

    load: float
    first: float


def take_turns(contestants: Mapping[str, Contestant], rounds: int, turn_ms: float = 150) -> dict[str, Timing]:
    """Milliseconds of steady runs."""
    times: dict[str, list[list[float]]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, contestant in contestants.items():
            times[name].append(contestant("turn", turn_ms))
    return {name: Timing.of(turns) for name, turns in times.items()}


def take_starts(contestants: Mapping[str, Contestant], rounds: int) -> dict[str, Starts]:
    """How long contestants take to be ready again."""
    starts: dict[str, list[dict[str, float]]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, contestant in contestants.items():
            starts[name].append(contestant("start"))
    return {
        name: Starts(*(statistics.median(each[key] for each in taken) for key in ("load_ms", "first_ms")))
        for name, taken in starts.items()
    }


def _answer(line: str) -> Any:
    if not line.strip():
        raise Unable("the process ended")
    answer = json.loads(line.splitlines()[-1])
    if isinstance(answer, dict) and "error" in answer:
        raise Unable(answer["error"])
    return answer
