"""A task at work for somebody who asks from outside: its brief, and verdicts on what they send."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kb.app.build_session import build, prepare
from kb.app.diagnosis import diagnoser, looker
from kb.app.drivers import open_second_judge
from kb.app.history import result_of
from kb.app.lessons.learning import learn_from
from kb.app.live import working_on
from kb.app.resume import keep_reference, stored_task
from kb.app.run import open_judge, outcome_context, task_slug
from kb.app.run import tell as tell_of
from kb.app.session import Session, about_of, names_of
from kb.config import Home, user_path
from kb.errors import ConfigError, TaskError
from kb.records.schema import CATEGORIES
from search.task import Task, load_task, override

if TYPE_CHECKING:
    from kb.progress import Progress
    from search.attempt import Attempt, Diagnosis, Idea
    from search.graph import Graph, Node, Step
    from search.judging import Judge
    from search.judging.limits import Prepared
    from search.outcome import Outcome
    from search.prompting.readings import Readings
    from search.runs.storage import Record

AUTHOR = "mcp"
LARGEST = 1 << 20  # characters of a source


@dataclass(frozen=True, kw_only=True)
class Submission:
    """What somebody sends to be judged.

    Attributes:
        parent: number of the node that it improves, None for the reference.
    """

    source: str
    title: str
    text: str
    category: str
    parent: int | None = None


@dataclass(kw_only=True)
class Open:
    """A task with its run and a warm judge."""

    session: Session
    record: Record
    prepared: Prepared
    judge: Judge
    context: str
    diagnose: Callable[[Attempt | None], Diagnosis]
    began: float
    closing: ExitStack = field(default_factory=ExitStack)

    @property
    def graph(self) -> Graph:
        """What was tried."""
        return self.record.graph

    @property
    def elapsed(self) -> float:
        """Seconds since the run began, without those in which nobody had it open."""
        return time.monotonic() - self.began


class TaskSession:
    """Keeps one task open at a time, with one judge that stays warm.

    Everything must be called from one thread: the judge is bound to it.
    """

    def __init__(self, home: Home) -> None:
        self._home = home
        self._open: Open | None = None

    def open_task(self, path: str, progress: Progress) -> dict[str, Any]:
        """Begin a run of a task, or go on with the one that is open on the same task.

        Args:
            path: of a task file or a reference, or the name of a run that was begun here.

        Raises:
            KbError: the task cannot be read or judged here.
        """
        row = self._stored(path)
        task = load_task(user_path(path)) if row is None else None
        here = self._open
        if here is not None:
            same = here.record.run == path if task is None else _same(here.session.task, task)
            if same and not self._finished(here):
                return self._summary(here)
            self.close()
        if task is not None:
            self._open = self._begin(task, progress)
        else:
            self._open = self._take_up(path, progress)
        return self._summary(self._open)

    @property
    def readings(self) -> Readings | None:
        """What the open task may read by name, None where none is open.

        Raises:
            ConfigError: its retrieval is off.
        """
        if self._open is None:
            return None
        readings = self._open.session.memory.readings
        if readings is None:
            raise ConfigError("retrieval is off in the open task: nothing is read in it")
        return readings

    def brief(self, node: int | None, idea: tuple[str, str, str] | None) -> str:
        """Return the prompt that kb would write here: diagnosis, history, passages, rules.

        Args:
            node: the node to improve or, where it failed, to mend; None for the reference.
            idea: title, text and category of an idea to implement; None to be asked for ideas.

        Raises:
            KbError: no task is open, or there is no such node.
        """
        here = self._at_work()
        parent = self._attempt(here, node)
        from kb.app.mcp.prompt import prompt_text

        here.session.witness.clear()
        return prompt_text(here.session, self._moment(here, parent), idea)

    def submit(self, candidate: Submission) -> dict[str, Any]:
        """Judge a candidate and return what became of it.

        Raises:
            KbError: no task is open, or the candidate does not say what it must.
        """
        from search.attempt import Draft
        from search.graph import Node

        here = self._at_work()
        if self._finished(here):
            raise ConfigError(
                f"run {here.record.run} is finished: open the task again for a new one"
            )
        _check(candidate)
        parent = self._attempt(here, candidate.parent)
        step, idea = self._place(here, candidate, parent)
        node = Node(
            number=len(here.graph.nodes),
            step=step,
            parent=candidate.parent,
            idea=idea,
            draft=Draft(source=candidate.source),
        )
        here.record.add_node(node)
        outcome, known = self._judge(here, node)
        return self._verdict(here, node.number, outcome, judged_before=known)

    def finish(self) -> dict[str, Any]:
        """Measure the best again, write down what the run taught, and return its report.

        Raises:
            KbError: no task is open.
        """
        from search.runs.report import build_report
        from search.second_look import SecondLook

        here = self._at_work()
        session, record = here.session, here.record
        with open_second_judge(session, here.judge) as judge:
            confirmed = SecondLook(judge, session.storage, here.context).run(here.graph)
        record.finish_search("ended by its author")
        if session.place.how != "dry":
            learn_from(session, record, here.prepared.baselines, confirmed)
        about = {
            **names_of(session, record.run),
            "baselines": dict(here.prepared.baselines),
        }
        report = build_report(
            about, here.graph, confirmed, stop_reason=record.stop_reason, seconds=here.elapsed
        )
        record.finish(report)
        return report

    def close(self) -> None:
        """Let go of the task that is open, and end its judge; the run can be taken up again."""
        here, self._open = self._open, None
        if here is None:
            return
        if not self._finished(here):
            here.record.mark("interrupted")
        here.closing.close()

    def _begin(self, task: Task, progress: Progress) -> Open:
        task = override(task, author="recipes")  # it is asked for nothing; somebody else writes
        setup = replace(prepare(self._home, task, progress), author_name=AUTHOR)
        record = setup.storage.begin(task_slug(task), about_of(setup))
        with ExitStack() as closing:
            closing.enter_context(working_on(self._home, record.run))
            keep_reference(self._home, record.run, task)
            session = build(setup, record.run, progress, author="recipes")
            return self._work_on(session, record, progress, closing)

    def _take_up(self, run: str, progress: Progress) -> Open:
        from kb.database import open_engine
        from search.runs.storage import Storage

        row = Storage(open_engine(self._home)).run(run)
        if row.status == "finished":
            raise ConfigError(f"run {run} is finished: open its task file for a new one")
        with ExitStack() as closing:
            closing.enter_context(working_on(self._home, run))
            task = override(stored_task(self._home, run, row.about), author="recipes")
            setup = replace(prepare(self._home, task, progress), author_name=AUTHOR)
            session = build(setup, run, progress, as_of=row.started, author="recipes")
            record = session.storage.record(run)
            record.mark("running")
            return self._work_on(session, record, progress, closing)

    def _work_on(
        self, session: Session, record: Record, progress: Progress, closing: ExitStack
    ) -> Open:
        """Open a run's judge; what is to be closed with it is taken out of `closing`."""
        began = time.monotonic() - record.elapsed
        judge = closing.enter_context(open_judge(session))
        prepared = judge.prepare(progress)
        tell_of(prepared)
        here = Open(
            session=session,
            record=record,
            prepared=prepared,
            judge=judge,
            context=outcome_context(session, judge),
            diagnose=diagnoser(session, prepared.baselines, looker(session, judge)),
            began=began,
        )
        for node in [one for one in here.graph.nodes if one.outcome is None]:
            self._judge(here, node)  # its judge was killed
        here.closing = closing.pop_all()
        return here

    def _judge(self, here: Open, node: Node) -> tuple[Outcome, bool]:
        from search.runs.verdicts import counting_key

        key = counting_key(here.session.storage.engine, node.draft.source, here.context)
        known = here.session.storage.outcome(key)
        outcome = known or here.judge.judge(node.draft.source)
        here.record.add_outcome(node, outcome, key=key, elapsed=here.elapsed)
        return outcome, known is not None

    def _place(
        self, here: Open, candidate: Submission, parent: Attempt | None
    ) -> tuple[Step, Idea]:
        """Return where a candidate stands: a branch of its idea, or the first one of a new idea."""
        from search.attempt import Idea
        from search.graph import Proposal, Slot, Step

        graph, witness = here.graph, here.session.witness
        for slot, known in graph.proposals.items():
            same = [(one.title, one.text) for one in known.ideas]
            if known.parent == candidate.parent and same == [(candidate.title, candidate.text)]:
                return Step(slot, 0, len(graph.branches(slot, 0))), known.ideas[0]
        round = 0 if parent is None else parent.round + 1
        slot = Slot(round, sum(one.round == round for one in graph.proposals))
        idea = Idea(title=candidate.title, text=candidate.text, category=candidate.category)
        here.record.add_proposal(
            Proposal(
                slot=slot,
                parent=candidate.parent,
                ideas=(idea,),
                retrieved=witness.documents(),
                subjects=witness.subjects(),
            )
        )
        return Step(slot, 0, 0), idea

    def _moment(self, here: Open, parent: Attempt | None) -> Any:
        from search.attempt import Moment
        from search.graph import seed_of

        attempts = here.graph.attempts()
        seed = here.session.task.settings.search.seed
        return Moment(
            round=0 if parent is None else parent.round + 1,
            seed=seed_of(seed, AUTHOR, len(attempts)),
            parent=parent,
            history=attempts,
            diagnosis=here.diagnose(parent),
        )

    def _attempt(self, here: Open, number: int | None) -> Attempt | None:
        if number is None:
            return None
        if not 0 <= number < len(here.graph.nodes):
            raise ConfigError(
                f"run {here.record.run} has no node {number}: it has {len(here.graph.nodes)}, "
                "counted from 0"
            )
        return here.graph.nodes[number].attempt()

    def _at_work(self) -> Open:
        if self._open is None:
            raise ConfigError("no task is open: call open_task with a task file first")
        return self._open

    def _stored(self, name: str) -> object | None:
        """Return the run of that name that was begun here, None where there is none."""
        from kb.database import is_begun, open_engine
        from search.runs.storage import Storage

        if "/" in name or not is_begun(self._home):
            return None
        rows = Storage(open_engine(self._home)).runs()
        return next((r for r in rows if r.run == name and r.about["author"] == AUTHOR), None)

    def _finished(self, here: Open) -> bool:
        return here.session.storage.run(here.record.run).status == "finished"

    def _summary(self, here: Open) -> dict[str, Any]:
        session = here.session
        diagnosis = here.diagnose(None)
        return {
            **names_of(session, here.record.run),
            "reference": session.task.source,
            "baselines": dict(here.prepared.baselines),
            "notes": list(here.prepared.notes),
            "diagnosis": list(diagnosis.lines),
            "symptoms": list(diagnosis.symptoms),
            "categories": list(CATEGORIES),
            "nodes": len(here.graph.nodes),
            "best": self._best(here),
        }

    def _verdict(
        self, here: Open, number: int, outcome: Outcome, *, judged_before: bool
    ) -> dict[str, Any]:
        from search.outcome import STANDING
        from search.prompting.describe import verdict

        attempt = here.graph.nodes[number].attempt()
        standing = outcome.kind in STANDING
        return {
            "run": here.record.run,
            "node": number,
            "outcome": outcome.kind,
            "verdict": list(verdict(outcome)),
            "diagnosis": list(here.diagnose(attempt).lines) if standing else [],
            "result": result_of(outcome),
            "judged_before": judged_before,
            "best": self._best(here),
        }

    def _best(self, here: Open) -> dict[str, Any] | None:
        first = next(iter(here.graph.ranked()), None)
        if first is None:
            return None
        return {"node": first.number, "idea": first.idea.title, "speedup": first.speedup or None}


def _same(open_one: Task, named: Task) -> bool:
    return open_one.path == named.path and open_one.identity == named.identity


def _check(candidate: Submission) -> None:
    if "ModelNew" not in candidate.source or "\0" in candidate.source:
        raise TaskError(
            "source: expected a whole Python file that defines class ModelNew, found another text: "
            "`brief` says what it must hold"
        )
    if len(candidate.source) > LARGEST:
        raise TaskError(f"source: expected at most {LARGEST:,} characters, found more")
    if not candidate.title.strip() or not candidate.text.strip():
        raise TaskError("title, idea: expected the optimisation in plain language, found nothing")
    if candidate.category not in CATEGORIES:
        raise TaskError(
            f"category: expected one of {', '.join(CATEGORIES)}, found {candidate.category!r}"
        )
