"""The corpus before the judge of this machine, one task after another.

Each file in cheats/ breaks or fools a careless judge; its first line says what becomes of it here. Those in honest/ are
candidates that any careful judge must let pass, whatever order they add in.
"""

import pytest

from search.judging.corpus.cases import Case, load_cases
from search.judging.corpus.run import UNSEEN, CorpusRunner
from search.judging.cpu.judge import CpuJudge
from search.outcome import Passed

# Where more of the cases than this were not seen, nothing was tested.
_MOST_UNSEEN = 0.1
_CASES = load_cases("cpu", ("cheats", "honest"))
_unseen: list[str] = []
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


HONEST = """
import torch.nn as nn
class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)
    def forward(self, x):
        return self.norm(x)
"""


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case.label)
def test_a_candidate_ends_as_it_should(corpus_judge: CorpusRunner, case: Case) -> None:
    verdict = corpus_judge.judge(case)
    if verdict.complaint == UNSEEN:
        _unseen.append(case.label)
        assert len(_unseen) <= _MOST_UNSEEN * len(_CASES), _unseen
        pytest.skip(UNSEEN)
    assert not verdict.complaint, verdict.outcome
    if case.group == "cheats":
        return
    assert isinstance(verdict.outcome, Passed)
    # Others call the library, or take some microseconds, as long as it takes to allocate their output.
    own = "load_cpp" in case.source or "load_inline" in case.source
    if own and case.reference in _WORKED and "library" not in case.name and "ring" not in case.name:
        assert verdict.outcome.own_share is None or verdict.outcome.own_share > 0.5


@pytest.mark.slow
def test_an_honest_candidate_passes_after_all_of_them(norm: CpuJudge) -> None:
    outcome = norm.judge(HONEST)
    assert outcome.kind == "passed", outcome
    ratio = outcome.speedup["eager"]
    assert ratio.low <= ratio.ratio <= ratio.high
    assert 0 <= outcome.max_error <= outcome.allowed_error
