"""What the author of a run is handed from the knowledge base: questions from the state of the search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kb.records.patterns import Pattern, Recognised
from kb.records.types import Scope
from kb.retrieval.multi_query import Inquiry
from search.outcome import KernelTime
from search.patterns.graded_tasks import GradedTasks, TaskState, shipped_tasks
from search.patterns.recognise import ReferenceTraits, State, recognise
from search.patterns.shares import measured_shares
from synth.query import PLANS, Need, QueryPlan, Stage, Subject, build_inquiry


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionStep:
    """The state of the search before one prompt.

    Attributes:
        symptoms: of the diagnosis, the worst first.
        measured: the diagnosis is of a program that was measured.
        text: the idea to write, or the idea whose candidate failed.
        record: of the library, that the idea comes from.
        outcome, message: what became of the candidate to mend, and what was reported.
        tried: names of records that the search has tried.
        kernels: that the program to improve ran, where a device was profiled.
        tokens: room for passages, counted by `encoding`.
        asked: what a model asks in place of kb's own questions; empty for those.
    """

    stage: Stage
    symptoms: Sequence[str] = ()
    measured: bool = False
    text: str = ""
    record: str | None = None
    outcome: str = ""
    message: str = ""
    tried: Sequence[str] = ()
    kernels: Sequence[KernelTime] = ()
    tokens: int = 8000
    encoding: str = "cl100k_base"
    asked: Sequence[str] = ()


class Questions:
    """Asks what one task needs.

    Args:
        patterns: that are looked for.
        graded: tasks that tell what helps tasks like this one; None for those that come with `kb`.
    """

    def __init__(
        self,
        program: ReferenceTraits,
        subject: Subject,
        patterns: Sequence[Pattern],
        plans: Mapping[Stage, QueryPlan] = PLANS,
        graded: GradedTasks | None = None,
    ) -> None:
        self.program = program
        self._subject = subject
        self._patterns = patterns
        self._plans = plans
        self._graded = graded

    @property
    def scope(self) -> Scope:
        """Where knowledge must apply to serve this task."""
        return replace(self._subject.scope, operator=self._subject.families)

    def recognised(self, step: QuestionStep) -> tuple[Recognised, ...]:
        """Return the patterns that the task, its device and the state of the search show."""
        state = State(
            device=self._subject.target.device,
            language=self._subject.language,
            symptoms=tuple(step.symptoms),
            outcome=step.outcome,
            message=step.message,
            idea=step.text,
            shares=measured_shares(step.kernels, self.program.shares),
        )
        return recognise(self._patterns, self.program, state)

    def inquiry(self, step: QuestionStep) -> Inquiry:
        """Return what to ask before the prompt of a step."""
        text = step.text
        graded = self._graded or shipped_tasks()
        expected = graded.expected(self._state(step))
        found = self.recognised(step)
        if step.stage == "repair":
            text = f"{step.outcome.replace('_', ' ')}: {step.message} {step.text}".strip()
        return build_inquiry(
            replace(
                self._subject,
                formats=self._formats(),
                narrow="half-precision-products" in self.program.traits,
            ),
            Need(
                stage=step.stage,
                patterns=found,
                elsewhere=self._elsewhere(found),
                expected=expected,
                judged=frozenset(graded.names if expected else ()),
                symptoms=step.symptoms,
                measured=step.measured,
                text=text,
                record=step.record,
                tried=step.tried,
                tokens=step.tokens,
                encoding=step.encoding,
                asked=tuple(step.asked),
                plans=self._plans,
            ),
        )

    def _state(self, step: QuestionStep) -> TaskState:
        return TaskState.of(
            self.program,
            self._subject.target.device,
            step.stage,
            symptoms=step.symptoms if step.measured else (),
            outcome=step.outcome,
            told=step.message if step.stage == "repair" else step.text,
        )

    def _formats(self) -> tuple[str, ...]:
        """Return the number formats beside the task's that its operands have."""
        traits = self.program.traits
        narrow = ("int8",) if "integer-weights" in traits else ()
        return (*narrow, *(("float16", "bfloat16") if "half-precision" in traits else ()))

    def _elsewhere(self, found: Sequence[Recognised]) -> frozenset[str]:
        """Return the records that patterns name, but no pattern of this task does."""
        here = {name for one in found for name in one.pattern.see}
        return frozenset(
            name
            for one in self._patterns
            if one.area == "computation"
            for name in one.see
            if name not in here
        )
