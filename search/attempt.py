"""What is proposed, written and judged in a search: ideas, drafts, attempts, and the state that an author sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from search.outcome import Checked, Outcome, Passed
from synth.bottleneck import Bottleneck

Memory = Literal["trajectory", "siblings", "both", "clean"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Idea:
    """An optimisation in plain language, meant for one parent.

    Attributes:
        record: name of the knowledge record that it comes from, where there is one.
        passages: ids of the passages that suggested it.
        plan: what the offline author needs to render it.
        exchanges: keys of the requests to a model that produced it.
    """

    title: str
    text: str
    category: str
    record: str | None = None
    passages: tuple[str, ...] = ()
    plan: Mapping[str, Any] = field(default_factory=dict)
    exchanges: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A source that an author wrote.

    Attributes:
        plan: choices (recipes, knobs) that later rounds may combine; empty for a model's source.
        passages: ids of the passages that its prompt quoted.
        exchanges: keys of the requests to a model that produced it.
    """

    source: str
    plan: Mapping[str, Any] = field(default_factory=dict)
    passages: tuple[str, ...] = ()
    exchanges: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What an author may know of a node."""

    number: int
    parent: int | None
    round: int
    branch: int
    idea: Idea
    draft: Draft
    outcome: Outcome

    @property
    def seconds(self) -> float:
        """Seconds of one call, infinite where it did not pass."""
        return self.outcome.seconds if self.outcome.kind == "passed" else float("inf")

    @property
    def speedup(self) -> float:
        """Speed-up over eager, 0 where it did not pass."""
        return self.outcome.speedup["eager"].ratio if self.outcome.kind == "passed" else 0.0

    @property
    def merit(self) -> float:
        """What attempts are ranked by, see `Passed.merit`; 0 where it stands nowhere."""
        return self.outcome.merit if isinstance(self.outcome, Passed | Checked) else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The bottleneck in words and numbers.

    Attributes:
        symptoms: from `kb.records.schema.SYMPTOMS`, the worst first.
        lines: one sentence each, with its figures.
        points: the same, structured: what holds the program back, why that is believed, and what to
            leave for later; empty where only lines are known.
        notes: lines beside the points.
    """

    symptoms: tuple[str, ...]
    lines: tuple[str, ...]
    points: tuple[Bottleneck, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The state of the search when an author is asked.

    Attributes:
        seed: derived from the run's seed and the step, so that a resumed run asks the same.
        parent: the attempt to improve, None to start from the reference.
        history: every attempt of the run so far, in order.
        memory: what of it to tell, see `search.prompting.history`; with a clean slate neither the parent nor what
            was tried is looked at.
        pending: ideas that are at work and not in the history, where rounds overlap.
    """

    round: int
    seed: int
    parent: Attempt | None
    history: Sequence[Attempt]
    diagnosis: Diagnosis
    memory: Memory = "both"
    pending: tuple[Idea, ...] = ()
