"""Learns from a run that is finished: again, or for the first time where it was imported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kb.app.lessons.learning import Searched, learn
from kb.config import Home
from kb.errors import ConfigError
from kb.progress import say, silent

if TYPE_CHECKING:
    from kb.app.device import JudgingDevice
    from kb.app.history import Run
    from kb.records.schema import TargetRecord
    from search.judging import Judge
    from search.judging.limits import Prepared
    from search.lessons.store import LessonChange
    from search.outcome import Outcome
    from search.task import Task


def learn_again(home: Home, run: str) -> list[LessonChange]:
    """Distil a finished run again, from its record and its reference.

    What this judge has not looked at a second time is judged now: an older one may have passed it.

    Raises:
        ConfigError: it is not finished, was not timed, or was imported from another device.
        StoreError: there is no such run.
    """
    from kb.app.diagnosis import diagnoser_of
    from kb.app.history import open_run
    from kb.app.queries import find_target
    from kb.app.resume import stored_task
    from search.costs.trace import operator_graph
    from search.costs.work import count_work
    from search.reference import load_problem

    found = open_run(home, run)
    report = found.row.report
    if report is None or not report.get("timed", True):
        raise ConfigError(
            f"expected a finished run that was timed, found {run} {found.row.status}: "
            f"kb resume {run} finishes it, and learns"
        )
    task = stored_task(home, run, found.row.about)
    target = find_target(found.row.about["target"])
    graph = operator_graph(load_problem(task))
    work = count_work(graph)
    record = found.storage.record(run)
    again = Searched(
        storage=found.storage,
        record=record,
        task=task,
        target=target,
        language=found.row.about["language"],
        graph=graph,
        work=work,
        baselines=report["baselines"],
        diagnose=diagnoser_of(task, target, work, len(graph.operators), report["baselines"]),
    )
    confirmed = _looked_at(home, found, task, target)
    return learn(home, found.storage, record, again.setting(), confirmed)


def _looked_at(home: Home, found: Run, task: Task, target: TargetRecord) -> Mapping[int, Outcome]:
    """Return what a second judge says of the finalists, this one where it can judge for the run's target."""
    from kb.app.device import choose_place, judged_by
    from search.outcome import Outcome
    from search.runs.report import reported
    from search.runs.verdicts import keep_second
    from search.second_look import SecondLook

    told = reported(found.report())
    place = choose_place(task.settings.target, elsewhere=task.elsewhere)
    if place.how in ("dry", "elsewhere") or place.target.name != target.name:
        if "imported" in found.row.about:
            raise ConfigError(
                f"expected a run of this machine ({place.target.name}), found {found.row.run}, which was imported "
                f"and ran on {target.name}: what no judge of yours has looked at teaches nothing"
            )
        return told
    judge, seen = _Second(home, task, place), dict[int, Outcome]()
    try:
        look = SecondLook(judge, found.storage, judged_by(place, task), seen.__setitem__)
        again = look.run(found.graph)
    finally:
        judge.close()
    keep_second(found.storage, found.row.run, seen)
    return {number: one for number, one in told.items() if one.kind == "refused"} | again


class _Second:
    """A judge that is started where there is something to judge."""

    def __init__(self, home: Home, task: Task, place: JudgingDevice) -> None:
        self._home, self._task, self._place = home, task, place
        self._judge: Judge | None = None

    def prepare(self, progress: Callable[[str], None] = lambda _: None) -> Prepared:
        """Start it, and do what is done before the first candidate."""
        if self._judge is None:
            from kb.app.build_session import prepare
            from kb.app.device import make_judge

            say("the best again, before a judge that has not looked at them")
            setup = prepare(self._home, self._task, silent, place=self._place, asks=False)
            folder = self._home.root / "cache"
            self._judge = make_judge(self._place, self._task, setup.problem, folder=folder)
        return self._judge.prepare(progress)

    def judge(self, source: str, *, thorough: bool = False) -> Outcome:
        """Judge `source`."""
        self.prepare()
        assert self._judge is not None
        return self._judge.judge(source, thorough=thorough)

    def close(self) -> None:
        """End it where it was started."""
        if self._judge is not None:
            self._judge.close()
