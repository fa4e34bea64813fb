"""What is found through entry points: the built-in passes and targets, and those of other packages, by the same door.

An entry point of group ``mcpc.passes`` names a dict of pass name -> class (see :mod:`mcpc.pipeline`); one of group
``mcpc.targets`` a dict of target name -> path of its description (see :mod:`mcpc.target`). Each entry point of group
``mcpc.families`` names a class, the code generator of that name (see :class:`mcpc.codegen.Family`), and the one called
``builtin`` of group ``mcpc.calibrators`` that which calibrates (see :class:`mcpc.calibrator.Calibrator`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from mcpc.coefficients import overlaid
from mcpc.errors import CalibrationError, McpcError, TargetError
from mcpc.pipeline import Pass, PipelineError, suggest
from mcpc.runtime_api import cpu_has
from mcpc.target import Target, read_target

if TYPE_CHECKING:
    from mcpc.calibrator import Calibrator
    from mcpc.codegen import Family

T = TypeVar("T")


@cache
def passes() -> dict[str, type[Pass]]:
    """Every pass by name. Raises :class:`PipelineError` E202 where a package's passes cannot be had."""
    return _merged("mcpc.passes", PipelineError, "E202")


@cache
def targets() -> dict[str, Path]:
    """Every target description by name. Raises :class:`TargetError` E303 where a package's targets cannot be had."""
    return _merged("mcpc.targets", TargetError, "E303")


def find_target(name: str) -> Target:
    """The description of a target, with what was measured of it on this machine. Raises :class:`TargetError` E300 where
    there is none, E303 where it is malformed."""
    return overlaid(read_target(_find(name, targets(), "target"), cpu_has))


def find_family(name: str) -> Family:
    """The code generator of a family. Raises :class:`TargetError` E300 where none is installed, E303 where it fails."""
    points = {point.name: point for point in entry_points(group="mcpc.families")}
    family: Family = _load(_find(name, points, "target family"), TargetError, "E303")()
    return family


def find_calibrator(name: str = "builtin") -> Calibrator:
    """What calibrates. Raises :class:`CalibrationError` E400 where there is none of that name, or it fails."""
    points = {point.name: point for point in entry_points(group="mcpc.calibrators")}
    point = _find(name, points, "calibrator", CalibrationError, "E400")
    calibrator: Calibrator = _load(point, CalibrationError, "E400")()
    return calibrator


def _find(name: str, known: Mapping[str, T], what: str, error: type[McpcError] = TargetError, code: str = "E300") -> T:
    if name not in known:
        raise error(code, f"there is no {what} {name!r}", hint=suggest(name, known))
    return known[name]


def _merged(group: str, error: type[McpcError], code: str) -> dict[str, Any]:
    """The dicts that a group's entry points name, as one; ours first, so that a clash is blamed on the other."""
    found: dict[str, Any] = {}
    for point in sorted(entry_points(group=group), key=lambda point: (point.name != "builtin", point.name)):
        offered = dict(_load(point, error, code))
        taken = sorted(found.keys() & offered.keys())
        if taken:
            message = f"{_origin(point)} offers {taken[0]!r}, a name that is in use"
            raise error(code, message, hint="uninstall one of the two packages")
        found.update(offered)
    return found


def _load(point: EntryPoint, error: type[McpcError], code: str) -> Any:
    try:
        return point.load()
    except Exception as reason:  # another package's fault must not look like one of ours
        message = f"{point.group} of {_origin(point)} cannot be loaded: {type(reason).__name__}: {reason}"
        raise error(code, message) from reason


def _origin(point: EntryPoint) -> str:
    return f"{point.dist.name if point.dist else '?'} ({point.value})"
