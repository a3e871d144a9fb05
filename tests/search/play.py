"""A search with no compiler and no device: a deterministic author and free evaluation.

Run as a script it plays one run in the database that it is given, and logs each judged source, so that
a test can kill it.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from kb.config import Home
from kb.database import open_engine
from search.attempt import Attempt, Diagnosis, Draft, Idea, Moment
from search.drivers.sequential import Driver
from search.judging.synthetic import Synthetic
from search.loop import Search
from search.outcome import Outcome
from search.pieces import Result, Work
from search.policies import POLICIES
from search.prompting.readings import RecordingRetriever
from search.runs.storage import Record, Storage
from search.task import TaskFile


class Deterministic:
    """Writes what the moment's seed says, and mends a failure once."""

    def ideas(self, moment: Moment, count: int) -> tuple[Idea, ...]:
        return tuple(
            Idea(title=f"idea {moment.seed}-{n}", text="text", category="memory access")
            for n in range(count)
        )

    def draft(
        self, moment: Moment, idea: Idea, branch: int, siblings: tuple[Attempt, ...]
    ) -> Draft | None:
        if moment.seed % 11 == 0:
            return None
        known = len(moment.history), len(siblings)
        return Draft(source=f"{idea.title}/{branch}/{known}", plan={"branch": branch})

    def repair(self, moment: Moment, failed: Attempt) -> Draft | None:
        return Draft(source=failed.draft.source + f"/mended {moment.seed}")


class Silent:
    def search(self, query):
        return []


class Watcher:
    def begins(self, work: Work) -> None: ...

    def ends(self, work: Work, result: Result) -> None: ...

    def confirms(self, node: int, outcome: Outcome) -> None: ...


class Logged(Synthetic):
    """Takes a moment to judge, and writes down what it judged."""

    def __init__(self, log: Path | None, seconds: float) -> None:
        super().__init__()
        self._log = log
        self._seconds = seconds

    def judge(self, source: str, *, thorough: bool = False) -> Outcome:
        outcome = super().judge(source)
        time.sleep(self._seconds)
        if self._log is not None:
            with self._log.open("a") as file:
                file.write(source + "\n")
        return outcome


class Carried(Synthetic):
    """A judge that is a trip away: what was asked is judged when somebody has to wait."""

    def __init__(self, trips: int | None = None) -> None:
        super().__init__()
        self.bag: list[str] = []
        self.known: set[str] = set()
        self.trips = 0
        self.most = trips

    context = "play"

    def expect(self, source: str, *, thorough: bool = False) -> None:
        self.bag.append(source)

    def judge(self, source: str, *, thorough: bool = False) -> Outcome:
        if source not in self.known:
            assert source in self.bag, "it waits for what it never sent"
            if self.trips == self.most:
                raise KeyboardInterrupt
            self.trips += 1
            self.known |= set(self.bag)
            self.bag.clear()
        return super().judge(source)


def open_storage(folder: Path) -> Storage:
    return Storage(open_engine(Home(folder)))


def play(
    storage: Storage,
    record: Record,
    settings: TaskFile,
    log: Path | None = None,
    seconds: float = 0,
    elapsed: float = 0.0,
) -> Logged:
    """Play a run to its end; return the evaluator."""
    evaluator = Logged(log, seconds)
    search = Search(
        record,
        POLICIES.create(settings.search.policy),
        settings,
        lambda attempt: Diagnosis(symptoms=(), lines=()),
        lambda: elapsed,
        context="play",
    )
    witness = RecordingRetriever(Silent())
    Driver(search, Deterministic(), evaluator, storage, witness, Watcher()).run()
    return evaluator


def settings_of(**values: object) -> TaskFile:
    return TaskFile.model_validate(
        {
            "reference": "none.py",
            "search": {"rounds": 4, "ideas": 3, "branches": 2},
            "stop": {"candidates": None, "minutes": None, "stalled_rounds": None, "roofline": None},
            **values,
        }
    )


if __name__ == "__main__":
    folder, log = Path(sys.argv[1]), Path(sys.argv[2])
    opened = open_storage(folder)
    runs = opened.runs()
    mine = opened.record(runs[0].run) if runs else opened.begin("play", {})
    play(opened, mine, settings_of(), log, seconds=0.02)
