"""Values that the knowledge base hands out: scopes, passages, queries and hits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

Kind = Literal["target", "language", "constraint", "guide", "idea", "kernel", "lesson", "document"]
KINDS: tuple[Kind, ...] = get_args(Kind)

Mode = Literal["bm25", "dense", "hybrid", "hybrid+effect"]
MODES: tuple[Mode, ...] = get_args(Mode)

# What became of a candidate beside what it started from.
Fate = Literal["won", "even", "lost", "failed"]
FATES: tuple[Fate, ...] = get_args(Fate)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Where a piece of knowledge applies; an empty field applies everywhere.

    Attributes:
        library: whether a task lets candidates call the framework's library: "allowed" or "forbidden".
    """

    vendor: tuple[str, ...] = ()
    architecture: tuple[str, ...] = ()
    language: tuple[str, ...] = ()
    operator: tuple[str, ...] = ()
    dtype: tuple[str, ...] = ()
    library: tuple[str, ...] = ()

    def admits(self, other: Scope) -> bool:
        """Say whether knowledge of this scope may serve a question of scope `other`."""
        return not self.misses(other)

    def misses(self, other: Scope) -> tuple[str, ...]:
        """Return the fields in which knowledge of this scope is not for a question of `other`."""
        pairs = {
            "vendor": (self.vendor, other.vendor),
            "architecture": (self.architecture, other.architecture),
            "language": (self.language, other.language),
            "operator": (self.operator, other.operator),
            "dtype": (self.dtype, other.dtype),
            "library": (self.library, other.library),
        }
        return tuple(
            name
            for name, (mine, theirs) in pairs.items()
            if mine and theirs and not set(mine) & set(theirs)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A piece of a document that fits into a prompt, with the place that it comes from."""

    id: str  # content hash of document, section and text
    document: str  # path relative to the root that it was ingested from, or "kb:ideas/x.md"
    section: str  # breadcrumb: "Title > Heading > Subheading"
    kind: Kind
    text: str
    tokens: int
    scope: Scope = field(default_factory=Scope)
    symptoms: tuple[str, ...] = ()
    pages: tuple[int, int] | None = None  # first and last, where the document has pages
    flags: tuple[str, ...] = ()  # what a reader should know, e.g. "suspicious"


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What is asked of the knowledge base.

    Attributes:
        symptoms: of the diagnosis, the worst first: the first one is the bottleneck.
        kinds: empty for every kind.
        token_budget: for the sum of the hits' tokens.
        encoding: what tokens are counted by, see `kb.tokens.count_tokens`; None: as they were
            counted when the passages were made (`kb.tokens.DEFAULT_ENCODING`).
    """

    text: str
    scope: Scope = field(default_factory=Scope)
    symptoms: tuple[str, ...] = ()
    kinds: tuple[Kind, ...] = ()
    limit: int = 8
    token_budget: int | None = None
    encoding: str | None = None
    mode: Mode = "hybrid+effect"


def fates(counts: Mapping[str, int]) -> str:
    """Return in words how often something won, came out even, lost and failed."""
    return ", ".join(f"{counts[fate]} {fate}" for fate in FATES if counts.get(fate))


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What the use of a passage gained, as far as it is known; gains are natural logarithms.

    Attributes:
        retrieved: requests for ideas that it was returned to.
        won, even, lost, failed: measurements of candidates whose idea or prompt rests on it.
        gain, low, high: expected gain where the question comes from, shrunken towards none, with
            its 90 % interval.
        weights: of the measurements that stand behind it, decayed: same family, device and
            bottleneck; same family only; the others.
        bonus: what it is raised by for being little tried.
        lift: what its confirmations and contradictions raise it by, where it is a lesson.
    """

    retrieved: int = 0
    won: int = 0
    even: int = 0
    lost: int = 0
    failed: int = 0
    gain: float = 0.0
    low: float = 0.0
    high: float = 0.0
    weights: tuple[float, float, float] = (0.0, 0.0, 0.0)
    bonus: float = 0.0
    lift: float = 0.0

    @property
    def used(self) -> int:
        """How many measurements rest on it."""
        return self.won + self.even + self.lost + self.failed

    @property
    def fates(self) -> str:
        """The measurements in words, "" where there is none."""
        return fates({fate: getattr(self, fate) for fate in FATES})


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """Why a passage stands where it does.

    Attributes:
        cosine: to the question, of the passage or of words by which it is asked for; None where the
            dense half did not find it.
        bm25: likewise its score, None where the lexical half did not find it.
        ranks: its place in every ranking that was fused, by name; 1 is best.
        fused: reciprocal ranks summed, before the measured effect.
        effect: None where none is known, or the mode asks for none.
        factor: that the effect multiplied the fused score by.
        misses: fields of the scope asked for that it was not written for.
        trail: what it was found for, the weightiest reason first.
        copies: places that say the same and were left out for it.
        kept: why diversity let it stay.
    """

    cosine: float | None = None
    bm25: float | None = None
    ranks: Mapping[str, int] = field(default_factory=dict)
    fused: float = 0.0
    effect: Effect | None = None
    factor: float = 1.0
    misses: tuple[str, ...] = ()
    trail: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()
    kept: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A passage that answers a query."""

    passage: Passage
    score: float  # fused score times measured effect, higher is better
    dense_rank: int | None  # 1 is best; None: not found by that half
    lexical_rank: int | None
    widened: bool = False  # found only after the scope filter was lifted
    why: Why = field(default_factory=Why)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """A passage that ranked high enough and is not among the hits, with the reason."""

    document: str
    section: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MenuEntry:
    """A record that is named and not quoted.

    Attributes:
        gained: what it came to where it was measured.
    """

    name: str
    title: str
    gained: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The hits of a question, what was left out, and what the reader should know.

    Attributes:
        near: documents that were found and not given, the nearest first.
        menu: titles of what else is in scope, the nearest first, where they were asked for.
    """

    hits: tuple[Hit, ...]
    dropped: tuple[Dropped, ...] = ()
    notes: tuple[str, ...] = ()
    near: tuple[str, ...] = ()
    menu: tuple[MenuEntry, ...] = ()
