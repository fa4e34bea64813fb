"""Coefficients that were measured on this machine: kept in the user's configuration, laid over a target's description.

The file ``targets/NAME.toml`` below the configuration folder holds what :mod:`mcpc.target_calibration` has measured and
says of which processor; on another one it is left alone.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import tomllib
from pathlib import Path
from typing import Any

from mcpc import processor
from mcpc.errors import TargetError
from mcpc.files import replacing
from mcpc.kernel_class import KernelClass
from mcpc.target import Measured, Target

#: The bandwidths of a core, from the nearest level of memory on.
BANDWIDTHS = ("l1_gbps", "l2_gbps", "l3_gbps", "gbps")


def path_of(name: str) -> Path:
    """Where the coefficients of a target are kept: below MCPC_CONFIG_DIR, else the user's configuration folder."""
    base = os.environ.get("MCPC_CONFIG_DIR")
    root = Path(base) if base else Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "mcpc"
    return root / "targets" / f"{name}.toml"


def save(target: Target, measured: Measured) -> Path:
    """Write the coefficients of the target's big core, which were measured, and return the file's path."""
    core = target.big_core
    lines = [
        "# Written by `mcpc targets calibrate`; without this file the target has the coefficients of its description.",
        *(f"{key} = {json.dumps(value)}" for key, value in dataclasses.asdict(measured).items()),
        f"launch_us = {target.launch_us!r}",
        f"parallel_us = {target.parallel_us!r}",
        *(f"{name} = {getattr(core, name)!r}" for name in BANDWIDTHS),
        "",
        "[rates]",
        *(f"{kind} = {core.rates[kind]!r}" for kind in KernelClass),
    ]
    path = path_of(target.name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(("\n".join(lines) + "\n").encode())
    except OSError as error:
        raise TargetError("E303", f"{path}: {error.strerror}", hint="MCPC_CONFIG_DIR chooses another folder") from None
    return path


def overlaid(target: Target) -> Target:
    """``target`` with what was measured of it on a processor of this kind, if anything was; what the file does not
    state is the description's. TargetError E303 where the file is malformed."""
    path = path_of(target.name)
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        measured = Measured(table["date"], table["processor"], tuple(table["classes"]))
        if measured.processor != processor.name():
            return target
        rates = {kind: float(table["rates"].get(kind, target.big_core.rates[kind])) for kind in KernelClass}
        numbers: dict[str, Any] = {name: float(table[name]) for name in BANDWIDTHS}
        launch_us = float(table["launch_us"])
        parallel_us = float(table.get("parallel_us", target.parallel_us))
    except FileNotFoundError:
        return target
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as error:
        message = f"{path}: {type(error).__name__}: {error}"
        raise TargetError("E303", message, hint=f"mcpc targets calibrate {target.name} writes it anew") from None
    core = dataclasses.replace(
        target.big_core, **numbers, rates=rates, source=f"measured {measured.date} on {measured.processor}"
    )
    cores = (core, *target.cores[1:])
    return dataclasses.replace(target, cores=cores, launch_us=launch_us, parallel_us=parallel_us, measured=measured)


def digest(target: Target) -> str:
    """What tells the coefficients of two builds apart: 16 hexadecimal digits."""
    facts: dict[str, Any] = {
        "launch_us": target.launch_us,
        "parallel_us": target.parallel_us,
        "registers": target.registers,
        "cores": [dataclasses.asdict(core) for core in target.cores],
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
