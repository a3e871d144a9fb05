"""What turns a text into a vector, by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from kb.progress import Progress, silent
from kb.registry import Registry

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

DEFAULT_EMBEDDER = "minilm"


class Embedder(Protocol):
    """Maps texts of like meaning to nearby points of the unit sphere.

    The same text gives the same vector, whatever it is embedded with, to within rounding.
    """

    @property
    def name(self) -> str:
        """The name of model and weights: vectors of two names are never compared."""
        ...

    @property
    def dimension(self) -> int:
        """The length of a vector."""
        ...

    @property
    def pinned(self) -> bool:
        """Whether no other weights can ever answer under this name."""
        ...

    def embed(self, texts: Sequence[str], progress: Progress = silent) -> Vectors:
        """Return one normalised row per text, as float32 of shape ``(len(texts), dimension)``."""
        ...


EMBEDDERS: Registry[Embedder] = Registry(
    "embedder",
    {
        "minilm": "kb.embedders.minilm:MiniLm",
        "openai": "kb.embedders.openai:OpenAiModel",
        "sentence-transformers": "kb.embedders.sentence_transformers:SentenceModel",
    },
)


def create_embedder(spec: str, cache: Path) -> Embedder:
    """Build the embedder that `spec` names, without loading its weights.

    Args:
        spec: ``NAME`` or ``NAME:MODEL``, as ``sentence-transformers:BAAI/bge-small-en-v1.5``.
        cache: folder that it may keep derived files in.

    Raises:
        ConfigError: the name is unknown, or the model is missing or not wanted.
    """
    name, _, model = spec.partition(":")
    return EMBEDDERS.create(name, model, cache)
