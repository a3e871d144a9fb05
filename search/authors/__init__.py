"""Authors: who writes ideas and sources."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from kb.registry import Registry
from search.attempt import Attempt, Draft, Idea, Moment
from synth.models.waiting import Waiting

if TYPE_CHECKING:
    from kb.records.schema import TargetRecord
    from search.authors.model_pool import ModelPool
    from search.costs.graph import OperatorGraph, Work
    from search.prompting.knowledge_view import KnowledgeView
    from search.task import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorParts:
    """What every author is built from, those of other distributions too.

    Attributes:
        graph: the reference's operators.
        work: what the reference computes and moves at least.
        memory: what the author may ask of the knowledge base.
        models: the models that the task names, none where it names none.
        say: tells the user one line.
    """

    task: Task
    target: TargetRecord
    graph: OperatorGraph
    work: Work
    memory: KnowledgeView
    models: ModelPool
    say: Callable[[str], None]


class Author(Protocol):
    """Writes ideas, then sources. Keeps no state between calls beyond caches."""

    def ideas(self, moment: Moment, count: int) -> tuple[Idea, ...]:
        """Return at most `count` new ideas for `moment.parent`, the most promising first."""
        ...

    def draft(
        self, moment: Moment, idea: Idea, branch: int, siblings: tuple[Attempt, ...]
    ) -> Draft | None:
        """Return implementation number `branch` of `idea`.

        Args:
            siblings: the judged earlier branches of the same idea.

        Returns:
            None where the author has no further implementation.
        """
        ...

    def repair(self, moment: Moment, failed: Attempt) -> Draft | None:
        """Return a mended source for an attempt that failed, None where it cannot mend it."""
        ...


@runtime_checkable
class DeferredAuthor(Author, Protocol):
    """An author whose answers take long: each method is one of `Author`, and yields while it waits."""

    def asks_ideas(self, moment: Moment, count: int) -> Waiting[tuple[Idea, ...]]:
        """Return what `Author.ideas` does."""
        ...

    def asks_draft(
        self, moment: Moment, idea: Idea, branch: int, siblings: tuple[Attempt, ...]
    ) -> Waiting[Draft | None]:
        """Return what `Author.draft` does."""
        ...

    def asks_repair(self, moment: Moment, failed: Attempt) -> Waiting[Draft | None]:
        """Return what `Author.repair` does."""
        ...


AUTHORS: Registry[Author] = Registry(
    "author",
    {
        "llm": "search.authors.llm:LanguageModel.of",
        "recipes": "search.authors.recipes:Recipes.of",
        "mailbox": "search.authors.llm:LanguageModel.of",
    },
)
