"""Letters in a folder: what is asked, what was answered, and what was wrong with an answer."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kb.errors import ModelError
from kb.tokens import count_tokens
from synth.models import Request
from synth.models.mailbox.format import kind_of, letter_text
from synth.models.mailbox.quotes import Quotes
from synth.replies.source import fences

LARGEST = 4 << 20  # bytes of an answer: a source is a thousandth of it
_NAME = re.compile(r"^(\d{3,})-[a-z]+-[0-9a-f]{12}$")
State = Literal["waiting", "answered"]


class Letter(BaseModel):
    """What stands beside a letter, for programs.

    Attributes:
        name: of the letter's files, without their endings.
        keys: of the requests that it stands for, see `Request.key`; more than one where a run that
            was taken up again asked the same with other measured figures.
        request: what is asked, as `Request` holds it.
        reply: name of the file that the answer is expected in.
        tokens: of the letter as it was written, 0 where an earlier version of kb wrote it.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    name: Annotated[str, Field(pattern=_NAME.pattern)]
    state: State
    kind: str
    keys: tuple[str, ...]
    request: dict[str, object]
    reply: str
    rejected: int = 0
    tokens: int = 0

    @property
    def prompt(self) -> str:
        """Name of the file to read."""
        return f"{self.name}.md"

    @property
    def number(self) -> int:
        """Its place among the letters of its folder."""
        return int(self.name.split("-", 1)[0])


@dataclass(frozen=True, slots=True)
class Mark:
    """What shows that a file changed."""

    inode: int
    size: int
    changed: int


