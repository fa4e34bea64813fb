"""What a target is: data read from a TOML file, and the family that generates code for it."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcpc import processor
from mcpc.errors import TargetError, UsageError
from mcpc.kernel_class import KernelClass


@dataclass(frozen=True)
class Variant:
    """One code image of an artifact. ``features`` are the Linux names (/proc/cpuinfo, hwcap) it needs; the runtime
    takes the first variant whose features the processor has, so the most demanding one stands first."""

    name: str
    mcpu: str
    features: tuple[str, ...] = ()


@dataclass(frozen=True)
class Core:
    """A kind of core. ``gflops`` is the peak of one core in float32 FMA (an FMA is two); ``rates`` are what kernels of
    each class reach with data at hand, in 1e9 operations a second. ``l1_gbps``, ``l2_gbps``, ``l3_gbps`` and ``gbps``
    are GB/s, read and written, where the data of a kernel fit into a cache and where they lie in memory. All measured
    or from the datasheet as ``source`` says."""

    name: str
    count: int
    mhz: int
    l1d_kib: int
    l2_kib: int
    gflops: float
    gbps: float
    l1_gbps: float
    l2_gbps: float
    rates: Mapping[KernelClass, float]
    source: str
    l3_kib: int = 0
    l3_gbps: float = 0.0

    @property
    def caches(self) -> list[tuple[int, float]]:
        """Bytes and GB/s of each level of cache, the nearest first."""
        levels = ((self.l1d_kib, self.l1_gbps), (self.l2_kib, self.l2_gbps), (self.l3_kib, self.l3_gbps))
        return [(kib << 10, rate) for kib, rate in levels if kib]


@dataclass(frozen=True)
class Measured:
    """When and on which processor the coefficients of the first core were measured. ``classes`` are those of which
    kernels were timed; the others are scaled like products are."""

    date: str
    processor: str
    classes: tuple[str, ...]


#: From a cache line to what the sections of a file start at.
ALIGNMENTS = tuple(64 << i for i in range(11))

#: What 8-bit weights are stored around: int8, or uint8 with this zero point.
ZERO_POINT_BIASES = (0, 128)


@dataclass(frozen=True)
class Npu:
    """What a neural processor beside the CPU wants of the tensors that both read. ``zero_point_bias`` is one of
    :data:`ZERO_POINT_BIASES`. ``symmetric``: zero points of activations are in the middle of the type, or at 0 where
    numbers of uint8 have no sign."""

    zero_point_bias: int = 0
    symmetric: bool = False

    def __post_init__(self) -> None:
        if self.zero_point_bias not in ZERO_POINT_BIASES:
            raise ValueError(f"a zero-point bias is one of {ZERO_POINT_BIASES}, not {self.zero_point_bias!r}")


@dataclass(frozen=True)
class Target:
    """A target description. ``nr`` is the width of a packed weight panel in columns; all variants share it.
    ``registers`` are vectors of 8 floats that a core has names for. ``alignment``: bytes at a multiple of which every
    tensor of weights starts. ``launch_us`` is the cost of starting a step, ``parallel_us`` that of handing it to the
    thread pool. ``measured``: None where all coefficients are the description's. ``precision`` is that of artifacts for
    which none is asked for; ``half_arithmetic``: at float16 precision, this is what products compute in.
    ``saturating_pairs``: the processor's products of bytes are sums of two in 16 bits, which saturate (pmaddubsw)."""

    name: str
    description: str
    family: str
    isa: str
    triple: str
    pipeline: str
    nr: int
    cores: tuple[Core, ...]
    variants: tuple[Variant, ...]
    registers: int
    alignment: int = 64
    launch_us: float = 0.1
    parallel_us: float = 1.0
    measured: Measured | None = None
    precision: str = "fp32"
    half_arithmetic: bool = False
    saturating_pairs: bool = False
    npu: Npu = Npu()

    @property
    def big_core(self) -> Core:
        return self.cores[0]

    def variant_here(self, cpu_has: Callable[[str], bool]) -> Variant | None:
        """The variant that the runtime takes on this machine, None where it runs none. ``cpu_has`` tells whether the
        processor has a feature."""
        if not self.triple.startswith(f"{processor.architecture()}-"):
            return None
        return next((variant for variant in self.variants if all(map(cpu_has, variant.features))), None)

    def with_npu(self, **facts: Any) -> Target:
        """This target with other facts about its neural processor, where they are not None. Raises UsageError E001."""
        given = {name: value for name, value in facts.items() if value is not None}
        try:
            return dataclasses.replace(self, npu=dataclasses.replace(self.npu, **given))
        except ValueError as error:
            raise UsageError("E001", str(error)) from None

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def _fields(cls: type, table: Mapping[str, Any], path: Path) -> dict[str, Any]:
    known = {field.name for field in dataclasses.fields(cls)}
    unknown = sorted(set(table) - known)
    if unknown:
        raise TargetError("E303", f"{path.name}: unknown key {unknown[0]!r}", hint=f"known: {', '.join(sorted(known))}")
    return dict(table)


