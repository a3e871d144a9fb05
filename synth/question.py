"""What to ask the knowledge base: from the task, the device, the language and the diagnosis."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from kb.records import TargetRecord
from kb.types import Kind, Query, Scope

# Constraints and language notes are quoted whole in their own section, targets as figures.
KINDS: tuple[Kind, ...] = ("idea", "guide", "kernel", "lesson", "document")
DTYPES: Mapping[str, tuple[str, ...]] = {
    "strict": ("float32",),
    "kernelbench": ("float32",),
    "tf32": ("float32", "tf32"),
    "half": ("float32", "float16", "bfloat16"),
}
PASSAGES = 12  # a query returns at most; the budget usually cuts first
# Where there is room for more, they are shorter of use: one for so many tokens, and no library of them.
ROOM = 1_500
MOST = 80
# Ideas are looked for through the index and one step along its references. Who writes or mends code
# knows what it is about: the closest passages do.
HOPS: Mapping[str, int] = {"ideas": 2, "draft": 0, "repair": 0}
_CALL = re.compile(r"\b(?:nn|F|torch)\.([A-Za-z]\w+)")
_NO_OPERATORS = frozenset({"Module", "nn", "functional", "Tensor", "cuda", "Parameter"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a run is about.

    Attributes:
        source: the reference program.
        families: operator families of the reference.
        precision: the task's policy; one that has no name counts as float32.
    """

    source: str
    target: TargetRecord
    language: str
    families: tuple[str, ...] = ()
    precision: str = "strict"

    @property
    def scope(self) -> Scope:
        """Where knowledge must apply to serve this run."""
        return Scope(
            vendor=(self.target.vendor,),
            architecture=(self.target.architecture,),
            language=(self.language,),
            operator=self.families,
            dtype=DTYPES.get(self.precision, ("float32",)),
        )

    def words(self) -> str:
        """Return the run in the words that documents use: operators, device, language."""
        program = self.source.partition("def get_inputs")[0]
        operators = (name for name in _CALL.findall(program) if name not in _NO_OPERATORS)
        target = self.target
        parts = (*self.families, *operators, target.vendor, target.architecture, self.language)
        return " ".join(dict.fromkeys(parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What is to be written next.

    Attributes:
        text: an idea, or what became of a draft; "" for new ideas.
        symptoms: of the diagnosis, the worst first.
        tokens: room for the passages, counted by `encoding`.
    """

    purpose: Literal["ideas", "draft", "repair"]
    symptoms: Sequence[str]
    tokens: int
    encoding: str
    text: str = ""


def build_query(subject: Subject, need: Need) -> Query:
    """Return what to ask the knowledge base before a prompt is written."""
    about = f"make {subject.words()} faster"
    asked = f"{need.text} {subject.language}" if need.text else about
    return Query(
        text=f"{asked}: {', '.join(need.symptoms)}" if need.symptoms else asked,
        scope=subject.scope,
        symptoms=tuple(need.symptoms),
        kinds=KINDS,
        limit=min(MOST, max(PASSAGES, need.tokens // ROOM)),
        token_budget=need.tokens,
        encoding=need.encoding,
        hops=HOPS[need.purpose],
    )
