"""Files that claim to be exported runs: each is refused in one line, and nothing of it is read."""

from __future__ import annotations

import base64
import copy
import gzip
import json
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from play import open_storage, play, settings_of

from kb.cli.exports import _show
from kb.database import reading
from kb.errors import StoreError
from search.runs import imports
from search.runs.export import _TABLES, read_run, trust_run, write_run
from search.runs.snapshot import RunSnapshot
from search.runs.spending import spending
from search.runs.storage import Storage
from synth.models import Message, Reply, Request

ASKED = Request(
    messages=(Message(role="user", content="Make it fast."),),
    max_tokens=9,
    temperature=0.5,
    seed=3,
)
ANSWER = Reply(text="…", model="m", tokens_in=1, tokens_out=2, seconds=3.0, finish="stop")
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """Return the rows of a run that is as it should be."""
    folder = tmp_path_factory.mktemp("played")
    storage = open_storage(folder)
    about = {
        **{name: name for name in ("task", "target", "language", "author", "source")},
        "path": "task.yaml",
        "reference": "reference.py",
        "settings": settings_of().model_dump(mode="json"),
    }
    record = storage.begin("play", about)
    play(storage, record, settings_of())
    record.finish_search("done")
    storage.put(ASKED.key(), ASKED, ANSWER)
    RunSnapshot(storage.engine, record.run).earlier(())
    write_run(storage, record.run, folder / "run.gz")
    return [json.loads(line) for line in gzip.open(folder / "run.gz")]


def packed(rows: Rows) -> bytes:
    return gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode())


def changed(table: str, **values: Any) -> Callable[[Rows], bytes]:
    """Return what changes the first row of a table; a value that can be called changes the old one."""

    def change(rows: Rows) -> bytes:
        row = next(row["row"] for row in rows if row.get("table") == table)
        for name, value in values.items():
            row[name] = value(row.get(name)) if callable(value) else value
        return packed(rows)

    return change


def within(**values: Any) -> Callable[[str | None], str]:
    """Return what changes an object that a column holds as JSON."""

    def change(text: str | None) -> str:
        return json.dumps({**json.loads(text or "{}"), **values})

    return change


def named(name: Any) -> Callable[[Rows], bytes]:
    def change(rows: Rows) -> bytes:
        for row in rows:
            if "run" in row:
                row["run"] = name
            if "run" in row.get("row", {}):
                row["row"]["run"] = name
        return packed(rows)

    return change


def added(row: Any) -> Callable[[Rows], bytes]:
    return lambda rows: packed([*rows, row])


def exchange(**values: Any) -> dict[str, Any]:
    row = {"key": ASKED.key(), "request": ASKED.to_json(), "reply": json.dumps({}), "at": 1.0}
    return {"table": "exchanges", "row": {**row, **values}}


def call(number: int) -> dict[str, Any]:
    row = {"number": number, "key": "", "role": "code", "model": "m", "tokens_in": 1, "tokens_out": 1,
           "cached": 0, "cost": None, "seconds": 1.0, "paid": True, "at": 9e10}  # fmt: skip
    return {"table": "model_calls", "row": row}


def without(table: str) -> Callable[[Rows], bytes]:
    return lambda rows: packed([row for row in rows if row.get("table") != table])


def doubled(table: str) -> Callable[[Rows], bytes]:
    return lambda rows: packed([*rows, next(row for row in rows if row.get("table") == table)])


def parent_of_itself(rows: Rows) -> bytes:
    nodes = [row["row"] for row in rows if row.get("table") == "nodes"]
    nodes[1]["parent"] = nodes[1]["number"]
    return packed(rows)


def gap(rows: Rows) -> bytes:
    last = max(
        (row["row"] for row in rows if row.get("table") == "nodes"), key=lambda r: r["number"]
    )
    last["number"] += 5
    return packed(rows)


