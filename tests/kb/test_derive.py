from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

from kb.config import Home
from kb.derive import Derived
from kb.indexes.chroma import Approximate, Chroma
from kb.progress import Progress, silent
from kb.store import Entry, Piece, Store

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
    pieces = tuple(Piece(section=key, text=text, tokens=2) for text in texts)
    store.put(
        Entry(
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
def derived(store: Store, home: Home, letters: Letters) -> Derived:
    return Derived(store, letters, home)


def test_an_empty_store_has_an_empty_index(derived: Derived) -> None:
    assert len(derived.current().ids) == 0


def test_only_what_is_new_is_embedded(store: Store, derived: Derived, letters: Letters) -> None:
    put(store, "a", "one", "two")
    assert len(derived.current().ids) == 2
    put(store, "b", "three")
    put(store, "a", "two")
    index = derived.current()
    assert len(index.ids) == 2
    assert letters.embedded == ["a\none", "a\ntwo", "b\nthree"]
    assert derived.current() is index


def test_progress_counts_all_passages(store: Store, derived: Derived) -> None:
    put(store, "a", *(f"text {number}" for number in range(300)))
    steps: list[tuple[str, float | None, float | None]] = []
    derived.current(lambda *step: steps.append(step))
    embedding = [step for step in steps if step[0] == "embedding passages"]
    assert embedding == [("embedding passages", done, 300) for done in (256, 300)]


def test_another_process_finds_the_index_and_embeds_nothing(
    store: Store, home: Home, derived: Derived
) -> None:
    put(store, "a", "one")
    derived.current()
    other = Letters()
    assert list(Derived(store, other, home).current().ids) == list(derived.current().ids)
    assert other.embedded == []


def test_while_another_indexes_the_last_complete_index_answers(
    store: Store, home: Home, derived: Derived
) -> None:
    put(store, "a", "one")
    before = derived.current()
    put(store, "b", "two")
    with FileLock(home.root / "index.lock"):
        assert list(Derived(store, Letters(), home).current().ids) == list(before.ids)
    assert len(derived.current().ids) == 2


def test_a_deleted_index_is_made_again_from_the_store(
    store: Store, home: Home, derived: Derived, letters: Letters
) -> None:
    import shutil

    put(store, "a", "one")
    ids = list(derived.current().ids)
    shutil.rmtree(home.root / "index")
    shutil.rmtree(home.chroma)
    assert list(Derived(store, letters, home).current().ids) == ids
    assert len(letters.embedded) == 1
    assert Chroma(home.chroma, "letters").count() == 1


def test_old_generations_are_cleared_away(store: Store, home: Home, derived: Derived) -> None:
    for number in range(5):
        put(store, "a", f"text {number}")
        derived.current()
    folders = {path.name for path in (home.root / "index").iterdir()}
    assert len(folders - {"segments"}) == 2
    assert len(list((home.root / "index" / "segments").iterdir())) == 2


def test_chroma_answers_as_the_exact_index_does(store: Store, home: Home) -> None:
    put(store, "a", "apple", "zebra", "banana")
    exact = Derived(store, Letters(), home, "local").current()
    chroma = Derived(store, Letters(), home, "chroma").current()
    assert isinstance(chroma.dense, Approximate)
    vector = Letters().embed(["zebra"])[0]
    every = np.ones(3, bool)
    ranked = [index.dense.rank(vector, every, 3) for index in (exact, chroma)]
    assert [one.row for one in ranked[0]] == [one.row for one in ranked[1]]


SCRIPT = """
import sys
from pathlib import Path
from kb.config import Home
from kb.knowledge import open_knowledge
empty = Path(sys.argv[1]) / "empty"
empty.mkdir(exist_ok=True)
knowledge = open_knowledge(Home(Path(sys.argv[1]) / "home"), shipped=empty)
import kb.derive
kb.derive.BATCH = 4
def show(what, done=None, total=None, /):
    print(what, done, flush=True)
knowledge.ingest([Path(sys.argv[2])], show)
print("finished", flush=True)
"""


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    for number in range(10):
        text = f"# Note {number}\n\nTile {number} fits.\n\n## More\n\nBlock {number} waits.\n"
        (folder / f"{number}.md").write_text(text)
    return folder


def start(tmp_path: Path, notes: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), str(notes)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def lines(process: subprocess.Popen[str]) -> Iterator[str]:
    assert process.stdout is not None
    yield from process.stdout


def check(tmp_path: Path, documents: int) -> None:
    from kb.knowledge import open_knowledge

    home = Home(tmp_path / "home")
    knowledge = open_knowledge(home, shipped=tmp_path / "empty")
    stats = knowledge.store.stats()
    assert (stats["documents"], stats["passages"]) == (documents, 2 * documents)
    assert stats["pending"] == 0
    index = knowledge.derived.current()
    assert len(set(index.ids)) == len(index.ids) == 2 * documents
    assert Chroma(home.chroma, f"minilm-{'53aa51172d14'}").count() == 2 * documents


@pytest.mark.parametrize("moment", ["reading documents 3", "embedding passages 8", "writing the"])
def test_an_ingest_that_was_killed_is_completed_by_the_next(
    moment: str, tmp_path: Path, notes: Path
) -> None:
    with start(tmp_path, notes) as process:
        for line in lines(process):
            if line.startswith(moment):
                process.kill()
                break
            assert "finished" not in line
    assert process.returncode == -signal.SIGKILL
    with start(tmp_path, notes) as process:
        assert list(lines(process))[-1] == "finished\n"
    check(tmp_path, 10)


def test_two_processes_that_ingest_at_once_lose_and_double_nothing(
    tmp_path: Path, notes: Path
) -> None:
    more = tmp_path / "more"
    more.mkdir()
    (more / "x.md").write_text("# X\n\nSwizzle.\n\n## Y\n\nPrefetch.\n")
    with (
        start(tmp_path, notes) as one,
        start(tmp_path, more) as two,
        start(tmp_path, notes) as three,
    ):
        for process in (one, two, three):
            assert list(lines(process))[-1] == "finished\n"
    check(tmp_path, 11)
