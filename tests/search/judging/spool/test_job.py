from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from office import RELU, RIGHT, TARGET, make_task

from kb.errors import TaskError, ToolchainError
from search.judged import (
    JudgedTolerances,
    plain_target,
    plain_task,
)
from search.judging.limits import Prepared
from search.judging.spool.job import (
    Failure,
    Job,
    JobAnswer,
    as_error,
    assign,
    read_answer,
    read_job,
)
from search.outcome import Passed, Ratio
from search.sandbox.sandbox import SandboxPart


@pytest.fixture
def job(tmp_path):
    task = make_task(tmp_path, RELU)
    return Job(
        task=plain_task(task),
        target=plain_target(TARGET),
        device="cpu",
        seed=3,
        source=RIGHT,
        expected="cpu-2 / x / 2.13",
        limits={"compile": False},
        created="now",
    )


def through_json(body):
    return json.loads(json.dumps(body))


def test_a_job_comes_back_as_it_was_written(job):
    back = read_job(through_json(job.body()), job.task.reference)
    assert back == job
    assert back.name == job.name


def test_the_name_follows_from_what_the_answer_depends_on(job):
    others = [
        replace(job, seed=4),
        replace(job, source=RIGHT + "\n"),
        replace(job, source=None),
        replace(job, thorough=True),
        replace(job, expected=""),
        replace(job, limits={}),
        replace(job, target=replace(job.target, clock=1e9)),
        replace(job, task=replace(job.task, source="pass")),
    ]
    assert len({job.name, *(other.name for other in others)}) == len(others) + 1
    assert replace(job, created="later").name == job.name


def test_thorough_jobs_are_for_another_judge_than_the_others(tmp_path):
    assignment = assign(make_task(tmp_path, RELU, search={"seed": 7}, final_seconds=3.0), TARGET)
    assert assignment.limits == {"timing_seconds": 1.0, "thorough_seconds": 3.0}
    first, quick, thorough = (
        assignment.job(None),
        assignment.job(RIGHT, expected="cpu"),
        assignment.job(RIGHT, thorough=True, expected="cpu"),
    )
    assert (quick.seed, thorough.seed) == (7, 8)
    assert first.bench == quick.bench != thorough.bench


def test_the_name_does_not_follow_from_where_the_reference_lies(job):
    elsewhere = replace(job, task=replace(job.task, reference=Path("/elsewhere.py")))
    assert elsewhere.name == job.name


def test_tolerances_and_the_identity_cross(tmp_path):
    task = make_task(tmp_path, RELU, precision={"absolute": 1e-3, "relative": 1e-4})
    plain = plain_task(task)
    assert plain.settings.precision == JudgedTolerances(absolute=1e-3, relative=1e-4)
    assert plain.identity == task.identity
    back = read_job(
        through_json(Job(task=plain, target=plain_target(TARGET), device="cpu", seed=0).body()),
        plain.reference,
    )
    assert back.task == plain


def test_answers_come_back_as_they_were_written():
    ratio = Ratio(ratio=2.0, low=1.9, high=float("inf"))
    passed = Passed(
        seconds=1e-3, samples=9, speedup={"eager": ratio}, max_error=0.1, allowed_error=0.2
    )
    prepared = Prepared(
        baselines={"eager": 1e-3},
        compile_error=None,
        dropped=(("huge", "not finite"),),
        sandbox=(SandboxPart(name="files", works=True, detail="Landlock"),),
        graph=None,
        work=None,
        notes=("a note",),
    )
    head = {"job": "judge-1", "context": "cpu-2", "facts": {"host": "box"}}
    for answer in (
        JobAnswer(**head, outcome=passed),
        JobAnswer(**head, prepared=prepared),
        JobAnswer(**head, failure=Failure(kind="TaskError", reason="no")),
    ):
        assert read_answer(through_json(answer.body())) == answer


def test_a_body_of_another_version_is_not_taken(job):
    body = job.body()
    with pytest.raises(TypeError):
        read_job({**body, "new": 1}, job.task.reference)
    with pytest.raises((TypeError, KeyError)):
        read_job({key: value for key, value in body.items() if key != "target"})


@pytest.mark.parametrize(
    "kind", ["TaskError", "Any", "annotations", "__name__", "none", "", 3, ["TaskError"]]
)
def test_a_failure_is_the_error_that_it_names_or_one_of_the_machine(kind):
    error = as_error(Failure(kind=kind, reason="no room"))
    assert type(error) is (TaskError if kind == "TaskError" else ToolchainError)
    assert str(error) == "no room"
