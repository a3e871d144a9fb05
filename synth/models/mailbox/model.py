"""A model that is whoever reads a folder: a chat window, a coding agent, or a person.

Every request becomes a letter: a markdown file to read, and a JSON file beside it for programs. The
answer is the file of the same name that ends in ``.reply.md``. Answers may come in any order, days
later, or while nobody waits: a letter's name belongs to its content, so that a run that is taken up
again finds the letters that it sent and the answers that came.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from threading import Event, Lock

from kb.errors import ModelError
from kb.tokens import count_tokens
from synth.models import Reply, Request
from synth.models.mailbox.files import Desk, Letter
from synth.models.mailbox.format import trouble

POLL_SECONDS = 0.2
_CLOSED = "the mailbox was closed while a letter waited for its answer: nothing is lost"


class Mailbox:
    """Asks by letter and waits for the answers, several at once where several threads ask.

    Args:
        folder: where letters lie; `open` chooses a folder in it.
        name: what the record calls the author of the answers.
        say: told in one line of every letter, answer and unusable answer.
        poll_seconds: how often it looks; an answer counts once it did not change from one look to
            the next.
    """

    def __init__(
        self,
        folder: Path,
        *,
        name: str = "mailbox",
        say: Callable[[str], None] | None = None,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        self._folder = folder
        self._name = name
        self._say = say
        self._poll = poll_seconds
        self._desk = Desk(folder)
        self._closed = Event()
        self._lock = Lock()
        self._waiting: dict[str, Letter] = {}
        self._answered: list[tuple[Request, Letter]] = []
        self._waited = 0.0
        self._since = 0.0
        # Who drives several threads through code that is not made for it lets the next one in here.
        self.while_waiting: Callable[[], AbstractContextManager[None]] = nullcontext

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
        with self._lock:
            return tuple(self._waiting)

    @property
    def waited(self) -> float:
        """Seconds during which at least one letter waited: they are nobody's computing time."""
        with self._lock:
            return self._waited + (time.monotonic() - self._since if self._waiting else 0.0)

    def open(self, run: str) -> None:
        """Use the folder of one run from now on: its letters and answers are told apart by it.

        Raises:
            ModelError: the folder cannot be made or read.
        """
        self._desk = Desk(self._folder / run)
        self._desk.read()

    def reply(self, request: Request) -> Reply:
        """Send `request` unless it lies there, and wait for its answer.

        Returns:
            The answer; its token counts are by a general tokenizer, its seconds those of waiting.

        Raises:
            ModelError: the folder cannot be written or read, or `close` was called.
        """
        before = self._earlier(request)
        letter = self._desk.send(request, again=before is not None)
        if before is not None:
            self._desk.refuse(before, self._reason(request, before), follow_up=letter.name)
        began = time.monotonic()
        self._note(letter)
        try:
            with self.while_waiting():
                text = self._wait(letter, request)
        finally:
            self._forget(letter)
        self._desk.close(letter)
        with self._lock:
            self._answered.append((request, letter))
        return Reply(
            text=text,
            model=self._name,
            tokens_in=sum(count_tokens(message.content) for message in request.messages),
            tokens_out=count_tokens(text),
            seconds=time.monotonic() - began,
            finish="stop",
        )

    def close(self) -> None:
        """Have everyone who waits stop waiting; the letters stay, and so do answers to them."""
        self._closed.set()

    def _note(self, letter: Letter) -> None:
        with self._lock:
            if not self._waiting:
                self._since = time.monotonic()
            self._waiting[letter.name] = letter
        self._tell(f"letter {self._desk.folder / letter.prompt}: waiting for {letter.reply}")

    def _forget(self, letter: Letter) -> None:
        with self._lock:
            del self._waiting[letter.name]
            if not self._waiting:
                self._waited += time.monotonic() - self._since

    def _wait(self, letter: Letter, request: Request) -> str:
        seen = None
        while True:
            mark = self._desk.mark(letter)
            if mark is not None and mark == seen:
                text, problem = self._desk.answer(letter)
                problem = problem or trouble(request, text)
                if not problem:
                    self._tell(f"answer {letter.reply}: {len(text):,} characters")
                    return text
                self._desk.reject(letter, problem)
                self._tell(f"answer {letter.reply} cannot be used: {problem}")
                mark = None
            seen = mark
            if self._closed.wait(self._poll):
                raise ModelError(_CLOSED)

    def _earlier(self, request: Request) -> Letter | None:
        """Return the letter that `request` asks again, told by its beginning with the same text."""
        with self._lock:
            for asked, letter in reversed(self._answered):
                if _goes_on(asked, request):
                    return letter
        return None

    def _reason(self, request: Request, before: Letter) -> str:
        with self._lock:
            asked = next(one for one, letter in self._answered if letter is before)
        old, new = asked.messages[-1].content, request.messages[-1].content
        return new[len(old) :].strip()

    def _tell(self, line: str) -> None:
        if self._say is not None:
            self._say(line)


def _goes_on(asked: Request, request: Request) -> bool:
    """Say whether `request` is `asked` with more in its last message, as who asks again words it.

    One with more messages goes on from an answer that was of use.
    """
    old, new = asked.messages, request.messages
    if not old or asked.schema != request.schema:
        return False
    longer = len(new[-1].content) > len(old[-1].content)
    return (
        len(new) == len(old)
        and new[:-1] == old[:-1]
        and longer
        and new[-1].content.startswith(old[-1].content)
    )


_OPEN: dict[Path, Mailbox] = {}


def open_mailbox(folder: Path, *, say: Callable[[str], None] | None = None) -> Mailbox:
    """Return this process's mailbox over `folder`: whoever asks by it shares one."""
    return _OPEN.setdefault(folder, Mailbox(folder, say=say))


def mailboxes() -> tuple[Mailbox, ...]:
    """Return the mailboxes that this process asks by."""
    return tuple(_OPEN.values())
