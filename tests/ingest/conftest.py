from __future__ import annotations

from pathlib import Path

import pytest

from kb.config import Home
from kb.database import create_tables, open_engine
from kb.store import Store


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
