from __future__ import annotations

import json
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kb.cli.commands import app
from kb.errors import ConfigError

GUIDE = """# ROCm tuning guide

## MI300X memory

| | MI300X |
| --- | --- |
| Compute units | 304 |
| L2 cache latency | 310 cycles |

## Softmax kernels

Read each row once. {more}
""".format(more="Words that make a section large enough to be a passage of its own. " * 4)


class Here:
    """Runs commands in this process, which spares their start."""

    def __init__(self, home: Path, docs: Path) -> None:
        self.home, self.docs = home, docs

    def __call__(self, *arguments: object) -> str:
        words = [str(one) for one in arguments]
        env = {"KB_HOME": str(self.home), "KB_DATABASE": ""}
        return CliRunner().invoke(app, words, env=env, catch_exceptions=False).stdout

    def json(self, *arguments: object) -> object:
        return json.loads(self(*arguments, "--json"))


@pytest.fixture
def here(make_shell) -> Here:
    shell = make_shell()
    docs = shell.folder / "docs"
    docs.mkdir()
    (docs / "guide.md").write_text(GUIDE)
    return Here(shell.home, docs)


def content(database: Path) -> list[str]:
    """All rows of a database, written out.

    Its file changes when the log that an earlier command left is written back, and an empty table is made for each
    model that this process has imported.
    """
    with closing(sqlite3.connect(database)) as connection:
        return sorted(line for line in connection.iterdump() if line.startswith("INSERT"))


@pytest.mark.slow
def test_a_dry_run_writes_nothing_and_tells_what_would_be_made(here):
    before = content(here.home / "kb.sqlite")
    plan = here.json("ingest", here.docs, "--dry-run")
    (one,) = plan["documents"]
    assert (one["document"], one["passages"], one["new"]) == ("docs/guide.md", 2, 2)
    assert plan["to_embed"] == 2
    assert plan["embedding_seconds"] > 0
    assert content(here.home / "kb.sqlite") == before
    shown = here("ingest", "--inspect", here.docs / "guide.md")
    assert "applies to vendor amd; architecture gfx942" in shown


@pytest.mark.slow
def test_what_was_made_is_shown_corrected_and_forgotten(here):
    report = here.json("ingest", here.docs)
    assert report["added"] == ["docs/guide.md"]
    assert report["passages"]["docs/guide.md"]["new"] == 2
    assert report["pending"] == 0
    (here.home / "scopes.yaml").write_text("- {document: guide.md, scope: {vendor: []}}\n")
    assert here.json("ingest", here.docs)["skipped"] == ["docs/guide.md"]
    shown = here.json("ingest", "--inspect", "guide.md")
    assert shown["found"] == {"vendor": ["amd"]}
    assert shown["scope"] == {}
    assert shown["passages"][0]["scope"] == {"architecture": ["gfx942"]}

    assert "forgotten" in here("ingest", "--forget", "docs/guide.md")
    with pytest.raises(ConfigError, match="found none of that name"):
        here("ingest", "--forget", "docs/guide.md")


def test_one_thing_is_asked_of_it_at_a_time(here):
    for arguments in ([], [here.docs, "--inspect", "a"], ["--inspect", "a", "--forget", "b"]):
        with pytest.raises(ConfigError, match="one of these only"):
            here("ingest", *arguments)
    with pytest.raises(ConfigError, match="kb keeps itself"):
        here("ingest", "--forget", "kb:targets/nvidia/h100.md")


def test_an_empty_path_and_a_home_that_is_nobodys_are_a_line_each(here):
    with pytest.raises(ConfigError, match="found an empty argument"):
        here("ingest", "")
    with pytest.raises(ConfigError, match="No such file or directory"):
        here("ingest", "~nobody-of-this-name/x.md", "--dry-run")
    with pytest.raises(ConfigError, match="found none of that name"):
        here("ingest", "--inspect", "~nobody-of-this-name/x.md")


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_read_and_says_how_to_go_on(make_shell):
    shell = make_shell()
    docs = shell.folder / "many"
    docs.mkdir()
    for number in range(6):
        words = " ".join(f"word{number}x{place}" for place in range(40))
        (docs / f"{number}.md").write_text(f"# Document {number}\n\n{words}\n")
    process = shell.start("ingest", "many")
    assert process.stderr is not None
    for line in process.stderr:
        if "embedding" in line:
            break
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted after 6 added" in error
    assert "the same command goes on from here" in error
    report = json.loads(shell("ingest", "many", "--json").stdout)
    assert (len(report["skipped"]), report["pending"]) == (6, 0)


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--dry-run",), ("--json",), ("--dry-run", "--json")])
def test_a_path_that_cannot_be_read_is_exit_2_after_the_others_were_read(make_shell, more):
    shell = make_shell()
    (shell.folder / "guide.md").write_text(GUIDE)
    done = shell("ingest", "nowhere", "guide.md", "none*.md", *more)
    assert done.returncode == 2
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(
        "kb: error: nowhere: No such file or directory: check the path (and 1 more"
    )
    if "--json" in more:
        assert json.loads(done.stdout)["unread"] == ["nowhere", "none*.md"]
    else:
        assert "guide.md: 2 new" in done.stdout


@pytest.mark.slow
def test_a_folder_with_files_that_nothing_reads_is_no_failure(make_shell):
    shell = make_shell()
    docs = shell.folder / "docs"
    docs.mkdir()
    (docs / "guide.md").write_text(GUIDE)
    (docs / "program.exe").write_text("MZ")
    done = shell("ingest", "docs", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert [one["document"] for one in report["refused"]] == ["docs/program.exe"]
    assert report["unread"] == []
