"""Who is asked: models by what they write, ensembles, and a bandit that learns whom to ask.

What a bandit knows is in the record of the run: gains from the graph, costs from the calls. What
it chose is recorded too, so that a resumed or replayed run asks the same model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import Literal, Protocol

from tiktoken.model import encoding_name_for_model

from kb.errors import ConfigError
from kb.tokens import DEFAULT_ENCODING, PACKAGED, count_tokens
from search.attempt import Attempt, Moment
from search.runs.spending import Spent
from search.task import ModelSettings
from synth.models import Model

Role = Literal["ideas", "code", "repair", "diagnosis"]
ROLES: tuple[Role, ...] = ("ideas", "code", "repair", "diagnosis")
# Whom a role falls back to where nobody was named for it; diagnosis is deterministic then.
INSTEAD: Mapping[Role, tuple[Role, ...]] = {
    "ideas": ("code",),
    "code": ("ideas",),
    "repair": ("code", "ideas"),
    "diagnosis": (),
}
_AGAIN_TOKENS = 250  # what a second request adds to a prompt
# A tokenizer that tiktoken does not know may count more tokens: SmolLM2's counts an eighth more for
# a whole prompt.
_UNKNOWN_MARGIN = 0.85


@dataclass(frozen=True, kw_only=True)
class Voice:
    """A model, with how it is asked."""

    model: Model
    settings: ModelSettings

    def __post_init__(self) -> None:
        """Refuse a context without room for a prompt.

        Raises:
            ConfigError: the reply takes all of the context.
        """
        if self.budget <= 0:
            raise ConfigError(
                f"model.context_tokens: expected room for a prompt beside the reply, found "
                f"{self.settings.context_tokens} with model.reply_tokens "
                f"{self.settings.reply_tokens}: raise the first or lower the second"
            )

    @property
    def encoding(self) -> str:
        """What counts this model's tokens, for `kb.tokens.count_tokens`."""
        return self._counted[0]

    @cached_property
    def budget(self) -> int:
        """Tokens that a prompt may have by that count."""
        room = self.settings.context_tokens - self.settings.reply_tokens
        return int(room * self._counted[1]) - _AGAIN_TOKENS

    def count(self, text: str) -> int:
        """Return how many tokens `text` is to this model, or nearly."""
        return count_tokens(text, self.encoding)

    @cached_property
    def _counted(self) -> tuple[str, float]:
        return _encoding(self.model.name, self.settings.tokenizer)


class Accounts(Protocol):
    """Knows what the calls of a run cost, and keeps what was chosen."""

    def spent(self, model: str, role: str) -> Spent:
        """Return what `model` was paid for in `role`."""
        ...

    def writer(self, exchange: str) -> str | None:
        """Return the model that answered a request of this run, None where it is not known."""
        ...

    def chosen(self, place: str) -> str | None:
        """Return the model that was chosen for a place of the search, None where none was yet."""
        ...

    def choose(self, place: str, model: str) -> None:
        """Keep what was chosen."""
        ...


@dataclass(slots=True)
class NoAccounts:
    """Keeps choices only as long as the process lives."""

    choices: dict[str, str] = field(default_factory=dict)

    def spent(self, model: str, role: str) -> Spent:  # noqa: ARG002 - nothing is known here
        """Return nothing."""
        return Spent()

    def writer(self, exchange: str) -> str | None:  # noqa: ARG002 - nothing is known here
        """Return None."""
        return None

    def chosen(self, place: str) -> str | None:
        """Return what `choose` was told."""
        return self.choices.get(place)

    def choose(self, place: str, model: str) -> None:
        """Keep a choice."""
        self.choices[place] = model


