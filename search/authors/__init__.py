"""Authors: who writes ideas and sources."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from kb.registry import Registry
from search.attempt import Attempt, Draft, Idea, Moment
from synth.models.waiting import Waiting


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
        "llm": "search.authors.llm:LanguageModel",
        "recipes": "search.authors.recipes:Recipes",
        "mailbox": "search.authors.llm:LanguageModel",
    },
)
