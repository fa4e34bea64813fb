"""The one taxonomy of errors. Every fault a user can cause is an :class:`McpcError`; a raw traceback is a bug."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class McpcError(Exception):
    """A fault with its place and its remedy.

    ``code`` is a key of :data:`CODES`, shown as ``error[E101]``. ``op``, ``node`` and ``pass_name`` say where it
    happened, ``hint`` what to do about it. ``exit_code`` is the command line's exit status for the class.
    """

    exit_code = 70

    def __init__(
        self,
        code: str,
        message: str,
        *,
        op: str = "",
        node: str = "",
        pass_name: str = "",
        hint: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.op = op
        self.node = node
        self.pass_name = pass_name
        self.hint = hint

    def __str__(self) -> str:
        where = f", at node {self.node!r}" if self.node else ""
        where += f" ({self.op})" if self.op else ""
        where += f", in pass {self.pass_name}" if self.pass_name else ""
        hint = f"\nhint: {self.hint}" if self.hint else ""
        return f"error[{self.code}]: {self.message}{where}{hint}"

    def to_json(self) -> dict[str, str]:
        """The error as the object that ``--json`` prints; empty fields are left out."""
        fields = {
            "code": self.code,
            "message": self.message,
            "op": self.op,
            "node": self.node,
            "pass": self.pass_name,
            "hint": self.hint,
        }
        return {key: value for key, value in fields.items() if value}


class UsageError(McpcError):
    """E0xx: options that contradict each other or the model."""

    exit_code = 2


class ModelError(McpcError):
    """E1xx: the model is broken or holds what is not supported."""

    exit_code = 3


class PassError(McpcError):
    """E2xx: a pass made an invalid graph or changed what the graph computes."""

    exit_code = 70


class TargetError(McpcError):
    """E3xx: the target is unknown, or its toolchain failed."""

    exit_code = 4


class CalibrationError(McpcError):
    """E4xx: calibration data are missing or unusable."""

    exit_code = 3


class FormatError(McpcError):
    """E5xx: the artifact is damaged, foreign, or of another version."""

    exit_code = 5


class RuntimeFault(McpcError):
    """E6xx: a run was refused or failed (inputs that do not fit, an index out of range)."""

    exit_code = 1


class ErrorGroup(McpcError):
    """Several faults found in one go; each prints on its own line."""

    def __init__(self, errors: list[McpcError]) -> None:
        super().__init__(errors[0].code, f"{len(errors)} problems")
        self.errors = errors
        self.exit_code = max(error.exit_code for error in errors)

    def __str__(self) -> str:
        return "\n".join(str(error) for error in self.errors)


class Problems:
    """Collects faults so that a user sees all of them at once.

    >>> problems = Problems()
    >>> problems.add(ModelError("E101", "bad"))
    >>> problems.raise_if_any()   # raises the one error, or an ErrorGroup of several
    """

    def __init__(self) -> None:
        self.errors: list[McpcError] = []

    def add(self, error: McpcError) -> None:
        self.errors.extend(error.errors if isinstance(error, ErrorGroup) else [error])

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Faults raised inside the block are kept instead of propagating."""
        try:
            yield
        except McpcError as error:
            self.add(error)

    def raise_if_any(self) -> None:
        if len(self.errors) == 1:
            raise self.errors[0]
        if self.errors:
            raise ErrorGroup(self.errors)


#: Every code, once. The first digit names the class above.
CODES: dict[str, str] = {
    "E001": "an option does not fit the model",
    "E002": "an input file or value does not fit",
    "E003": "the command line is malformed",
    "E100": "the file is not a readable ONNX model",
    "E101": "an operator is not supported",
    "E102": "an operator's attribute or input form is not supported",
    "E103": "the graph is malformed (a cycle, a tensor without a producer, two producers)",
    "E104": "shapes or types do not fit together",
    "E105": "external data are missing or too short",
    "E106": "an external data path leaves the model's folder",
    "E107": "the opset is newer than this release knows, or cannot be normalised",
    "E108": "a size is not known at compile time",
    "E109": "a data type is not supported",
    "E110": "a graph's text (.mcir) is malformed",
    "E111": "a tensor is too large",
    "E200": "a pass produced an invalid graph",
    "E201": "a pass changed what the graph computes",
    "E202": "a pipeline text is malformed",
    "E300": "no such target",
    "E301": "the C compiler failed",
    "E302": "compiled code is not relocation-free",
    "E303": "a target description is malformed",
    "E400": "calibration data are unusable",
    "E500": "the file is not an mcpc artifact",
    "E501": "the artifact is truncated or damaged",
    "E502": "the artifact's format version is not supported",
    "E503": "no code variant of the artifact runs on this processor",
    "E504": "the signature is missing or wrong",
    "E600": "an input is missing, unknown, or given twice",
    "E601": "an input has the wrong data type",
    "E602": "an input has the wrong rank or shape",
    "E603": "the data led out of bounds at run time",
    "E604": "the run was cancelled",
    "E605": "memory is exhausted",
    "E606": "the outputs differ from the reference",
    "E607": "the session is closed, or an output is unknown or cannot be bound",
    "E608": "the runtime library is missing or of another version",
    "E700": "a bug in mcpc",
}
