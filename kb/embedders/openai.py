"""Any endpoint that speaks OpenAI's embeddings protocol, through the official client."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kb.errors import ConfigError, ModelError
from kb.progress import Progress, silent

if TYPE_CHECKING:
    import openai

    from kb.embedders import Vectors

URL_VARIABLES = ("KB_EMBEDDER_URL", "OPENAI_BASE_URL")
KEY_VARIABLES = ("KB_EMBEDDER_KEY", "KB_API_KEY", "OPENAI_API_KEY")
BATCH = 64  # texts of one request: OpenAI takes 2,048, small servers choke on far fewer
RETRIES = 5  # after a 429, a 5xx or a broken connection, as long apart as the server asks
TIMEOUT_SECONDS = 120.0


class OpenAiModel:
    """An embedding model behind an OpenAI-compatible endpoint.

    ``KB_EMBEDDER_URL`` (else ``OPENAI_BASE_URL``) names the endpoint, usually ending in ``/v1``;
    ``KB_EMBEDDER_KEY`` (else ``KB_API_KEY``, ``OPENAI_API_KEY``) is its key, which is neither logged
    nor kept.

    Args:
        model: the model's name at the endpoint.
        cache: not used; nothing is kept beside the vectors in the database.

    Raises:
        ConfigError: `model` is empty, or the address or the key cannot be used.
    """

    pinned = False  # an endpoint may serve another model under the same name tomorrow

    def __init__(self, model: str, cache: Path) -> None:  # noqa: ARG002 - the family's signature
        if not model:
            raise ConfigError("embedder openai: expected a model, found none: write openai:MODEL")
        self._model = model
        self._url = _first(URL_VARIABLES)[1] or None
        if self._url is not None and not self._url.startswith(("http://", "https://")):
            raise ConfigError(
                f"{_first(URL_VARIABLES)[0]}: expected an address that begins with http:// or "
                f"https://, found {self._url!r}"
            )
        self._dimension: int | None = None

    @property
    def name(self) -> str:
        """The model as the endpoint calls it; an endpoint may move."""
        return f"openai:{self._model}"

    @property
    def dimension(self) -> int:
        """The length of a vector; asks the endpoint where it has not answered yet."""
        if self._dimension is None:
            self._ask(["dimension"])
        assert self._dimension is not None
        return self._dimension

    def embed(self, texts: Sequence[str], progress: Progress = silent) -> Vectors:
        """Return the model's vectors, normalised.

        Raises:
            ConfigError: the key is missing or cannot be used.
            ModelError: the endpoint cannot be reached, refuses, or answers with no vectors.
        """
        import numpy as np

        if not texts:
            return np.zeros((0, self._dimension or 1), np.float32)
        parts = []
        for start in range(0, len(texts), BATCH):
            parts.append(self._ask(list(texts[start : start + BATCH])))
            progress("embedding", min(start + BATCH, len(texts)), len(texts))
        return np.concatenate(parts)

    def _ask(self, texts: list[str]) -> Vectors:
        import openai

        try:
            reply: Any = self._client.embeddings.create(
                model=self._model, input=texts, encoding_format="float"
            )
        except openai.OpenAIError as error:
            raise self._explain(error) from error
        except ValueError as error:  # the client lets faults of a body that is no JSON through
            raise self._nonsense("a reply that is no JSON") from error
        return self._read(reply, len(texts))

    def _read(self, reply: Any, count: int) -> Vectors:
        """Return the vectors of a reply in the order of the texts."""
        import numpy as np

        try:
            ordered = sorted(reply.data, key=lambda one: one.index)
            vectors = np.array([one.embedding for one in ordered], np.float32)
        except (AttributeError, TypeError, ValueError) as error:
            raise self._nonsense("a reply without them") from error
        if vectors.ndim != 2 or len(vectors) != count:
            raise self._nonsense(f"{len(ordered)} for {count} texts")
        if self._dimension not in (None, vectors.shape[1]):
            raise self._nonsense(f"{vectors.shape[1]} numbers a text, {self._dimension} before")
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.isfinite(norms).all() or not norms.all():
            raise self._nonsense("a vector without a direction")
        self._dimension = vectors.shape[1]
        unit: Vectors = vectors / norms
        return unit

    @cached_property
    def _client(self) -> openai.OpenAI:
        import openai

        variable, key = _first(KEY_VARIABLES)
        if not key and self._url is None:
            raise ConfigError(
                f"embedder {self.name}: expected a key in {' or '.join(KEY_VARIABLES)}, found none: "
                f"set one, or name an endpoint without keys in {URL_VARIABLES[0]}"
            )
        if not key.isascii() or not key.isprintable():
            raise ConfigError(
                f"{variable}: expected a key of printable ASCII characters, found others: "
                "copy it again"
            )
        return openai.OpenAI(
            # The client insists on a key; an endpoint that needs none ignores it.
            api_key=key or "none",
            base_url=self._url,
            timeout=TIMEOUT_SECONDS,
            max_retries=RETRIES,
        )

    def _explain(self, error: Exception) -> ModelError:
        """Return what went wrong in one line, without anything secret."""
        import openai

        where = self._url or "OpenAI"
        if isinstance(error, openai.APIStatusError):
            said = " ".join(str(error.message).split())[:200]
            return ModelError(
                f"embedder {self.name}: {where} answered {error.status_code} ({said}): check the "
                "model's name, the key, and the endpoint's log; what is embedded is kept"
            )
        return ModelError(
            f"embedder {self.name}: {where} does not answer ({type(error).__name__}): check "
            f"{URL_VARIABLES[0]} and the network, then run the command again; what is embedded is kept"
        )

    def _nonsense(self, found: str) -> ModelError:
        return ModelError(
            f"embedder {self.name}: expected vectors from {self._url or 'OpenAI'}, found {found}: "
            f"check that {URL_VARIABLES[0]} is an embeddings endpoint and the model an embedding model"
        )


def _first(variables: Sequence[str]) -> tuple[str, str]:
    """Return the first of these variables that is set, with its value."""
    found = ((name, os.environ.get(name, "").strip()) for name in variables)
    return next((pair for pair in found if pair[1]), (variables[0], ""))
