"""How near two computations of one network can be expected: what rounding does to its outputs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mcpc.comparison import ATOL_OF_RANGE
from mcpc.errors import UsageError
from mcpc.judge import Judge, judge

Array = np.ndarray[Any, Any]

#: What rounding to float32 changes at most, relatively.
FLOAT32 = 2.0**-24

#: The noise on each number of an input, in roundings.
NOISE = 8

#: The tries where the first one shows that outputs move: a quantised network moves in steps, or not at all.
TRIES = 5

#: Outputs may differ by this many times what the noise moves them by.
ROUNDINGS = 4


def tolerances(
    run: Callable[[Mapping[str, Array]], Sequence[Array]],
    feeds: Mapping[str, Array],
    outputs: Sequence[Array],
    rounding: float = FLOAT32,
) -> list[float]:
    """The absolute tolerance for each of ``outputs``, which a model makes of ``feeds``. ``run`` runs it,
    :func:`shaken` where it rounds to integers. ``rounding`` is the coarsest relative one inside
    (:func:`coarsest_rounding`).

    It is ATOL_OF_RANGE of the output's largest magnitude, or ROUNDINGS times the noise there. Where noise as small as
    rounding on the float inputs moves an output so far that sums in another order might miss this, it is ROUNDINGS
    times the farthest move. The noise is seeded. Inputs whose numbers mean sizes, which ``run`` refuses with noise by a
    UsageError, give the former.
    """
    least = [max(ATOL_OF_RANGE, ROUNDINGS * NOISE * rounding) * _largest(array) for array in outputs]
    moved = [0.0] * len(least)
    for seed in range(TRIES):
        rng = np.random.default_rng(seed)
        try:
            noisy = run({name: _with_noise(array, NOISE * rounding, rng) for name, array in feeds.items()})
        except UsageError:
            return least
        moved = [max(far, _move(*pair)) for far, *pair in zip(moved, outputs, noisy, strict=True)]
        if all(ROUNDINGS * far <= enough for far, enough in zip(moved, least, strict=True)):
            return least
    return [max(enough, ROUNDINGS * far) for far, enough in zip(moved, least, strict=True)]


def shaken(model: Path | str | bytes, outputs: Sequence[str]) -> Judge | None:
    """The judge of ``model`` with noise on what its QuantizeLinear round, another one each time; None where there are
    none. A sum in another order may make another integer, which noise on inputs, rounded long before, does not show."""
    first = with_noise(model, 0)
    if first is model:
        return None
    models = itertools.chain([first], (with_noise(model, seed) for seed in itertools.count(1)))
    return lambda feeds: judge(next(models), outputs)(feeds)


def with_noise(model: Path | str | bytes, seed: int) -> Path | str | bytes:
    """An ONNX model that adds noise to what its QuantizeLinear round of float32: NOISE roundings at the end of their
    ranges. Models without these operators stay as they are, and those beyond the 2 GiB that fit into one file."""
    import onnx

    proto = onnx.load_from_string(model) if isinstance(model, bytes) else onnx.load(model, load_external_data=False)
    if not any(node.op_type == "QuantizeLinear" for node in proto.graph.node):
        return model
    if not isinstance(model, bytes):
        proto = onnx.load(model)  # its weights in other files too
    constants = {tensor.name: tensor for tensor in proto.graph.initializer}
    for node in proto.graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            constants[node.output[0]] = node.attribute[0].t
    types = {info.name: info.type.tensor_type.elem_type for info in (*proto.graph.value_info, *proto.graph.input)}
    nodes, found = [], 0
    for node in proto.graph.node:
        nodes.append(node)
        if node.op_type != "QuantizeLinear" or node.input[1] not in constants or node.input[0] in constants:
            continue
        if types.get(node.input[0], onnx.TensorProto.FLOAT) != onnx.TensorProto.FLOAT:
            continue
        scale = float(onnx.numpy_helper.to_array(constants[node.input[1]]).max())
        noise, noisy = f"{node.output[0]}.noise", f"{node.output[0]}.shaken"
        attributes: dict[str, Any] = {
            "mean": 0.0,
            "scale": NOISE * FLOAT32 * 256 * scale,
            "seed": float(1 + seed + TRIES * found),  # 0 gives the numbers of 1
        }
        nodes[-1:] = [
            onnx.helper.make_node("RandomNormalLike", [node.input[0]], [noise], **attributes),
            onnx.helper.make_node("Add", [node.input[0], noise], [noisy]),
            node,
        ]
        node.input[0] = noisy
        found += 1
    if not found:
        return model
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    try:
        return bytes(proto.SerializeToString())
    except ValueError:
        return model


def coarsest_rounding(model: Path | str | bytes) -> float:
    """The largest relative change by rounding in an ONNX model, given as a path or its bytes: that of float32, or of a
    16-bit float type that it computes in. Weights of such a type that are cast before use round nothing."""
    import onnx

    from mcpc.halves import ROUNDING
    from mcpc.onnx_structure import walk

    proto = onnx.load_from_string(model) if isinstance(model, bytes) else onnx.load(model, load_external_data=False)
    units = {getattr(onnx.TensorProto, dtype.name.upper()): unit for dtype, unit in ROUNDING.items()}
    stored = {tensor.name: tensor.data_type for tensor in proto.graph.initializer}
    types = [value.type.tensor_type.elem_type for value in (*proto.graph.input, *proto.graph.output)]
    for node in walk(proto.graph.node):
        types += [attribute.i for attribute in node.attribute if attribute.name == "to"]
        if node.op_type not in ("Cast", "CastLike", "DequantizeLinear"):
            types += [stored[name] for name in node.input if name in stored]
    for function in proto.functions:
        types += [attribute.i for node in function.node for attribute in node.attribute if attribute.name == "to"]
    return max((units[each] for each in types if each in units), default=FLOAT32)


def _largest(array: Array) -> float:
    values = array.astype(np.float64)
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))


def _move(before: Array, after: Array) -> float:
    if before.dtype.kind != "f" or before.shape != after.shape:
        return 0.0
    with np.errstate(invalid="ignore"):
        return _largest(before.astype(np.float64) - after.astype(np.float64))


def _with_noise(array: Array, noise: float, rng: np.random.Generator) -> Array:
    if array.dtype.kind != "f":
        return array
    factor = 1 + noise * rng.standard_normal(array.shape)
    return np.asarray(array * factor, array.dtype)
