"""Candidates that cheat on a GPU: each is caught, for the reason that its first line gives."""

import pytest

from search.judging.corpus.cases import Case, load_cases
from search.judging.corpus.run import CorpusRunner

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("case", load_cases("cuda", ("cheats",)), ids=lambda case: case.name)
def test_a_cheat_ends_as_it_should(corpus_judge: CorpusRunner, case: Case) -> None:
    verdict = corpus_judge.judge(case)
    assert not verdict.complaint, verdict
