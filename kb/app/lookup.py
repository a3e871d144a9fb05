"""Reading the knowledge base by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kb.app.queries import SearchOptions, build_query
from kb.config import Home
from kb.errors import ConfigError

if TYPE_CHECKING:
    from kb.progress import Progress
    from kb.records.types import Scope
    from kb.retrieval.lookup import LookupResult
    from search.prompting.readings import Readings


def open_reader(home: Home, progress: Progress) -> Readings:
    """Open the knowledge base for somebody who reads it by name, doubted lessons among it."""
    from kb.knowledge import open_knowledge
    from kb.retrieval.lookup import RecordReader

    knowledge = open_knowledge(home, progress)
    return RecordReader(knowledge.store, knowledge.effects)


def scope_of(target: str | None, language: str | None) -> Scope:
    """Return where knowledge must apply, as the options of a command say."""
    return build_query(SearchOptions(question="module", target=target, language=language)).scope


def known(found: LookupResult) -> LookupResult:
    """Return what was found.

    Raises:
        ConfigError: there is nothing under that name.
    """
    if not found.found:
        what = "a page of the index" if found.kind == "module" else "a record or a document"
        near = ", ".join(found.nearest) or "none"
        raise ConfigError(
            f"expected the name of {what}, found {found.name!r}: the nearest are {near}"
        )
    return found


def plain(found: LookupResult) -> dict[str, Any]:
    """Return what was found as JSON values.

    Raises:
        ConfigError: there is nothing under that name.
    """
    return known(found).as_dict()
