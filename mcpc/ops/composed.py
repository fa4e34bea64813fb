"""Operators of ai.onnx that are declared by simpler ones, which the reader puts in their place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mcpc.ir import OPSET, Value
from mcpc.ops.context import attribute, fail, integers
from mcpc.ops.contrib import Expansion, stands_for


@stands_for("LpNormalization", domain="", versions=(1, OPSET))
def lp_normalization(e: Expansion) -> Sequence[Value | None]:
    """x divided by its 1- or 2-norm along ``axis``; zeros stay zeros."""
    x, order = e.input(0), attribute(e.node, "p", 2)
    if order not in (1, 2):
        fail(e.node, f"p is {order}, 1 or 2 is needed", "E102")
    norm = e(f"ReduceL{order}", x, e.ints(attribute(e.node, "axis", -1)), keepdims=1)
    is_zero = e("Equal", norm, e.scalar(0.0, norm))
    return [e("Div", x, e("Where", is_zero, e.scalar(1.0, norm), norm))]


@stands_for("MeanVarianceNormalization", domain="", versions=(9, OPSET))
def mean_variance_normalization(e: Expansion) -> Sequence[Value | None]:
    """(x - mean) / (standard deviation + 1e-9) over ``axes``."""
    x = e.input(0)
    axes = e.ints(*integers(e.node, "axes", [0, 2, 3]))
    centred = e("Sub", x, e("ReduceMean", x, axes, keepdims=1))
    deviation = e("Sqrt", e("ReduceMean", e("Mul", centred, centred), axes, keepdims=1))
    return [e("Div", centred, e("Add", deviation, e.scalar(1e-9, x)))]


@stands_for("OptionalGetElement", domain="", versions=(15, OPSET))
def optional_get_element(e: Expansion) -> Sequence[Value | None]:
    """A tensor is there; types that are optional are not known."""
    return [e("Identity", e.input(0))]


@stands_for("OptionalHasElement", domain="", versions=(15, OPSET))
def optional_has_element(e: Expansion) -> Sequence[Value | None]:
    """Whether an operand is given: a tensor is there, types that are optional are not known."""
    is_there = np.array(e.node.input(0) is not None)
    return [e("Identity", e.graph.constant(f"{e.node.name}.is_there", is_there))]
