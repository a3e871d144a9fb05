"""A diagnosis by a model, where one is configured for it; what was measured stands beside it."""

from __future__ import annotations

from collections.abc import Callable

from kb.records.schema import SYMPTOMS, TargetRecord
from search.attempt import Attempt, Diagnosis
from search.authors.model_pool import PoolMember
from search.outcome import STANDING
from search.prompting.describe import verdict
from synth.device_facts import target_lines
from synth.models import Message, Request
from synth.quoting import one_line, shorten
from synth.replies.diagnosis import MOST, diagnosis_schema, read_diagnosis
from synth.template_loader import Templates, shipped


class ModelDiagnosis:
    """Asks a model what holds a program back, once for each.

    The deterministic diagnosis is told to the model and kept beside its answer: a model cannot take
    back what was measured. Where two replies cannot be used, the deterministic one stands.

    Args:
        diagnose: the deterministic diagnosis.
        voice: the model.
        say: told in one line when the model's replies could not be used.
    """

    def __init__(
        self,
        diagnose: Callable[[Attempt | None], Diagnosis],
        voice: PoolMember,
        target: TargetRecord,
        language: str,
        say: Callable[[str], None],
        templates: Templates | None = None,
    ) -> None:
        self._diagnose = diagnose
        self._voice = voice
        self._target = target
        self._language = language
        self._say = say
        self._templates = templates or shipped()
        self._known: dict[int, Diagnosis] = {}

    def __call__(self, attempt: Attempt | None) -> Diagnosis:
        """Return the diagnosis of an attempt that stands; else, and of the reference, the measured one."""
        if attempt is None or attempt.outcome.kind not in STANDING:
            return self._diagnose(attempt)
        found = self._known.get(attempt.number)
        if found is None:
            found = self._known[attempt.number] = self._ask(attempt, self._diagnose(attempt))
        return found

    def _ask(self, attempt: Attempt, measured: Diagnosis) -> Diagnosis:
        asked = self._text(attempt, measured)
        problem = ""
        for turn in range(2):
            again = (
                f"\n\nAn earlier reply could not be used: {one_line(problem, 300)}. Answer again."
            )
            messages = (
                Message(role="system", content=self._templates.render("system", {})),
                Message(role="user", content=asked + (again if turn else "")),
            )
            reply = self._voice.model.reply(
                Request(
                    messages=messages,
                    max_tokens=self._voice.settings.reply_tokens,
                    temperature=0.0,
                    seed=turn,
                    schema=diagnosis_schema(),
                    model=self._voice.model.name,
                )
            )
            read = read_diagnosis(reply.text)
            if read.points:
                first = [point.symptom for point in read.points if not point.later]
                symptoms = dict.fromkeys((*first, *measured.symptoms))
                return Diagnosis(
                    symptoms=tuple(symptoms),
                    lines=(*(point.text for point in read.points), *measured.lines),
                    points=read.points,
                    notes=tuple(f"Measured: {line}" for line in measured.lines),
                )
            problem = read.problem
        self._say(f"model {self._voice.model.name}: no usable diagnosis in two replies: {problem}")
        return measured

    def _text(self, attempt: Attempt, measured: Diagnosis) -> str:
        room = max(500, self._voice.budget // 2)
        return self._templates.render(
            "diagnose",
            {
                "device": self._target.title,
                "language": self._language,
                "count": MOST,
                "figures": target_lines(self._target),
                "known": measured.lines,
                "verdict": verdict(attempt.outcome),
                "source": shorten(attempt.draft.source, room, self._voice.count),
                "symptoms": SYMPTOMS,
            },
        )
