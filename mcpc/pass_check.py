"""``--verify-passes``: does a pass change what the graph computes, and from which node on?"""

from __future__ import annotations

import numpy as np
import onnx

from mcpc import debug
from mcpc.comparison import RTOL, Comparison, compare
from mcpc.errors import McpcError, PassError
from mcpc.halves import ROUNDING, is_half
from mcpc.ir import Graph, Node
from mcpc.judge import Array, judge
from mcpc.onnx_structure import walk
from mcpc.onnx_writer import to_model
from mcpc.ops.random import RANDOM
from mcpc.sample_inputs import sample_inputs
from mcpc.sensitivity import shaken, tolerances

_SEED = 0

#: Roundings to 16 bits that a pass may leave out or bring, since it has several operators computed as one in float32.
_LENIENCE = 32


class NumericCheck:
    """Compares every state of a graph with the first one on the same seeded inputs, by :func:`mcpc.judge.judge`.

    Raises :class:`PassError` E201 where that cannot run the first state, and what :func:`sample_inputs` raises.
    """

    def __init__(self, graph: Graph) -> None:
        self._names = [value.name for value in graph.outputs]
        self._feeds = sample_inputs(graph.inputs, _SEED, bounds=graph.bounds)
        self._model = self._first = _repeatable(graph)
        self._expected = self._run(self._model, self._names, "the model as it was read")

    def after(self, pass_name: str, graph: Graph, tolerance: float | None) -> None:
        """Check the state that ``pass_name`` left; E201 names the output that is off and the first node to blame.

        ``tolerance`` is relative; None accepts any numbers, which are then what later states are compared with.
        """
        before, self._model = self._model, _repeatable(graph)
        got = self._run(self._model, self._names, f"what pass {pass_name} made", pass_name)
        if tolerance is None:
            self._first, self._expected = self._model, got
            return
        tolerance = max([tolerance, *(_LENIENCE * ROUNDING[value.dtype] for value in graph.values() if is_half(value))])
        wrong = _differing(self._names, got, self._expected, tolerance)
        if not wrong or self._is_noise(got):
            debug.log(debug.CHECKS, f"[{pass_name}] same results as before")
            return
        node, difference = self._first_difference(graph, before, tolerance)
        raise PassError(
            "E201",
            f"{wrong[0].describe()}" + (f"; the first value to differ: {difference}" if difference else ""),
            op=node.op if node else "",
            node=(node.name or node.output.name) if node else "",
            pass_name=pass_name,
            hint="leave the pass out with --passes, and please report this with the model",
        )

    def _is_noise(self, got: list[Array]) -> bool:
        """Whether rounding moves the results as far: quantised networks move in steps, or not at all."""
        run = shaken(self._first.SerializeToString(), self._names)
        if run is None:
            return False
        allowed = tolerances(run, self._feeds, self._expected)
        return all(
            compare(name, a, b, RTOL, most).matches
            for name, a, b, most in zip(self._names, got, self._expected, allowed, strict=True)
        )

    def _first_difference(self, graph: Graph, before: onnx.ModelProto, tolerance: float) -> tuple[Node | None, str]:
        """The first node, in order, whose output had another value under the same name before the pass."""
        known = {name for node in before.graph.node for name in node.output if name}
        made = [value for node in graph.nodes for value in node.outputs if value is not None and value.name in known]
        names = [value.name for value in made]
        want = self._run(_exposing(before, names), names, "the state before the pass")
        got = self._run(_exposing(self._model, names), names, "the state after the pass")
        for value, a, b in zip(made, got, want, strict=True):
            wrong = _differing([value.name], [a], [b], tolerance)
            if wrong:
                return value.producer, wrong[0].describe().replace("output", "value", 1)
        return None, ""

    def _run(self, model: onnx.ModelProto, names: list[str], what: str, pass_name: str = "") -> list[Array]:
        try:
            return judge(model.SerializeToString(), names)(self._feeds)
        except McpcError as error:
            raise PassError("E201", f"{error.message}, in {what}", pass_name=pass_name) from error


def _repeatable(graph: Graph) -> onnx.ModelProto:
    """``graph`` as a model that draws the same random numbers whenever it is run."""
    model = to_model(graph)
    for node in walk(model.graph.node):
        if node.op_type in RANDOM and not any(attribute.name == "seed" for attribute in node.attribute):
            node.attribute.append(onnx.helper.make_attribute("seed", 0.0))
    return model


def _differing(names: list[str], got: list[Array], want: list[Array], tolerance: float) -> list[Comparison]:
    comparisons = []
    for name, a, b in zip(names, got, want, strict=True):
        wide = b.astype(np.float64) if b.dtype.kind == "f" or "float" in b.dtype.name else np.zeros(0)
        finite = np.abs(wide[np.isfinite(wide)])
        comparisons.append(compare(name, a, b, tolerance, 0.1 * tolerance * float(finite.max(initial=0.0))))
    return [comparison for comparison in comparisons if not comparison.matches]


def _exposing(model: onnx.ModelProto, names: list[str]) -> onnx.ModelProto:
    """A copy of ``model`` whose outputs are the values ``names``."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    typed = {info.name: info for info in (*model.graph.value_info, *model.graph.output)}
    del result.graph.output[:]
    result.graph.output.extend(typed[name] for name in names if name in typed)
    return result
