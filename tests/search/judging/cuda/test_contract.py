from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from judge_contract import JudgeContract

from search.judging import Judge
from search.judging.corpus.cases import corpus_folder
from search.judging.corpus.run import open_judge

KERNEL = (corpus_folder("cuda") / "honest" / "softmax-one_row.py").read_text()


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    made = _made(tmp_path_factory.mktemp("judge"))
    yield made
    made.close()


@pytest.fixture
def make_judge(tmp_path: Path) -> Callable[[], Judge]:
    return lambda: _made(tmp_path)


@pytest.fixture
def right() -> str:
    return KERNEL


@pytest.fixture
def wrong() -> str:
    return KERNEL.replace("tl.sum", "tl.max")


def _made(folder: Path) -> Judge:
    import torch

    if not torch.cuda.is_available():
        pytest.skip("no NVIDIA device here")
    return open_judge("cuda", "softmax", {}, folder)


@pytest.mark.gpu
class TestCudaJudge(JudgeContract):
    pass
