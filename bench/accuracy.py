"""What quantised networks lose of the accuracy of float32, on real tasks, and write the tables of bench/results.

    python bench/accuracy.py [--tasks magika,digits] [--runners 'mcpc int8;onnxruntime int8'] [--method minmax]
                             [--seed 27] [--name accuracy-NAME] [--json]

Tasks and goals are in accuracy_tasks.py, runners in accuracy_runners.py. All get the same samples: some for
calibration, others for evaluation, of which nobody but the measures knows what is true. ONNX Runtime quantises all
operators that it can, or just products. "--smooth" scales channels first; its method and float layers are the task's,
chosen by scores on the samples of another seed. "auto" chooses layers by one rule for all tasks, on the calibration.
"exact" is a quantised network as it is written, without optimisations; with them processors that have no VNNI add pairs
of products with saturation, for which it advises weights of 7 bits.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
import time
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any

from accuracy_runners import METHODS, REFERENCE, RUNNERS, Work, reference
from accuracy_tasks import CHOSEN_BY, PLANS, Task
from report import table_head, table_row

from mcpc import processor

RESULTS = Path(__file__).parent / "results"


def evaluate(name: str, task: Task, runners: list[str], method: str) -> dict[str, Any]:
    """The scores of one task by measure and runner, and why runners have none."""
    say = Progress(name)
    scores: dict[str, dict[str, float]] = {measure.name: {} for measure in task.measures}
    unable: dict[str, str] = {}
    seconds: dict[str, float] = {}
    products: dict[str, dict[str, int]] = {}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        judge = reference(task.model)
        say("calibration")
        work = Work(task, task.complete(judge), method, Path(folder), stack)
        wanted: list[Any] = []
        for runner in (REFERENCE, *(each for each in runners if each != REFERENCE)):
            began = time.perf_counter()
            say(f"{runner}: prepare")
            try:
                network = RUNNERS[runner](work)
                answers = []
                for answer in task.answers(network.run):
                    answers.append(answer)
                    say(f"{runner}: {len(answers)} of {len(task.evaluation)}")
            except Exception as error:  # a runner that fails must not end the others; ONNX Runtime's share no base
                if runner == REFERENCE:
                    raise
                unable[runner] = (str(error).splitlines() or [type(error).__name__])[0]
                say.line(f"{runner}: {unable[runner]}")
                continue
            seconds[runner] = round(time.perf_counter() - began, 1)
            products[runner] = {"all": network.products, "integer": network.integers}
            wanted = wanted or answers
            for measure in task.measures:
                scores[measure.name][runner] = round(measure.score(answers, wanted), 4)
            told = ", ".join(f"{measure} {each[runner]:.2f}" for measure, each in scores.items())
            told += f", {network.integers} of {network.products} products of integers"
            say.line(f"{runner}: {told} ({seconds[runner]} s)")
    return {
        "calibration": len(work.calibration),
        "evaluation": len(task.evaluation),
        "measures": [
            {
                "name": measure.name,
                "least": measure.least,
                "drop": measure.drop,
                "goal": measure.goal,
                "scores": scores[measure.name],
                "missed": [
                    runner
                    for runner, score in scores[measure.name].items()
                    if not measure.is_met(score, scores[measure.name][REFERENCE])
                ],
            }
            for measure in task.measures
        ],
        "products": products,
        "unable": unable,
        "seconds": seconds,
    }


class Progress:
    """A line on the terminal that changes, and lines that stay."""

    def __init__(self, task: str) -> None:
        self._task, self._shown = task, 0.0

    def __call__(self, text: str) -> None:
        if sys.stderr.isatty() and time.monotonic() - self._shown > 0.1:
            self._shown = time.monotonic()
            print(f"\r\033[K{self._task}: {text}", end="", file=sys.stderr, flush=True)

    def line(self, text: str) -> None:
        clear = "\r\033[K" if sys.stderr.isatty() else ""
        print(f"{clear}{self._task}: {text}", file=sys.stderr, flush=True)


def markdown(document: dict[str, Any]) -> str:
    """A row a measure."""
    runners = document["runners"]
    versions = ", ".join(f"{name} {each}" for name, each in document["versions"].items())
    lines = [
        f"# Accuracy of quantised networks: {document['machine']['processor']}",
        "",
        f"`{document['command']}`; {versions}.",
        "",
        "Percent; in brackets the difference from float32 in points. ✗: the goal is missed. What multiplies matrices "
        "of floats keeps float32's accuracy: the last row of a task says how many products are of integers. "
        "[accuracy.py](../accuracy.py) says what the runners are, [accuracy_tasks.py](../accuracy_tasks.py) the tasks.",
        "",
        f"The samples are those of seed {document['seed']}; methods and float layers of mcpc int8 --smooth were chosen "
        f"by scores on those of seed {CHOSEN_BY}.",
        "",
        *table_head(["task", "samples", "measure", "goal", *runners]),
    ]
    for name, task in document["tasks"].items():
        samples = f"{task['evaluation']} (calibration: {task['calibration']})"
        for measure in task["measures"]:
            cells = [name, samples, measure["name"], measure["goal"] or "–"]
            lines.append(table_row([*cells, *(_score(measure, runner) for runner in runners)]))
        counts = (task["products"].get(runner) for runner in runners)
        cells = [name, "", "products of integers", "–"]
        lines.append(table_row([*cells, *(f"{each['integer']} of {each['all']}" if each else "–" for each in counts)]))
    reasons: dict[tuple[str, str], list[str]] = {}
    for name, task in document["tasks"].items():
        for runner, reason in task["unable"].items():
            reasons.setdefault((runner, reason), []).append(name)
    for (runner, reason), names in reasons.items():
        lines += ["", f"Without {runner} ({', '.join(names)}): {reason}"]
    return "\n".join(lines) + "\n"


def _score(measure: dict[str, Any], runner: str) -> str:
    scores = measure["scores"]
    if runner not in scores:
        return "–"
    text = f"{scores[runner]:.2f}"
    if runner != REFERENCE:
        text += f" ({scores[runner] - scores[REFERENCE]:+.2f})"
    return text + (" ✗" if runner in measure["missed"] else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default=",".join(PLANS), help="names separated by commas")
    parser.add_argument("--runners", default=";".join(RUNNERS), help="names separated by semicolons")
    parser.add_argument("--method", default="minmax", choices=METHODS, help="how calibration finds ranges")
    parser.add_argument("--seed", type=int, default=27, help="of the samples")
    parser.add_argument("--name", default="accuracy-host", help="stem of the result files")
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of the result files")
    parser.add_argument("--json", action="store_true", help="print the document instead of the table")
    options = parser.parse_args()
    tasks, runners = options.tasks.split(","), options.runners.split(";")
    for chosen, known in ((tasks, PLANS), (runners, RUNNERS)):
        for each in chosen:
            if each not in known:
                parser.error(f"nothing is called {each!r}: one of {', '.join(known)}")
    command = f"python bench/accuracy.py --method {options.method} --seed {options.seed}"
    if tasks != list(PLANS):
        command += f" --tasks {options.tasks}"
    if runners != list(RUNNERS):
        command += f" --runners '{options.runners}'"
    document: dict[str, Any] = {
        "command": command,
        "seed": options.seed,
        "machine": {"processor": processor.name()},
        "versions": {"python": platform.python_version(), **{each: version(each) for each in ("mcpc", "onnxruntime")}},
        "runners": [REFERENCE, *(each for each in runners if each != REFERENCE)],
        "tasks": {},
    }
    options.output.mkdir(exist_ok=True)
    stem = options.output / options.name
    for name in tasks:
        document["tasks"][name] = evaluate(name, PLANS[name].task(options.seed), runners, options.method)
        stem.with_suffix(".json").write_text(json.dumps(document, indent=2) + "\n")
        stem.with_suffix(".md").write_text(markdown(document))
    print(json.dumps(document) if options.json else markdown(document))


if __name__ == "__main__":
    main()
