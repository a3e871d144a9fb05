from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

from kb.config import Home
from kb.errors import ConfigError, StoreError
from kb.indexes.chroma import Approximate, Chroma, ChromaServer
from kb.indexes.sync import IndexSync
from kb.progress import Progress, silent
from kb.store.documents import NewDocument, Piece, Store

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:chromadb")


class Letters:
    """A real, if crude, embedder: how often each letter occurs."""

    name = "letters"
    dimension = 26
    pinned = True

    def __init__(self) -> None:
        self.embedded: list[str] = []

    def embed(self, texts: Sequence[str], progress: Progress = silent) -> np.ndarray:
        self.embedded.extend(texts)
        counts = [[text.lower().count(chr(97 + n)) + 1e-3 for n in range(26)] for text in texts]
        found = np.array(counts, np.float32).reshape(len(texts), 26)
        progress("embedding", len(texts), len(texts))
        return found / np.linalg.norm(found, axis=1, keepdims=True)


def put(store: Store, key: str, *texts: str) -> None:
    pieces = tuple(Piece(section=key, text=text, tokens=len(text.split())) for text in texts)
    store.put(
        NewDocument(
            key=key,
            shown=key,
            digest="".join(texts),
            kind="document",
            name=key,
            title=key,
            body="",
            pieces=pieces,
        )
    )


@pytest.fixture
def letters() -> Letters:
    return Letters()


@pytest.fixture
def derived(store: Store, home: Home, letters: Letters) -> IndexSync:
    return IndexSync(store, letters, home)


def test_an_empty_store_has_an_empty_index(derived: IndexSync) -> None:
    assert len(derived.current().ids) == 0


def test_the_longest_texts_are_embedded_first(
    store: Store, derived: IndexSync, letters: Letters
) -> None:
    put(store, "a", "one", "one two three", "one two")
    derived.refresh()
    assert letters.embedded == ["a\none two three", "a\none two", "a\none"]


def test_only_what_is_new_is_embedded(store: Store, derived: IndexSync, letters: Letters) -> None:
    put(store, "a", "one", "two")
    assert len(derived.current().ids) == 2
    put(store, "b", "three")
    put(store, "a", "two")
    index = derived.current()
    assert len(index.ids) == 2
    assert letters.embedded == ["a\none", "a\ntwo", "b\nthree"]
    assert derived.current() is index


def test_progress_counts_all_passages(store: Store, derived: IndexSync) -> None:
    put(store, "a", *(f"text {number}" for number in range(300)))
    steps: list[tuple[str, float | None, float | None]] = []
    derived.current(lambda *step: steps.append(step))
    embedding = [step for step in steps if step[0] == "embedding passages"]
    assert embedding == [("embedding passages", done, 300) for done in (256, 300)]


def test_another_process_finds_the_index_and_embeds_nothing(
    store: Store, home: Home, derived: IndexSync
) -> None:
    put(store, "a", "one")
    derived.current()
    other = Letters()
    assert list(IndexSync(store, other, home).current().ids) == list(derived.current().ids)
    assert other.embedded == []


def test_while_another_indexes_the_last_complete_index_answers(
    store: Store, home: Home, derived: IndexSync
) -> None:
    put(store, "a", "one")
    before = derived.current()
    put(store, "b", "two")
    with FileLock(home.root / "index.lock"):
        assert list(IndexSync(store, Letters(), home).current().ids) == list(before.ids)
    assert len(derived.current().ids) == 2


def test_a_deleted_index_is_made_again_from_the_store(
    store: Store, home: Home, derived: IndexSync, letters: Letters
) -> None:
    import shutil

    put(store, "a", "one")
    ids = list(derived.current().ids)
    shutil.rmtree(home.root / "index")
    assert list(IndexSync(store, letters, home).current().ids) == ids
    assert len(letters.embedded) == 1


def test_old_generations_are_cleared_away(store: Store, home: Home, derived: IndexSync) -> None:
    for number in range(5):
        put(store, "a", f"text {number}")
        derived.current()
    folders = {path.name for path in (home.root / "index").iterdir()}
    assert len(folders - {"segments"}) == 2
    assert len(list((home.root / "index" / "segments").iterdir())) == 2


