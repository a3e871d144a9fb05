"""What views read from: the record of runs, the knowledge base and the home's files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from kb.app.live import state_of
from kb.config import Home
from kb.web.knowledge import Addresses, Asking, NotFound
from kb.web.reading import open_reader
from kb.web.stories import Stories
from kb.web.trials import Trials

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from kb.store.documents import Store
    from search.runs.storage import Storage

__all__ = ["NotFound", "Query", "Sources", "open_sources"]

# What stands after the question mark of an address: it filters, sorts and turns pages, nothing else.
Query = Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Sources:
    """The home that pages are about.

    Attributes:
        writer: the database as every command opens it, for notes alone.
        reader: the same database, on connections that cannot write.
        trials: what all runs tried, idea by idea.
    """

    home: Home
    writer: Engine
    reader: Engine
    stories: Stories
    trials: Trials
    addresses: Addresses
    asking: Asking

    @property
    def store(self) -> Store:
        """Documents and passages."""
        from kb.store.documents import Store

        return Store(self.reader)

    @property
    def storage(self) -> Storage:
        """Sources, prompts and outcomes."""
        from search.runs.storage import Storage

        return Storage(self.reader)


def open_sources(home: Home) -> Sources:
    """Open a home for reading; tables and columns that an older `kb` left out are made first.

    Raises:
        StoreError: there is nothing to show, or the database cannot be read.
    """
    import search.runs.snapshot
    import search.runs.spending
    import search.runs.storage  # noqa: F401 - tables are known by import
    from kb.app.bench import record  # noqa: F401 - likewise
    from kb.knowledge import open_tables
    from kb.web import notes  # noqa: F401 - likewise

    writer = open_tables(home)
    reader = open_reader(writer)
    stories = Stories(reader, partial(state_of, home))
    return Sources(
        home=home,
        writer=writer,
        reader=reader,
        stories=stories,
        trials=Trials(reader, stories),
        addresses=Addresses(reader),
        asking=Asking(home, reader),
    )
