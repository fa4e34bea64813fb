"""Passes, the text that names a series of them, and the runner.

A pass is a frozen dataclass whose fields are its options. The runner owns everything that is the same for all:
verification, timing, dumps, error context, and the numeric check of ``--verify-passes``.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
import time
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar

from mcpc import debug
from mcpc.errors import McpcError, PassError
from mcpc.graph_check import check_graph
from mcpc.ir import Graph, Node, Value


@dataclass(frozen=True)
class Pass:
    """Base of all passes: ``name`` is what pipelines call it, the fields of a subclass are its options.

    ``tolerance`` is how far the network's outputs may move, relative to their range; None for a pass that changes
    numbers on purpose and answers for them itself.
    """

    name: ClassVar[str]
    tolerance: ClassVar[float | None] = 1e-3

    def __call__(self, graph: Graph, ctx: PassContext) -> Graph:
        """The changed graph, which may be ``graph`` itself, changed in place."""
        raise NotImplementedError

    def spec(self) -> str:
        """The pass as pipeline text, options that differ from their defaults included."""
        given = [
            f"{option.name}={_option_text(getattr(self, option.name))}"
            for option in dataclasses.fields(self)
            if getattr(self, option.name) != option.default
        ]
        return self.name + (f"{{{' '.join(given)}}}" if given else "")


@dataclass(frozen=True)
class Decision:
    """What a pass chose and why; ``subject`` names a node or value, ``action`` is e.g. "fuse", "keep" or "refuse"."""

    pass_name: str
    subject: str
    action: str
    reason: str
    numbers: dict[str, float]


@dataclass(frozen=True)
class PassRecord:
    """A pass that ran; ``seconds`` is for people only and belongs in no artifact."""

    name: str
    spec: str
    nodes_before: int
    nodes_after: int
    seconds: float


@dataclass
class PassContext:
    """What passes may ask for and add to.

    ``target`` is the target's description, or None. ``emit`` is the folder for a dump after every pass; ``progress``
    is called with a pass's name, its index and the number of passes before each starts.
    """

    target: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)
    emit: Path | None = None
    verify_passes: bool = False
    progress: Callable[[str, int, int], None] | None = None
    decisions: list[Decision] = field(default_factory=list)
    records: list[PassRecord] = field(default_factory=list)
    pass_name: str = ""

    def decide(self, subject: Node | Value | str, action: str, reason: str, **numbers: float) -> None:
        """Record a decision of the running pass."""
        name = subject if isinstance(subject, str) else describe(subject)
        self.decisions.append(Decision(self.pass_name, name, action, reason, numbers))
        shown = "".join(f" {key}={value:g}" for key, value in numbers.items())
        debug.log(debug.DECISIONS, f"[{self.pass_name}] {action} {name}: {reason}{shown}")


def describe(item: Node | Value) -> str:
    """The name that a report shows: a node's own, else that of its first output."""
    if isinstance(item, Value) or item.name:
        return item.name
    return next((output.name for output in item.outputs if output is not None), item.op)


# ---- the runner


def run_pipeline(graph: Graph, passes: Sequence[Pass], ctx: PassContext) -> Graph:
    """Run ``passes`` in order and return the last one's graph.

    Raises what a pass raises, with the pass's name in it; :class:`PassError` E200 where a pass leaves an inconsistent
    graph, E201 where ``ctx.verify_passes`` finds that it changed the results, and E700 where it has a bug.
    """
    check = None
    if ctx.verify_passes or debug.level() >= debug.CHECKS:
        from mcpc.pass_check import NumericCheck  # loads ONNX Runtime, which nothing else here needs

        check = NumericCheck(graph)
    if ctx.emit is not None and not ctx.records:
        _dump(graph, ctx.emit, "00-input")
    for index, step in enumerate(passes):
        if ctx.progress is not None:
            ctx.progress(step.name, index, len(passes))
        graph = _run(step, graph, ctx)
        if ctx.emit is not None:
            _dump(graph, ctx.emit, f"{len(ctx.records):02d}-{step.name}")
        if check is not None:
            check.after(step.name, graph, step.tolerance)
    return graph


def _run(step: Pass, graph: Graph, ctx: PassContext) -> Graph:
    before, start = len(graph.nodes), time.perf_counter()
    ctx.pass_name = step.name
    try:
        graph = step(graph, ctx)
        check_graph(graph)
    except McpcError as error:
        error.pass_name = error.pass_name or step.name
        raise
    except Exception as error:
        raise _bug(step, error) from error
    finally:
        ctx.pass_name = ""
    seconds = time.perf_counter() - start
    ctx.records.append(PassRecord(step.name, step.spec(), before, len(graph.nodes), seconds))
    debug.log(debug.TIMES, f"[{step.name}] {before} -> {len(graph.nodes)} nodes, {seconds * 1e3:.1f} ms")
    if debug.level() >= debug.GRAPHS:
        from mcpc.ir_text import format_graph

        debug.log(debug.GRAPHS, format_graph(graph))
    return graph


