"""Prompts put together from a task file or from the record of a run, without asking a model."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast, get_args

from kb.config import Home
from kb.errors import ConfigError, StoreError
from kb.progress import Progress, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from kb.records.schema import TargetRecord
    from search.attempt import Attempt, Diagnosis, Memory, Moment
    from search.authors.llm_questions import ModelQuestions
    from search.authors.model_pool import PoolMember, Role
    from search.authors.navigation import Navigator
    from search.costs.graph import OperatorGraph, Work
    from search.graph import Graph, Node
    from search.prompting.prompts import PromptWriter
    from search.prompting.rendered import RenderedPrompt
    from search.runs.storage import RunRow, Storage
    from search.task import Task
    from synth.context import Purpose
    from synth.models.waiting import Waiting

_ROLES: dict[Purpose, Role] = {"ideas": "ideas", "draft": "code", "repair": "repair"}


@dataclass(frozen=True, kw_only=True)
class PreparedPrompt:
    """A prompt with the place that it is for.

    Attributes:
        node: None for the reference.
        asked: whether the record has this very prompt; None where no model was asked there.
    """

    task: str
    run: str | None
    node: int | None
    purpose: Purpose
    memory: Memory
    model: str | None
    budget: int
    encoding: str
    diagnosis: Diagnosis
    brief: RenderedPrompt
    asked: bool | None = None


@dataclass(frozen=True, kw_only=True)
class PromptPreview:
    """What prompts of one task are made from."""

    task: Task
    row: RunRow | None
    graph: Graph | None
    storage: Storage
    briefing: PromptWriter
    navigator: Navigator
    questions: ModelQuestions
    diagnose: Callable[[Attempt | None], Diagnosis]
    tokens: int | None

    @classmethod
    def open(
        cls,
        home: Home,
        named: Path,
        run: str | None,
        tokens: int | None,
        progress: Progress,
        *,
        with_run: bool,
    ) -> PromptPreview:
        """Load a task with its latest run, or the one that is named.

        Raises:
            KbError: there is no such task or run, or the knowledge base cannot be opened.
        """
        from kb.app.device import choose_place
        from kb.app.diagnosis import diagnoser_of
        from kb.app.lessons.learning import believed_memory, known_ideas
        from kb.database import open_engine
        from kb.knowledge import open_knowledge
        from search.authors.navigation import Navigator
        from search.prompting.prompts import PromptWriter
        from search.runs.snapshot import RunSnapshot
        from search.runs.storage import Storage

        storage = Storage(open_engine(home))
        task, row = _find(home, storage, named, run, with_run=with_run)
        place = choose_place(task.settings.target, elsewhere=task.elsewhere)
        graph, work = _cost(task, place.device, progress)
        as_of = row.started if row is not None else None
        knowledge = open_knowledge(home, progress, as_of=as_of)
        # What the run found and measured then, so that a prompt is the one that was asked.
        given = RunSnapshot(storage.engine, row.run, writes=False) if row is not None else None
        known = known_ideas(knowledge, storage, task, as_of or time.time(), given)
        retrieval = task.settings.retrieval
        memory = believed_memory(knowledge, storage, given, retrieval=retrieval, known=known)
        diagnose = diagnoser_of(task, place.target, work, len(graph.operators), _baselines(row))
        diagnose = given.diagnose(diagnose) if given is not None else diagnose
        briefing = PromptWriter(task, place.target, work, memory, graph=graph)
        return cls(
            task=task,
            row=row,
            graph=storage.record(row.run).graph if row is not None else None,
            storage=storage,
            briefing=briefing,
            navigator=Navigator(task, work, memory),
            questions=_recorded_questions(task, place.target, work, briefing, storage),
            diagnose=diagnose,
            tokens=tokens,
        )

    def tell(self, number: int | None, purpose: str | None) -> PreparedPrompt:
        """Return the prompt for the reference, or for a node of the run.

        Raises:
            ConfigError: there is no such node or purpose, or it does not fit the model's context.
        """
        chosen = _purpose(purpose)
        if number is None:
            if chosen not in {None, "ideas"}:
                raise ConfigError(
                    f"expected --node beside --purpose {chosen}: only ideas are asked for without one"
                )
            return self._told(None, "ideas", self._first())
        node = self._node(number)
        passed = node.outcome is None or node.outcome.kind in _standing()
        chosen = chosen or ("ideas" if passed else "repair")
        if chosen == "repair" and passed:
            raise ConfigError(f"expected a node that failed, found node {number}, which stands")
        if chosen == "ideas" and not passed:
            raise ConfigError(f"expected a node that stands, found node {number}, which failed")
        return self._told(node, chosen, self._moment(node, chosen))

    def _told(self, node: Node | None, purpose: Purpose, moment: Moment) -> PreparedPrompt:
        voice, model = self._voice(purpose)
        if purpose == "ideas":
            count = self.task.settings.search.ideas
            asked = _given(self.questions.for_ideas(moment))
            brief, _ = self.navigator.begin(self.briefing, voice, moment, count, asked)
        elif purpose == "repair":
            assert node is not None
            asked = _given(self.questions.for_repair(moment, node.attempt()))
            brief = self.briefing.repair(voice, moment, node.attempt(), asked)
        else:
            assert node is not None
            before = tuple(n.attempt() for n in self._beside(node))
            asked = _given(self.questions.for_draft(moment, node.idea))
            brief = self.briefing.draft(voice, moment, node.idea, node.step.branch, before, asked)
        return PreparedPrompt(
            task=self.task.name,
            run=self.row.run if self.row is not None else None,
            node=node.number if node is not None else None,
            purpose=purpose,
            memory=moment.memory,
            model=model,
            budget=voice.budget,
            encoding=voice.encoding,
            diagnosis=moment.diagnosis,
            brief=brief,
            asked=self._asked(node, brief) if purpose == "draft" and node is not None else None,
        )

    def _first(self) -> Moment:
        from search.attempt import Moment
        from search.prompting.history import choose_memory
        from search.standings import Standings

        memory = choose_memory(self.task.settings.search.memory, None, Standings(), 0, last=True)
        return Moment(
            round=0, seed=0, parent=None, history=(), diagnosis=self.diagnose(None), memory=memory
        )

    def _moment(self, node: Node, purpose: Purpose) -> Moment:
        """Return the state of the search at a node: after it for ideas, as it was for a draft."""
        from search.attempt import Moment
        from search.prompting.history import choose_memory
        from search.standings import standings_of

        assert self.graph is not None
        every = self.graph.attempts()
        if purpose == "ideas":
            parent: Attempt | None = node.attempt()
            round, history = max(one.round for one in every) + 1, every
        else:
            above = self.graph.proposals[node.step.slot].parent
            parent = None if above is None else self.graph.nodes[above].attempt()
            last = node.number + (purpose == "repair")
            round, history = node.step.slot.round, tuple(a for a in every if a.number < last)
        earlier = standings_of([one for one in history if one.round < round])
        choice = self.task.settings.search.memory
        memory = choose_memory(choice, parent, earlier, round, last=False)
        if purpose != "ideas" and parent is None and round:
            memory = "clean"
        return Moment(
            round=round,
            seed=0,
            parent=None if memory == "clean" else parent,
            history=history,
            diagnosis=self.diagnose(parent),
            memory=memory,
        )

    def _node(self, number: int) -> Node:
        assert self.graph is not None
        assert self.row is not None
        if number >= len(self.graph.nodes):
            raise ConfigError(
                f"run {self.row.run} has no node {number}: it has 0 to {len(self.graph.nodes) - 1}"
            )
        node = self.graph.nodes[number]
        if node.outcome is None:
            raise ConfigError(
                f"node {number} of {self.row.run} was not judged yet: kb resume judges it"
            )
        return node

    def _beside(self, node: Node) -> list[Node]:
        assert self.graph is not None
        found = self.graph.branches(node.step.slot, node.step.idea)
        return [one for one in found if one.number < node.number and one.outcome is not None]

    def _asked(self, node: Node, brief: RenderedPrompt) -> bool | None:
        found = self.storage.exchange(node.draft.exchanges[0]) if node.draft.exchanges else None
        if found is None:
            return None
        then = [message["content"] for message in found[0]["messages"]]
        return then == [message.content for message in brief.prompt.messages]

    def _voice(self, purpose: Purpose) -> tuple[PoolMember, str | None]:
        """Return who would read a prompt; with no model configured, one that tiktoken counts for."""
        from kb.app.models import role_settings
        from search.authors.model_pool import INSTEAD, PoolMember
        from search.settings import ModelSettings
        from synth.models.scripted import Scripted

        role = _ROLES[purpose]
        by_role = role_settings(self.task.settings)
        found = next((by_role[one] for one in (role, *INSTEAD[role]) if one in by_role), ())
        settings = found[0] if found else ModelSettings(name="none")
        if self.tokens is not None:
            room = {"context_tokens": self.tokens, "reply_tokens": 64}
            settings = settings.model_copy(update=room)
        if not found:
            say("no model is configured: tokens are counted as a model of tiktoken's would")
        return PoolMember(model=Scripted([], name=settings.name), settings=settings), (
            settings.name if found else None
        )


def _recorded_questions(
    task: Task, target: TargetRecord, work: Work, briefing: PromptWriter, storage: Storage
) -> ModelQuestions:
    """Return what finds the questions of the role `retrieval` in the record; no model is asked."""
    from kb.app.models import role_settings
    from search.authors.llm_questions import ModelQuestions
    from search.authors.model_pool import ModelPool, PoolMember
    from synth.models.recorded import Recorded

    chosen = role_settings(task.settings).get("retrieval", ())
    members = [
        PoolMember(model=Recorded(None, storage, name=one.name), settings=one) for one in chosen
    ]
    return ModelQuestions(task, target, work, briefing, ModelPool({"retrieval": members}), say)


def _given(asked: Waiting[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the questions that the record holds; kb's own where it holds none."""
    from kb.errors import ModelError
    from synth.models.waiting import finish

    try:
        return finish(asked)
    except ModelError:
        say("models.retrieval: the record holds no questions for this prompt: it shows kb's own")
        return ()


