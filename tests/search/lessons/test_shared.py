"""Lessons of several homes on one database, on each database that `kb` supports."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, event, insert

from kb.database import writing
from kb.errors import StoreError
from search.lessons.shared import SHARED_LESSONS, SharedLessons
from search.lessons.store import LessonStore

LEARNER = Path(__file__).with_name("learner.py")
HEAD = "---\nkind: lesson\nnumber: {}\n---\n\n"


class Place:
    """A home."""

    def __init__(self, engine: Engine, root: Path) -> None:
        root.mkdir()
        self.root = root
        self.shared = SharedLessons(engine, root)

    def write(self, name: str, text: str, *, folder: str = "lessons") -> None:
        (self.root / folder).mkdir(exist_ok=True)
        (self.root / folder / f"{name}.md").write_text(text)

    def files(self) -> dict[str, str]:
        return {
            str(path.relative_to(self.root)): path.read_text()
            for folder in ("lessons", "retired")
            for path in (self.root / folder).glob("*.md")
        }


@pytest.fixture
def homes(engine: Engine, tmp_path: Path) -> tuple[Place, Place]:
    return Place(engine, tmp_path / "a"), Place(engine, tmp_path / "b")


def test_what_one_home_writes_changes_retires_and_removes_the_other_has(
    homes: tuple[Place, Place],
) -> None:
    a, b = homes
    a.write("one", HEAD.format(1) + "first")
    assert a.shared.share() == b.shared.share() == []
    assert b.files() == {"lessons/one.md": HEAD.format(1) + "first"}
    (b.root / "lessons/one.md").unlink()
    b.write("one", HEAD.format(1) + "second", folder="retired")
    assert b.shared.share() == a.shared.share() == []
    assert a.files() == {"retired/one.md": HEAD.format(1) + "second"}
    (a.root / "retired/one.md").unlink()
    assert a.shared.share() == b.shared.share() == []
    assert a.files() == b.files() == {}


def test_a_lesson_that_two_homes_changed_is_as_it_was_handed_on_first_and_the_other_is_kept(
    homes: tuple[Place, Place],
) -> None:
    a, b = homes
    a.write("one", "a's")
    b.write("one", "b's")
    assert a.shared.share() == []
    assert b.shared.share() == ["one"]
    assert b.files() == a.files() == {"lessons/one.md": "a's"}
    assert (b.root / "replaced/one.md").read_text() == "b's"


def test_what_a_person_writes_while_lessons_are_shared_is_handed_on_the_next_time(
    engine: Engine, homes: tuple[Place, Place]
) -> None:
    a, b = homes
    a.write("one", "first")

    @event.listens_for(engine, "commit", once=True)
    def write(_connection: Connection) -> None:
        a.write("one", "second")

    assert a.shared.share() == []
    assert a.shared.share() == b.shared.share() == []
    assert a.files() == b.files() == {"lessons/one.md": "second"}


def test_a_name_in_the_database_leads_out_of_no_home(
    engine: Engine, homes: tuple[Place, Place]
) -> None:
    with writing(engine) as session:
        for name in ("../../out", "/out", "a/b"):
            row = {"name": name, "retired": False, "text": "text"}
            session.execute(insert(SHARED_LESSONS).values(**row))
    home = homes[0]
    home.write("one", "first")
    assert home.shared.share() == []
    assert home.files() == {"lessons/one.md": "first"}
    assert not list(home.root.parent.rglob("out.md"))


def test_a_home_that_cannot_be_written_is_one_line(homes: tuple[Place, Place]) -> None:
    a, b = homes
    a.write("one", "first")
    a.shared.share()
    (b.root / "lessons").write_text("a file where the folder was")
    with pytest.raises(StoreError, match="expected a folder for lessons that can be written"):
        b.shared.share()


def test_a_number_is_given_once(homes: tuple[Place, Place]) -> None:
    a, b = homes
    a.write("one", HEAD.format(1) + "a's")
    b.write("two", HEAD.format(1) + "b's")
    assert a.shared.share() == b.shared.share() == a.shared.share() == []
    assert a.files() == b.files()
    assert a.files()["lessons/two.md"] == HEAD.format(2) + "b's"


@pytest.mark.slow
def test_two_homes_that_learn_at_once_lose_no_measurement(engine: Engine, tmp_path: Path) -> None:
    place = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    url = engine.url.render_as_string(hide_password=False)
    roots = {name: tmp_path / name for name in ("left", "right")}
    learners = []
    for name, root in roots.items():
        root.mkdir()
        command = [sys.executable, str(LEARNER), url, str(root), name, "8"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        learners.append(subprocess.Popen(command, env={**os.environ, **place}, **pipes))
    for learner in learners:
        assert learner.stdout.readline() == "ready\n"
    for learner in learners:
        learner.stdin.write("go\n")
        learner.stdin.flush()
    for learner in learners:
        learner.communicate(timeout=120)
        assert learner.returncode == 0
    shared = [SharedLessons(engine, root) for root in roots.values()]
    assert [one.share() for one in (*shared, *shared)] == [[]] * 4
    entries = [LessonStore(root, lambda _: None).entries() for root in roots.values()]
    assert entries[0] == entries[1]
    assert len(entries[0]) == 24
    assert len({entry.record.number for entry in entries[0]}) == 24
    for entry in entries[0]:
        if entry.name.startswith("topic-"):
            number = entry.name.removeprefix("topic-")
            runs = {one.run for one in entry.record.evidence}
            assert runs == {f"left-{number}", f"right-{number}"}
