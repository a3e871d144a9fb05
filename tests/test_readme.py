"""README and docs: short enough to read, their links lead somewhere, and the commands that they name exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer.main

from kb.cli.commands import app

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
_LINK = re.compile(r"\]\((?!https?://|#|\{)([^)#\s]+)")
_COMMAND = re.compile(r"`kb ([a-z]+)\b|^\$? ?kb ([a-z]+)\b", re.MULTILINE)
_SCRIPT = re.compile(r"python (?:-m )?((?:benchmarks|tools)[\w./]+)")


def test_readme_has_at_most_two_hundred_lines() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 200


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    missing = [
        link for link in _LINK.findall(page.read_text()) if not (page.parent / link).exists()
    ]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_that_are_named_exist(page: Path) -> None:
    known = set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    named = {one or other for one, other in _COMMAND.findall(page.read_text())}
    assert named - known == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_scripts_that_are_named_exist(page: Path) -> None:
    for name in _SCRIPT.findall(page.read_text()):
        path = name.rstrip(".")
        module = ROOT / path.replace(".", "/")
        places = (ROOT / path, module.with_suffix(".py"), module / "__main__.py")
        assert any(place.exists() for place in places), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_modules_that_are_named_exist(page: Path) -> None:
    named = set(re.findall(r"`((?:kb|ingest|synth|search)/[\w./]+)`", page.read_text()))
    assert sorted(name for name in named if not (ROOT / name).exists()) == []
