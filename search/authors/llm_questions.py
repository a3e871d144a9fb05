"""Questions to the knowledge base by a model, where one is configured to write them (role `retrieval`)."""

from __future__ import annotations

from collections.abc import Callable

from kb.records.schema import TargetRecord
from search.attempt import Attempt, Idea, Moment
from search.authors.model_pool import ModelPool, PoolMember
from search.costs.graph import Work
from search.prompting.describe import cost, detail, verdict
from search.prompting.prompts import REPORTED, PromptWriter, stage_of, user_templates
from search.task import Task
from synth.models import Message, Request
from synth.models.waiting import Waiting, ask
from synth.quoting import one_line, shorten
from synth.replies.questions import MOST, questions_schema, read_questions

_NEXT = {
    "ideas": "ideas that make the program faster",
    "plateau": "ideas of another kind than before: the search stands still",
}


class ModelQuestions:
    """Asks a model what the knowledge base should be asked before a prompt.

    Where two replies cannot be used, kb's own questions are asked, and that is said.

    Args:
        briefing: writes the prompts that the questions are for.
        say: told in one line when the model's replies could not be used.
    """

    def __init__(
        self,
        task: Task,
        target: TargetRecord,
        work: Work | None,
        briefing: PromptWriter,
        models: ModelPool,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self._task = task
        self._target = target
        self._facts = cost(work) if work is not None else ()
        self._briefing = briefing
        self._models = models
        self._say = say
        self._templates = user_templates(task)

    def for_ideas(self, moment: Moment) -> Waiting[tuple[str, ...]]:
        """Return what to ask before ideas; nothing where no model is to ask.

        Raises:
            ModelError: the model cannot be reached or refuses the request.
        """
        return (yield from self._ask(moment, _NEXT[stage_of(moment)]))

    def for_draft(self, moment: Moment, idea: Idea) -> Waiting[tuple[str, ...]]:
        """Return what to ask before an idea is written, as `for_ideas` does."""
        told = f"{idea.title}. {idea.text}"
        return (yield from self._ask(moment, "a program for an idea", "The idea", told))

    def for_repair(self, moment: Moment, failed: Attempt) -> Waiting[tuple[str, ...]]:
        """Return what to ask before a program is mended, as `for_ideas` does."""
        reported = "\n".join((*verdict(failed.outcome), detail(failed.outcome)[:REPORTED]))
        what = "a mended program in place of one that failed"
        return (yield from self._ask(moment, what, "What was reported of it", reported))

    def _ask(
        self, moment: Moment, step: str, about: str = "", subject: str = ""
    ) -> Waiting[tuple[str, ...]]:
        if not self._briefing.informs(moment) or not self._models.members("retrieval"):
            return ()
        voice = self._models.voice("retrieval", moment)
        asked = self._text(voice, moment, step, about, subject)
        problem = ""
        for turn in range(2):
            again = (
                f"\n\nAn earlier reply could not be used: {one_line(problem, 300)}. Answer again."
            )
            request = Request(
                messages=(
                    Message(role="system", content=self._templates.render("system", {})),
                    Message(role="user", content=asked + (again if turn else "")),
                ),
                max_tokens=voice.settings.reply_tokens,
                temperature=0.0,
                seed=turn,
                schema=questions_schema(),
                model=voice.model.name,
            )
            reply = yield from ask(voice.model, request)
            read = read_questions(reply.text)
            if read.questions:
                return read.questions
            problem = read.problem
        if self._say is not None:
            name = voice.model.name
            self._say(
                f"model {name}: no usable questions in two replies: {problem}: kb asks its own"
            )
        return ()

    def _text(self, voice: PoolMember, moment: Moment, step: str, about: str, subject: str) -> str:
        diagnosis = moment.diagnosis
        room = max(500, voice.budget // 2)
        return self._templates.render(
            "questions",
            {
                "device": self._target.title,
                "language": self._briefing.language,
                "next": step,
                "count": MOST,
                "facts": self._facts,
                "known": diagnosis.lines,
                "about": about,
                "subject": shorten(subject, room // 2, voice.count),
                "reference": shorten(self._task.source, room, voice.count),
            },
        )