def _bug(step: Pass, error: Exception) -> PassError:
    node = _node_at_fault(error.__traceback__)
    return PassError(
        "E700",
        f"{type(error).__name__}: {error}",
        op=node.op if node else "",
        node=describe(node) if node else "",
        pass_name=step.name,
        hint="this is a bug in mcpc; please report it with the model, or leave the pass out with --passes",
    )


def _node_at_fault(trace: TracebackType | None) -> Node | None:
    """The node that the innermost function with a variable called ``node`` was looking at."""
    found = None
    while trace is not None:
        candidate = trace.tb_frame.f_locals.get("node")
        found = candidate if isinstance(candidate, Node) else found
        trace = trace.tb_next
    return found


def _dump(graph: Graph, folder: Path, stem: str) -> None:
    from mcpc import onnx_writer
    from mcpc.ir_text import format_graph

    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{stem}.mcir").write_text(format_graph(graph), encoding="utf-8")
    onnx_writer.write(graph, folder / f"{stem}.onnx")


# ---- pipeline text


class PipelineError(PassError):
    """E202: the text of a pipeline is at fault, so the one who wrote it is told, with the exit status for usage."""

    exit_code = 2


_TOKEN = re.compile(r"\s*(?:(?P<mark>[{}=,])|(?P<word>\"[^\"]*\"|[^\s{}=,\"]+))")


def parse_pipeline(text: str, available: Mapping[str, type[Pass]]) -> list[Pass]:
    """The passes that ``text`` names: ``"fold, fuse, quantize{bits=8 per_channel=true}"``.

    Options are separated by spaces or commas and converted to the types of the pass's fields. Raises
    :class:`PipelineError` E202 where the text is malformed, or a pass, an option or a value is not known.
    """
    tokens = _tokenize(text)
    passes: list[Pass] = []
    while tokens:
        name = _take_word(tokens, "a pass")
        if name not in available:
            raise PipelineError("E202", f"there is no pass {name!r}", hint=suggest(name, available))
        passes.append(_instance(available[name], _options(tokens, name)))
        if tokens and (tokens.pop(0) != "," or not tokens):
            raise PipelineError("E202", f"expected ', ' and another pass after {name!r}")
    return passes


def _tokenize(text: str) -> list[str]:
    tokens, position = [], 0
    while text[position:].strip():
        match = _TOKEN.match(text, position)
        if match is None:
            raise PipelineError("E202", f"malformed pipeline at {text[position:].strip()!r}")
        tokens.append(match.group().strip())
        position = match.end()
    return tokens


def _take_word(tokens: list[str], what: str) -> str:
    if not tokens or tokens[0] in "{}=,":
        raise PipelineError(
            "E202", f"expected {what}, found {tokens[0]!r}" if tokens else f"expected {what} at the end"
        )
    return tokens.pop(0)


def _options(tokens: list[str], name: str) -> dict[str, str]:
    options: dict[str, str] = {}
    if not tokens or tokens[0] != "{":
        return options
    tokens.pop(0)
    while tokens and tokens[0] != "}":
        key = _take_word(tokens, f"an option of {name}")
        if not tokens or tokens.pop(0) != "=":
            raise PipelineError("E202", f"option {key!r} of {name} needs a value: {key}=...")
        if key in options:
            raise PipelineError("E202", f"option {key!r} of {name} is given twice")
        options[key] = _take_word(tokens, f"a value for {key!r}")
        if tokens and tokens[0] == ",":
            tokens.pop(0)
    if not tokens:
        raise PipelineError("E202", f"'}}' is missing after the options of {name}")
    tokens.pop(0)
    return options


def _instance(cls: type[Pass], options: Mapping[str, str]) -> Pass:
    types = typing.get_type_hints(cls)
    known = [option.name for option in dataclasses.fields(cls)]
    values: dict[str, Any] = {}
    for key, text in options.items():
        if key not in known:
            raise PipelineError("E202", f"{cls.name} has no option {key!r}", hint=suggest(key, known))
        values[key] = _option_value(cls.name, key, text, types[key])
    try:
        return cls(**values)
    except (TypeError, ValueError) as error:
        raise PipelineError("E202", f"{cls.name}: {error}") from None


def _option_value(name: str, key: str, text: str, type_: Any) -> Any:
    if typing.get_origin(type_) is typing.Literal:
        choices = typing.get_args(type_)
        if text not in choices:
            raise PipelineError("E202", f"{name}: {key} cannot be {text}", hint=suggest(text, choices))
        return text
    if type_ is bool:
        if text not in ("true", "false"):
            raise PipelineError("E202", f"{name}: {key} must be true or false, not {text}")
        return text == "true"
    if type_ is str:
        return text.strip('"')
    try:
        return type_(text)
    except ValueError:
        raise PipelineError("E202", f"{name}: {key} must be {type_.__name__}, not {text}") from None


def _option_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    return text if not isinstance(value, str) or re.fullmatch(r"[^\s{}=,\"]+", text) else f'"{text}"'


def suggest(word: str, known: Iterable[str]) -> str:
    """The hint for a name that is not known: a likely spelling, else all there are."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, 1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names) or 'none'}"
