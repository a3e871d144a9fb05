"""Any model that sentence-transformers loads, by name (downloaded once) or by folder."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kb.errors import ConfigError
from kb.progress import Progress, silent

if TYPE_CHECKING:
    from kb.embedders import Vectors

BATCH = 32


class SentenceModel:
    """A sentence-transformers model on torch.

    Args:
        model: a name on the hub, or a folder.
        cache: not used; the library has its own.

    Raises:
        ConfigError: `model` is empty.
    """

    pinned = False  # a name on the hub or a folder may hold other weights tomorrow

    def __init__(self, model: str, cache: Path) -> None:  # noqa: ARG002 - the family's signature
        if not model:
            raise ConfigError(
                "embedder sentence-transformers: expected a model, found none: "
                "write sentence-transformers:NAME or sentence-transformers:FOLDER"
            )
        self._name = model

    @property
    def name(self) -> str:
        """The model as it was named."""
        return f"sentence-transformers:{self._name}"

    @property
    def dimension(self) -> int:
        """The length of a vector; loads the model."""
        return int(self._model.get_embedding_dimension())

    def embed(self, texts: Sequence[str], progress: Progress = silent) -> Vectors:
        """Return the model's normalised vectors.

        Raises:
            ConfigError: the model cannot be loaded.
        """
        import numpy as np

        vectors = np.zeros((len(texts), self.dimension), np.float32)
        for start in range(0, len(texts), BATCH):
            part = list(texts[start : start + BATCH])
            vectors[start : start + len(part)] = self._model.encode(
                part, normalize_embeddings=True, show_progress_bar=False
            )
            progress("embedding", start + len(part), len(texts))
        return vectors

    @cached_property
    def _model(self) -> Any:
        from sentence_transformers import SentenceTransformer

        try:
            return SentenceTransformer(self._name)
        except Exception as error:  # whatever the hub's client, torch or the model's own code raise
            found = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            raise ConfigError(
                f"embedder {self.name}: cannot load the model ({found}): check the name and the network, name a folder, or use minilm"
            ) from error
