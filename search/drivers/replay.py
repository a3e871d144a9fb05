"""Plays a run again from its record: no model is asked, and what differs from the record is told."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from sqlalchemy import select

from kb.database import reading
from kb.errors import KbError
from search.attempt import Idea
from search.graph import Graph, Node, Step
from search.judging import Judge
from search.judging.limits import Prepared
from search.outcome import Outcome, Passed
from search.pieces import Ideas, JudgeNode, Result, Work, WriteIdeas
from search.runs.calls import CALLS
from search.runs.storage import Storage
from synth.models import Reply, Request

_LINES = 40  # of a difference that are shown
_WIDTH = 240  # characters of each


class End(KbError):
    """The record goes no further: a run that was interrupted, or that its clock ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """One place where a replay is not what the record says.

    Attributes:
        where: the step of the search, or the call.
        difference: lines as a unified diff shows them, the record first.
    """

    where: str
    what: str
    difference: tuple[str, ...] = ()


@dataclass(kw_only=True)
class Findings:
    """What a replay came upon."""

    divergences: list[Divergence] = field(default_factory=list)
    judged: list[dict[str, Any]] = field(default_factory=list)
    requests: int = 0

    def differs(self, where: str, what: str, recorded: str = "", found: str = "") -> None:
        """Note a divergence."""
        lines = difflib.unified_diff(
            recorded.splitlines(), found.splitlines(), "record", "replay", lineterm="", n=1
        )
        shown = tuple(line if len(line) <= _WIDTH else f"{line[:_WIDTH]}…" for line in lines)
        if len(shown) > _LINES:
            shown = (*shown[:_LINES], f"… and {len(shown) - _LINES} lines more")
        self.divergences.append(Divergence(where=where, what=what, difference=shown))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    key: str
    role: str
    model: str


class Tape:
    """The exchanges of a run, in the order in which they were made.

    Args:
        findings: told of requests that are not those of the record.
    """

    def __init__(self, storage: Storage, run: str, findings: Findings) -> None:
        self._storage = storage
        self._findings = findings
        columns = (CALLS.c.key, CALLS.c.role, CALLS.c.model)
        query = select(*columns).where(CALLS.c.run == run, CALLS.c.key != "")
        with reading(storage.engine) as session:
            rows = session.execute(query.order_by(CALLS.c.number)).all()
        self._left = [_Call(key=row.key, role=row.role, model=row.model) for row in rows]

    def play(self, request: Request, role: str) -> Reply:
        """Return the recorded reply to `request`, or to the one that stands in its place.

        Raises:
            End: there is none.
        """
        key = request.key()
        self._findings.requests += 1
        same = next((call for call in self._left if call.key == key), None)
        if same is not None:
            self._left.remove(same)
        reply = self._storage.get(key)
        if reply is not None:
            return reply
        call = self._instead(request, role)
        if call is None:
            raise End(f"the record holds no reply for the next request ({role})")
        self._left.remove(call)
        kept = self._storage.exchange(call.key)
        recorded = _text(Request.from_json(json.dumps(kept[0]))) if kept else ""
        where = f"request {self._findings.requests} ({role})"
        self._findings.differs(where, "another request", recorded, _text(request))
        reply = self._storage.get(call.key)
        if reply is None:
            raise End(f"the record has lost the reply to request {call.key[:12]}")
        return reply

    def _instead(self, request: Request, role: str) -> _Call | None:
        """Return the first call of a role that is left, one with the same seed before others."""
        calls = [call for call in self._left if call.role == role]
        for call in calls:
            kept = self._storage.exchange(call.key)
            if kept is not None and kept[0]["seed"] == request.seed:
                return call
        return next(iter(calls), None)


class Player:
    """Stands for a model in a replay.

    Args:
        name: of the model that it stands for.
    """

    def __init__(self, tape: Tape, name: str, role: str) -> None:
        self._tape = tape
        self._name = name
        self._role = role

    @property
    def name(self) -> str:
        """The model's name."""
        return self._name

    def reply(self, request: Request) -> Reply:
        """Return what the record holds.

        Raises:
            End: it holds nothing.
        """
        return self._tape.play(request, self._role)


