"""Runs whose author answers by letter: where the letters lie, and what drives such a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kb.config import Home
from kb.progress import say
from search.task import ModelSettings, Task

if TYPE_CHECKING:
    from kb.progress import Progress
    from search.drivers.sequential import Driver
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


def make_mailbox(settings: ModelSettings) -> Mailbox:
    """Return the mailbox over the folder that ``name`` gives."""
    from synth.models.mailbox.model import open_mailbox

    return open_mailbox(Path(settings.name).expanduser().absolute(), say=say)


def open_mail(run: str) -> None:
    """Send the letters of this process to the folders of `run` from now on.

    Raises:
        ModelError: a folder cannot be made or read.
    """
    for mailbox in _mailboxes():
        mailbox.open(run)
        say(f"letters of {run}: {mailbox.folder}")


def seconds_waited() -> float:
    """Return for how long letters waited for their answers: no search is charged with that."""
    return max((mailbox.waited for mailbox in _mailboxes()), default=0.0)


def make_waves(parts: tuple[Any, ...], context: str, progress: Progress) -> Driver | None:
    """Return who drives a search by letters, None where no part of it asks by letter."""
    from search.drivers.concurrent import Turn, Waves

    found = _mailboxes()
    if not found:
        return None
    turn = Turn()
    for mailbox in found:
        mailbox.while_waiting = turn.given_up
    post = _Post(found)

    def shows(waiting: tuple[str, ...]) -> None:
        if waiting:
            more = f" and {len(waiting) - _SHOWN} more" if len(waiting) > _SHOWN else ""
            progress(f"waiting for answers to {', '.join(waiting[:_SHOWN])}{more}")

    return Waves(*parts, turn=turn, post=post, context=context, shows=shows)


class _Post:
    """Every mailbox of the process."""

    def __init__(self, found: tuple[Mailbox, ...]) -> None:
        self._found = found

    @property
    def waiting(self) -> tuple[str, ...]:
        return tuple(name for mailbox in self._found for name in mailbox.waiting)

    def close(self) -> None:
        for mailbox in self._found:
            mailbox.close()


def _mailboxes() -> tuple[Mailbox, ...]:
    """Return the mailboxes of this process, without importing anything where there is none."""
    import sys

    module = sys.modules.get("synth.models.mailbox.model")
    return () if module is None else module.mailboxes()