@pytest.mark.slow
@pytest.mark.usefixtures("chroma")
def test_chroma_answers_as_the_exact_index_does(store: Store, home: Home) -> None:
    put(store, "a", "apple", "zebra", "banana")
    exact = IndexSync(store, Letters(), home, "local").current()
    served = IndexSync(store, Letters(), home, "chroma").current()
    assert isinstance(served.dense, Approximate)
    vector = Letters().embed(["zebra"])[0]
    every = np.ones(3, bool)
    ranked = [index.dense.rank(vector, every, 3) for index in (exact, served)]
    assert [one.row for one in ranked[0]] == [one.row for one in ranked[1]]


# A process of its own that indexes some texts, four at a time, and dies at the moment it is told.
SCRIPT = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import kb.indexes.sync, kb.indexes.chroma
from kb.config import Home
from kb.knowledge import open_store
from test_sync import Letters, put
kb.indexes.sync.BATCH = kb.indexes.chroma.BATCH = 4
home, moment, key, texts = Home(Path(sys.argv[2])), sys.argv[3], sys.argv[4], sys.argv[5:]
steps = []
def tell(what, done=None, total=None, /):
    steps.append(what if done is None else f"{what} {done}")
    if moment == steps[-1]:
        os.kill(os.getpid(), signal.SIGKILL)
class Told(kb.indexes.sync.IndexSync):
    def _items(self, ids, columns):
        tell("copying", steps.count("copying 0"))
        return super()._items(ids, columns)
store = open_store(home)
put(store, key, *texts)
Told(store, Letters(), home).refresh(tell)
"""


def index(home: Home, moment: str, key: str, *texts: str) -> subprocess.Popen[bytes]:
    here = Path(__file__).parent
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(here), str(home.root), moment, key, *texts]
    )


@pytest.mark.slow
def test_what_was_killed_while_it_embedded_or_copied_is_completed_by_the_next(
    store: Store, home: Home, letters: Letters, chroma: ChromaServer
) -> None:
    texts = [f"text {number}" for number in range(10)]
    assert index(home, "embedding passages 8", "a", *texts).wait() == -signal.SIGKILL
    assert store.stats()["pending"] == 6
    # The second part of three: Chroma has the first.
    assert index(home, "copying 1", "a", *texts).wait() == -signal.SIGKILL
    assert store.stats()["pending"] == 0
    assert len(IndexSync(store, letters, home).current().ids) == 10
    assert letters.embedded == []
    assert Chroma(chroma, home.root, "letters").count() == 10


@pytest.mark.slow
def test_processes_that_index_at_once_lose_and_double_nothing(
    store: Store, home: Home, chroma: ChromaServer
) -> None:
    both = [index(home, "", key, f"{key} one", f"{key} two") for key in ("a", "b")]
    put(store, "c", "c one", "c two")
    IndexSync(store, Letters(), home).refresh()
    assert [process.wait() for process in both] == [0, 0]
    ids = list(IndexSync(store, Letters(), home).current().ids)
    assert len(set(ids)) == len(ids) == 6
    assert Chroma(chroma, home.root, "letters").count() == 6


class Vowels(Letters):
    """Another model: fewer numbers a text."""

    name = "vowels"
    dimension = 5

    def embed(self, texts: Sequence[str], progress: Progress = silent) -> np.ndarray:
        found = super().embed(texts, progress)[:, [0, 4, 8, 14, 20]]
        return found / np.linalg.norm(found, axis=1, keepdims=True)


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two models that can be had by name."""
    places = {"letters": Letters, "vowels": Vowels}
    monkeypatch.setattr("kb.indexes.sync.create_embedder", lambda spec, cache: places[spec]())
    monkeypatch.setattr("kb.indexes.sync.SWITCHED", 2)


@pytest.mark.usefixtures("models")
def test_the_model_before_answers_until_the_new_one_has_embedded_everything(
    store: Store, home: Home
) -> None:
    put(store, "a", *(f"text {number}" for number in range(9)))
    before = IndexSync(store, Letters(), home, spec="letters").current()
    said: list[str] = []
    switching = IndexSync(store, Vowels(), home, spec="vowels")
    index = switching.current(lambda what, *_: said.append(what))
    assert list(index.ids) == list(before.ids)
    assert index.embedder == switching.embedder.name == "letters"
    assert switching.embedder.dimension == 26
    assert said == [
        "9 of 9 passages are not embedded by vowels yet: the index of letters answers until "
        "`kb init` has embedded them"
    ]
    index = switching.refresh()
    assert index.embedder == switching.embedder.name == "vowels"
    assert index.vectors[0].shape == (5,)
    assert IndexSync(store, Vowels(), home, spec="vowels").current().embedder == "vowels"
    # Back again: its vectors were kept.
    back = Letters()
    assert IndexSync(store, back, home, spec="letters").current().embedder == "letters"
    assert back.embedded == []


