"""The knowledge base as pages read it: documents by address, and questions over the index that is there."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from kb.config import Home
from kb.errors import StoreError
from kb.store.documents import Store
from kb.web.text import address

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from kb.retrieval.retriever import Retriever


class NotFound(StoreError):
    """An address names what is not on record."""


class Addresses:
    """Finds documents by their addresses; the list is read anew when the knowledge base changed.

    Args:
        engine: a database whose tables are there.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = Lock()
        self._seen = ""
        self._keys: dict[str, str] = {}

    def key(self, address_of: str) -> str:
        """Return the key of the document of an address.

        Raises:
            NotFound: there is none.
        """
        store = Store(self._engine)
        with self._lock:
            now = store.generation()
            if now != self._seen:
                manifest = store.manifest().items()
                self._keys = {address(shown): key for key, (_, shown) in manifest}
                self._seen = now
            found = self._keys.get(address_of)
        if found is None:
            raise NotFound(f"no document {address_of[:80]!r}: the list of documents has all")
        return found

    def every(self) -> list[str]:
        """Return the addresses of all documents."""
        return [address(shown) for _, shown in Store(self._engine).manifest().values()]


class Asking:
    """Asks the knowledge base, whose embedder is loaded by the first question. Builds no index.

    Args:
        engine: a database whose tables are there.
    """

    def __init__(self, home: Home, engine: Engine) -> None:
        self._home = home
        self._engine = engine
        self._lock = Lock()
        self._retriever: Retriever | None = None

    def retriever(self) -> Retriever:
        """Return what answers questions over the latest index that is whole.

        Raises:
            StoreError: there is none.
        """
        with self._lock:
            if self._retriever is None:
                from kb.knowledge import open_retriever

                self._retriever = open_retriever(self._home, Store(self._engine))
            return self._retriever
