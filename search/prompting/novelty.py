"""What was tried on a task before, and what is the same in other words: not to be written again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from search.attempt import Attempt
from search.outcome import STANDING

Alike = Callable[[str, Sequence[str]], int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownIdea:
    """An idea that exists, with what became of it in a few words."""

    title: str
    text: str
    told: str

    @property
    def words(self) -> str:
        """The whole idea, as it is compared."""
        return f"{self.title}. {self.text}"


class NoveltyCheck:
    """Refuses ideas that say again what was tried.

    Args:
        alike: returns which of some texts means the same as one, None where only words count.
        earlier: ideas of other runs of the task that lost or failed there. Those that won may be
            given again: a new run starts from the reference and would do without them otherwise.
    """

    def __init__(self, alike: Alike | None = None, earlier: Sequence[KnownIdea] = ()) -> None:
        self._alike = alike
        self.earlier = tuple(earlier)

    def find(self, title: str, text: str, tried: Sequence[KnownIdea]) -> KnownIdea | None:
        """Return what an idea repeats, of `tried` and of earlier runs; None where it is new."""
        others = (*tried, *self.earlier)
        if self._alike is None or not others:
            return None
        place = self._alike(f"{title}. {text}", [one.words for one in others])
        return None if place is None else others[place]


def tried_in(history: Iterable[Attempt]) -> tuple[KnownIdea, ...]:
    """Return the ideas of attempts, each once, with the best that became of it."""
    groups: dict[tuple[str, str], list[Attempt]] = {}
    for attempt in history:
        groups.setdefault((attempt.idea.title, attempt.idea.text), []).append(attempt)
    return tuple(
        KnownIdea(title=title, text=text, told=fate_words(group))
        for (title, text), group in groups.items()
    )


def fate_words(group: Sequence[Attempt]) -> str:
    """Return what became of the attempts at one idea, in a few words."""
    best = max(group, key=lambda attempt: attempt.speedup)
    if best.speedup:
        return f"reached {best.speedup:.2f}x over eager"
    if any(attempt.outcome.kind in STANDING for attempt in group):
        return "compiled"
    return f"{group[-1].outcome.kind.replace('_', ' ')}: {getattr(group[-1].outcome, 'reason', '')}"
