from __future__ import annotations

import re
from dataclasses import fields

from machines import BOUNDLESS
from office import RELU, make_task

from kb.config import shipped_docs
from kb.records.library import load_library
from kb.records.schema import TargetRecord
from search.judged import JudgedSettings, JudgedTarget, plain_target, plain_task
from search.judging.cpu.judge import JUDGE_VERSION, CpuJudge
from search.judging.local import local_version, open_local
from search.reference import load_problem


def test_every_figure_of_a_target_record_crosses():
    prose = {"kind", "title", "scope", "sources", "asked"}
    assert {field.name for field in fields(JudgedTarget)} == set(TargetRecord.model_fields) - prose


def test_every_setting_that_judging_reads_crosses():
    read: set[str] = set()
    for folder in ("search/judging", "search/profilers"):
        for path in (shipped_docs().parent / folder).rglob("*.py"):
            if path.parent.name == "spool":
                continue  # it makes jobs of whole tasks
            read |= set(re.findall(r"task\.settings\.(\w+)", path.read_text()))
    assert {"precision", "library"} <= read
    assert read <= {field.name for field in fields(JudgedSettings)}


def test_every_shipped_target_crosses_with_its_figures():
    for document in load_library(shipped_docs() / "targets"):
        plain = plain_target(document.record)
        for name in ("name", "units", "clock", "peak", "bandwidth", "memory", "limits"):
            assert getattr(plain, name) == getattr(document.record, name)
        assert plain.match.gpu_name == document.record.match.gpu_name
        assert {name: cache.bytes for name, cache in plain.caches.items()} == {
            name: cache.bytes for name, cache in document.record.caches.items()
        }


def test_a_loaded_reference_has_what_judges_read_of_its_task(tmp_path):
    task = make_task(tmp_path, RELU, library="forbidden", special_values=True)
    problem = load_problem(task)
    assert problem.task == plain_task(task) == plain_task(problem.task)
    assert problem.task.settings.library == "forbidden"
    assert problem.task.identity == task.identity


def test_a_processors_judge_is_opened_by_the_device_alone(tmp_path):
    problem = load_problem(make_task(tmp_path, RELU))
    judge = open_local("cpu", problem, plain_target(BOUNDLESS), folder=tmp_path)
    try:
        assert isinstance(judge, CpuJudge)
        assert local_version("cpu") == JUDGE_VERSION
    finally:
        judge.close()
