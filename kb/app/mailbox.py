"""Runs whose author answers by letter: where the letters lie, and how long they waited."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kb.config import Home, user_path
from kb.progress import say
from search.settings import ModelSettings
from search.task import Task

if TYPE_CHECKING:
    from kb.progress import Progress
    from synth.models.mailbox.model import Mailbox

# Who answers by letter reads more than a small model does, and writes whole files.
_CONTEXT, _REPLY = 64_000, 16_000
_SHOWN = 3


def with_mailbox(home: Home, task: Task) -> Task:
    """Return the task with the mailbox as its model where its author is the mailbox."""
    settings = task.settings
    if settings.author != "mailbox":
        return task
    folder = str(task.mailbox or home.root / "mailbox")
    model = settings.model or ModelSettings(
        name=folder, context_tokens=_CONTEXT, reply_tokens=_REPLY
    )
    model = model.model_copy(update={"name": folder, "provider": "mailbox"})
    return replace(task, settings=settings.model_copy(update={"model": model}))


class Mail:
    """The mailboxes of one run: whoever asks by a folder shares one."""

    def __init__(self) -> None:
        self._boxes: dict[Path, Mailbox] = {}

    def __bool__(self) -> bool:
        """Say whether any part of the run asks by letter."""
        return bool(self._boxes)

    def box(self, folder: str) -> Mailbox:
        """Return the mailbox over a folder."""
        from synth.models.mailbox.model import Mailbox

        path = user_path(folder).absolute()
        return self._boxes.setdefault(path, Mailbox(path, say=say))

    def open(self, run: str) -> None:
        """Send letters to the folders of `run` from now on.

        Raises:
            ModelError: a folder cannot be made or read.
        """
        for box in self._boxes.values():
            box.open(run)
            say(f"letters of {run}: {box.folder}")

    @property
    def seconds(self) -> float:
        """How long letters waited for their answers: no search is charged with that."""
        return max((box.waited for box in self._boxes.values()), default=0.0)

    def show(self, progress: Progress) -> None:
        """Show which letters wait."""
        waiting = [name for box in self._boxes.values() for name in box.waiting]
        if waiting:
            more = f" and {len(waiting) - _SHOWN} more" if len(waiting) > _SHOWN else ""
            progress(f"waiting for answers to {', '.join(waiting[:_SHOWN])}{more}")
