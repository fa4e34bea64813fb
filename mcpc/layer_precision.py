"""What is said of a layer's precision: recorded as a decision when a network is compiled, read back by reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # reports read decisions without loading what measures
    from mcpc.fidelity import Fidelity
    from mcpc.layer_errors import LayerError
    from mcpc.pipeline import PassContext

FP32, FP16, INT8 = "fp32", "fp16", "int8"

#: Products of integers by ranges that each run finds; of floats by weights of few bits.
DYNAMIC, WEIGHTS_8, WEIGHTS_4 = "int8-dynamic", "int8 weights", "int4 weights"

#: The pass that these decisions are recorded under, and the actions of those that are about no layer.
PASS, OUTPUT, SLOWER, MET, NOT_MET = "precision", "output", "slower", "met", "not met"

#: What such a decision is about where it is about all.
NETWORK = "network"

#: The numbers of a decision: SQNR in dB and cosine of a layer by itself, and in the network; predicted times.
ALONE, ACCUMULATED = ("alone_sqnr_db", "alone_cosine"), ("sqnr_db", "cosine")
TIMES = {
    each: f"{each.replace('-', '_').replace(' ', '_')}_us" for each in (FP32, FP16, INT8, DYNAMIC, WEIGHTS_8, WEIGHTS_4)
}

#: Digits behind the point that are kept of these numbers: those beyond may differ between processors.
_DB_DIGITS, _COSINE_DIGITS, _US_DIGITS = 2, 6, 3


@dataclass(frozen=True)
class LayerPrecision:
    """``precision`` is what the layer computes in, ``us`` its predicted time in microseconds by precision, conversions
    at its borders included."""

    layer: str
    precision: str
    reason: str = ""
    us: Mapping[str, float] = field(default_factory=dict)
    error: LayerError | None = None

    def record(self, ctx: PassContext) -> None:
        """As a decision in ``ctx``."""
        numbers: dict[str, float] = {TIMES[kind]: round(us, _US_DIGITS) for kind, us in self.us.items()}
        if self.error is not None:
            numbers |= _fidelity(ACCUMULATED, self.error.accumulated)
            numbers |= {} if self.error.alone is None else _fidelity(ALONE, self.error.alone)
        ctx.pass_name = PASS
        ctx.decide(self.layer, self.precision, self.reason, **numbers)


def record_output(ctx: PassContext, name: str, fidelity: Fidelity) -> None:
    """What quantisation leaves of an output of the network."""
    ctx.pass_name = PASS
    ctx.decide(name, OUTPUT, "", **_fidelity(ACCUMULATED, fidelity))


def _fidelity(names: tuple[str, str], value: Fidelity) -> dict[str, float]:
    return dict(zip(names, (round(value.sqnr, _DB_DIGITS), round(value.cosine, _COSINE_DIGITS)), strict=True))


def precision_in(decisions: Iterable[Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """``layers`` and ``outputs`` in the order of the network, and what was found of it as a whole (``network``: a
    speed that is lost, a budget), from the decisions of :func:`mcpc.inspect`. A number that was not measured is None.
    All are empty where no network of floats was quantised."""
    own = [each for each in decisions if each["pass"] == PASS]
    names = (*TIMES.values(), *ACCUMULATED, *ALONE)
    layers = {each["subject"]: each for each in own if each["action"] in TIMES}  # what was said last
    return {
        "layers": [
            {
                "layer": each["subject"],
                "precision": each["action"],
                "reason": each["reason"],
                **{name: each["numbers"].get(name) for name in names},
            }
            for each in layers.values()
        ],
        "outputs": [{"output": each["subject"], **each["numbers"]} for each in own if each["action"] == OUTPUT],
        "network": [
            {"verdict": each["action"], "reason": each["reason"], **each["numbers"]}
            for each in own
            if each["action"] in (SLOWER, MET, NOT_MET)
        ],
    }
