"""The graded cases: tasks, the state of a search on them, and what an expert would hand over then."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from hashlib import blake2b
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal, cast

import yaml
from pydantic import BaseModel, ConfigDict, Field

from kb.app.diagnosis import diagnoser_of
from kb.app.queries import find_target
from kb.config import Home
from kb.records.patterns import load_patterns
from search import costs
from search.costs.graph import OperatorGraph, Work
from search.patterns.graded_tasks import GradedTasks, shipped_tasks
from search.patterns.recognise import read_program
from search.prompting.questions import Questions, QuestionStep
from search.task import load_task
from synth.query import Stage, Subject

if TYPE_CHECKING:
    from search.reference import Problem

FOLDER = Path(__file__).parent / "cases"
HELD_OUT_ONE_IN = 3
CENTRAL = 3  # grade of what must not be missing
# What the library had at first, and what it had more when later cases were graded.
LIBRARIES = ("graded.txt", "graded_later.txt", "graded_last.txt")
Lot = Literal["", "development", "check"]
Part = Literal["tuned", "held-out", "development", "check"]
_OUTCOMES = {
    "wrong": "wrong",
    "build-failed": "build_failed",
    "crashed": "crashed",
    "timed-out": "timed_out",
}


class Idea(BaseModel):
    """An idea as an engineer words it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    text: str


class Fault(BaseModel):
    """What the judge reports of a candidate."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["wrong", "build-failed", "crashed", "timed-out"]
    text: str


class Case(BaseModel):
    """One state of a search.

    Attributes:
        symptoms: of the program to improve; () where the reference's own diagnosis counts.
        tried: names of ideas' records.
        grades: by document, as ``ideas/online-softmax``: 3 central, 2 helps, 1 related.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    stage: Stage
    target: str
    language: str
    symptoms: tuple[str, ...] = ()
    parent: str = ""
    tried: tuple[str, ...] = ()
    idea: Idea | None = None
    fault: Fault | None = None
    grades: Mapping[str, int] = Field(min_length=1)


class TaskCases(BaseModel):
    """A task with its cases.

    Attributes:
        lot: where a whole lot of tasks belongs; "" for the first ones, which the hash of a name divides.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    reference: str
    lot: Lot = ""
    pattern: str
    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A case with its task, ready to be asked."""

    area: str
    task: str
    number: int
    lot: Lot
    case: Case
    source: str
    graph: OperatorGraph
    work: Work

    @property
    def part(self) -> Part:
        """What the case may be used for: nothing may be tuned on what is held out."""
        return self.lot or ("held-out" if is_held_out(self.task) else "tuned")

    @property
    def generation(self) -> int:
        """How often the library had grown when it was graded."""
        if not self.lot:
            return 0
        return 1 if self.area.startswith("strangers") else len(LIBRARIES) - 1

    @property
    def stage(self) -> str:
        """Its stage, later rounds of ideas told apart from the first."""
        return (
            "later ideas" if self.case.stage == "ideas" and self.case.symptoms else self.case.stage
        )

    def questions(
        self, left_out: frozenset[str] = frozenset(), graded: GradedTasks | None = None
    ) -> Questions:
        """Return what asks for its task.

        Args:
            graded: see `others`; None for all that come with `kb`.
            left_out: names of patterns that are asked about as if nobody had written them.
        """
        program = read_program(self.task, self.source, self.graph)
        subject = Subject(
            target=find_target(self.case.target),
            language=self.case.language,
            told=program.text.told,
            families=self.work.families,
        )
        patterns = [one for one in load_patterns() if one.name not in left_out]
        return Questions(program, subject, patterns, graded=graded)

    def others(self) -> GradedTasks:
        """Return the graded tasks but its own: it is asked about as a new one."""
        return shipped_tasks() if self.part == "held-out" else _without(self.task)

    def step(self, tokens: int) -> QuestionStep:
        """Return its state as the loop would have it."""
        case = self.case
        fault = case.fault
        symptoms = case.symptoms or self._guessed()
        return QuestionStep(
            stage=case.stage,
            symptoms=symptoms,
            measured=bool(case.symptoms),
            text=f"{case.idea.title}. {case.idea.text}" if case.idea else "",
            outcome=_OUTCOMES[fault.kind] if fault else "",
            message=fault.text if fault else "",
            tried=case.tried,
            tokens=tokens,
        )

    def _guessed(self) -> tuple[str, ...]:
        """Return the symptoms that the reference's own diagnosis names."""
        path = trace_folder() / f"{self.task}.py"
        target = find_target(self.case.target)
        diagnose = diagnoser_of(load_task(path), target, self.work, len(self.graph.operators), {})
        return diagnose(None).symptoms


@lru_cache(maxsize=4)
def _without(task: str) -> GradedTasks:
    return shipped_tasks().without(task)


def is_held_out(task: str) -> bool:
    """Say whether a task of the first lots is held out: every third, by the hash of its name."""
    digest = blake2b(task.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % HELD_OUT_ONE_IN == 0


def load_cases(folder: Path = FOLDER) -> list[Loaded]:
    """Read every case, tracing what was not traced before."""
    found: list[Loaded] = []
    for path in sorted(folder.glob("*/*.yaml")):
        cases = TaskCases.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
        graph, work = _traced(path.stem, cases.reference)
        first = Loaded(
            area=path.parent.name,
            task=path.stem,
            number=0,
            lot=cases.lot,
            case=cases.cases[0],
            source=cases.reference,
            graph=graph,
            work=work,
        )
        found += [replace(first, number=i, case=case) for i, case in enumerate(cases.cases)]
    return found


def trace_folder() -> Path:
    """Return where references and their operators are kept."""
    folder = Home.find().cache / "loop_retrieval"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _traced(name: str, source: str) -> tuple[OperatorGraph, Work]:
    """Return the operators of a reference and what they cost; pickles are this benchmark's own."""
    reference = trace_folder() / f"{name}.py"
    reference.write_text(source, encoding="utf-8")
    digest = blake2b(source.encode() + _tracer(), digest_size=8).hexdigest()
    kept = trace_folder() / f"{name}-{digest}.pickle"
    if not kept.is_file():
        from search.costs.trace import operator_graph
        from search.costs.work import count_work

        graph = operator_graph(cast("Problem", _plain_problem(reference)))
        kept.write_bytes(pickle.dumps((graph, count_work(graph))))
    loaded: tuple[OperatorGraph, Work] = pickle.loads(kept.read_bytes())
    return loaded


@cache
def _tracer() -> bytes:
    """Return the source of what traces and counts: what another version kept is not read."""
    return b"".join(path.read_bytes() for path in sorted(Path(costs.__file__).parent.glob("*.py")))


def _plain_problem(reference: Path) -> SimpleNamespace:
    """Load a reference that is traced only: one that kb would not judge (whole numbers out) is asked about too."""
    names: dict[str, Any] = {"__name__": "reference"}
    exec(compile(reference.read_text(encoding="utf-8"), str(reference), "exec"), names)
    arguments = names["get_init_inputs"]() if "get_init_inputs" in names else []
    model = names["Model"](*arguments).requires_grad_(False)
    return SimpleNamespace(
        model=model, inputs=tuple(names["get_inputs"]()), task=load_task(reference)
    )
