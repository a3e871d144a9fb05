from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ingest.pipeline import ingest
from kb.config import Home
from kb.embedders.minilm import MiniLm
from kb.errors import ConfigError, StoreError
from kb.indexes.seed import plant, write
from kb.knowledge import Knowledge, open_knowledge, open_store, sync_lessons
from kb.records.types import Query
from kb.store.documents import Store

LESSON = """---
kind: lesson
title: Padding won on the toy
symptoms: [bank-conflicts]
evidence: [{task: transpose, target: toy, before: 2.0e-3, after: 1.0e-3, run: transpose-1}]
idea: pad-shared-memory
---
The padded tile was twice as fast.
"""


@pytest.fixture
def copy(corpus: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(corpus, tmp_path / "shipped"))


@pytest.mark.slow
def test_the_documents_are_read_once(
    corpus: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = open_knowledge(home, shipped=corpus)
    assert first.store.stats()["documents"] == 5
    # Whatever would read, embed or write again fails now.
    monkeypatch.setattr("ingest.pipeline.ingest", None)
    monkeypatch.setattr("kb.embedders.minilm.MiniLm.embed", None)
    second = open_knowledge(home, shipped=corpus)
    assert second.store.generation() == first.store.generation()


@pytest.mark.slow
def test_a_changed_document_is_read_again(copy: Path, home: Home) -> None:
    open_knowledge(home, shipped=copy)
    path = copy / "guidance" / "softmax.md"
    path.write_text(path.read_text() + "\nOne pass with a running maximum is enough.\n")
    (copy / "ideas" / "vector-loads.md").unlink()
    knowledge = open_knowledge(home, shipped=copy)
    assert knowledge.store.stats()["documents"] == 4
    hits = knowledge.retriever.search(Query(text="running maximum", limit=1))
    assert "One pass" in hits[0].passage.text


def test_a_broken_shipped_document_is_one_line(copy: Path, home: Home) -> None:
    (copy / "ideas" / "bad.md").write_text("---\nkind: idea\n---\n")
    with pytest.raises(StoreError, match=r"kb:ideas/bad\.md: a shipped document is broken"):
        open_knowledge(home, shipped=copy)


@pytest.mark.slow
def test_a_lesson_is_found_once_it_is_written(corpus: Path, home: Home) -> None:
    knowledge = open_knowledge(home, shipped=corpus)
    (home.lessons / "transpose-1.md").write_text(LESSON)
    sync_lessons(home)
    query = Query(text="padding the tile of a transpose", kinds=("lesson",))
    (hit,) = knowledge.retriever.search(query)
    assert hit.passage.document == "lessons:transpose-1.md"
    found = knowledge.store.document("lesson", "transpose-1")
    assert found is not None
    assert found.body == "The padded tile was twice as fast.\n"


@pytest.mark.slow
def test_a_lesson_of_one_home_is_found_in_another_on_the_same_database(
    corpus: Path, tmp_path: Path, make_postgres_database: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("KB_DATABASE", make_postgres_database())
    first, second = Home(tmp_path / "first").make(), Home(tmp_path / "second").make()
    (first.lessons / "padding.md").write_text(LESSON)
    opened = [open_knowledge(first, shipped=corpus)]
    (second.lessons / "other.md").write_text(LESSON.replace("Padding", "Another"))
    opened.append(open_knowledge(second, shipped=corpus))
    assert (second.lessons / "padding.md").read_text() == LESSON
    # What the second home reads takes nothing away that the first had read.
    found = {one.path.rpartition("/")[2] for one in opened[1].store.documents("lesson")}
    assert found == {"lessons:padding.md", "lessons:other.md"}
    opened.append(open_knowledge(first, shipped=corpus))
    assert (first.lessons / "other.md").exists()
    for one in opened:
        one.store.engine.dispose()


@pytest.mark.slow
def test_a_broken_lesson_is_told_and_stops_nothing(corpus: Path, home: Home) -> None:
    (home.lessons / "bad.md").write_text("---\nkind: lesson\n---\n")
    told: list[str] = []
    open_knowledge(home, lambda what, *_: told.append(what), shipped=corpus)
    assert any(line.startswith("refused lessons:bad.md: ") for line in told)


@pytest.mark.slow
def test_a_lesson_while_it_is_written_and_a_link_to_nothing_stop_no_command(
    corpus: Path, home: Home
) -> None:
    home.lessons.mkdir(parents=True, exist_ok=True)
    (home.lessons / "dangling.md").symlink_to(home.lessons / "nothing.md")
    open_knowledge(home, shipped=corpus)
    digest = open_store(home).state("synced:lessons")
    (home.lessons / "x.md.tmp").write_text("half a les")
    open_knowledge(home, shipped=corpus)
    assert open_store(home).state("synced:lessons") == digest


def test_a_store_is_opened_without_reading_documents(home: Home) -> None:
    assert open_store(home).stats()["documents"] == 0


def test_an_unknown_embedder_is_one_line(
    corpus: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KB_EMBEDDER", "nonsense")
    with pytest.raises(ConfigError, match="unknown embedder"):
        open_knowledge(home, shipped=corpus)


@pytest.mark.slow
def test_ingested_notes_are_found_with_their_source(knowledge: Knowledge, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "n.md").write_text("# Quux\n\nThe quux register holds the mask.\n")
    assert knowledge.ingest([tmp_path / "notes"]).added == ["notes/n.md"]
    hit = knowledge.retriever.search(Query(text="quux", limit=1))[0]
    assert (hit.passage.document, hit.passage.section) == ("notes/n.md", "Quux")
    (tmp_path / "notes" / "n.md").unlink()
    knowledge.ingest([tmp_path / "notes"])
    hits = knowledge.retriever.search(Query(text="quux"))
    assert "notes/n.md" not in [hit.passage.document for hit in hits]


@pytest.mark.slow
def test_a_new_home_embeds_next_to_nothing(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []
    real = MiniLm.embed
    monkeypatch.setattr(
        MiniLm, "embed", lambda self, given, *rest: texts.extend(given) or real(self, given, *rest)
    )
    store = open_knowledge(home).store
    passages = store.stats()["passages"]
    assert store.stats()["pending"] == 0
    assert len(texts) < 0.1 * passages, "python tools/embed_library.py makes the vectors anew"


def test_vectors_that_were_kept_are_those_that_were_made(
    knowledge: Knowledge, corpus: Path, store: Store, tmp_path: Path
) -> None:
    name = knowledge.derived.embedder.name
    assert write(knowledge.store, name, tmp_path) > 0
    ingest([corpus], store, label="kb")
    assert plant(store, "another", tmp_path) == 0
    assert plant(store, name, tmp_path) == len(store.pending("another"))
    assert not store.pending(name)
    contents, made = knowledge.store.vectors(name, "kb:")
    again, kept = store.vectors(name, "kb:")
    assert contents == again
    assert np.abs(np.einsum("ij,ij->i", made, kept) - 1).max() < 1e-3


def test_a_torn_file_of_vectors_is_as_none_and_that_is_said(
    store: Store, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ingest([corpus], store, label="kb")
    assert plant(store, "another", tmp_path) == 0
    assert not capsys.readouterr().err
    (tmp_path / "letters-1.npz").write_bytes(b"torn")
    assert plant(store, "letters-1", tmp_path) == 0
    assert "letters-1.npz: expected the vectors" in capsys.readouterr().err


@pytest.mark.slow
def test_a_search_from_the_command_line_imports_nothing_heavy(corpus: Path, home: Home) -> None:
    open_knowledge(home, shipped=corpus)
    script = (
        "import sys; from pathlib import Path; from kb.config import Home; "
        "from kb.knowledge import open_knowledge; from kb.records.types import Query; "
        f"found = open_knowledge(Home(Path({str(home.root)!r})), shipped=Path({str(corpus)!r})); "
        "assert found.retriever.search(Query(text='bank')); "
        "heavy = {'torch', 'chromadb', 'scipy', 'transformers', 'tiktoken', 'pydantic'}; "
        "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
