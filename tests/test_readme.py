"""README and docs: short enough to read, their links lead somewhere, and the commands that they name exist."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
import typer.main

from kb.cli.commands import app
from kb.config import shipped_docs
from kb.records.library import load_library
from kb.records.schema import IdeaRecord

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
_LINK = re.compile(r"\]\((?!https?://|#|\{)([^)#\s]+)")
_COMMAND = re.compile(r"`kb ([a-z]+)\b|^\$? ?kb ([a-z]+)\b", re.MULTILINE)
_SCRIPT = re.compile(r"python (?:-m )?((?:benchmarks|tools)[\w./]+)")


def _page(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def _headings(page: Path) -> set[str]:
    """Return the headings of a page as links name them."""
    lines = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-") for line in lines}


def test_readme_has_at_most_two_hundred_lines() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 200


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    missing = [
        link for link in _LINK.findall(page.read_text()) if not (page.parent / link).exists()
    ]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_headings_lead_to_one(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#\s]*\.md|)#([^)\s]+)\)", page.read_text())
    assert [
        (name, heading)
        for name, heading in links
        if heading not in _headings(page.parent / name if name else page)
    ] == []


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


def test_the_numbers_of_records_that_pages_tell_are_those_of_the_library() -> None:
    records = [document.record for document in load_library(shipped_docs())]
    counts = Counter(record.kind for record in records if record is not None)
    ideas = [record for record in records if isinstance(record, IdeaRecord)]
    readme, library = (ROOT / "README.md").read_text(), (ROOT / "docs" / "library.md").read_text()
    assert re.findall(r"(\d+) ideas", readme) == [str(counts["idea"])]
    assert re.findall(r"(\d+) winning kernels", readme) == [str(counts["kernel"])]
    listed = re.findall(r"^\| `(\w+)` \| `[^`]+` \| (\d+) \|", library, re.MULTILINE)
    assert {kind: int(count) for kind, count in listed} == {k: counts[k] for k, _ in listed}
    assert re.findall(r"Rendering the (\d+) recipes", library) == [
        str(sum(bool(i.recipe) for i in ideas))
    ]
    assert re.findall(r"^(\d+) of the ideas are marked", library, re.MULTILINE) == [
        str(sum(i.anti for i in ideas))
    ]


def test_the_number_of_graded_tasks_that_pages_tell_is_that_of_the_library() -> None:
    tasks = json.loads((shipped_docs() / "graded" / "tasks.json").read_text())["tasks"]
    for page in ("library.md", "retrieval.md"):
        told = re.findall(r"(\d+) tasks\s+(?:with the grades|whose records)", _page(page))
        assert told == [str(len(tasks))], page


def test_the_numbers_of_cases_that_pages_tell_are_those_of_the_corpus() -> None:
    def count(device: str, kind: str) -> str:
        return str(len(list((ROOT / "tests/search/judging" / device / kind).glob("*.py"))))

    rows = re.findall(
        r"^\| `(cheats|honest)/` \| (\d+) \| (\d+) \|", _page("cheats.md"), re.MULTILINE
    )
    assert rows == [
        (kind, count("cpu", kind), count("cuda", kind)) for kind in ("cheats", "honest")
    ]
    told = re.findall(r"judging/cpu/(cheats|honest)/` holds (\d+)", _page("judge.md"))
    assert told == [(kind, count("cpu", kind)) for kind in ("cheats", "honest")]
