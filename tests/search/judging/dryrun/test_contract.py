from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from dry import KERNELS, make_task, split
from judge_contract import JudgeContract

from kb.config import shipped_docs
from kb.records.library import load_library
from search.judging.dryrun.judge import DryJudge
from search.judging.limits import Limits
from search.reference import load_problem
from search.sandbox.zygote import Zygote

REFERENCE, ANSWER = split(KERNELS / "vector_add.py")


@pytest.fixture(scope="module")
def judge(zygote: Zygote, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DryJudge]:
    made = _made(tmp_path_factory.mktemp("judge"), zygote)
    yield made
    made.close()


@pytest.fixture
def make_judge(zygote: Zygote, tmp_path: Path) -> Callable[[], DryJudge]:
    return lambda: _made(tmp_path, zygote)


@pytest.fixture
def right() -> str:
    return ANSWER


@pytest.fixture
def wrong() -> str:
    return ANSWER.replace("mask=keep) + tl.load", "mask=keep) - tl.load")


def _made(folder: Path, zygote: Zygote) -> DryJudge:
    documents = load_library(shipped_docs() / "targets")
    target = next(d.record for d in documents if d.name == "mi300x")
    problem = load_problem(make_task(folder, REFERENCE))
    return DryJudge(problem, target, seed=1, folder=folder, limits=Limits(), zygote=zygote)


class TestDryJudge(JudgeContract):
    pass
