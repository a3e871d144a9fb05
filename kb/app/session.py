"""What a run works with: what is known before it begins, and all of it once it has begun."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from kb.app.device import JudgingDevice
from kb.config import Home
from kb.records.schema import TargetRecord
from search.task import Task

if TYPE_CHECKING:
    from kb.app.mailbox import Mail
    from search.authors import Author
    from search.authors.model_pool import ModelPool
    from search.costs.graph import OperatorGraph, Work
    from search.prompting.knowledge_view import KnowledgeView
    from search.prompting.readings import RecordingRetriever
    from search.reference import Problem
    from search.runs.snapshot import RunSnapshot
    from search.runs.spending import Ledger
    from search.runs.storage import Storage
    from search.sandbox.zygote import Zygote


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What is known of a run before it begins: everything that its record says at its start.

    Attributes:
        zygote: the judge's warm process, which imports torch meanwhile; None where nobody judges here.
    """

    home: Home
    task: Task
    place: JudgingDevice
    language: str
    author_name: str
    problem: Problem
    graph: OperatorGraph
    work: Work
    storage: Storage
    zygote: Zygote | None = None

    def close(self) -> None:
        """End the warm process."""
        if self.zygote is not None:
            self.zygote.close()

    @property
    def target(self) -> TargetRecord:
        """The record of the device that candidates are for."""
        return self.place.target


@dataclass(frozen=True, kw_only=True)
class Session(Setup):
    """Everything that one run works with, built once its record is there."""

    author: Author
    cast: ModelPool
    ledger: Ledger
    given: RunSnapshot
    memory: KnowledgeView
    mail: Mail

    @property
    def witness(self) -> RecordingRetriever:
        """What is asked for passages, and notes them."""
        return self.memory.retriever


def names_of(setup: Setup, run: str) -> dict[str, Any]:
    """Return what names a run in reports."""
    return {
        "run": run,
        "task": setup.task.name,
        "target": setup.target.name,
        "language": setup.language,
        "precision": setup.task.precision,
        "author": setup.author_name,
    }


def about_of(setup: Setup) -> dict[str, Any]:
    """Return what the record of a run keeps of everything that was known when it began."""
    task = setup.task
    return {
        **names_of(setup, ""),
        "path": str(task.path),
        "reference": str(task.reference),
        "source": task.source,
        "settings": task.settings.model_dump(mode="json"),
        **({"kernels": [list(pair) for pair in task.kernels]} if task.kernels else {}),
        "work": asdict(setup.work),
    }