class LetterFolder:
    """The letters of one folder. Several processes may use it.

    Args:
        folder: made when it is read, or when the first letter is sent.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._letters: dict[str, Letter] = {}
        self._sent: set[str] = set()  # names, by this process
        self._quotes = Quotes()

    def read(self) -> tuple[Letter, ...]:
        """Make the folder, and return the letters that lie there, in the order in which they were sent.

        Raises:
            ModelError: the folder cannot be made or read.
        """
        with self._guarded("make"):
            self.folder.mkdir(parents=True, exist_ok=True)
        self._read()
        return tuple(sorted(self._letters.values(), key=lambda letter: letter.number))

    def send(self, request: Request, *, again: bool = False) -> Letter:
        """Write a letter for `request`, or return the one that stands for it.

        Args:
            again: it asks for another answer than one that was given; letters that wait since an
                earlier process cannot stand for it.

        Raises:
            ModelError: the folder cannot be written.
        """
        key = request.key()
        with self._guarded("write to"):
            if not self._letters:
                self._read()
            known = next((one for one in self._letters.values() if key in one.keys), None)
            if known is None and not again:
                known = self._same_place(request, key)
            if known is None:
                known = self._new(request, key)
            elif known.state == "answered":
                # It is asked again because its answer is in no record: it is still the answer.
                known = self._keep(known.model_copy(update={"state": "waiting"}))
            if not (self.folder / known.prompt).exists():
                self._write_prompt(request, known)
            self._sent.add(known.name)
            return known

    def mark(self, letter: Letter) -> Mark | None:
        """Return what tells one state of a letter's answer from another, None where there is none."""
        try:
            about = os.lstat(self.folder / letter.reply)
        except OSError:
            return None
        return Mark(about.st_ino, about.st_size, about.st_mtime_ns)

    def answer(self, letter: Letter) -> tuple[str, str]:
        """Return the text of an answer and, where it cannot be read, why."""
        path = self.folder / letter.reply
        try:
            # Whoever can write here shall neither have kb read another file nor wait for ever.
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            return "", f"it is expected to be a readable file, found: {error.strerror}"
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return "", "it is expected to be a plain file"
            content = file.read(LARGEST + 1)
        if len(content) > LARGEST:
            return "", f"it is longer than {LARGEST >> 20} MiB"
        try:
            return content.decode("utf-8-sig"), ""
        except UnicodeDecodeError as error:
            return "", f"it is expected to be UTF-8, byte {error.start} is not"

    def reject(self, letter: Letter, problem: str) -> None:
        """Put an unusable answer aside and write down why; the letter goes on waiting.

        Raises:
            ModelError: the folder cannot be written.
        """
        with self._guarded("write to"):
            now = self._letters[letter.name]
            now = self._keep(now.model_copy(update={"rejected": now.rejected + 1}))
            aside = f"{letter.name}.rejected-{now.rejected}.md"
            os.replace(self.folder / letter.reply, self.folder / aside)
            self._write(
                f"{letter.name}.problem.md",
                f"# {letter.reply} could not be used\n\n{problem}\n\n"
                f"It lies now in {aside}. Write {letter.reply} again.\n",
            )

    def refuse(self, letter: Letter, problem: str, *, follow_up: str) -> None:
        """Write down why what an answer held was of no use, and which letter asks again.

        Raises:
            ModelError: the folder cannot be written.
        """
        with self._guarded("write to"):
            self._write(
                f"{letter.name}.problem.md",
                f"# What {letter.reply} held was of no use\n\n{problem}\n\n"
                f"{follow_up}.md asks again: answer that one.\n",
            )

    def close(self, letter: Letter) -> None:
        """Note that the letter was answered.

        Raises:
            ModelError: the folder cannot be written.
        """
        with self._guarded("write to"):
            self._note(
                self._keep(self._letters[letter.name].model_copy(update={"state": "answered"}))
            )
            (self.folder / f"{letter.name}.problem.md").unlink(missing_ok=True)

    def _read(self) -> None:
        if not self.folder.is_dir():
            return
        with self._guarded("read"):
            for path in sorted(self.folder.glob("*.json")):
                if not _NAME.match(path.stem):
                    continue
                try:
                    letter = Letter.model_validate_json(path.read_bytes())
                except ValidationError as error:
                    raise ModelError(
                        f"mailbox {path}: expected what kb wrote there, found "
                        f"{error.errors()[0]['msg']}: delete the file, and the letter is sent again"
                    ) from error
                self._letters.setdefault(letter.name, letter)
        for letter in sorted(self._letters.values(), key=lambda one: one.number):
            self._note(letter)

    def _same_place(self, request: Request, key: str) -> Letter | None:
        """Return the waiting letter of the same step, asked before the run was taken up again.

        A step has its seed. What was measured anew since changes some figures of a prompt: who
        answers the letter that was sent answers this request.
        """
        for letter in self._letters.values():
            asked = letter.request
            if (
                letter.state == "waiting"
                and letter.name not in self._sent
                and asked["seed"] == request.seed
                and asked["schema"] == request.schema
                and asked["temperature"] == request.temperature
            ):
                return self._keep(letter.model_copy(update={"keys": (*letter.keys, key)}))
        return None

    def _new(self, request: Request, key: str) -> Letter:
        self.folder.mkdir(parents=True, exist_ok=True)
        kind = kind_of(request)
        number = 1 + max((letter.number for letter in self._letters.values()), default=0)
        name = f"{number:03d}-{kind}-{key[:12]}"
        letter = Letter(
            name=name,
            state="waiting",
            kind=kind,
            keys=(key,),
            request=asdict(request),
            reply=f"{name}.reply.md",
        )
        text = self._write_prompt(request, letter)
        self._note(letter)
        return self._keep(letter.model_copy(update={"tokens": count_tokens(text)}))

    def _write_prompt(self, request: Request, letter: Letter) -> str:
        """Write a letter without what earlier ones quoted, and whole beside it where that differs."""

        def named(text: str) -> str:
            return self._quotes.named(text, letter.number)

        text = letter_text(request, letter.name, letter.kind, named)
        whole = letter_text(request, letter.name, letter.kind)
        if text != whole:
            self._write(f"{letter.name}.whole.md", whole)
        self._write(letter.prompt, text)
        return text

    def _note(self, letter: Letter) -> None:
        """Remember what a letter quotes, and the files in its answer."""
        place = f"letter {letter.number:03d}"
        turns = letter.request.get("messages")
        for turn in turns if isinstance(turns, list | tuple) else ():
            self._quotes.add(str(turn["content"]), letter.number, place)
        if letter.state == "answered":
            for source in fences(self.answer(letter)[0]):
                self._quotes.add_one(source, letter.number, f"the answer to {place}")

    def _keep(self, letter: Letter) -> Letter:
        self._letters[letter.name] = letter
        self._write(f"{letter.name}.json", json.dumps(letter.model_dump(mode="json"), indent=1))
        return letter

    def _write(self, name: str, text: str) -> None:
        """Write a file so that whoever looks finds all of it or nothing."""
        draft = self.folder / f".{name}.{os.getpid()}"
        draft.write_text(text, encoding="utf-8", errors="replace")
        os.replace(draft, self.folder / name)

    @contextmanager
    def _guarded(self, doing: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ModelError(
                f"mailbox {self.folder}: cannot {doing} it ({error.strerror}): "
                "name a folder that you may write to"
            ) from error
