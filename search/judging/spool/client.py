"""Judges on another machine, through files in a folder that both see or that is copied between them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from kb.errors import KbError, ToolchainError
from search.judging.limits import Prepared
from search.judging.spool.folder import Folder, Unreadable, read_plain, unseal
from search.judging.spool.job import (
    Assignment,
    Failure,
    Job,
    JobAnswer,
    as_error,
    read_answer,
)
from search.outcome import Outcome

_LOOK = (0.05, 1.0)  # seconds between looks at the folder, at first and at last
_PATIENCE = 20.0  # seconds before it looks around who judges
_SILENCE = 120.0  # seconds after which a judge whose beat stands still counts as gone


class Spool:
    """An evaluator whose judge is a `kb judge FOLDER` elsewhere.

    Every answer is a file under a name that follows from what was asked, so an answer that is
    there already is taken, and a run that was interrupted goes on where it was.

    Args:
        folder: where jobs and answers lie.
        assignment: what the judge there is made for.
        say: is told what the user should know while it waits.
    """

    def __init__(
        self,
        folder: Path,
        assignment: Assignment,
        *,
        say: Callable[[str], None],
    ) -> None:
        self._folder = Folder(folder.absolute())
        self._assignment = assignment
        self._say = say
        self._said: set[str] = set()
        self._prepared: Prepared | None = None
        self._waited = 0.0
        self._beats: dict[str, tuple[int, float]] = {}
        self._lively: set[str] = set()
        self.context = ""
        self.facts: dict[str, object] = {}

    def prepare(self, progress: Callable[[str], None] = lambda _: None) -> Prepared:
        """Have the other side do what is done before the first candidate.

        Raises:
            KbError: the task cannot be judged there; one line says why.
        """
        if self._prepared is None:
            self._folder.make()
            progress(f"waiting for a judge on {self._assignment.device} at {self._folder.root}")
            answer = self._ask(self._first_job())
            if answer.prepared is None:
                raise ToolchainError(
                    f"{self._folder.root}: an answer without preparation: remove it"
                )
            self.context, self.facts = answer.context, dict(answer.facts)
            self._say(
                f"judged on {self.facts.get('device')} of {self.facts.get('host')} ({self.context})"
            )
            self._prepared = answer.prepared
        return self._prepared

    def judge(self, source: str, *, thorough: bool = False) -> Outcome:
        """Return the outcome of `source` once the other side has it.

        Raises:
            KbError: it could not be judged there, through no fault of the candidate's.
        """
        self.prepare()
        answer = self._ask(self._job(source, thorough=thorough))
        if answer.outcome is None:
            raise ToolchainError(f"{self._folder.root}: an answer without outcome: remove it")
        return answer.outcome

    def expect(self, source: str, *, thorough: bool = False) -> None:
        """Put `source` there without waiting, so that one trip of the folder carries several."""
        self.prepare()
        job = self._job(source, thorough=thorough)
        self._folder.submit(job.name, job.body())

    def close(self) -> None:
        """Leave everything as it is: what was asked may still be answered."""

    def _job(self, source: str | None, *, thorough: bool = False) -> Job:
        return self._assignment.job(source, thorough=thorough, expected=self.context)

    def _first_job(self) -> Job:
        """Return the job that asks for the preparation, which any judge of the device may answer."""
        return self._assignment.job(None)

    def _ask(self, job: Job) -> JobAnswer:
        name = job.name
        path = self._folder.outcome(name)
        answer = self._take(path)
        if answer is not None and answer.failure is not None:
            path.unlink(
                missing_ok=True
            )  # it failed before this process began: perhaps that is mended
            answer = None
        if answer is None:
            self._folder.submit(name, job.body())
            answer = self._await(path, job)
        self._folder.withdraw(name)
        if answer.failure is not None:
            raise _error(answer.failure, answer, self._folder.root)
        if job.expected and answer.context != job.expected:
            path.unlink(missing_ok=True)
            raise ToolchainError(
                f"{path}: answered by {answer.context}, this run is judged by {job.expected}: kb resume asks again"
            )
        return answer

    def _await(self, path: Path, job: Job) -> JobAnswer:
        pause, end = _LOOK[0], self._waited + _PATIENCE
        while (answer := self._take(path)) is None:
            time.sleep(pause)
            self._waited += pause
            pause = min(1.2 * pause, _LOOK[1])
            if self._waited > end:
                self._look_around(job)
        return answer

    def _take(self, path: Path) -> JobAnswer | None:
        """Return the answer that is there and whole."""
        try:
            data = read_plain(path)
        except FileNotFoundError:
            return None
        except Unreadable as error:
            self._once(f"outcomes/{path.name}: {error}: waiting for a whole one")
            return None
        except OSError as error:  # a share that is away for a moment, a file without its rights yet
            self._once(f"outcomes/{path.name}: cannot be read ({error.strerror}): waiting")
            return None
        try:
            answer = read_answer(unseal(data, "outcome"))
        except Unreadable as error:
            self._once(f"outcomes/{path.name}: {error}: waiting for a whole one")
            return None
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            raise ToolchainError(
                f"{path}: another version of kb wrote it ({error!r}): install the same version on both sides"
            ) from error
        if answer.job != path.stem:
            self._once(f"outcomes/{path.name}: it answers {answer.job}: waiting for the right one")
            return None
        return answer

    def _look_around(self, job: Job) -> None:
        """Say why nothing comes, or end where nothing can come."""
        beats = dict(self._folder.beats())
        known = {owner: self._beats[owner] for owner in beats if owner in self._beats}
        for owner, body in beats.items():
            count: int = body["beat"]
            if owner not in known or known[owner][0] != count:
                self._lively |= {owner} if owner in known else set()
                known[owner] = (count, self._waited)
        self._beats = known
        # A judge that was killed leaves its last beat behind: only one that goes on counts.
        alive = [owner for owner, (_, when) in known.items() if self._waited - when < _SILENCE]
        if not alive:
            self._once(
                f"no judge answers: run `kb judge {self._folder.root}` where the device is, or copy the folder there and back"
            )
            return
        contexts = {
            str(beats[owner].get("context"))
            for owner in self._lively & set(alive)
            if beats[owner].get("device") == self._assignment.device
        }
        if job.expected and contexts and job.expected not in contexts:
            self._folder.withdraw(job.name)
            self._folder.outcome(self._first_job().name).unlink(missing_ok=True)
            raise ToolchainError(
                f"the run is judged by {job.expected}, the judge at {self._folder.root} is now {', '.join(sorted(contexts))}: "
                "kb resume begins anew with that one"
            )

    def _once(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            self._say(line)


def _error(failure: Failure, answer: JobAnswer, root: Path) -> KbError:
    host = answer.facts.get("host", "the judge")
    return as_error(failure, f"{host} at {root}: {failure.reason}")
