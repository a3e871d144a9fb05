"""Values that the knowledge base hands out: scopes, passages, queries and hits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

Kind = Literal["target", "language", "constraint", "guide", "idea", "kernel", "lesson", "document"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Where a piece of knowledge applies; an empty field applies everywhere."""

    vendor: tuple[str, ...] = ()
    architecture: tuple[str, ...] = ()
    language: tuple[str, ...] = ()
    operator: tuple[str, ...] = ()
    dtype: tuple[str, ...] = ()

    def admits(self, other: Scope) -> bool:
        """Say whether knowledge of this scope may serve a question of scope `other`."""
        pairs = (
            (self.vendor, other.vendor),
            (self.architecture, other.architecture),
            (self.language, other.language),
            (self.operator, other.operator),
            (self.dtype, other.dtype),
        )
        return all(not mine or not theirs or set(mine) & set(theirs) for mine, theirs in pairs)


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
    """What is asked of the knowledge base."""

    text: str
    scope: Scope = field(default_factory=Scope)
    symptoms: tuple[str, ...] = ()
    kinds: tuple[Kind, ...] = ()  # empty: every kind
    limit: int = 8
    token_budget: int | None = None  # sum of `Passage.tokens` over the hits


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A passage that answers a query."""

    passage: Passage
    score: float  # fused score, higher is better
    dense_rank: int | None  # 1 is best; None: not found by that half
    lexical_rank: int | None
    widened: bool = False  # found only after the scope filter was lifted