def _find(
    home: Home, storage: Storage, named: Path, run: str | None, *, with_run: bool
) -> tuple[Task, RunRow | None]:
    """Return the task that the user named, with its run where one is wanted."""
    from kb.app.mailbox import with_mailbox
    from kb.app.resume import stored_task
    from search.task import load_task

    if run is None and not named.exists() and named.parent == Path() and not named.suffix:
        run = named.name
    if run is not None:
        row = storage.run(run)
        return stored_task(home, run, row.about), row
    task = with_mailbox(home, load_task(named))
    if not with_run:
        return task, None
    rows = [row for row in storage.runs() if row.about.get("source") == task.source]
    if not rows:
        raise StoreError(
            f"no run of {named}, whose nodes could be named: kb evolve {named} makes one"
        )
    return stored_task(home, rows[-1].run, rows[-1].about), rows[-1]


def _baselines(row: RunRow | None) -> dict[str, float]:
    """Return what a finished run measured of the reference, nothing of another."""
    report = row.report if row is not None else None
    return dict(report["baselines"]) if report is not None else {}


def _cost(task: Task, device: str, progress: Progress) -> tuple[OperatorGraph, Work]:
    """Return the operators of a task, and what it costs."""
    from search.costs.trace import operator_graph
    from search.costs.work import count_work
    from search.reference import load_problem

    progress("loading the reference")
    graph = operator_graph(load_problem(task, device=device))
    return graph, count_work(graph)


def _standing() -> tuple[str, ...]:
    from search.outcome import STANDING

    return tuple(STANDING)


def _purpose(name: str | None) -> Purpose | None:
    from synth.context import Purpose as Known

    known = get_args(Known)
    if name is None or name in known:
        return cast("Purpose | None", name)
    raise ConfigError(f"unknown purpose {name!r}: known are {', '.join(known)}")
