"""`kb import` and `kb replay` on files that somebody else wrote."""

from __future__ import annotations

import base64
import gzip
import json
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kb.cli.replay import play
from kb.config import Home
from kb.errors import KbError

RUN = Path(__file__).parents[3] / "examples" / "runs" / "causal-attention-1.run.gz"
NAME = "causal-attention-1"
Rows = list[dict[str, Any]]


def rows() -> Rows:
    return [json.loads(line) for line in gzip.open(RUN)]


def write(path: Path, found: Rows) -> Path:
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in found).encode()))
    return path


def about(change: Callable[[dict[str, Any]], None]) -> Callable[[Rows], Rows]:
    def changed(found: Rows) -> Rows:
        row = next(row["row"] for row in found if row.get("table") == "runs")
        values = json.loads(row["about"])
        change(values)
        row["about"] = json.dumps(values)
        return found

    return changed


def settings(**values: Any) -> Callable[[Rows], Rows]:
    return about(lambda found: found["settings"].update(values))


def source(text: str) -> Callable[[Rows], Rows]:
    return about(lambda found: found.update(source=text))


def without(table: str) -> Callable[[Rows], Rows]:
    return lambda found: [row for row in found if row.get("table") != table]


def given(text: bytes) -> Callable[[Rows], Rows]:
    def changed(found: Rows) -> Rows:
        for row in found:
            if row.get("table") == "given":
                row["row"]["value"] = base64.b64encode(zlib.compress(text)).decode()
        return found

    return changed


@pytest.mark.slow
def test_the_program_of_an_imported_run_is_run_where_it_is_trusted_alone(
    make_shell: Callable[[], Any], tmp_path: Path
) -> None:
    shell, mark = make_shell(), tmp_path / "was_run"
    reference = f"open({str(mark)!r}, 'w').close()\n"
    file = write(tmp_path / "run.gz", source(reference)(rows()))
    done = shell("import", file)
    assert done.returncode == 0, done.stderr
    assert "--trust" in done.stdout
    for command in (
        ("replay", NAME),
        ("prompt", NAME, "--node", "1"),
        ("lessons", "learn", NAME),
    ):
        done = shell(*command)
        assert done.returncode == 2, (command, done.stdout, done.stderr)
        assert "was imported" in done.stderr, command
        assert not mark.exists(), command
    kept = shell.home / "runs" / NAME / "reference.py"
    assert kept.read_text() == reference  # which can be read before it is trusted
    done = shell("replay", NAME, "--trust")
    assert mark.exists()
    assert done.returncode == 2  # it defines no Model
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_what_was_carried_is_told_as_json_to_programs(
    bare_shell: Callable[..., Any], tmp_path: Path
) -> None:
    done = bare_shell("import", RUN, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"run": NAME, "trusted": False}
    file = tmp_path / "out.gz"
    done = bare_shell("export", NAME, "-o", file, "--json")
    assert done.returncode == 0, done.stderr
    told = {"run": NAME, "file": str(file), "rows": len(rows()) - 1, "bytes": file.stat().st_size}
    assert json.loads(done.stdout) == told


@pytest.mark.slow
@pytest.mark.parametrize("choose", ["bandit", "weights"])
def test_a_run_of_a_version_with_a_bandit_can_be_imported(
    bare_shell: Callable[..., Any], tmp_path: Path, choose: str
) -> None:
    older = settings(models={"code": [{"name": "a"}, {"name": "b"}], "choose": choose})
    done = bare_shell("import", write(tmp_path / "run.gz", older(rows())))
    assert done.returncode == 0, done.stderr
    assert NAME in bare_shell("runs").stdout
    other = settings(models={"code": [{"name": "a", "choose": choose}]})
    done = bare_shell("import", write(tmp_path / "other.gz", other(rows())))
    assert done.returncode == 2, "it is the name of no other setting"


HOSTILE: dict[str, Callable[[Rows], Rows]] = {
    "a reference that is no Python": source("def broken(:"),
    "a reference that raises": source("raise SystemExit(0)"),
    "a reference without a model": source("x = 1"),
    "a reference whose model raises": source(
        "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x): raise KeyError\n"
        "def get_inputs(): return [torch.ones(3)]\n"
    ),
    "a target that is none": about(lambda found: found.update(target="../none")),
    "an author that is none": settings(author="nobody"),
    "a policy that is none": settings(search={"policy": "../beam"}),
    "templates of another folder": settings(prompts="/proc/self"),
    "a thing given of another kind": given(b'{"a": 1}'),
    "a thing given that is no list of passages": given(b"[[1]]"),
    "nothing given": without("given"),
    "no answers": without("exchanges"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_a_replay_of_a_hostile_run_ends_with_a_line_or_says_what_differs(
    indexed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    from kb.cli.exports import _show
    from kb.knowledge import open_tables
    from search.runs.export import read_run
    from search.runs.storage import Storage

    home = Home(shutil.copytree(indexed, tmp_path / "home"))
    monkeypatch.setenv("KB_HOME", str(home.root))
    monkeypatch.chdir(tmp_path)
    file = write(tmp_path / "run.gz", HOSTILE[name](rows()))
    said = ""
    try:
        read_run(Storage(open_tables(home)), file, trusted=True, look=_show)
        found = play(home, NAME, judge=False)
    except KbError as error:
        said = str(error)
    assert "\n" not in said
    assert said or not found["identical"]
    assert {path.name for path in tmp_path.iterdir()} == {"home", "run.gz"}
