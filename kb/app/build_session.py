"""Builds what a run works with: first what its record says of it, then, with the record, all the rest."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from kb.app.choices import check_settings, choose_author, choose_language
from kb.app.device import JudgingDevice, choose_place, make_zygote
from kb.app.lessons.learning import open_memory
from kb.app.mailbox import Mail, with_mailbox
from kb.app.models import make_cast
from kb.app.session import Session, Setup
from kb.config import Home
from kb.errors import ConfigError
from kb.progress import Progress, say
from search.task import Task

if TYPE_CHECKING:
    from collections.abc import Callable

    from search.authors import Author
    from search.authors.model_pool import ModelPool
    from search.costs.graph import OperatorGraph, Work
    from search.prompting.knowledge_view import KnowledgeView
    from search.reference import Problem
    from search.runs.spending import Ledger


def prepare(
    home: Home,
    task: Task,
    progress: Progress,
    *,
    place: JudgingDevice | None = None,
    asks: bool = True,
    judges: bool = False,
) -> Setup:
    """Load and check all that a run needs to begin.

    Args:
        place: where candidates are judged, where the task is not to say.
        asks: False where no model is ever asked, and none need be there.
        judges: a judge is opened next, and its warm process begins now; whoever asks for that closes the setup.
    """
    from kb.database import open_engine
    from search.prompting.prompts import user_templates
    from search.runs.storage import Storage

    task = with_mailbox(home, task)
    place = place or choose_place(task.settings.target, elsewhere=task.elsewhere)
    language = choose_language(task.settings.language, place.target)
    if asks:
        check_settings(task.settings, place.how)
        if task.prompts is not None:  # authors without a model never look there
            user_templates(task)
    storage = Storage(open_engine(home))
    zygote = None
    if judges and not task.elsewhere and not task.settings.workloads:
        zygote = make_zygote(place)
        zygote.begin()
    try:
        problem, graph, work = _reference(task, place, progress)
    except BaseException:
        if zygote is not None:
            zygote.close()
        raise
    return Setup(
        home=home,
        task=task,
        place=place,
        language=language,
        author_name=choose_author(task.settings),
        problem=problem,
        graph=graph,
        work=work,
        storage=storage,
        zygote=zygote,
    )


def build(
    setup: Setup,
    run: str,
    progress: Progress,
    *,
    as_of: float | None = None,
    cast: Callable[[Ledger], ModelPool] | None = None,
    author: str | None = None,
) -> Session:
    """Build the parts of a run over its record.

    Args:
        run: its name; what it paid for and was given before is taken up.
        as_of: seconds since the epoch: a run that is resumed ranks by what was known at its start.
        cast: makes who is asked in place of the task's models, from the closed accounts of the run;
            then nothing is written to the record of what the run was given.
        author: who writes, where the setup's author is only the name that the record is to have.
    """
    from search.runs.snapshot import RunSnapshot
    from search.runs.spending import Ledger

    task, storage = setup.task, setup.storage
    ledger = Ledger(storage.engine, task.settings.stop).open(run)
    given = RunSnapshot(storage.engine, run, writes=cast is None)
    mail = Mail()
    name = author or setup.author_name
    remembers = name != "recipes"  # those list what they try, and cannot say it in other words
    memory = open_memory(setup, given, progress, as_of=as_of, remembers=remembers)
    if cast is not None:
        models = cast(ledger.closed())
    else:
        models = make_cast(setup.home, task.settings, storage, ledger, mail, progress)
    known = {one.name: getattr(setup, one.name) for one in fields(Setup)}
    return Session(
        **known,
        author=_author(name, setup, memory, models),
        cast=models,
        ledger=ledger,
        given=given,
        memory=memory,
        mail=mail,
    )


def _author(name: str, setup: Setup, memory: KnowledgeView, models: ModelPool) -> Author:
    """Return who writes ideas and sources."""
    from search.authors import AUTHORS, AuthorParts

    parts = AuthorParts(
        task=setup.task,
        target=setup.target,
        graph=setup.graph,
        work=setup.work,
        memory=memory,
        models=models,
        say=say,
    )
    return AUTHORS.create(name, parts)


def _reference(
    task: Task, place: JudgingDevice, progress: Progress
) -> tuple[Problem, OperatorGraph, Work]:
    """Load the reference, with its operators and what they cost."""
    from search.costs.trace import operator_graph
    from search.costs.work import count_work
    from search.reference import load_problem
    from search.workloads import chief, task_of

    progress("loading the reference")
    if not task.settings.workloads:
        problem = load_problem(task, device=place.device)
    else:  # what is written for one shape is written for the one that counts most
        if task.elsewhere:
            raise ConfigError(
                "evaluator: expected local where a task has workloads, found one elsewhere: "
                "judge on this machine, or leave workloads out"
            )
        most = task_of(task, chief(task.settings.workloads))
        problem = load_problem(most, device=place.device)
    graph = operator_graph(problem)
    return problem, graph, count_work(graph)
