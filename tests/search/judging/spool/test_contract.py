from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from judge_contract import JudgeContract
from office import RIGHT, WRONG, Office

from search.judging.spool.client import Spool


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    made = Office(tmp_path_factory.mktemp("office"))
    made.judge()
    yield made
    made.close()


@pytest.fixture(scope="module")
def judge(office: Office) -> Spool:
    return office.evaluator()


@pytest.fixture
def make_judge(office: Office) -> Callable[[], Spool]:
    return office.evaluator


@pytest.fixture
def right() -> str:
    return RIGHT


@pytest.fixture
def wrong() -> str:
    return WRONG


class TestSpool(JudgeContract):
    pass