def _core(table: Mapping[str, Any], path: Path) -> Core:
    fields = _fields(Core, table, path)
    rates = {str(name): float(rate) for name, rate in fields.get("rates", {}).items()}
    for name in (*KernelClass, *rates):
        if name not in rates or name not in set(KernelClass):
            problem = "unknown" if name in rates else "missing"
            raise TargetError(
                "E303", f"{path.name}: {problem} key 'cores.rates.{name}'", hint=f"known: {', '.join(KernelClass)}"
            )
    if not all(rate > 0 for rate in rates.values()):
        raise TargetError("E303", f"{path.name}: rates are above 0")
    return Core(**{**fields, "rates": {KernelClass(name): rate for name, rate in rates.items()}})


def _first_that_runs(targets: list[Target], path: Path, cpu_has: Callable[[str], bool]) -> Target:
    for target in targets:
        variant = target.variant_here(cpu_has)
        if variant is not None:
            return dataclasses.replace(target, variants=(variant,))
    names = ", ".join(target.name for target in targets)
    raise TargetError("E300", f"target {path.stem!r} does not know this processor: it runs none of {names}")


def read_target(path: Path, cpu_has: Callable[[str], bool]) -> Target:
    """Read a description. ``inherits = "other"`` takes every key that is not given from other.toml beside it; of a list
    of names the first that this processor can run, with the variant that it would take. ``cpu_has`` tells whether it
    has a feature. A table ``[machine.x86_64]`` or ``[machine.aarch64]`` holds keys for the machine that compiles (the
    `host` target)."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise TargetError("E303", f"{path.name}: {error}") from None
    machines = table.pop("machine", None)
    if machines is not None:
        machine = processor.architecture()
        if machine not in machines:
            raise TargetError("E300", f"target {path.stem!r} does not know this machine ({machine})")
        table.update(machines[machine])
    base = table.pop("inherits", None)
    if base is not None:
        names = [base] if isinstance(base, str) else base
        bases = [read_target(path.with_name(f"{name}.toml"), cpu_has) for name in names]
        chosen = bases[0] if isinstance(base, str) else _first_that_runs(bases, path, cpu_has)
        table = {**dataclasses.asdict(chosen), **table}
    table["name"] = path.stem
    if table.get("alignment", Target.alignment) not in ALIGNMENTS:
        raise TargetError("E303", f"{path.name}: 'alignment' is one of {ALIGNMENTS}")
    table["cores"] = tuple(_core(core, path) for core in table.get("cores", ()))
    variants = [_fields(Variant, variant, path) for variant in table.get("variants", ())]
    table["variants"] = tuple(Variant(**{**v, "features": tuple(v.get("features", ()))}) for v in variants)
    try:
        table["npu"] = Npu(**_fields(Npu, table.get("npu", {}), path))
        return Target(**_fields(Target, table, path))
    except (TypeError, ValueError) as error:
        raise TargetError("E303", f"{path.name}: {error}") from None