GIVEN = base64.b64encode(zlib.compress(b'"' + b"a" * (33 << 20) + b'"')).decode()
# All that shows a report can show it.
WITHDRAWN: dict[str, Any] = {
    **dict.fromkeys(("run", "task", "target", "language", "author", "stop_reason"), "play"),
    "candidates": 1,
    "seconds": 1.0,
    "best": None,
    "outcomes": {},
    "baselines": {},
    "withdrawn": [{"node": [0], "outcome": "refused", "reason": "none"}],
}
RATIO = {"ratio": -1.0, "low": 1.0, "high": 1.0}
BEST: dict[str, Any] = {
    "node": 0, "seconds": 1.0, "source": "x = 1", "speedup": {"eager": {**RATIO, "ratio": 2.0}}, "confirmed": True,
    "idea": "", "own_share": 1.0, "max_error": 0.0, "allowed_error": 0.0, "profile": {}, "kernels": [],
}  # fmt: skip
FOUND = {**WITHDRAWN, "withdrawn": [], "best": BEST}
HOSTILE: dict[str, Callable[[Rows], bytes]] = {
    # The name of a run is the name of a folder.
    "name above": named("../../../x"),
    "name absolute": named("/tmp/kb-import-x"),
    "name dots": named(".."),
    "name hidden": named(".ssh"),
    "name empty": named(""),
    "name in a folder": named("a/b"),
    "name of an option": named("--trust"),
    "name with an end": named("a\0b"),
    "name of two lines": named("a\nb"),
    "name too long": named("a" * 121),
    "name of other letters": named("\u0430-1"),
    "name a number": named(7),
    "name none": named(None),
    # Files that are no runs.
    "words": lambda _: b"no run at all",
    "empty": lambda _: b"",
    "empty, compressed": lambda _: gzip.compress(b""),
    "cut": lambda rows: packed(rows)[:-40],
    "damaged": lambda rows: packed(rows)[:200] + b"\xff" * 200 + packed(rows)[400:],
    "another format": lambda _: gzip.compress(b'{"format": "kb run 99"}\n'),
    "a format of a megabyte": lambda _: gzip.compress(b'{"format": "%s"}\n' % (b"x" * 1_000_000)),
    "a list": lambda _: gzip.compress(b"[1]\n"),
    "lists in lists": lambda _: gzip.compress(b"[" * 200_000 + b"]" * 200_000 + b"\n"),
    "half a letter": changed("sources", text="\ud800"),
    "a line beyond the bound": lambda rows: packed(rows) + gzip.compress(b'"' + b"a" * 2_100_000),
    "lines beyond the bound": lambda rows: packed([*rows, *[rows[1]] * 4000]),
    # Rows of no run.
    "a table that is none": added({"table": "users", "row": {}}),
    "a table that is a list": added({"table": ["runs"], "row": {}}),
    "a column that is none": changed("nodes", evil=1),
    "a row that is none": added({"table": "nodes", "row": 3}),
    "a row of another run": changed("nodes", run="softmax-1"),
    "a row twice": doubled("nodes"),
    "no run": without("runs"),
    "two runs": doubled("runs"),
    "no sources": without("sources"),
    "no proposals": without("proposals"),
    # Values that break whoever reads them.
    "the greatest number of a run": changed("runs", number=2**63 - 1),
    "a start beyond any calendar": changed("runs", started=1e300),
    "a start that is no number": changed("runs", started=float("nan")),
    "a start in words": changed("runs", started="now"),
    "a status that is none": changed("runs", status="gone"),
    "nothing about it": changed("runs", about="{}"),
    "about it no JSON": changed("runs", about="{"),
    "settings that are none": changed("runs", about=within(settings={"search": {"rounds": -1}})),
    "a report that is a list": changed("runs", report="[1]"),
    "a report without its parts": changed("runs", report="{}", status="finished"),
    "a withdrawal of what is no node": changed("runs", report=json.dumps(WITHDRAWN), status="finished"),
    "a best of no node": changed("runs", report=within(best={"node": 999}, candidates=1, seconds=1)),
    "a number beyond the database's": changed("nodes", number=2**70),
    "a number that is true": changed("nodes", number=True),
    "a step that is none": changed("nodes", step="1.2"),
    "a node of itself": parent_of_itself,
    "a node before its parent": changed("nodes", parent=99),
    "a node that is missing": gap,
    "a draft without its parts": changed("nodes", draft="{}"),
    "a draft of another kind": changed("nodes", draft=within(passages=3)),
    "ideas that are none": changed("proposals", ideas="[{}]"),
    "ideas of another kind": changed("proposals", ideas='[{"title": 3, "text": "", "category": ""}]'),
    "an outcome that is none": changed("outcomes", outcome='{"kind": "won"}'),
    "an outcome in words": changed("outcomes", outcome=within(seconds="fast")),
    "a program that takes no time": changed("outcomes", outcome=within(seconds=0.0)),
    "a program that is slower than nothing": changed("outcomes", outcome=within(speedup={"eager": RATIO})),
    "an error that is no number": changed("outcomes", outcome=within(max_error=float("nan"))),
    "calls that never ended": changed("outcomes", outcome=within(calls={"candidate": [float("inf")]})),
    "a number beyond any measurement": changed("outcomes", outcome=within(profile={"flops": 1e300})),
    "a best that takes no time": changed("runs", report=json.dumps({**FOUND, "best": {**BEST, "seconds": 0.0}})),
    "a run that took forever": changed("runs", report=json.dumps({**FOUND, "seconds": float("inf")})),
    "a baseline that takes no time": changed("runs", report=json.dumps({**FOUND, "baselines": {"eager": 0.0}})),
    "a thing given that is none": changed("given", value="AAAA"),
    "a thing given that fills the memory": changed("given", value=GIVEN),
    "a call whose number one of mine will have": added(call(1)),
    # What is planted under the name of something else.
    "a planted source": changed("sources", text="import os; os.system('true')"),
    "a planted answer": added(exchange(request=ASKED.to_json().replace("fast", "slow"))),
    "an answer that is none": added(exchange()),
    "a request that is none": added(exchange(request="{}")),
}  # fmt: skip


