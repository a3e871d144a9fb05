"""Two neighbouring tasks and an evaluator with no compiler: what is fast on one is fast on the other.

An outcome follows from the recipe and the knobs that a candidate's source names, drawn once for each
machine (a seed), with a little that is the task's own. The author, the search, the record, the lessons
and the records' proof are the real ones.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from types import MappingProxyType

from play import Watcher, open_storage, settings_of
from recipe_bench import Bench, Shelf, reference

from kb.config import shipped_docs
from kb.records.schema import Document, TargetRecord, parse_record
from search.attempt import Diagnosis
from search.authors.recipes import Recipes
from search.codegen.library import make_cards
from search.drivers.sequential import Driver
from search.graph import Graph
from search.lessons.distill import lessons, verdicts
from search.lessons.evidence import Runs
from search.lessons.setting import Setting
from search.lessons.store import LessonChange, LessonStore
from search.loop import Search
from search.outcome import Outcome, Passed, Ratio, Wrong
from search.policies import make_policy
from search.prompting.knowledge_view import KnowledgeView, TrustedRecords
from search.prompting.readings import RecordingRetriever
from search.runs.storage import Record
from search.task import Task

DAY = date(2026, 11, 20)
WORK = "y = torch.sigmoid(a) * a\nreturn torch.softmax(y * 0.5 + a, -1)"
SHAPES = {"large": "torch.randn(512, 1024)", "small": "torch.randn(300, 777)"}
_NOTE = re.compile(r"([a-z][a-z0-9-]+)\(((?:\w+=\w+(?:, )?)+)\)")


class Landscape:
    """A machine that is made up.

    Args:
        lies: sources' notes that are measured wrongly, with the speed-up that is told of them.
    """

    def __init__(self, seed: int, task: str, lies: dict[str, float] | None = None) -> None:
        self._seed = seed
        self._task = task
        self._lies = lies or {}
        self.speeds: list[float] = []

    def judge(self, source: str, *, thorough: bool = False) -> Outcome:
        speed = self.speed(source)
        if not thorough:
            self.speeds.append(speed)
        if speed == 0:
            return Wrong(reason="made up")
        interval = Ratio(ratio=speed, low=speed * 0.98, high=speed * 1.02)
        return Passed(
            seconds=1e-3 / speed,
            samples=9,
            speedup={"eager": interval},
            max_error=0.0,
            allowed_error=1.0,
        )

    def speed(self, source: str) -> float:
        note = self.note(source)
        if note in self._lies:
            return self._lies[note]
        found = _NOTE.findall(note)
        total = 0.3
        for card, knobs in found:
            if self._draw(card, "fails") > 0.85:
                return 0.0
            total += 0.9 * self._draw(card) - 0.3
            total += sum(0.5 * self._draw(card, knob) - 0.25 for knob in knobs.split(", "))
        return math.exp(total + 0.04 * self._draw(self._task, note))

    @staticmethod
    def note(source: str) -> str:
        return " ".join(f"{card}({knobs})" for card, knobs in _NOTE.findall(source))

    def _draw(self, *place: str) -> float:
        digest = hashlib.sha256("/".join((str(self._seed), *place)).encode()).digest()
        return int.from_bytes(digest[:4], "big") / 2**32


def ideas() -> list[Document]:
    paths = sorted((shipped_docs() / "ideas").glob("*.md"))
    return [parse_record(path.read_text(encoding="utf-8"), path.name) for path in paths]


@dataclass(frozen=True, kw_only=True)
class Played:
    """A run that is over: what it found, and what it did to the lessons."""

    record: Record
    speeds: tuple[float, ...]
    changes: tuple[LessonChange, ...]

    @property
    def graph(self) -> Graph:
        return self.record.graph

    def best(self, candidates: int) -> float:
        return max(self.speeds[:candidates], default=0.0)

    def needed(self, speed: float) -> int:
        """Return the candidates that it took to reach a speed; one more than all where it did not."""
        reached = (n for n, found in enumerate(self.speeds, start=1) if found >= speed)
        return next(reached, len(self.speeds) + 1)


class Play:
    """Plays runs of the two tasks in one home.

    Args:
        day: of every run.
    """

    def __init__(self, target: TargetRecord, day: date = DAY) -> None:
        self._target = target
        self._day = day
        self._ideas = ideas()
        cards = make_cards(self._ideas)
        sources = {name: reference(WORK, shape) for name, shape in SHAPES.items()}
        self._sources = sources
        self._graphs = {name: Bench(source, cards).graph for name, source in sources.items()}

    def run(
        self,
        home: Path,
        name: str,
        evaluator: Landscape,
        *,
        candidates: int,
        learn: bool = True,
        search: Mapping[str, object] = MappingProxyType({}),
    ) -> Played:
        storage = open_storage(home)
        runs = Runs(storage.engine)
        book = LessonStore(home, runs.fault)
        known = [
            Document(
                name=one.name, path=f"lessons:{one.name}.md", record=one.record, body=one.words
            )
            for one in book.entries()
            if not one.retired
        ]
        shelf = Shelf(self._ideas, known)
        memory = KnowledgeView(RecordingRetriever(shelf), TrustedRecords(shelf, runs.believes))
        settings = settings_of(
            search={"rounds": 9, "ideas": 3, "branches": 2, **search},
            stop={"candidates": candidates},
        )
        path = Path(f"{name}.py")
        task = Task(
            name=name, path=path, reference=path, source=self._sources[name], settings=settings
        )
        author = Recipes(task, self._target, self._graphs[name], memory)
        about = {
            "task": name,
            "target": self._target.name,
            "language": "cpp",
            "source": self._sources[name],
        }
        record = storage.begin(name, about)
        diagnosis = Diagnosis(symptoms=("memory-bound",), lines=())
        search = Search(
            record,
            make_policy(settings.search),
            settings,
            lambda _: diagnosis,
            lambda: 0.0,
            context=f"{home}/{name}/{evaluator._seed}/{sorted(evaluator._lies)}",
        )
        Driver(search, author, evaluator, storage, memory.retriever, Watcher()).run()
        changes = self._learn(book, record, name) if learn else []
        return Played(record=record, speeds=tuple(evaluator.speeds), changes=tuple(changes))

    def _learn(self, book: LessonStore, record: Record, name: str) -> Sequence[LessonChange]:
        setting = Setting(
            run=record.run,
            task=name,
            identity=hashlib.sha256(name.encode()).hexdigest(),
            target=self._target.name,
            architecture=self._target.architecture,
            language="cpp",
            families=("softmax", "elementwise"),
            symptoms=("memory-bound",),
            shapes=SHAPES[name],
            eager_seconds=1e-3,
            regime="fits l3, middling rows",
            at=self._day,
        )

        def cited(idea):
            return (idea.plan["lesson"],) if "lesson" in idea.plan else ()

        found = lessons(record.graph, {}, setting)
        return book.learn(found, verdicts(record.graph, {}, setting, cited), self._day)
