"""Which operators there are, and how code runs them: `mcpc targets ops`, docs/operators.md."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from onnx import defs

from mcpc import ops, sequences
from mcpc.codegen import Family
from mcpc.ir import MCPC, DType
from mcpc.ops.contrib import Contrib
from mcpc.ops.declined import DECLINED

#: Operators that :mod:`mcpc.control_flow` writes as others.
_WRITTEN_AS_OTHERS = frozenset({"Scan"})


@dataclass(frozen=True)
class Operator:
    """An operator of a domain, from opset ``first`` to ``last``. ``ways``: how it is run; none where it is not, for
    the ``reason``. ``dtypes``: the element types of its operands where one set holds for all of them."""

    domain: str
    name: str
    first: int
    last: int
    ways: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    reason: str = ""

    @property
    def is_supported(self) -> bool:
        return bool(self.ways)

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"supported": self.is_supported}


def operators(family: Family) -> list[Operator]:
    """All that are declared, and all of the installed onnx, by domain and name."""
    found = {(each.domain, each.name): each for each in (*_known_to_onnx(), *_declared(family))}
    return [found[key] for key in sorted(found)]


def _declared(family: Family) -> Iterator[Operator]:
    for definition in ops.definitions():
        if definition.domain == MCPC:
            continue
        first, last = definition.versions
        if not definition.domain:
            last = max(last, defs.onnx_opset_version())
        replaced = isinstance(definition, Contrib) or (not definition.domain and definition.name in _WRITTEN_AS_OTHERS)
        ways = (*family.ways(definition), *(["simpler operators"] if replaced else []))
        taken = definition.dtypes if isinstance(definition, ops.Elementwise) else frozenset()
        dtypes = tuple(dtype.name for dtype in DType if dtype in taken)
        reason = "" if ways else "it has no code for this target"
        yield Operator(definition.domain, definition.name, first, last, ways, dtypes, reason)


def _known_to_onnx() -> Iterator[Operator]:
    newest = {domain: last for domain, (_, last) in defs.C.schema_version_map().items()}
    first: dict[tuple[str, str], int] = {}
    for schema in defs.get_all_schemas_with_history():
        key = schema.domain, schema.name
        first[key] = min(schema.since_version, first.get(key, schema.since_version))
    for schema in defs.get_all_schemas():
        key = schema.domain, schema.name
        last = schema.since_version - 1 if schema.deprecated else newest[schema.domain]
        reason = DECLINED.get(key, "")
        ways = () if reason else _without_declaration(schema)
        yield Operator(*key, first[key], last, ways, reason=reason if reason or ways else "it is not known")


def _without_declaration(schema: Any) -> tuple[str, ...]:
    """How an operator is run that nobody declares."""
    if schema.domain == "" and schema.name == "Constant":
        return ("constant",)
    if schema.domain == "" and schema.name in sequences.OPERATORS:
        return ("simpler operators",)
    if schema.deprecated and schema.domain == "":  # ONNX's converter writes it as what came in its place
        return ("newer operators",)
    if schema.has_function or schema.has_context_dependent_function:
        return ("its definition by ONNX",)
    return ()
