"""Texts point to what is there, and commands in them exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mcpc.cli import cli

ROOT = Path(__file__).parent.parent
TEXTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("text", TEXTS, ids=lambda path: path.name)
def test_links_lead_somewhere(text: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (text.parent / target).exists(), target


def test_walkthrough_names_files_that_exist() -> None:
    text = (ROOT / "docs" / "walkthrough.md").read_text(encoding="utf-8")
    known = {path.name for folder in ("mcpc", "passes", "targets", "runtime") for path in (ROOT / folder).rglob("*")}
    named = set(re.findall(r"`([\w/.]+\.(?:py|c|h))`", text)) - {"steps/c/steps.c"}
    assert len(named) > 15
    for name in named:
        assert (ROOT / name).exists() if "/" in name else name in known, name


@pytest.mark.parametrize("text", [*TEXTS, ROOT / "docs" / "ci-example.yml"], ids=lambda path: path.name)
def test_commands_have_the_options_that_texts_show(text: Path) -> None:
    for verb, rest in re.findall(
        r"^(?:    |.*run: )mcpc (\w+)([^#\n]*)", text.read_text(encoding="utf-8"), re.MULTILINE
    ):
        known = {name for parameter in cli.commands[verb].params for name in parameter.opts}
        assert set(re.findall(r"(?<=\s)--?[a-z][\w-]*", rest)) <= known, (verb, rest)
