from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from kb.errors import ConfigError, StoreError
from kb.web.site import MARK, write_site


class Links(HTMLParser):
    """Collects what a page points to, and what can be pointed at."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name in ("href", "src"):
                self.found.append(value or "")
            if name == "id":
                self.ids.add(value or "")
            assert not name.startswith("on"), f"{tag} {name}"


def dead_links(folder: Path) -> list[str]:
    """Return the links of a site that lead nowhere."""
    pages = {path.resolve(): Links(path.read_text("utf-8")) for path in folder.rglob("*.html")}
    dead = []
    for path, page in pages.items():
        for link in page.found:
            name, _, anchor = link.partition("#")
            target = (path.parent / name).resolve() if name else path
            assert not re.match(r"[a-z]+:|//", link), f"{path.name}: {link} leads out of the site"
            if not target.is_file() or (anchor and anchor not in pages[target].ids):
                dead.append(f"{path.relative_to(folder.resolve())}: {link}")
    return dead


@pytest.mark.slow
def test_every_link_of_a_site_leads_to_a_file_of_it(runs, look, tmp_path):
    runs.small()
    runs.small("other")
    made = write_site(look(), tmp_path / "site")
    pages = list((tmp_path / "site").rglob("*.html"))
    assert made.pages == len(pages)
    assert dead_links(tmp_path / "site") == []
    assert (tmp_path / "site/runs/rows-1/nodes/3/diff/reference.html").is_file()


def test_a_site_tells_of_the_runs_that_are_named_alone(runs, look, tmp_path):
    runs.small()
    runs.small("other")
    write_site(look(), tmp_path / "site", ["other-1"])
    assert "rows-1" not in (tmp_path / "site/index.html").read_text()
    assert not (tmp_path / "site/runs/rows-1.html").exists()
    assert dead_links(tmp_path / "site") == []
    with pytest.raises(StoreError, match="no run 'nobody'"):
        write_site(look(), tmp_path / "site", ["nobody"])


@pytest.mark.slow
def test_a_site_is_written_over_one_that_was_there_and_over_nothing_else(runs, look, tmp_path):
    runs.small()
    runs.small("other")
    site = tmp_path / "site"
    write_site(look(), site)
    (site / "mine.txt").write_text("kept")
    write_site(look(), site, ["rows-1"])
    assert not (site / "runs/other-1.html").exists()
    assert (site / "mine.txt").read_text() == "kept"
    full = tmp_path / "full"
    full.mkdir()
    (full / "thesis.tex").write_text("years of work")
    with pytest.raises(ConfigError, match="something else"):
        write_site(look(), full)


@pytest.mark.slow
def test_a_site_whose_writing_was_broken_off_is_written_over(runs, look, tmp_path):
    runs.small()
    runs.small("other")

    def interrupt(_what: str, done: float | None = 0, _of: float | None = 0) -> None:
        if done == 9:
            raise KeyboardInterrupt

    site, whole = tmp_path / "site", tmp_path / "whole"
    with pytest.raises(KeyboardInterrupt):
        write_site(look(), site, progress=interrupt)
    write_site(look(), site, ["rows-1"])
    write_site(look(), whole, ["rows-1"])
    files = [
        sorted(p.relative_to(one) for p in one.rglob("*") if p.is_file()) for one in (site, whole)
    ]
    assert files[0] == files[1]


@pytest.mark.slow
def test_a_mark_that_names_files_elsewhere_removes_none_of_them(runs, look, tmp_path):
    runs.small()
    site = tmp_path / "site"
    write_site(look(), site)
    (tmp_path / "precious").write_text("kept")
    with (site / MARK).open("a") as mark:
        mark.write("../precious\n")
    write_site(look(), site)
    assert (tmp_path / "precious").read_text() == "kept"


def test_a_run_with_a_hostile_name_stays_in_the_folder(runs, look, tmp_path):
    from sqlalchemy import text

    record = runs.small()
    with runs.storage.engine.begin() as connection:
        for table in ("runs", "nodes", "proposals"):
            connection.execute(text(f"UPDATE {table} SET run='../../<i>out' WHERE run=:run"), {"run": record.run})  # fmt: skip
    write_site(look(), tmp_path / "deep/site")
    assert {path.name for path in tmp_path.iterdir()} == {"deep", "home"}
    assert dead_links(tmp_path / "deep/site") == []
    assert "<i>out" not in (tmp_path / "deep/site/index.html").read_text()
