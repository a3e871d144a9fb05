from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import pytest

from kb.errors import ConfigError, StoreError
from kb.tokens import PACKAGED, _packed, count_tokens, load_encoding


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    import tiktoken.registry

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(tiktoken.registry, "ENCODINGS", {})
    load_encoding.cache_clear()
    return tmp_path / "kb" / "tiktoken"


def test_known_texts_have_their_known_tokens() -> None:
    assert load_encoding("cl100k_base").encode("hello world") == [15339, 1917]
    assert load_encoding("o200k_base").encode("hello world") == [24912, 2375]


def test_a_control_token_in_a_document_counts_as_text() -> None:
    assert count_tokens("<|endoftext|>") > 1


@pytest.mark.parametrize("name", list(PACKAGED))
def test_packaged_ranks_are_the_published_ones(name: str) -> None:
    ranks = gzip.decompress(_packed(name).read_bytes())
    assert hashlib.sha256(ranks).hexdigest() == PACKAGED[name][1]


def test_ranks_that_were_damaged_in_the_cache_are_unpacked_again(empty_cache: Path) -> None:
    empty_cache.mkdir(parents=True)
    (empty_cache / PACKAGED["cl100k_base"][0]).write_bytes(b"IQ== 0\n")
    assert load_encoding("cl100k_base").encode("hello world") == [15339, 1917]


def test_a_cache_that_cannot_be_written_is_one_line(empty_cache: Path) -> None:
    empty_cache.parent.parent.mkdir(exist_ok=True)
    empty_cache.parent.write_text("in the way")
    with pytest.raises(StoreError, match="XDG_CACHE_HOME"):
        load_encoding("cl100k_base")


def test_an_unknown_encoding_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"unknown token encoding 'nonsense'.*o200k_base"):
        count_tokens("x", "nonsense")


def test_another_encoding_takes_the_ordinary_way(
    empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nothing to reach and nothing cached: the message says so instead of hanging.
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / "none"))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    with pytest.raises(ConfigError, match="has to be downloaded"):
        load_encoding("p50k_base")


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    """Words are tokens, and the file asks for cutting and padding as encoders' files do."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    words = Tokenizer(WordLevel({"[UNK]": 0, "tile": 1, "bank": 2}, unk_token="[UNK]"))
    words.pre_tokenizer = Whitespace()
    words.enable_truncation(2)
    words.enable_padding(length=2)
    words.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


@pytest.mark.parametrize("name", ["", "tokenizer.json"])
def test_a_model_counts_by_its_own_tokenizer(tokenizer: Path, name: str) -> None:
    place = str(tokenizer / name)
    assert count_tokens("tile", place) == 1
    assert count_tokens("tile bank tile of rows", place) == 5
    assert count_tokens("", place) == 0


def test_what_is_no_tokenizer_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"expected a tokenizer\.json .*found none"):
        count_tokens("x", str(tmp_path / "none.json"))
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"expected a tokenizer\.json .*name the file or"):
        count_tokens("x", str(tmp_path))
