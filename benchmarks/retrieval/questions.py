"""The questions, their graded answers, and which of them are held out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Literal, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from kb.errors import ConfigError
from kb.records.types import Passage

Corpus = Literal["library", "manuals", "records"]
Kind = Literal["remedy", "api", "limit", "error", "beaten"]
KINDS: tuple[Kind, ...] = get_args(Kind)
GRADES = (3, 2, 1)  # exact, good, related
EXACT, GOOD = 3, 2
HELD_OUT_ONE_IN = 3
FOLDER = Path(__file__).parent / "questions"


class Question(BaseModel):
    """What an engineer asks, in his words.

    Attributes:
        target: where set, the scope that `kb search --target` would give.
        language: the same for `--language`.
        answers: references by grade, see `Reference`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(pattern=r"^[a-z0-9-]+$")
    kind: Kind
    ask: str = Field(min_length=10)
    target: str | None = None
    language: str | None = None
    answers: Mapping[int, tuple[str, ...]]

    @field_validator("answers")
    @classmethod
    def _graded(cls, answers: Mapping[int, tuple[str, ...]]) -> Mapping[int, tuple[str, ...]]:
        if not set(answers) <= set(GRADES) or not answers.get(EXACT):
            raise ValueError("expected grades 3, 2, 1 with at least one answer of grade 3")
        return answers

    @property
    def held_out(self) -> bool:
        """Say whether nothing may be tuned on it: every third, by the hash of its name."""
        digest = blake2b(self.id.encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") % HELD_OUT_ONE_IN == 0

    def graded(self) -> tuple[tuple[int, Answer], ...]:
        """Return the answers, the best first."""
        return tuple(
            (grade, Answer.parse(text)) for grade in GRADES for text in self.answers.get(grade, ())
        )


@dataclass(frozen=True, slots=True)
class Reference:
    """Which passages are an answer.

    Written as ``document``, ``document#section`` (some words of its breadcrumb) or
    ``document~words`` (some words of its text). A document is a record of the library without
    its ending (``ideas/online-softmax``) or the end of a page's path (``cuda/memory.html``).
    """

    document: str
    section: str = ""
    words: str = ""

    @classmethod
    def parse(cls, text: str) -> Reference:
        """Read one reference."""
        document, _, words = text.partition("~")
        document, _, section = document.partition("#")
        return cls(document, _plain(section), _plain(words))

    def names(self, document: str) -> bool:
        """Say whether it is about the document that quotations call `document`."""
        if document == f"kb:{self.document}.md":
            return True
        return f"/{document}".endswith(f"/{self.document}")

    def matches(self, passage: Passage) -> bool:
        """Say whether `passage` is such an answer."""
        return (
            self.names(passage.document)
            and self.section in _plain(passage.section)
            and self.words in _plain(passage.text)
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """References any of which is this one answer, written ``a | b``."""

    text: str
    references: tuple[Reference, ...]

    @classmethod
    def parse(cls, text: str) -> Answer:
        """Read one answer."""
        return cls(text, tuple(Reference.parse(part.strip()) for part in text.split(" | ")))

    def matches(self, passage: Passage) -> bool:
        """Say whether `passage` gives this answer."""
        return any(reference.matches(passage) for reference in self.references)


def load_questions(corpus: Corpus, folder: Path = FOLDER) -> tuple[Question, ...]:
    """Read the questions over one corpus.

    Raises:
        ConfigError: the file breaks the format, or a name occurs twice.
    """
    path = folder / f"{corpus}.yaml"
    try:
        entries = yaml.safe_load(path.read_text(encoding="utf-8"))
        questions = tuple(Question.model_validate(entry) for entry in entries)
    except (OSError, yaml.YAMLError, ValidationError) as error:
        raise ConfigError(f"{path}: {' '.join(str(error).split())}") from error
    names = [question.id for question in questions]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"{path}: expected each name once, found {', '.join(twice)} again")
    return questions


def answerable(
    questions: Iterable[Question], passages: Sequence[Passage]
) -> tuple[list[Question], list[str]]:
    """Split off what cannot be asked of these passages.

    Returns:
        The questions all of whose exact answers are there, and one line for each answer, of any
        question, that is not there.
    """
    there: list[Question] = []
    lines: list[str] = []
    for question in questions:
        dead = [
            (grade, answer)
            for grade, answer in question.graded()
            if not any(answer.matches(passage) for passage in passages)
        ]
        lines += [f"{question.id}: nothing here is {answer.text}" for _, answer in dead]
        if not any(grade == EXACT for grade, _ in dead):
            there.append(question)
    return there, lines


def _plain(text: str) -> str:
    return " ".join(text.lower().split())
