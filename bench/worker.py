"""A contestant in a process of its own, so that its threads, its memory and its environment are nobody else's.

    python bench/worker.py prepare NAME MODEL.onnx FEEDS.npz FOLDER
    python bench/worker.py run NAME PREPARED THREADS FEEDS.npz

The first prints the prepared file, the second answers commands, a line each: JSON on one line, ``{"error": ...}`` where
the contestant cannot do it.

    start         load and run once: milliseconds of both
    turn MS       run for MS milliseconds, three times at least, after one that is not counted: milliseconds of each
    version       of the runtime's package
    memory        the most that the process has had resident, MiB
    outputs FILE  store the results as .npz
"""

from __future__ import annotations

import json
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from contestants import CONTESTANTS, Feeds, quiet_output


def _since(began: float) -> float:
    return (time.perf_counter() - began) * 1e3


class Worker:
    def __init__(self, name: str, prepared: Path, threads: int, feeds: Feeds) -> None:
        self._name = name
        self._start = lambda: CONTESTANTS[name](prepared, threads, feeds)
        self._session: Any = None

    def start(self) -> dict[str, float]:
        if hasattr(self._session, "close"):
            self._session.close()
        self._session = None  # or the next one's start would pay for its end
        began = time.perf_counter()
        self._session = self._start()
        loaded = _since(began)
        self._session.run()
        return {"load_ms": loaded, "first_ms": _since(began) - loaded}

    def turn(self, milliseconds: str) -> list[float]:
        self._session.run()
        times: list[float] = []
        while len(times) < 3 or sum(times) < float(milliseconds):
            began = time.perf_counter()
            self._session.run()
            times.append(_since(began))
        return times

    def memory(self) -> float:
        # Not getrusage: what it tells begins with the memory of the process that started this one.
        status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        return int(status["VmHWM"].split()[0]) / 1024

    def version(self) -> str:
        return version(self._name)

    def outputs(self, file: str) -> None:
        np.savez(file, *self._session.run())


def main() -> None:
    action, name, model, *rest = sys.argv[1:]
    with quiet_output() as answers:
        if action == "prepare":
            feeds, folder = dict(np.load(rest[0])), Path(rest[1])
            try:
                answer: Any = str(CONTESTANTS[name].prepare(Path(model), feeds, folder))
            except Exception as error:  # each runtime has exceptions of its own
                answer = {"error": _describe(error)}
            print(json.dumps(answer), file=answers, flush=True)
            return
        worker = Worker(name, Path(model), int(rest[0]), dict(np.load(rest[1])))
        for line in sys.stdin:
            command, *words = line.split()
            try:
                answer = getattr(worker, command)(*words)
            except Exception as error:
                answer = {"error": _describe(error)}
            print(json.dumps(answer), file=answers, flush=True)


def _describe(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError):
        return f"{error.name} is not installed"
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


if __name__ == "__main__":
    main()
