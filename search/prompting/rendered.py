"""A prompt as it is sent, with what it was made from."""

from __future__ import annotations

from dataclasses import dataclass

from kb.records.patterns import Recognised
from kb.records.types import Answer, Hit
from kb.retrieval.multi_query import Inquiry
from synth.prompt import Prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedPrompt:
    """A prompt with what it was made from.

    Attributes:
        inquiry: what was asked of the knowledge base.
        patterns: that the task and the state of the search show.
        answer: what it answered; the prompt quotes the hits that it had room for.
    """

    prompt: Prompt
    inquiry: Inquiry
    patterns: tuple[Recognised, ...]
    answer: Answer

    @property
    def hits(self) -> tuple[Hit, ...]:
        """What the knowledge base answered."""
        return self.answer.hits

    def quoted(self) -> list[Hit]:
        """Return the hits that the prompt quotes, in the order of their labels."""
        by_id = {hit.passage.id: hit for hit in self.hits}
        return [by_id[one] for one in self.prompt.passages]