@pytest.mark.usefixtures("models")
def test_a_change_of_the_model_that_was_killed_goes_on_and_the_old_one_serves(
    store: Store, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, "a", *(f"text {number}" for number in range(9)))
    IndexSync(store, Letters(), home, spec="letters").current()
    monkeypatch.setattr("kb.indexes.sync.BATCH", 4)

    class Killed(Vowels):
        def embed(self, texts: Sequence[str], progress: Progress = silent) -> np.ndarray:
            if self.embedded:
                raise KeyboardInterrupt
            return super().embed(texts, progress)

    with pytest.raises(KeyboardInterrupt):
        IndexSync(store, Killed(), home, spec="vowels").refresh()
    after = IndexSync(store, Vowels(), home, spec="vowels")
    assert after.current().embedder == "letters"
    vowels = Vowels()
    assert IndexSync(store, vowels, home, spec="vowels").refresh().embedder == "vowels"
    assert len(vowels.embedded) == 5


@pytest.mark.usefixtures("models")
def test_a_small_library_changes_its_model_at_once(store: Store, home: Home) -> None:
    put(store, "a", "one", "two")
    IndexSync(store, Letters(), home, spec="letters").current()
    assert IndexSync(store, Vowels(), home, spec="vowels").current().embedder == "vowels"


def test_another_model_under_the_same_name_is_refused(store: Store, home: Home) -> None:
    class Served(Letters):
        pinned = False

    class Other(Served):
        def embed(self, texts: Sequence[str], progress: Progress = silent) -> np.ndarray:
            return np.roll(super().embed(texts, progress), 5, axis=1)

    put(store, "a", "one")
    IndexSync(store, Served(), home).current()
    put(store, "b", "two")
    with pytest.raises(StoreError, match="found another under its name"):
        IndexSync(store, Other(), home).current()
    assert len(IndexSync(store, Served(), home).current().ids) == 2


def test_an_index_that_is_not_whole_is_made_anew(
    store: Store, home: Home, derived: IndexSync, letters: Letters
) -> None:
    put(store, "a", "one", "two")
    ids = list(derived.current().ids)
    (segment,) = (home.root / "index" / "segments").iterdir()
    (segment / "vectors.npy").write_bytes(b"torn")
    said: list[str] = []
    index = IndexSync(store, letters, home).current(lambda what, *_: said.append(what))
    assert list(index.ids) == ids
    assert said[0].startswith("the index is not whole (")
    assert len(letters.embedded) == 2


@pytest.mark.slow
def test_what_chroma_lost_is_filled_in_before_it_is_asked(
    store: Store, home: Home, chroma: ChromaServer
) -> None:
    put(store, "a", "apple", "zebra", "banana")
    index = IndexSync(store, Letters(), home, "chroma").current()
    collection = Chroma(chroma, home.root, "letters")
    collection.sync(list(index.ids)[:1], lambda ids: [])
    assert collection.count() == 1
    said: list[str] = []
    IndexSync(store, Letters(), home, "chroma").current(lambda what, *_: said.append(what))
    assert said == ["Chroma does not have every passage: filling it"]
    assert collection.count() == 3


def test_chroma_without_a_server_is_one_line(
    store: Store, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KB_CHROMA", raising=False)
    put(store, "a", "one")
    with pytest.raises(ConfigError, match="KB_CHROMA, found none: set HOST:PORT"):
        IndexSync(store, Letters(), home, "chroma").current()


@pytest.mark.slow
def test_the_copy_that_an_older_version_kept_is_cleared_away(
    store: Store, home: Home, derived: IndexSync
) -> None:
    (home.root / "chroma").mkdir()
    (home.root / "chroma" / "chroma.sqlite3").write_text("old")
    put(store, "a", "one")
    derived.current()
    assert not (home.root / "chroma").exists()
