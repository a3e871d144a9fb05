"""Where a GPU has memory for one call alone, programs share it and take turns: verdicts stay what they are."""

from collections.abc import Iterator

import pytest

from search.judging.corpus.cases import Case, choose_cases
from search.judging.corpus.run import CorpusRunner
from search.judging.cuda.judge import CudaJudge

pytestmark = pytest.mark.gpu
CASES = (
    "honest/softmax-one_row", "honest/layernorm-load_inline", "honest/linear-packed_once", "honest/embedding-gather",
    "cheats/reused_buffer", "cheats/reuses_its_buffer_when_timed", "cheats/cached_by_pointer", "cheats/identity",
    "cheats/writes_the_answer_late", "cheats/works_in_place", "cheats/zeroes_its_input_late",
    "cheats/works_between_done_and_told", "cheats/stale_memory_of_others", "cheats/opens_memory_of_others",
)  # fmt: skip

FOUND = choose_cases("cuda", CASES)
assert len(FOUND) == len(CASES)


@pytest.fixture(scope="module")
def corpus_judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CorpusRunner]:
    import torch

    if not torch.cuda.is_available():
        pytest.skip("no NVIDIA device here")
    with CorpusRunner("cuda", tmp_path_factory.mktemp("court"), scarce=True) as made:
        yield made


@pytest.mark.parametrize("case", FOUND, ids=lambda case: case.name)
def test_a_case_ends_as_it_should(corpus_judge: CorpusRunner, case: Case) -> None:
    verdict = corpus_judge.judge(case)
    assert not verdict.complaint, verdict
    judge = corpus_judge._judge
    assert isinstance(judge, CudaJudge)
    assert judge._layout["scarce"]
