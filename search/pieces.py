"""The pieces of work that a search asks for, and what is told of each when it is done."""

from __future__ import annotations

from dataclasses import dataclass

from search.attempt import Attempt, Draft, Idea, Moment
from search.graph import Node, Slot, Step
from search.outcome import Outcome
from search.tunables import Tunable


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteIdeas:
    """Ask the author for ideas."""

    slot: Slot
    moment: Moment
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteDraft:
    """Ask the author for an implementation of an idea."""

    step: Step
    moment: Moment
    idea: Idea
    siblings: tuple[Attempt, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MendDraft:
    """Ask the author to mend a draft that failed."""

    step: Step
    moment: Moment
    failed: Attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneKnobs:
    """Ask for another setting of the constants that an implementation declares.

    Attributes:
        base: the implementation.
        nodes: the judged implementations of its idea, among them the settings that were tried.
    """

    step: Step
    base: Attempt
    tunable: Tunable
    nodes: tuple[Attempt, ...]
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeNode:
    """Ask an evaluator for the outcome of a node.

    Attributes:
        key: the name that the outcome has in every run, see `search.runs.verdicts.counting_key`.
    """

    node: Node
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ideas:
    """The result of `WriteIdeas`: ideas, and what retrieval returned for them.

    Attributes:
        retrieved: documents.
        subjects: what gains of the passages are credited to, see `kb.retrieval.effect_store.subject`.
    """

    ideas: tuple[Idea, ...]
    retrieved: tuple[str, ...] = ()
    subjects: tuple[str, ...] = ()


Work = WriteIdeas | WriteDraft | MendDraft | TuneKnobs | JudgeNode
Result = Ideas | Draft | Outcome | None
