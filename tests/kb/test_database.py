from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import event, text

from kb.config import Home
from kb.database import create_tables, open_engine, open_url, reading, writing
from kb.errors import ConfigError, StoreError
from kb.store.documents import StateRow, Store


def test_a_damaged_file_is_named_with_what_would_do_and_kept(home: Home) -> None:
    home.database.write_bytes(b"this is no database" * 100)
    with pytest.raises(
        StoreError, match=r"kb\.sqlite: expected .* not a database.*move the file away"
    ):
        create_tables(open_engine(home))
    assert home.database.read_bytes().startswith(b"this is no database")


def test_damage_in_the_middle_of_the_file_is_one_line_too(home: Home, store: Store) -> None:
    with writing(store._engine) as session:
        for number in range(2000):
            session.add(StateRow(name=f"{number}", value="x" * 100))
    store._engine.dispose()
    content = bytearray(home.database.read_bytes())
    content[4096:-4096] = b"\xff" * (len(content) - 8192)
    home.database.write_bytes(content)
    with (
        pytest.raises(StoreError, match="malformed") as caught,
        reading(open_engine(home)) as session,
    ):
        session.execute(text("SELECT count(*), max(value) FROM state")).all()
    assert "\n" not in str(caught.value)


def test_a_path_that_cannot_be_opened_is_one_line(home: Home) -> None:
    home.database.mkdir()
    with pytest.raises(StoreError, match=r"unable to open.*KB_HOME"):
        create_tables(open_engine(home))


def test_a_full_disk_is_one_line_and_loses_nothing(store: Store) -> None:
    store.set_state("before", "kept")

    @event.listens_for(store._engine, "connect")
    def _limit(connection: sqlite3.Connection, _: object) -> None:
        connection.execute("PRAGMA max_page_count = 1").close()

    store._engine.dispose()
    with pytest.raises(StoreError, match=r"full.*free some space"):
        store.set_state("large", "x" * 10_000_000)
    assert store.state("before") == "kept"
    assert store.state("large") is None


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ConfigError, match="set KB_HOME"):
        open_engine(Home(tmp_path / "file" / "home"))


@pytest.mark.parametrize("url", ["nonsense", "mysql+nothing://secret@host/x"])
def test_an_unusable_url_is_one_line_without_its_password(
    url: str, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_DATABASE", url)
    with pytest.raises(ConfigError, match="KB_DATABASE") as caught:
        open_engine(home)
    assert "secret" not in str(caught.value)


def test_a_failed_write_leaves_no_half(store: Store) -> None:
    def write_half() -> None:
        with writing(store._engine) as session:
            session.add(StateRow(name="half", value="done"))
            session.flush()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()
    assert store.state("half") is None


def test_a_reader_goes_on_while_another_writes(store: Store) -> None:
    store.set_state("x", "old")
    with writing(store._engine) as session:
        session.merge(StateRow(name="x", value="new"))
        session.flush()
        assert store.state("x") == "old"
    assert store.state("x") == "new"


def test_a_wrong_statement_of_ours_is_a_bug_not_advice(store: Store) -> None:
    with (
        pytest.raises(Exception, match="no such table") as caught,
        reading(store._engine) as session,
    ):
        session.execute(text("SELECT * FROM nowhere"))
    assert not isinstance(caught.value, StoreError)


def test_signs_of_a_url_in_the_folders_name_are_part_of_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KB_DATABASE", raising=False)
    home = Home(tmp_path / "what?%41#1@b")
    create_tables(open_engine(home))
    Store(open_engine(home)).set_state("name", "kept")
    assert [path.name for path in tmp_path.iterdir()] == ["what?%41#1@b"]
    assert home.database.is_file()
    assert Store(open_url(home.database_url, "--database")).state("name") == "kept"
