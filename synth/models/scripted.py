"""A model that reads its replies from a script: for tests, demonstrations and handmade answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from kb.errors import ModelError
from synth.models import Reply, Request


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyRule:
    """Replies to every request that `when` accepts.

    The request's seed chooses among the texts, so that an answer depends on the request alone and
    a resumed run gets the answers of an unbroken one.
    """

    when: Callable[[Request], bool]
    texts: tuple[str, ...]


class _RuleModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    when: str = Field(description="regular expression, searched in the last message")
    replies: Annotated[tuple[str, ...], Field(min_length=1)]


_SCRIPT: TypeAdapter[list[str | _RuleModel]] = TypeAdapter(list[str | _RuleModel])


class Scripted:
    """Answers by the first rule that fits, else with the next plain text of the script.

    Token counts of its replies are estimates (four characters each): no tokenizer belongs to it.

    Args:
        script: plain texts, each given once and in order, and rules, which never wear out.
        name: what the record calls it.
    """

    def __init__(self, script: Iterable[str | ReplyRule], *, name: str = "scripted") -> None:
        entries = tuple(script)
        self._rules = tuple(entry for entry in entries if isinstance(entry, ReplyRule))
        self._texts = tuple(entry for entry in entries if isinstance(entry, str))
        self._name = name
        self._next = 0
        self._lock = Lock()

    @classmethod
    def load(cls, path: Path) -> Scripted:
        """Read a script.

        Args:
            path: a folder, whose files are plain texts in the order of their names; or a JSON file
                with a list of texts and of objects ``{"when": pattern, "replies": [texts]}``.

        Raises:
            ModelError: it cannot be read, or is neither.
        """
        try:
            if path.is_dir():
                files = sorted(file for file in path.iterdir() if file.is_file())
                return cls([file.read_text(encoding="utf-8") for file in files], name=path.name)
            loaded = _SCRIPT.validate_json(path.read_bytes())
            return cls([_entry(entry) for entry in loaded], name=path.stem)
        except (OSError, UnicodeDecodeError, re.error) as error:
            raise ModelError(f"script of replies {path} cannot be used: {error}") from error
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "file"
            raise ModelError(
                f"script of replies {path}: expected a JSON list of texts and of objects with "
                f"'when' and 'replies', found at {place}: {first['msg']}"
            ) from error

    @property
    def name(self) -> str:
        """The name given, or that of the script's file."""
        return self._name

    def reply(self, request: Request) -> Reply:
        """Return the next answer.

        Raises:
            ModelError: no rule fits and the plain texts are used up.
        """
        text = self._choose(request)
        return Reply(
            text=text,
            model=self._name,
            tokens_in=sum(len(message.content) for message in request.messages) // 4,
            tokens_out=len(text) // 4,
            seconds=0.0,
            finish="stop",
        )

    def _choose(self, request: Request) -> str:
        for rule in self._rules:
            if rule.when(request):
                return rule.texts[request.seed % len(rule.texts)]
        with self._lock:
            if self._next >= len(self._texts):
                raise ModelError(
                    f"script {self._name!r}: {len(self._texts)} replies were given and all are "
                    "used up: add replies, or a rule that fits"
                )
            self._next += 1
            return self._texts[self._next - 1]


def _entry(entry: str | _RuleModel) -> str | ReplyRule:
    if isinstance(entry, str):
        return entry
    pattern = re.compile(entry.when)
    return ReplyRule(
        when=lambda request: bool(pattern.search(request.messages[-1].content)),
        texts=entry.replies,
    )
