from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from judge_contract import JudgeContract
from machines import BOUNDLESS
from office import RELU, RIGHT, WRONG

from search.judging.cpu.judge import CpuJudge
from search.judging.limits import Limits
from search.reference import load_problem
from search.task import Task

LIMITS = Limits(call_seconds=1.0, timing_seconds=0.05, thorough_seconds=0.1, compile=False)


@pytest.fixture(scope="module")
def judge(
    make_task: Callable[..., Task], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CpuJudge]:
    made = _made(make_task, tmp_path_factory.mktemp("judge"))
    yield made
    made.close()


@pytest.fixture
def make_judge(
    make_task: Callable[..., Task], tmp_path: Path
) -> Callable[[], CpuJudge]:
    return lambda: _made(make_task, tmp_path)


@pytest.fixture
def right() -> str:
    return RIGHT


@pytest.fixture
def wrong() -> str:
    return WRONG


def _made(make_task: Callable[..., Task], folder: Path) -> CpuJudge:
    return CpuJudge(load_problem(make_task(RELU)), BOUNDLESS, folder=folder, limits=LIMITS)


class TestCpuJudge(JudgeContract):
    pass