TELLING = {
    "name above": "named '../../../x'",
    "a format of a megabyte": "found 'xxx",
    "lists in lists": "recursion",
    "a line beyond the bound": "MiB in a line",
    "lines beyond the bound": "more than",
    "a thing given that fills the memory": "more than 32 MiB",
    "a planted source": "not what its hash says",
    "a planted answer": "not what its hash says",
}


@pytest.fixture
def bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the bounds on size, so that a file beyond them is small."""
    monkeypatch.setattr(imports, "LONGEST_LINE", 2_000_000)
    monkeypatch.setattr(imports, "LARGEST", 3_000_000)


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Storage]:
    (tmp_path / "home").mkdir()
    storage = open_storage(tmp_path / "home")
    yield storage
    storage.engine.dispose()


def _counts(storage: Storage) -> dict[str, int]:
    with reading(storage.engine) as session:
        return {name: len(session.execute(table.select()).all()) for name, table in _TABLES.items()}


@pytest.mark.usefixtures("bounds")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_in_a_line_and_nothing_is_read(
    rows: Rows, there: Storage, tmp_path: Path, name: str
) -> None:
    path = tmp_path / "run.gz"
    path.write_bytes(HOSTILE[name](copy.deepcopy(rows)))
    files = sorted(tmp_path.rglob("*"))
    with pytest.raises(StoreError) as caught:
        read_run(there, path, look=_show)
    said = str(caught.value).replace(str(path), "")
    if name in TELLING:
        assert TELLING[name] in said
    assert "\n" not in said
    assert len(said) < 400
    assert not any(_counts(there).values())
    assert [file for file in sorted(tmp_path.rglob("*")) if "sqlite" not in file.name] == [
        file for file in files if "sqlite" not in file.name
    ]


def test_there_are_enough_of_them() -> None:
    assert len(HOSTILE) >= 40


def test_a_folder_a_pipe_and_a_file_that_is_not_there_are_told(
    there: Storage, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "none", Path("/dev/zero")):
        with pytest.raises(StoreError, match="no file"):
            read_run(there, path)


@pytest.mark.usefixtures("bounds")
def test_the_file_that_they_were_made_of_is_read(
    rows: Rows, there: Storage, tmp_path: Path
) -> None:
    path = tmp_path / "run.gz"
    path.write_bytes(changed("runs", report=json.dumps(FOUND))([*rows, call(0)]))
    run = read_run(there, path, look=_show)
    assert there.record(run).graph.judged
    assert spending(there.engine) == []
    assert there.run(run).about["imported"] is True
    trust_run(there, run)
    assert there.run(run).about["imported"] is False


def test_a_run_that_is_trusted_from_the_start_is_not_marked(
    rows: Rows, there: Storage, tmp_path: Path
) -> None:
    path = tmp_path / "run.gz"
    path.write_bytes(packed(rows))
    assert not there.run(read_run(there, path, trusted=True)).about["imported"]


def test_a_run_that_is_carried_on_says_nothing_of_who_trusted_it(
    rows: Rows, there: Storage, tmp_path: Path
) -> None:
    path = tmp_path / "run.gz"
    path.write_bytes(packed(rows))
    write_run(there, read_run(there, path), tmp_path / "again.gz")
    assert b"imported" not in gzip.decompress((tmp_path / "again.gz").read_bytes())
