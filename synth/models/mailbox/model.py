"""A model that is whoever reads a folder: a chat window, a coding agent, or a person.

Every request becomes a letter: a markdown file to read, and a JSON file beside it for programs. The
answer is the file of the same name that ends in ``.reply.md``. Answers may come in any order, days
later, or while nobody waits: a letter's name belongs to its content, so that a run that is taken up
again finds the letters that it sent and the answers that came.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from kb.tokens import count_tokens
from synth.models import Reply, Request
from synth.models.mailbox.files import Letter, LetterFolder
from synth.models.mailbox.format import trouble
from synth.models.waiting import LOOK_SECONDS, Waiting, finish


class Mailbox:
    """Asks by letter; several letters may be out at once.

    Args:
        folder: where letters lie; `open` chooses a folder in it.
        name: what the record calls the author of the answers.
        say: told in one line of every letter, answer and unusable answer.
        look_seconds: how long `reply` waits between two looks.
    """

    def __init__(
        self,
        folder: Path,
        *,
        name: str = "mailbox",
        say: Callable[[str], None] = lambda _: None,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self._folder = folder
        self._name = name
        self._say = say
        self._look_seconds = look_seconds
        self._desk = LetterFolder(folder)
        self._waiting: dict[str, None] = {}
        self._answered: list[tuple[Request, Letter]] = []
        self._waited = 0.0
        self._since = 0.0

    @property
    def name(self) -> str:
        """What the record calls the author of the answers."""
        return self._name

    @property
    def folder(self) -> Path:
        """Where the letters lie."""
        return self._desk.folder

    @property
    def waiting(self) -> tuple[str, ...]:
        """Names of the letters that wait for an answer."""
        return tuple(self._waiting)

    @property
    def waited(self) -> float:
        """Seconds during which at least one letter waited: they are nobody's computing time."""
        return self._waited + (time.monotonic() - self._since if self._waiting else 0.0)

    def open(self, run: str) -> None:
        """Use the folder of one run from now on: its letters and answers are told apart by it.

        Raises:
            ModelError: the folder cannot be made or read.
        """
        self._desk = LetterFolder(self._folder / run)
        self._desk.read()

    def reply(self, request: Request) -> Reply:
        """Return what `ask` does, and wait for it."""
        return finish(self.ask(request), self._look_seconds)

    def ask(self, request: Request) -> Waiting[Reply]:
        """Send `request` unless it lies there; look for its answer whenever this is continued.

        An answer counts once it did not change from one look to the next.

        Returns:
            The answer; its token counts are by a general tokenizer, its seconds those of waiting.

        Raises:
            ModelError: the folder cannot be written or read.
        """
        earlier = self._earlier(request)
        letter = self._desk.send(request, again=earlier is not None)
        if earlier is not None:
            before, problem = earlier
            self._desk.refuse(before, problem, follow_up=letter.name)
        began = time.monotonic()
        if not self._waiting:
            self._since = began
        self._waiting[letter.name] = None
        self._say(f"letter {self._desk.folder / letter.prompt}: waiting for {letter.reply}")
        try:
            text = yield from self._answer(letter, request)
        finally:
            self._waiting.pop(letter.name, None)
            if not self._waiting:
                self._waited += time.monotonic() - self._since
        self._desk.close(letter)
        self._answered.append((request, letter))
        contents = (message.content for message in request.messages)
        return Reply(
            text=text,
            model=self._name,
            tokens_in=letter.tokens or sum(map(count_tokens, contents)),
            tokens_out=count_tokens(text),
            seconds=time.monotonic() - began,
            finish="stop",
        )

    def _answer(self, letter: Letter, request: Request) -> Waiting[str]:
        """Return the first usable answer; those that are not are put aside with the reason."""
        seen = None
        while True:
            mark = self._desk.mark(letter)
            if mark is not None and mark == seen:
                text, problem = self._desk.answer(letter)
                problem = problem or trouble(request, text)
                if not problem:
                    self._say(f"answer {letter.reply}: {len(text):,} characters")
                    return text
                self._desk.reject(letter, problem)
                self._say(f"answer {letter.reply} cannot be used: {problem}")
                mark = None
            seen = mark
            yield

    def _earlier(self, request: Request) -> tuple[Letter, str] | None:
        """Return the letter that `request` asks again, and why.

        It is known by its beginning with the same text; a request with more messages goes on from
        an answer that was of use.
        """
        new = request.messages
        for asked, letter in reversed(self._answered):
            old = asked.messages
            if not old or (asked.schema, len(old), old[:-1]) != (
                request.schema,
                len(new),
                new[:-1],
            ):
                continue
            before, now = old[-1].content, new[-1].content
            if len(now) > len(before) and now.startswith(before):
                return letter, now[len(before) :].strip()
        return None
