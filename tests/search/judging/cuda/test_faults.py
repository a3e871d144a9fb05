"""Candidates that break on a GPU, one after the other before one judge."""

import pytest

from search.judging.corpus.cases import Case, load_cases
from search.judging.corpus.run import CorpusRunner

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("case", load_cases("cuda", ("faults",)), ids=lambda case: case.name)
def test_a_fault_is_recorded_and_ends_only_its_own_process(corpus_judge: CorpusRunner, case: Case) -> None:
    verdict = corpus_judge.judge(case)
    assert not verdict.complaint, verdict


def test_the_device_is_usable_after_all_of_them(corpus_judge: CorpusRunner) -> None:
    import torch

    (honest,) = (c for c in load_cases("cuda", ("honest",)) if c.name == "layernorm-one_row")
    verdict = corpus_judge.judge(honest)
    assert not verdict.complaint, verdict
    assert float(torch.ones(1000, device="cuda").sum()) == 1000
