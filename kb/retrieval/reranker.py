"""A cross-encoder that reads question and passage together, where its weights are at hand.

Off unless ``KB_RERANKER`` names a folder: no cross-encoder comes with `kb`, and one costs more than
all the rest of a search (torch is imported, and each passage is read with each question).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from kb.errors import ConfigError

VARIABLE = "KB_RERANKER"
POOL = 30  # of the best candidates that are read again


class CrossEncoder:
    """A sentence-transformers cross-encoder in a folder.

    Args:
        folder: with the model's configuration, weights and tokenizer.

    Raises:
        ConfigError: there is no such folder.
    """

    def __init__(self, folder: Path) -> None:
        if not (folder / "config.json").is_file():
            raise ConfigError(
                f"{VARIABLE}: expected a folder with a cross-encoder (config.json, weights, "
                f"tokenizer), found {str(folder)!r}: download one into a folder, or unset it"
            )
        self.folder = folder

    def score(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return how well each text answers the question; only the order means anything.

        Raises:
            ConfigError: the model cannot be loaded, or does not give one number a pair.
        """
        model = self._model
        pairs = [(question, text) for text in texts]
        try:
            scores = model.predict(pairs, show_progress_bar=False)
        except Exception as error:
            raise self._unusable(error) from error
        if getattr(scores, "shape", ()) != (len(texts),):
            raise ConfigError(
                f"{VARIABLE}: expected a model with one output a pair, found outputs of shape "
                f"{getattr(scores, 'shape', None)}: name a cross-encoder trained to rank"
            )
        return [float(one) for one in scores]

    @cached_property
    def _model(self) -> Any:
        from sentence_transformers import CrossEncoder as Model

        try:
            return Model(str(self.folder), local_files_only=True)
        except Exception as error:
            raise self._unusable(error) from error

    def _unusable(self, error: Exception) -> ConfigError:
        found = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        return ConfigError(
            f"{VARIABLE}: expected a cross-encoder in {self.folder}, found one that fails "
            f"({found}): name another folder, or unset it"
        )


def reranker() -> CrossEncoder | None:
    """Return the cross-encoder that ``KB_RERANKER`` names, None where it is not set.

    Raises:
        ConfigError: it names no folder with a model.
    """
    named = os.environ.get(VARIABLE)
    return CrossEncoder(Path(named).expanduser()) if named else None
