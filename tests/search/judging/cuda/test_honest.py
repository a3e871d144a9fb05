"""Candidates on a GPU that a careful judge must let pass: none is taken for a cheat."""

import pytest

from search.judging.corpus.cases import Case, load_cases
from search.judging.corpus.run import CorpusRunner

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("case", load_cases("cuda", ("honest",)), ids=lambda case: case.name)
def test_an_honest_kernel_passes(corpus_judge: CorpusRunner, case: Case) -> None:
    verdict = corpus_judge.judge(case)
    assert not verdict.complaint, verdict
