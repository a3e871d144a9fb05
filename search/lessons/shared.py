"""The lessons of all homes that use one database: the files of each, kept in step through it.

Files stay the truth of a home, which people read, edit and copy. Each home notes what it last had in
common with the database, so that it is known who changed a lesson. One that was changed on both sides is
taken as the database has it: whoever learned from a run learns again upon it, which comes to the same.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from filelock import FileLock
from sqlalchemy import Boolean, Column, Engine, String, Table, Text, delete, insert, select
from sqlalchemy.orm import Session

from kb.database import Base, create_tables, outlast, writing
from kb.errors import StoreError

T = TypeVar("T")
_TIMES = 10  # that learning is done again before it is left to the next run
_NAME = re.compile(r"[^/\0]+")  # of a file, without its suffix
_NUMBER = re.compile(r"^number: (\d+)$", re.MULTILINE)
SHARED_LESSONS = Table(
    "shared_lessons",
    Base.metadata,
    Column("name", String, primary_key=True),
    Column("retired", Boolean, nullable=False),
    Column("text", Text, nullable=False),
)


@dataclass(frozen=True, slots=True)
class _File:
    retired: bool
    text: str

    @property
    def digest(self) -> str:
        return hashlib.sha256(f"{self.retired}\0{self.text}".encode()).hexdigest()

    @property
    def number(self) -> int:
        found = _NUMBER.search(self.text)
        return int(found[1]) if found else 0

    def numbered(self, number: int) -> _File:
        return _File(self.retired, _NUMBER.sub(f"number: {number}", self.text, count=1))


class SharedLessons:
    """Keeps the lessons below one folder in step with those of a database.

    Args:
        root: the home's folder.
    """

    def __init__(self, engine: Engine, root: Path) -> None:
        self._engine = engine
        self._folders = {False: root / "lessons", True: root / "retired"}
        self._replaced = root / "replaced"
        place = hashlib.sha256(engine.url.render_as_string().encode()).hexdigest()[:12]
        self._common = root / f"lessons-{place}.json"  # what both had last, by name
        self._lock = root / "lessons.lock"
        create_tables(engine)

    def share(self) -> list[str]:
        """Take over what other homes changed, and hand on what this one did.

        Returns:
            Names of lessons that both had changed: they are now as the database has them, and as they were
            here in the folder `replaced`.

        Raises:
            StoreError: the home cannot be written.
        """
        try:
            with FileLock(self._lock):
                return self._share(self._files())
        except OSError as error:
            raise StoreError(
                f"{self._lock.parent}: expected a folder for lessons that can be written, found {error.strerror}: make it "
                "writable or free some space, then run the command again: nothing is lost"
            ) from error

    def learning(self, learn: Callable[[], T]) -> T:
        """Return what `learn` does to the lessons of all homes, done again while others learn.

        It must come to the same when it is done again, as `search.lessons.store.LessonStore.learn` does.
        """
        self.share()
        for _ in range(_TIMES):
            learned = learn()
            if not self.share():
                break
        return learned

    def _share(self, here: Mapping[str, _File]) -> list[str]:
        def settle() -> tuple[dict[str, _File | None], list[str]]:
            with writing(self._engine) as session:
                return self._settle(session, here)

        changed, clashes = outlast(self._engine, settle)
        self._keep({name: here.get(name) for name in clashes})
        for name, file in changed.items():
            self._write(name, file)
        # Not what lies there by now: a person may have changed it since, which is still to be handed on.
        both = {name: file for name, file in {**here, **changed}.items() if file is not None}
        draft = self._common.with_suffix(".new")
        common = {name: file.digest for name, file in both.items()}
        draft.write_text(json.dumps(common, indent=0), encoding="utf-8")
        draft.replace(self._common)
        return clashes

    def _settle(
        self, session: Session, here: Mapping[str, _File]
    ) -> tuple[dict[str, _File | None], list[str]]:
        """Bring the database up to date; return what is to be changed here, and what clashed."""
        there = _rows(session)
        common: Mapping[str, str] = (
            json.loads(self._common.read_text()) if self._common.is_file() else {}
        )
        changed: dict[str, _File | None] = {}
        clashes = []
        taken = {file.number for file in there.values()}
        for name in sorted(here.keys() | there.keys()):
            mine, theirs, known = here.get(name), there.get(name), common.get(name)
            if mine == theirs:
                continue
            if _digest(theirs) != known:
                changed[name] = theirs
                if _digest(mine) != known:
                    clashes.append(name)
                continue
            if mine is not None and theirs is None and mine.number in taken:
                mine = changed[name] = mine.numbered(1 + max(taken))
            if mine is not None:
                taken.add(mine.number)
            session.execute(delete(SHARED_LESSONS).where(SHARED_LESSONS.c.name == name))
            if mine is not None:
                row = {"name": name, "retired": mine.retired, "text": mine.text}
                session.execute(insert(SHARED_LESSONS).values(**row))
        return changed, clashes

    def _files(self) -> dict[str, _File]:
        """Return the lessons of this home; one that is in both folders is retired."""
        found = {}
        for retired, folder in self._folders.items():
            for path in sorted(folder.glob("*.md")):
                text = path.read_text(encoding="utf-8", errors="replace")
                found[path.stem] = _File(retired, text)
        return found

    def _keep(self, files: Mapping[str, _File | None]) -> None:
        """Put what is about to be replaced where a person finds it; empty what was removed here."""
        for name, file in files.items():
            self._replaced.mkdir(exist_ok=True)
            text = "" if file is None else file.text
            (self._replaced / f"{name}.md").write_text(text, encoding="utf-8")

    def _write(self, name: str, file: _File | None) -> None:
        for retired, folder in self._folders.items():
            path = folder / f"{name}.md"
            if file is None or retired != file.retired:
                path.unlink(missing_ok=True)
                continue
            folder.mkdir(parents=True, exist_ok=True)
            draft = path.with_suffix(".tmp")
            draft.write_text(file.text, encoding="utf-8")
            draft.replace(path)


def _rows(session: Session) -> dict[str, _File]:
    """Return the database's lessons, but for names that would lead out of a home's folder."""
    rows = session.execute(select(SHARED_LESSONS)).all()
    return {row.name: _File(row.retired, row.text) for row in rows if _NAME.fullmatch(row.name)}


def _digest(file: _File | None) -> str | None:
    return None if file is None else file.digest