class RecordedJudge:
    """Outcomes from the record; beside them, where a judge is given, what it says today.

    The search is told the recorded outcome in any case: times differ from day to day, and a search
    that was told others would take other ways.
    """

    def __init__(self, graph: Graph, findings: Findings, judge: Judge | None = None) -> None:
        self._nodes: dict[str, Node] = {}
        for node in graph.nodes:
            self._nodes.setdefault(node.draft.source, node)
        self._findings = findings
        self._judge = judge

    def prepare(self, progress: Callable[[str], None] = lambda _: None) -> Prepared:
        """Prepare the judge of today where there is one.

        Raises:
            End: there is none, and nothing to prepare.
        """
        if self._judge is None:
            raise End("the record alone prepares nothing")
        return self._judge.prepare(progress)

    def judge(self, source: str, *, thorough: bool = False) -> Outcome:  # noqa: ARG002 - nothing is measured twice in a replay
        """Return the recorded outcome of a source.

        Raises:
            End: the record holds none.
        """
        node = self._nodes.get(source)
        if node is None or node.outcome is None:
            raise End("the record holds no outcome for the next candidate")
        if self._judge is not None:
            self._compare(node, node.outcome, self._judge.judge(source))
        return node.outcome

    def close(self) -> None:
        """Do nothing: whoever made the judge closes it."""

    def _compare(self, node: Node, recorded: Outcome, found: Outcome) -> None:
        row: dict[str, Any] = {"node": node.number, "recorded": recorded.kind, "now": found.kind}
        if isinstance(recorded, Passed) and isinstance(found, Passed):
            row["recorded_speedup"] = asdict(recorded.speedup["eager"])
            row["speedup_now"] = asdict(found.speedup["eager"])
        self._findings.judged.append(row)
        if recorded.kind != found.kind:
            self._findings.differs(
                f"node {node.number}", "another outcome", recorded.kind, found.kind
            )


class Listener:
    """Holds what a replay does against what the record says was done."""

    def __init__(self, recorded: Graph, findings: Findings) -> None:
        self._recorded = recorded
        self._findings = findings
        self._steps = {node.step: node for node in recorded.nodes}

    def begins(self, work: Work) -> None:
        """Stop where the record goes no further.

        Raises:
            End: it does not.
        """
        if isinstance(work, WriteIdeas):
            known = work.slot in self._recorded.proposals
        elif isinstance(work, JudgeNode):
            known = True
        else:
            known = work.step in self._steps or work.step in self._recorded.dead_ends
        if not known:
            raise End("the record goes no further")

    def ends(self, work: Work, result: Result) -> None:
        """Compare a result with the record's."""
        if isinstance(work, WriteIdeas) and isinstance(result, Ideas):
            recorded = self._recorded.proposals[work.slot].ideas
            if recorded != result.ideas:
                where = f"ideas of round {work.slot.round + 1}"
                old, new = ("\n".join(map(_idea, ideas)) for ideas in (recorded, result.ideas))
                self._findings.differs(where, "other ideas", old, new)
        elif not isinstance(work, JudgeNode | WriteIdeas):
            self._draft(work.step, result)

    def _draft(self, step: Step, result: Result) -> None:
        node = self._steps.get(step)
        found = getattr(result, "source", "")
        if node is None:
            if result is not None:
                self._findings.differs(f"step {step.key}", "a source where there was none")
        elif node.draft != result:
            where = f"node {node.number} (step {step.key})"
            what = "another source" if node.draft.source != found else "other passages or requests"
            self._findings.differs(where, what, node.draft.source, found)

    def confirms(self, node: int, outcome: Outcome) -> None:
        """Do nothing: a replay measures nothing twice."""


def missing(recorded: Graph, replayed: Graph) -> Sequence[int]:
    """Return the numbers of nodes that the record has and the replay did not come to."""
    steps = {node.step for node in replayed.nodes}
    return [node.number for node in recorded.nodes if node.step not in steps]


def _idea(idea: Idea) -> str:
    """Return an idea in one line that people can compare."""
    digest = hashlib.sha256(idea.text.encode()).hexdigest()[:8]
    plan = json.dumps(dict(idea.plan), default=str)
    return f"{idea.title} ({idea.category}, text {digest}, {len(idea.exchanges)} requests) {plan}"


def _text(request: Request) -> str:
    """Return a request as people compare it."""
    head = (
        f"model {request.model}, temperature {request.temperature:g}, seed {request.seed}, "
        f"at most {request.max_tokens} tokens"
    )
    turns = (f"[{turn.role}]\n{turn.content}" for turn in request.messages)
    return "\n".join((head, *turns, request.schema or ""))
