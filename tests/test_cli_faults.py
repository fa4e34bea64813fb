"""Every way a command can end: its exit status, its lines on stderr, its JSON on stdout."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from mcpc.cli import console
from mcpc.cli.faults import exit_status
from mcpc.cli.options import read_inputs
from mcpc.errors import (
    ErrorGroup,
    FormatError,
    McpcError,
    ModelError,
    PassError,
    RuntimeFault,
    TargetError,
    UsageError,
)


def end(error: BaseException | None, *arguments: str) -> int:
    @click.command()
    @click.option("--json", is_flag=True)
    def command(json: bool) -> None:
        if error is not None:
            raise error

    return exit_status(command, list(arguments))


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (None, 0),
        (RuntimeFault("E606", "x"), 1),
        (UsageError("E001", "x"), 2),
        (ModelError("E101", "x"), 3),
        (TargetError("E300", "x"), 4),
        (FormatError("E501", "x"), 5),
        (PassError("E200", "x"), 70),
        (ValueError("x"), 70),
        (FileNotFoundError(2, "No such file", "f"), 2),
        (KeyboardInterrupt(), 130),
        (MemoryError(), 1),
        (click.UsageError("x"), 2),
        (ErrorGroup([UsageError("E001", "x"), ModelError("E101", "y")]), 3),
    ],
)
def test_exit_status(error: BaseException | None, status: int) -> None:
    assert end(error) == status


def test_all_faults_are_printed_one_a_line_with_their_hints(capsys: pytest.CaptureFixture[str]) -> None:
    first = ModelError("E101", "operator 'Foo'\nis not supported", node="n1", op="Foo", hint="leave\nit out")
    end(ErrorGroup([first, ModelError("E102", "bad axis", pass_name="fold")]))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "error[E101]: operator 'Foo' is not supported, at node 'n1' (Foo)",
        "hint: leave it out",
        "error[E102]: bad axis, in pass fold",
    ]


def test_control_characters_in_names_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    end(ModelError("E103", "tensor \x1b[31mred\x07 has no producer\u202e", node="日本"))
    assert capsys.readouterr().err == "error[E103]: tensor \\x1b[31mred\\x07 has no producer\\u202e, at node '日本'\n"
    assert console.table(("a",), [("x\ny\x1b",)]) == "a\nx\\ny\\x1b"


def test_json_has_no_numbers_that_json_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_json({"mean": float("nan"), "first": [float("-inf"), 1.5]})
    assert json.loads(capsys.readouterr().out) == {"mean": None, "first": [None, 1.5]}


def test_json_gives_one_object_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    end(ErrorGroup([ModelError("E101", "a", node="n"), ModelError("E102", "b", hint="h")]), "--json")
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {
        "errors": [{"code": "E101", "message": "a", "node": "n"}, {"code": "E102", "message": "b", "hint": "h"}]
    }
    assert captured.err.startswith("error[E101]: a")


def test_a_bug_is_one_line_and_a_traceback_on_request(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MCPC_DEBUG", raising=False)
    end(ZeroDivisionError("by zero"))
    line, hint = capsys.readouterr().err.splitlines()
    assert line.startswith("error[E700]: a bug in mcpc: ZeroDivisionError at test_cli_faults.py:")
    assert "MCPC_DEBUG=1" in hint
    monkeypatch.setenv("MCPC_DEBUG", "1")
    end(ZeroDivisionError("by zero"))
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_a_wrong_option_points_to_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert end(None, "--nope") == 2
    line, hint = capsys.readouterr().err.splitlines()
    assert line.startswith("error[E003]:") and "--nope" in line
    assert hint == "hint: see mcpc --help"


def test_table() -> None:
    assert console.table(("a", "bcd"), [("xyz", 1), ("", 22)], right=(1,)) == "a    bcd\nxyz    1\n      22"


@pytest.mark.parametrize("text", ["x", "=f.npy", "x=missing.npy", f"x={__file__}", "x=broken.npz"])
def test_input_files_that_cannot_be_read(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("broken.npz").write_bytes(b"PK\3\4 and no more")
    with pytest.raises(McpcError) as caught:
        read_inputs((text,))
    assert caught.value.code == "E002" and "pickle" not in caught.value.message
