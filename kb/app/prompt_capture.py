"""The prompt that would be sent, for somebody who reads it in the model's place."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from kb.app.session import Session
    from search.attempt import Moment
    from search.task import ModelSettings
    from synth.models import Request


class _Heard(Exception):
    """Carries a request away from where it would have been answered."""

    def __init__(self, request: Request) -> None:
        super().__init__("a request that nobody answers")
        self.request = request


class _Listener:
    """A model that answers nothing."""

    name = "listener"

    def reply(self, request: Request) -> NoReturn:
        raise _Heard(request)


def overhear(
    session: Session,
    settings: ModelSettings,
    moment: Moment,
    idea: tuple[str, str, str] | None,
) -> str:
    """Return the prompt of one step: for ideas, for a source of `idea`, or to mend what failed.

    Args:
        settings: how much the reader takes.
        idea: title, text and category.
    """
    from search.attempt import Idea
    from search.authors.llm import LanguageModel
    from search.outcome import STANDING
    from search.task import RequestSettings

    task = session.task
    # Who reads it elsewhere asks kb itself for more.
    search = task.settings.search.model_copy(update={"requests": RequestSettings(steps=0)})
    chosen = {"model": settings, "search": search}
    task = replace(task, settings=task.settings.model_copy(update=chosen))
    author = LanguageModel(
        task, session.target, session.work, session.memory, _Listener(), graph=session.graph
    )
    parent = moment.parent
    try:
        if parent is not None and parent.outcome.kind not in STANDING:
            author.repair(replace(moment, parent=None), parent)
        elif idea is not None:
            title, text, category = idea
            author.draft(moment, Idea(title=title, text=text, category=category), 0, ())
        else:
            author.ideas(moment, session.task.settings.search.ideas)
    except _Heard as heard:
        return "\n\n".join(message.content for message in heard.request.messages)
    raise AssertionError("the author asked nothing")
