"""The shipped ideas, and a target."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from machines import TWO_CORES

from kb.config import shipped_docs
from kb.records.schema import Document, TargetRecord, parse_record
from search.codegen.library import RecipeCard, make_cards


@pytest.fixture(scope="session")
def documents() -> list[Document]:
    """Every shipped idea."""
    paths = sorted((shipped_docs() / "ideas").glob("*.md"))
    return [parse_record(path.read_text(encoding="utf-8"), path.name) for path in paths]


@pytest.fixture(scope="session")
def cards(documents: list[Document]) -> dict[str, RecipeCard]:
    return make_cards(documents)


@pytest.fixture(scope="session")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module", autouse=True)
def _own_builds(builds: Path) -> Iterator[None]:
    """Keep what is compiled here out of the user's cache; other files' tests want that one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(builds))
        yield


@pytest.fixture(scope="session")
def target() -> TargetRecord:
    return TWO_CORES
