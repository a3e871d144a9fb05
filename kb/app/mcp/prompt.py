"""The prompt of a step for an agent outside of kb, who answers in a model's place."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from search.settings import ModelSettings

if TYPE_CHECKING:
    from kb.app.session import Session
    from search.attempt import Moment

_READER = ModelSettings(name="whoever asks", context_tokens=48_000, reply_tokens=16_000)


def prompt_text(session: Session, moment: Moment, idea: tuple[str, str, str] | None) -> str:
    """Return the prompt of one step: for ideas, for a source of `idea`, or to mend what failed.

    Args:
        idea: title, text and category.
    """
    from search.attempt import Idea
    from search.authors.model_pool import PoolMember
    from search.outcome import STANDING
    from search.prompting.prompts import PromptWriter
    from synth.models.scripted import Scripted

    reader = PoolMember(model=Scripted([], name=_READER.name), settings=_READER)
    task = session.task
    writer = PromptWriter(task, session.target, session.work, session.memory, graph=session.graph)
    parent = moment.parent
    if parent is not None and parent.outcome.kind not in STANDING:
        rendered = writer.repair(reader, replace(moment, parent=None), parent)
    elif idea is not None:
        title, text, category = idea
        wanted = Idea(title=title, text=text, category=category)
        rendered = writer.draft(reader, moment, wanted, 0, ())
    else:
        rendered = writer.ideas(reader, moment, task.settings.search.ideas)
    return "\n\n".join(message.content for message in rendered.prompt.messages)