class Cast:
    """Chooses the model to ask.

    Args:
        voices: by role; a role without any falls back as `INSTEAD` says.
        choose: by fixed weights, or by the gain that each model's work made per unit of cost.
        accounts: of the run.
    """

    def __init__(
        self,
        voices: Mapping[Role, Sequence[Voice]],
        *,
        choose: Literal["weights", "bandit"] = "weights",
        accounts: Accounts | None = None,
    ) -> None:
        self._voices = {role: tuple(found) for role, found in voices.items() if found}
        self._choose = choose
        self.accounts: Accounts = accounts or NoAccounts()

    @classmethod
    def of(cls, model: Model, settings: ModelSettings) -> Cast:
        """Return a cast in which one model writes everything but diagnoses."""
        return cls({"ideas": (Voice(model=model, settings=settings),)})

    def members(self, role: Role) -> tuple[Voice, ...]:
        """Return who may be asked in a role; nobody only for diagnosis."""
        for one in (role, *INSTEAD[role]):
            if one in self._voices:
                return self._voices[one]
        return ()

    def voice(self, role: Role, moment: Moment, branch: int = 0) -> Voice:
        """Return whom to ask now: the one of before where this place was reached before."""
        members = self.members(role)
        if len(members) == 1:
            return members[0]
        place = f"{role}/{moment.round}/{moment.seed}/{branch}"
        by_name = {one.model.name: one for one in members}
        known = self.accounts.chosen(place)
        if known is not None and known in by_name:
            return by_name[known]
        rng = Random(place)
        if self._choose == "weights":
            weights = [one.settings.weight for one in members]
            picked = rng.choices(members, weights)[0]
        else:
            picked = self._draw(role, members, moment.history, rng)
        self.accounts.choose(place, picked.model.name)
        return picked

    def _draw(
        self, role: Role, members: Sequence[Voice], history: Iterable[Attempt], rng: Random
    ) -> Voice:
        gains = gains_of(history, role, self.accounts.writer)
        paid = {one.model.name: self.accounts.spent(one.model.name, role) for one in members}
        costs = per_call(paid)
        drawn = [
            (thompson(gains.get(one.model.name, ()), paid[one.model.name].calls, rng)
             / costs[one.model.name] * one.settings.weight, -rank)
            for rank, one in enumerate(members)
        ]  # fmt: skip
        return members[-max(drawn)[1]]


def gains_of(
    history: Iterable[Attempt], role: Role, writer: Callable[[str], str | None]
) -> dict[str, tuple[float, ...]]:
    """Return, by model, what each of its nodes gained on its parent: log of the ratio, at least 0.

    Ideas are credited with every branch that came of them; sources with their own outcome. What
    failed gained nothing.
    """
    merits: dict[int, float] = {}
    found: dict[str, list[float]] = {}
    for attempt in history:
        merits[attempt.number] = attempt.merit
        wrote = attempt.idea.exchanges if role == "ideas" else attempt.draft.exchanges
        model = writer(wrote[-1]) if wrote else None
        if model is None:
            continue
        before = merits.get(attempt.parent, 0.0) if attempt.parent is not None else 1.0
        ratio = attempt.merit / before if before > 0 else attempt.merit
        found.setdefault(model, []).append(max(0.0, math.log(ratio)) if ratio > 0 else 0.0)
    return {model: tuple(gains) for model, gains in found.items()}


def thompson(gains: Sequence[float], calls: int, rng: Random) -> float:
    """Draw a plausible mean gain per call.

    A normal posterior around the mean over the calls (calls that came to nothing gained 0), with
    one imagined call that gained `_HOPE`, so that what was never asked is soon asked (Thompson
    sampling, see Russo et al., A Tutorial on Thompson Sampling, 2018, section 3).
    """
    n = max(calls, len(gains))
    mean = (sum(gains) + _HOPE) / (n + 1)
    squares = sum((gain - mean) ** 2 for gain in gains) + (n - len(gains)) * mean**2
    spread = math.sqrt((squares + _HOPE**2) / (n + 1) / (n + 1))
    return max(rng.gauss(mean, spread), 1e-6 * rng.random())


_HOPE = 0.2  # log gain of a call before anything is known: a fifth faster


def per_call(paid: Mapping[str, Spent]) -> dict[str, float]:
    """Return the mean cost of a call, by model: money where all have prices, else tokens.

    A model that was not asked yet costs what the others cost on the mean.
    """
    money = all(one.cost is not None for one in paid.values() if one.calls)
    means: dict[str, float] = {}
    for name, one in paid.items():
        if one.calls:
            total = one.cost if money and one.cost is not None else one.tokens
            means[name] = total / one.calls
    known = [mean for mean in means.values() if mean > 0]
    usual = sum(known) / len(known) if known else 1.0
    # What costs nothing (a server of one's own) is not infinitely better than what costs little.
    return {name: max(means.get(name, usual), usual / 1000) for name in paid}


def _encoding(model: str, tokenizer: str | None) -> tuple[str, float]:
    """Return the encoding to count with, and the part of the context to use by its count."""
    if tokenizer is not None:
        return tokenizer, 1.0
    try:
        found = encoding_name_for_model(model)
    except KeyError:
        return DEFAULT_ENCODING, _UNKNOWN_MARGIN
    # o200k_harmony is o200k_base with other control tokens, which no prompt holds.
    name = "o200k_base" if found.startswith("o200k") else found
    return (name, 1.0) if name in PACKAGED else (DEFAULT_ENCODING, _UNKNOWN_MARGIN)
