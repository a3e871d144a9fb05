from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ingest.isolation.pool import Confined
from ingest.pipeline import IngestOptions
from kb.config import Home
from kb.database import create_tables, open_engine
from kb.store.documents import Store


@pytest.fixture(scope="session")
def desk() -> Iterator[Confined]:
    """One process that reads the documents of all tests."""
    with Confined() as one:
        yield one


@pytest.fixture
def terms(desk: Confined) -> IngestOptions:
    return IngestOptions(desk=desk)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    engine = open_engine(Home(tmp_path / "home").make())
    create_tables(engine)
    return Store(engine)


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    return folder
