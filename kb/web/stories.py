"""The runs of a record, read as far as they are asked for, and kept.

What is finished does not change, so it is read once. Of a run that goes on only what is new is read:
candidates that were added, and those that had no outcome yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from threading import RLock

from sqlalchemy import Engine, select

from kb.database import reading
from kb.errors import StoreError
from kb.web.record import State, read_briefs, read_more, read_stories, read_version
from kb.web.story import Brief, Story
from kb.web.text import address, one_line
from search.runs.tables import RUNS

_MOST_KEPT = 300_000  # candidates of all runs together that stay in memory, some 200 MB


class Stories:
    """Every run of a record.

    Args:
        engine: of a record whose tables are there.
        state: says what a run is.
        only: the runs that are told of; None for all.
    """

    def __init__(self, engine: Engine, state: State, only: frozenset[str] | None = None) -> None:
        self._engine = engine
        self._state = state
        self._only = only
        self._lock = RLock()
        self._briefs: dict[int, Brief] = {}  # of finished runs
        self._kept: dict[str, Story] = {}  # the least recently used first

    def only(self, runs: frozenset[str]) -> Stories:
        """Return some of the runs."""
        return Stories(self._engine, self._state, runs)

    def briefs(self) -> list[Brief]:
        """Return every run, the latest first."""
        with reading(self._engine) as session:
            found_rows = session.execute(select(RUNS.c.number, RUNS.c.run)).all()
        rows = [row for row in found_rows if self._only is None or row.run in self._only]
        with self._lock:
            unknown = [row.number for row in rows if row.number not in self._briefs]
            found = {
                brief.number: brief for brief in read_briefs(self._engine, unknown, self._state)
            }
            self._briefs |= {
                number: brief for number, brief in found.items() if brief.state == "finished"
            }
            every = {**self._briefs, **found}
        known = [every[row.number] for row in rows if row.number in every]
        going = [one.run for one in known if one.state not in ("finished", "broken")]
        so_far = {run: story.brief for run, story in self.several(going).items()}
        told = [one if one.run not in going else so_far.get(one.run, _broken(one)) for one in known]
        return sorted(told, key=lambda one: (-one.started, -one.number))

    def story(self, run: str) -> Story:
        """Return a run by its name.

        Raises:
            StoreError: there is no such run, or it cannot be read.
        """
        found = self.several([run]).get(run)
        if found is None:
            raise StoreError(
                f"no run {one_line(run, 80)!r} that can be read: the list of runs has all"
            )
        return found

    def several(self, runs: Sequence[str]) -> dict[str, Story]:
        """Return runs by their names; those that cannot be read are left out."""
        with self._lock:
            found: dict[str, Story] = {}
            for run in runs:
                kept = self._kept.pop(run, None)
                if kept is not None:
                    found[run] = self._kept[run] = self._renewed(kept)
            unknown = [run for run in runs if run not in found]
            for story in read_stories(self._engine, unknown, self._state):
                found[story.brief.run] = self._kept[story.brief.run] = story
            self._forget(frozenset(runs))
        return found

    def find(self, address_of: str) -> Story:
        """Return the run of an address.

        Raises:
            StoreError: there is none, or it cannot be read.
        """
        with reading(self._engine) as session:
            if session.scalar(select(RUNS.c.run).where(RUNS.c.run == address_of)) is not None:
                return self.story(address_of)
            names = session.scalars(select(RUNS.c.run)).all()
        for name in names:
            if address(name) == address_of:
                return self.story(name)
        raise StoreError(f"no run {one_line(address_of, 80)!r}: the list of runs has all")

    def version(self, run: str) -> str:
        """Return what changes whenever the run does.

        Raises:
            StoreError: there is no such run.
        """
        found = read_version(self._engine, run, self._state)
        if found is None:
            raise StoreError(f"no run {one_line(run, 80)!r}: the list of runs has all")
        return found

    def _renewed(self, kept: Story) -> Story:
        if kept.brief.state == "finished":
            return kept
        version = self.version(kept.brief.run)
        if kept.version == version:
            return kept
        return read_more(self._engine, kept, version, self._state)

    def _forget(self, wanted: frozenset[str]) -> None:
        total = sum(len(story.candidates) for story in self._kept.values())
        for run in list(self._kept):
            if total <= _MOST_KEPT:
                break
            if run not in wanted:
                total -= len(self._kept.pop(run).candidates)


def _broken(brief: Brief) -> Brief:
    return replace(brief, state="broken", stop_reason="its candidates cannot be read")
