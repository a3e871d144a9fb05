from __future__ import annotations

from datetime import date

import pytest
from starlette.testclient import TestClient

from kb.records.schema import Claim, Evidence, LessonRecord
from kb.web.app import make_app
from kb.web.guard import WRITES, Doors
from kb.web.notes import latest
from search.lessons.distill import Lesson
from search.lessons.evidence import Runs
from search.lessons.store import LessonStore

HOST = "127.0.0.1:8321"
BASE = f"http://{HOST}"


@pytest.fixture
def learned(runs):
    """A home with a run, and a lesson that its node 0 confirms."""
    record = runs.small()
    evidence = Evidence(
        task="rows", target="zen4", before=1e-3, after=5e-4, low=1.96, high=2.06, run=record.run, node=0,
        at=date(2026, 11, 1), outcome="won",
    )  # fmt: skip
    lesson = LessonRecord(
        kind="lesson", title="Keep the row", evidence=(evidence,), idea="keep-the-row-in-cache",
        claim=Claim(effect="helps", subject="keep-the-row-in-cache", topic="t", basis="reference"),
    )  # fmt: skip
    book = LessonStore(runs.home.root, Runs(runs.storage.engine).fault)
    book.learn(
        [Lesson(name="keep-row", record=lesson, body="# Keep the row\n\nIt helps.\n")],
        [],
        date(2026, 11, 2),
    )
    return book


@pytest.fixture
def post(learned, look):
    doors = Doors(hosts=frozenset({HOST}))
    client = TestClient(make_app(look(), doors), base_url=BASE)
    headers = {WRITES: doors.pass_word, "Origin": BASE}

    def send(path: str, **said: object):
        return client.post(path, data=said, headers={**headers, **said.pop("headers", {})})

    send.client = client
    return send


NOTES = "/runs/rows-1/nodes/3/notes"


def test_a_note_is_kept_shown_and_taken_back(post, runs):
    answer = post(NOTES, verdict="interesting", text="Look at <b>this</b>", quote="# faster")
    assert answer.status_code == 200
    assert "Look at &lt;b&gt;this&lt;/b&gt;" in answer.text
    (note,) = latest(runs.storage.engine)
    assert (note.run, note.node, note.verdict, note.quote) == (
        "rows-1",
        3,
        "interesting",
        "# faster",
    )
    assert "interesting" in post.client.get("/notes").text
    assert "interesting" in post.client.get("/runs/rows-1/nodes/3").text
    assert post(f"{NOTES}/{note.number}/remove").status_code == 200
    assert latest(runs.storage.engine) == ()


def test_a_note_that_cannot_be_kept_says_why_beside_its_form(post, runs):
    for said in ({}, {"verdict": "nonsense", "text": "x"}, {"text": "x" * 30_000}):
        answer = post(NOTES, **said)
        assert answer.status_code == 422
        assert answer.headers["hx-retarget"] == "#said-note"
        assert "expected" in answer.text
    assert latest(runs.storage.engine) == ()


def test_a_note_is_taken_back_from_its_own_page_only(post, runs):
    post(NOTES, text="one")
    (note,) = latest(runs.storage.engine)
    assert post(f"/runs/rows-1/nodes/0/notes/{note.number}/remove").status_code == 422
    assert len(latest(runs.storage.engine)) == 1


@pytest.mark.parametrize(
    "headers", [{WRITES: ""}, {WRITES: "guess"}, {"Origin": "http://evil.example"}]
)
def test_nothing_is_written_for_a_stranger(post, runs, headers):
    assert post(NOTES, text="x", headers=headers).status_code == 403
    assert latest(runs.storage.engine) == ()


def test_a_note_on_nothing_is_refused(post, runs):
    assert post("/runs/rows-1/nodes/99/notes", text="x").status_code == 422
    assert post("/runs/none/nodes/0/notes", text="x").status_code == 422
    assert post("/lessons/none/notes", text="x").status_code == 422


def test_a_lesson_is_shown_with_its_evidence(post):
    page = post.client.get("/lessons/keep-row").text
    assert "Keep the row" in page
    assert 'href="/runs/rows-1/nodes/0"' in page
    told = post.client.get("/lessons.json").json()
    assert [(row["name"], row["status"], row["confirmed"]) for row in told["rows"]] == [
        ("keep-row", "active", 1)
    ]


def test_a_lesson_is_retired_and_brought_back(post, learned):
    assert post("/lessons/keep-row/retire", because="x").status_code == 422
    answer = post("/lessons/keep-row/retire", because="measured beside a build")
    assert answer.headers["hx-refresh"] == "true"
    (entry,) = learned.entries()
    assert entry.retired
    assert "measured beside a build" in post.client.get("/lessons/keep-row").text
    post("/lessons/keep-row/restore")
    assert not learned.entries()[0].retired


def test_a_measurement_is_added_to_a_lesson_where_the_record_has_it(post, learned):
    assert post("/lessons/keep-row/confirm", run="rows-1", node="3").headers["hx-refresh"] == "true"
    assert {one.node for one in learned.entries()[0].record.evidence} == {0, 3}
    for run, node in (("rows-1", "99"), ("nobody", "0"), ("rows-1", "x")):
        answer = post("/lessons/keep-row/confirm", run=run, node=node)
        assert answer.status_code == 422
        assert "expected" in answer.text or "no run" in answer.text
