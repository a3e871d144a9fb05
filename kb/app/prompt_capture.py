"""The prompt that would be sent, for somebody who reads it in the model's place."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from kb.app.session import Session
    from search.attempt import Moment
    from search.task import ModelSettings
    from synth.models import Reply, Request
    from synth.models.waiting import Waiting


class _Listener:
    """A model that notes what it is asked, and never answers."""

    name = "listener"

    def __init__(self) -> None:
        self.heard: list[Request] = []

    def reply(self, request: Request) -> NoReturn:
        raise AssertionError(f"it is asked by `ask`, not for {request.key()}")

    def ask(self, request: Request) -> Waiting[Reply]:
        self.heard.append(request)
        while True:
            yield


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
    listener = _Listener()
    author = LanguageModel(
        task, session.target, session.work, session.memory, listener, graph=session.graph
    )
    parent = moment.parent
    asking: Waiting[object]
    if parent is not None and parent.outcome.kind not in STANDING:
        asking = author.asks_repair(replace(moment, parent=None), parent)
    elif idea is not None:
        title, text, category = idea
        asking = author.asks_draft(moment, Idea(title=title, text=text, category=category), 0, ())
    else:
        asking = author.asks_ideas(moment, session.task.settings.search.ideas)
    next(asking)
    asking.close()
    (request,) = listener.heard
    return "\n\n".join(message.content for message in request.messages)
