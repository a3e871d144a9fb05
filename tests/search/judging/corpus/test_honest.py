"""Candidates that any careful judge must let pass, whatever order they add in."""

import pytest

from search.judging.corpus.cases import Case, load_cases
from search.judging.corpus.run import CorpusRunner
from search.outcome import Passed

_WORKED = {
    "chain",
    "layernorm",
    "matmul",
    "softmax",
    "attention",
    "conv",
    "long_product",
    "cumprod",
}


@pytest.mark.parametrize("case", load_cases("cpu", ("honest",)), ids=lambda case: case.name)
def test_an_honest_kernel_passes(corpus_judge: CorpusRunner, case: Case) -> None:
    verdict = corpus_judge.judge(case)
    assert not verdict.complaint, verdict.outcome
    assert isinstance(verdict.outcome, Passed)
    # Others call the library, or take some microseconds, as long as it takes to allocate their output.
    own = "load_cpp" in case.source or "load_inline" in case.source
    if own and case.reference in _WORKED and "library" not in case.name and "ring" not in case.name:
        assert verdict.outcome.own_share is None or verdict.outcome.own_share > 0.5
