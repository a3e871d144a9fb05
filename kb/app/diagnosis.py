"""How a run diagnoses its programs: what it stands on, and how closely it looks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from kb.config import Home
from kb.errors import ConfigError
from kb.progress import say

if TYPE_CHECKING:
    from kb.app.session import Session
    from kb.records.schema import TargetRecord
    from search.attempt import Attempt, Diagnosis
    from search.costs.graph import Work
    from search.finding import Look
    from search.judging import Judge
    from search.task import Task


def looker(session: Session, judge: Judge) -> Callable[[Attempt], Look] | None:
    """Return what looks closer at a parent than its outcome does, None where nothing does.

    A compiler's report costs little; counters cost seconds and walls, so that they are asked for.
    """
    from search.judging import Looking

    counts = session.task.settings.profile == "ncu"
    if counts and session.place.how != "cuda":
        say("profile: ncu counts on an NVIDIA device of this machine only: there is none here")
    if not isinstance(judge, Looking) or not (session.place.how == "cpu" or counts):
        return None
    return lambda attempt: judge.look(attempt.draft.source)


def diagnoser(
    session: Session,
    baselines: Mapping[str, float],
    look: Callable[[Attempt], Look] | None = None,
) -> Callable[[Attempt | None], Diagnosis]:
    """Return the function that diagnoses an attempt, or the reference for None."""
    from search.costs.bandwidth import core_bandwidth
    from search.diagnosis.diagnose import DiagnosisGround, diagnose

    precision = session.task.settings.precision
    ground = DiagnosisGround(
        work=session.work,
        operators=len(session.graph.operators),
        target=session.target,
        # On a processor one thread is timed, which cannot use all of the memory's bandwidth.
        bandwidth=core_bandwidth() if session.place.how == "cpu" else session.target.bandwidth,
        baselines=baselines,
        precision=precision if isinstance(precision, str) else "strict",
        look=look,
    )
    return partial(diagnose, ground)


def context_step(
    session: Session, diagnose: Callable[[Attempt | None], Diagnosis]
) -> Callable[[Attempt | None], Diagnosis]:
    """Return what diagnoses parents: a model where the task names one for it, else `diagnose`."""
    voices = session.cast.members("diagnosis")
    if not voices:
        return diagnose
    from search.authors.llm_diagnosis import ModelDiagnosis
    from search.prompting.prompts import user_templates

    templates = user_templates(session.task)
    return ModelDiagnosis(diagnose, voices[0], session.target, session.language, say, templates)


def diagnoser_of(
    task: Task,
    target: TargetRecord,
    work: Work,
    operators: int,
    baselines: Mapping[str, float],
) -> Callable[[Attempt | None], Diagnosis]:
    """Return the function that diagnoses attempts of a run that is over, from its record alone."""
    from search.diagnosis.diagnose import DiagnosisGround, diagnose

    precision = task.settings.precision
    ground = DiagnosisGround(
        work=work,
        operators=operators,
        target=target,
        bandwidth=_bandwidth(target) or target.bandwidth,
        baselines={name: seconds for name, seconds in baselines.items() if seconds},
        precision=precision if isinstance(precision, str) else "strict",
    )
    return partial(diagnose, ground)


def diagnosis_lines(about: Mapping[str, Any], attempt: Attempt) -> list[str]:
    """Return what holds back a node of a run, from its record alone; [] where nothing can be said.

    Args:
        about: what the run's record keeps of it.
    """
    from kb.app.queries import find_target
    from search.costs.graph import Work
    from search.diagnosis.diagnose import DiagnosisGround, diagnose
    from search.outcome import STANDING

    if attempt.outcome.kind not in STANDING or "work" not in about:
        return []
    try:
        target = find_target(about["target"])
    except ConfigError:
        return []  # the record of its target is gone
    bandwidth = _bandwidth(target)
    if bandwidth is None:
        return []
    lists = ("families", "functions")
    work = {**about["work"], **{name: tuple(about["work"].get(name, ())) for name in lists}}
    precision = about["settings"].get("precision", "strict")
    ground = DiagnosisGround(
        work=Work(**work),
        operators=0,
        target=target,
        bandwidth=bandwidth,
        baselines={},
        precision=precision if isinstance(precision, str) else "strict",
    )
    return list(diagnose(ground, attempt).lines)


def _bandwidth(target: TargetRecord) -> float | None:
    """Return what a program could move: on another machine's processor nobody knows."""
    from kb.records.targets import load_targets
    from search.costs.bandwidth import core_bandwidth
    from search.targets.cpu import match_target, read_facts

    if target.device == "gpu":
        return target.bandwidth
    documents = load_targets(Home.find())
    here = match_target(documents, read_facts()).record
    return core_bandwidth() if here == target else None
