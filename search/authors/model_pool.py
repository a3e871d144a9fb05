"""Who is asked: models by what they write, and ensembles that are asked by their weights.

What was chosen is recorded, so that a resumed or replayed run asks the same model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import Literal, Protocol, get_args

from tiktoken.model import encoding_name_for_model

from kb.errors import ConfigError
from kb.tokens import DEFAULT_ENCODING, PACKAGED, count_tokens
from search.attempt import Moment
from search.settings import ModelSettings
from synth.models import Model

Role = Literal["ideas", "code", "repair", "diagnosis", "retrieval"]
ROLES: tuple[Role, ...] = get_args(Role)
# Whom a role falls back to where nobody was named for it; diagnoses and questions come from rules then.
INSTEAD: Mapping[Role, tuple[Role, ...]] = {
    "ideas": ("code",),
    "code": ("ideas",),
    "repair": ("code", "ideas"),
    "diagnosis": (),
    "retrieval": (),
}
AGAIN_TOKENS = 250  # what a second request adds to a prompt
# A tokenizer that tiktoken does not know may count more tokens: SmolLM2's counts an eighth more for
# a whole prompt.
_UNKNOWN_MARGIN = 0.85


@dataclass(frozen=True, kw_only=True)
class PoolMember:
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
        return int(room * self._counted[1]) - AGAIN_TOKENS

    def count(self, text: str) -> int:
        """Return how many tokens `text` is to this model, or nearly."""
        return count_tokens(text, self.encoding)

    @cached_property
    def _counted(self) -> tuple[str, float]:
        return _encoding(self.model.name, self.settings.tokenizer)


class Accounts(Protocol):
    """Keeps which model was chosen where."""

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

    def chosen(self, place: str) -> str | None:
        """Return what `choose` was told."""
        return self.choices.get(place)

    def choose(self, place: str, model: str) -> None:
        """Keep a choice."""
        self.choices[place] = model


class ModelPool:
    """Chooses the model to ask.

    Args:
        voices: by role; a role without any falls back as `INSTEAD` says.
        accounts: of the run.
    """

    def __init__(
        self,
        voices: Mapping[Role, Sequence[PoolMember]],
        *,
        accounts: Accounts | None = None,
    ) -> None:
        self._voices = {role: tuple(found) for role, found in voices.items() if found}
        self.accounts: Accounts = accounts or NoAccounts()

    @classmethod
    def of(cls, model: Model, settings: ModelSettings) -> ModelPool:
        """Return a cast in which one model writes everything but diagnoses and questions."""
        return cls({"ideas": (PoolMember(model=model, settings=settings),)})

    def members(self, role: Role) -> tuple[PoolMember, ...]:
        """Return who may be asked in a role; nobody only for diagnoses and questions."""
        for one in (role, *INSTEAD[role]):
            if one in self._voices:
                return self._voices[one]
        return ()

    def voice(self, role: Role, moment: Moment, branch: int = 0) -> PoolMember:
        """Return whom to ask now: the one of before where this place was reached before."""
        members = self.members(role)
        if len(members) == 1:
            return members[0]
        place = f"{role}/{moment.round}/{moment.seed}/{branch}"
        by_name = {one.model.name: one for one in members}
        known = self.accounts.chosen(place)
        if known is not None and known in by_name:
            return by_name[known]
        weights = [one.settings.weight for one in members]
        picked = Random(place).choices(members, weights)[0]
        self.accounts.choose(place, picked.model.name)
        return picked


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
