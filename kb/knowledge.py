"""The knowledge base as a whole: the shipped documents and the lessons kept in step, ready to ask."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from ingest import VERSION
from kb.config import Home, shipped_docs
from kb.embedders import DEFAULT_EMBEDDER, Embedder, create_embedder
from kb.errors import StoreError
from kb.indexes.sync import IndexSync, Ready
from kb.progress import Progress, say, silent
from kb.retrieval.effect_store import Effects
from kb.retrieval.retriever import Retriever
from kb.store.documents import Store

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from ingest.pipeline import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """What is known, and how to ask."""

    store: Store
    retriever: Retriever
    derived: IndexSync
    effects: Effects

    def ingest(self, paths: Sequence[Path], progress: Progress = silent) -> Report:
        """Read `paths` into the store and index what is new."""
        from ingest.pipeline import ingest

        report = ingest(paths, self.store, progress=progress)
        self.derived.refresh(progress)
        return report


def open_knowledge(
    home: Home,
    progress: Progress = silent,
    *,
    shipped: Path | None = None,
    dense: str = "auto",
    as_of: float | None = None,
) -> Knowledge:
    """Open the knowledge base of `home`, with the shipped documents and the lessons in it.

    The first call reads, embeds and indexes them; later ones only compare a digest of names,
    sizes and times. ``KB_EMBEDDER`` names another embedder than the default.

    Args:
        shipped: folder of the shipped documents, where it is not the installed one.
        dense: ``local``, ``chroma`` or ``auto``, see `kb.indexes.sync.IndexSync`.
        as_of: seconds since the epoch: gains that were measured later are not looked at, so that a
            resumed run ranks as it did when it began. None: now.

    Raises:
        StoreError: the knowledge base cannot be read or written, or a shipped document is broken.
        ConfigError: an environment variable cannot be used.
    """
    engine = open_tables(home)
    store = Store(engine)
    embedder = default_embedder(home)
    derived = IndexSync(store, embedder, home, dense, spec=embedder_spec())
    changed = _sync(home, store, "kb", shipped or shipped_docs(), progress)
    _take_lessons(home, store, progress)
    _sync_scopes(home, store, progress)
    if changed and shipped is None:
        from kb.indexes.seed import plant

        plant(store, embedder.name)
    derived.current(progress)
    moment = time.time() if as_of is None else as_of
    effects = Effects(engine, moment, lambda: _lifts(store, moment))
    retriever = Retriever(
        store,
        derived.embedder,
        derived,
        effects,
        progress=progress,
    )
    return Knowledge(store=store, retriever=retriever, derived=derived, effects=effects)


def open_retriever(home: Home, store: Store) -> Retriever:
    """Return what answers questions over the knowledge base as it is: it reads and builds nothing.

    Raises:
        StoreError: there is no whole index yet.
    """
    derived = Ready(store, default_embedder(home), home, "local", embedder_spec())
    derived.current()
    moment = time.time()
    effects = Effects(store.engine, moment, lambda: _lifts(store, moment))
    return Retriever(store, derived.embedder, derived, effects)


def default_embedder(home: Home) -> Embedder:
    """Return the embedder that ``KB_EMBEDDER`` names, or the one that comes with `kb`."""
    return create_embedder(embedder_spec(), home.cache)


def embedder_spec() -> str:
    """Return the name of the embedder to be used, with its model where it has one."""
    return os.environ.get("KB_EMBEDDER") or DEFAULT_EMBEDDER


def open_store(home: Home) -> Store:
    """Open the store of `home` as it is, reading no documents."""
    return Store(open_tables(home))


def open_tables(home: Home) -> Engine:
    """Open the database of `home` with all tables of the knowledge base in it."""
    from kb.database import create_tables, open_engine

    engine = open_engine(home.make())
    create_tables(engine)
    return engine


def sync_lessons(home: Home, progress: Progress = silent) -> None:
    """Read the lessons that runs wrote; they are indexed when the knowledge base is next asked."""
    _take_lessons(home, open_store(home), progress)


def _take_lessons(home: Home, store: Store, progress: Progress) -> None:
    """Read the lessons, those of other homes among them where several use one database."""
    if os.environ.get("KB_DATABASE"):
        from search.lessons.shared import SharedLessons

        for name in SharedLessons(store.engine, home.make().root).share():
            say(f"lesson {name} was changed in another home too: yours is in {home.root}/replaced")
    _sync(home, store, "lessons", home.lessons, progress)


def _lifts(store: Store, moment: float) -> dict[str, float]:
    """Return, by document, the log factor that a lesson's confirmations give its rank."""
    documents = store.documents("lesson")
    if not documents:  # the schema of records costs more to import than a search
        return {}
    from kb.records.schema import LessonRecord
    from kb.retrieval.effect_estimate import MAX_LIFT
    from kb.retrieval.lesson_confidence import standing

    today = datetime.fromtimestamp(moment, UTC).date()
    found = {}
    for document in documents:
        if isinstance(document.record, LessonRecord):
            retired = document.record.retired is not None
            found[document.path] = -MAX_LIFT if retired else standing(document.record, today).lift
    return found


def _sync_scopes(home: Home, store: Store, progress: Progress) -> None:
    """Apply the user's corrections of scopes where they changed."""
    path = home.root / "scopes.yaml"
    digest = blake2b(path.read_bytes(), digest_size=16).hexdigest() if path.is_file() else ""
    if digest != (store.state("scopes") or ""):
        from ingest.scope.overrides import load_rules, sync_rules

        moved = sync_rules(store, load_rules(home))
        progress(f"scopes.yaml changed: {moved} passages apply elsewhere now")


def _sync(home: Home, store: Store, label: str, folder: Path, progress: Progress) -> bool:
    """Read what changed in `folder`; return whether anything may have."""
    digest = _digest(folder)
    if store.state(f"synced:{label}") == digest:
        return False
    from ingest.pipeline import IngestOptions, ingest
    from ingest.scope.overrides import load_rules

    terms = IngestOptions(rules=load_rules(home))
    report = ingest([folder], store, label=label, terms=terms, progress=progress)
    if report.refused:
        name, reason = report.refused[0]
        progress(f"refused {name}: {reason}")
    if report.refused and label == "kb":
        raise StoreError(f"{name}: a shipped document is broken: {reason}")
    store.set_state(f"synced:{label}", digest)
    return True


def _digest(folder: Path) -> str:
    """Return a hash of the names, sizes and times of the files in `folder`, without reading them."""
    digest = blake2b(VERSION.encode(), digest_size=16)
    for place, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(files):
            path = Path(place, name)
            if path.suffix == ".tmp":  # a lesson while it is written
                continue
            try:
                about = path.stat()
            except OSError:  # gone since it was listed, or a link to nothing
                continue
            digest.update(
                f"{path.relative_to(folder)}\0{about.st_size}\0{about.st_mtime_ns}\n".encode()
            )
    return digest.hexdigest()
