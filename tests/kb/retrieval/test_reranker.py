"""A cross-encoder made here from random weights: it ranks by chance, and the path is the real one."""

from __future__ import annotations

from pathlib import Path

import pytest

from kb.errors import ConfigError
from kb.knowledge import Knowledge
from kb.records.types import Query
from kb.retrieval.reranker import VARIABLE, CrossEncoder, reranker
from kb.retrieval.retriever import Retriever

pytestmark = pytest.mark.slow  # torch and transformers are imported

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    *["shared", "memory", "bank", "conflicts", "tile"],
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch = pytest.importorskip("torch")
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    place = tmp_path_factory.mktemp("cross-encoder")
    (place / "vocab.txt").write_text("\n".join(WORDS))
    torch.manual_seed(7)
    shape = BertConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=128,
        num_labels=1,
    )
    BertForSequenceClassification(shape).save_pretrained(place)
    BertTokenizerFast(vocab_file=str(place / "vocab.txt")).save_pretrained(place)
    return place


def test_it_is_off_unless_a_folder_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert reranker() is None


def test_a_folder_without_a_model_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(ConfigError, match="KB_RERANKER: expected a folder with a cross-encoder"):
        reranker()


def test_a_broken_model_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(ConfigError, match=r"KB_RERANKER: expected a cross-encoder in .*fails"):
        CrossEncoder(tmp_path).score("x", ["y"])


def test_what_it_says_is_one_more_ranking(knowledge: Knowledge, folder: Path) -> None:
    part = knowledge.retriever
    encoder = CrossEncoder(folder)
    query = Query(text="shared memory bank conflicts")
    read = Retriever(part._store, part._embedder, part._derived, reranker=encoder).answer(query)
    texts = [f"{hit.passage.section}\n{hit.passage.text}" for hit in read.hits]
    scores = encoder.score(query.text, texts)
    places = [hit.why.ranks["rerank"] for hit in read.hits]
    assert len(set(scores)) > 1
    assert [places[i] for i in sorted(range(len(scores)), key=lambda i: -scores[i])] == sorted(
        places
    )
    assert read.notes[0].startswith("the best 30 were read again by")
    plain = knowledge.retriever.answer(query)
    assert "rerank" not in plain.hits[0].why.ranks
    assert plain.notes == (f"no cross-encoder reads the best again: {VARIABLE} names none",)
    for hit in read.hits:
        # Its place counts three times as much as a place in either half.
        rest = sum(1 / (60 + at) for name, at in hit.why.ranks.items() if name != "rerank")
        assert hit.why.fused == pytest.approx(rest + 3 / (60 + hit.why.ranks["rerank"]))
