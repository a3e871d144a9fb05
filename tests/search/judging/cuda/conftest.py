from collections.abc import Iterator

import pytest

from search.judging.corpus.run import CorpusRunner


@pytest.fixture(scope="module")
def corpus_judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CorpusRunner]:
    import torch

    if not torch.cuda.is_available():
        pytest.skip("no NVIDIA device here")
    with CorpusRunner("cuda", tmp_path_factory.mktemp("court")) as made:
        yield made
