"""Ensembles of decision trees."""

from __future__ import annotations

import numpy as np

from mcpc.ops.trees import AGGREGATES, DOMAIN, MODES, TRANSFORMS, ensemble_of

from ..ctext import c_type
from ..expression import SUFFIXES
from ..kernel import KernelBuilder, unsupported
from .registry import emits

#: As in trees.h.
MODE, MISSING, MIXED = 24, 28, len(MODES)


@emits("TreeEnsemble", "TreeEnsembleRegressor", domain=DOMAIN)
def trees(b: KernelBuilder) -> None:
    x, e = b.outer(b.anchor.inputs[0]), ensemble_of(b.anchor)
    if e.transform not in TRANSFORMS[:-1] or e.aggregate not in AGGREGATES:
        raise unsupported(b.node, f"post_transform {e.transform} of {e.aggregate}")
    if len(e.features) == 0 and len(e.roots) == 0:
        raise unsupported(b.node, "no tree")
    suffix, type = SUFFIXES[x.dtype], c_type(x.dtype)
    words = e.features | e.modes << MODE | (e.missing != 0).astype(np.int64) << MISSING
    used = set(e.modes.tolist())
    integers = {
        "nodes": np.concatenate([words[:, None], e.children], axis=1), "roots": e.roots, "leaves": e.leaves,
        "targets": e.targets, "sets": e.sets,
    }  # fmt: skip
    numbers = {"splits": e.splits, "weights": e.weights, "members": e.members, "base": e.base}
    fields = {
        "features": b.size(x.type.dims[1]), "trees": str(len(e.roots)), "outputs": str(e.outputs),
        "mode": f"(trees_mode){used.pop() if len(used) == 1 else MIXED}",
        "aggregate": f"(trees_aggregate){AGGREGATES.index(e.aggregate)}",
        "transform": f"(trees_transform){TRANSFORMS.index(e.transform)}",
        **{name: b.constant(array.astype(np.int32), "int32_t") for name, array in integers.items()},
        **{name: b.constant(array, type) if array.size else "0" for name, array in numbers.items()},
    }  # fmt: skip
    b.label = "trees"
    b.headers.append("trees.h")
    b.line(
        f"if (index_check(env, {int(e.features.max(initial=-1))}, -1, {b.size(x.type.dims[1])} - 1) < 0) "
        "return MCP26_STEP_DATA;",
        f"const trees_{suffix} a = {{{', '.join(f'.{name} = {text}' for name, text in fields.items())}}};",
    )
    b.call(f"trees_{suffix}_rows", "a", b.input(x), b.output(), "begin", "end")
    b.units = b.size(x.type.dims[0])
