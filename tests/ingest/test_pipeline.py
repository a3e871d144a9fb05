from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest
from sqlalchemy import update

from ingest import entry
from ingest.pipeline import IngestOptions, Report, ingest
from ingest.sources import file_stat
from kb.database import writing
from kb.store.documents import DocumentRow, NewDocument, Store

IDEA = """---
kind: idea
title: Pad the tile
category: memory access
symptoms: [bank-conflicts]
---
## How

Add a column.
"""


def test_what_is_added_changed_removed_and_skipped_is_told_apart(
    docs: Path, store: Store, terms: IngestOptions
) -> None:
    for name in ("a", "b", "c"):
        (docs / f"{name}.md").write_text(f"# {name}\n\nText of {name}.\n")
    assert ingest([docs], store, terms=terms).added == ["docs/a.md", "docs/b.md", "docs/c.md"]
    (docs / "a.md").write_text("# a\n\nOther text.\n")
    (docs / "b.md").unlink()
    (docs / "d.md").write_text("# d\n\nNew.\n")
    report = ingest([docs], store, terms=terms)
    assert report.added == ["docs/d.md"]
    assert report.changed == ["docs/a.md"]
    assert report.removed == ["docs/b.md"]
    assert report.skipped == ["docs/c.md"]
    assert report.refused == []
    assert report.line() == "1 added, 1 changed, 1 removed, 1 skipped, 0 refused"
    assert store.stats()["documents"] == 3


def test_touching_a_file_is_no_change(docs: Path, store: Store, terms: IngestOptions) -> None:
    (docs / "a.md").write_text("# a\n\nText.\n")
    ingest([docs], store, terms=terms)
    before = store.generation()
    os.utime(docs / "a.md", (1, 1))
    assert ingest([docs], store, terms=terms).skipped == ["docs/a.md"]
    assert store.generation() == before


def test_only_what_lies_below_the_folder_asked_for_is_removed(
    docs: Path, store: Store, terms: IngestOptions
) -> None:
    (docs / "in").mkdir()
    (docs / "in" / "a.md").write_text("# a\n\nText.\n")
    (docs / "b.md").write_text("# b\n\nText.\n")
    (docs.parent / "docs2").mkdir()
    (docs.parent / "docs2" / "c.md").write_text("# c\n\nText.\n")
    ingest([docs, docs.parent / "docs2"], store, terms=terms)
    (docs / "b.md").unlink()
    (docs / "in" / "a.md").unlink()
    (docs.parent / "docs2" / "c.md").unlink()
    assert ingest([docs / "in"], store, terms=terms).removed == ["docs/in/a.md"]
    assert ingest([docs], store, terms=terms).removed == ["docs/b.md"]
    assert store.stats()["documents"] == 1


def test_one_file_does_not_remove_its_neighbours(
    docs: Path, store: Store, terms: IngestOptions
) -> None:
    for name in ("a", "b"):
        (docs / f"{name}.md").write_text(f"# {name}\n\nText.\n")
    ingest([docs], store, terms=terms)
    report = ingest([docs / "a.md"], store, terms=terms)
    assert (report.skipped, report.removed) == (["a.md"], [])


def test_a_file_that_is_gone_is_removed_by_its_own_path(
    docs: Path, store: Store, terms: IngestOptions
) -> None:
    (docs / "a.md").write_text("# a\n\nText.\n")
    ingest([docs / "a.md"], store, terms=terms)
    (docs / "a.md").unlink()
    assert ingest([docs / "a.md"], store, terms=terms).removed == ["a.md"]
    assert ingest([docs / "a.md"], store, terms=terms).refused == [
        (str(docs / "a.md"), "No such file or directory: check the path")
    ]


def test_refused_files_do_not_stop_the_others(
    docs: Path, store: Store, terms: IngestOptions
) -> None:
    (docs / "ok.md").write_text("# ok\n\nText.\n")
    (docs / "binary.md").write_bytes(b"\x00\x01\x02")
    (docs / "latin.md").write_bytes("Übergröße".encode("latin-1"))
    (docs / "empty.md").write_text("\n")
    (docs / "broken.md").write_text("---\nkind: idea\ntitle: [\n---\nText.\n")
    (docs / "wrong.md").write_text(IDEA.replace("memory access", "magic"))
    (docs / "odd.md").write_text(IDEA.replace("kind: idea", "kind: recipe"))
    (docs / "drawing.cad").write_bytes(b"AC1032")
    with (docs / "large.md").open("wb") as file:
        file.truncate(9 * 1024 * 1024)
    os.mkfifo(docs / "pipe.md")
    (docs.parent / "outside.md").write_text("# out\n\nText.\n")
    (docs / "link.md").symlink_to(docs.parent / "outside.md")
    (docs / "inner.md").symlink_to(docs / "ok.md")
    (docs / "dangling.md").symlink_to(docs / "nothing.md")
    report = ingest([docs], store, terms=terms)
    assert report.added == ["docs/ok.md"]
    reasons = dict(report.refused)
    expected = {
        "docs/binary.md": "binary",
        "docs/latin.md": "expected UTF-8 text, found byte 0xdc at 0",
        "docs/empty.md": "empty file",
        "docs/broken.md": "while parsing",
        "docs/wrong.md": "category",
        "docs/odd.md": "'recipe'",
        "docs/drawing.cad": "no reader for .cad: known are .md",
        "docs/large.md": "at most 8 MiB, found 9.0",
        "docs/pipe.md": "found a device, pipe or socket",
        "docs/link.md": "leads out of the folder",
    }
    assert reasons.keys() == expected.keys()
    for name, part in expected.items():
        assert part in reasons[name], reasons[name]
        assert "\n" not in reasons[name]
        assert str(docs) not in reasons[name]
        assert not reasons[name].startswith(name)
    assert report.as_dict()["refused"][0].keys() == {"document", "reason"}


def test_members_of_an_archive_that_are_refused_in_one_line_keep_their_last_good_text(
    docs: Path, store: Store, terms: IngestOptions
) -> None:
    with zipfile.ZipFile(docs / "a.zip", "w") as file:
        for number in range(9):
            file.writestr(f"{number}.md", "# a\n\nText.\n")
    assert len(ingest([docs], store, terms=terms).added) == 9
    # Bit 0 of the flags in both headers says that a file is encrypted.
    data = (docs / "a.zip").read_bytes()
    data = data.replace(b"PK\x03\x04\x14\0\0", b"PK\x03\x04\x14\0\1")
    data = data.replace(b"PK\x01\x02\x14\x03\x14\0\0", b"PK\x01\x02\x14\x03\x14\0\1")
    (docs / "a.zip").write_bytes(data)
    report = ingest([docs], store, terms=terms)
    ((_, reason),) = report.refused
    assert "and 8 more of docs/a.zip: " in reason
    assert report.removed == []


def test_many_files_that_nothing_reads_are_one_line(
    docs: Path, store: Store, terms: IngestOptions
) -> None:
    for number in range(9):
        (docs / f"{number}.png").write_bytes(b"\x89PNG")
    ((name, reason),) = ingest([docs], store, terms=terms).refused
    assert name == "docs/**/*.png"
    assert reason.startswith("9 files, no reader for .png: known are .md")


def test_a_known_document_that_breaks_keeps_its_last_good_text(
    docs: Path, store: Store, terms: IngestOptions
) -> None:
    (docs / "a.md").write_text(IDEA)
    ingest([docs], store, terms=terms)
    (docs / "a.md").write_text(IDEA.replace("memory access", "magic"))
    report = ingest([docs], store, terms=terms)
    assert (len(report.refused), report.removed) == (1, [])
    assert store.document("idea", "a") is not None


def test_a_folder_that_is_not_there_removes_nothing(
    docs: Path, store: Store, terms: IngestOptions
) -> None:
    (docs / "a.md").write_text("# a\n\nText.\n")
    ingest([docs], store, terms=terms)
    docs.rename(docs.parent / "elsewhere")
    report = ingest([docs], store, terms=terms)
    assert report.removed == []
    assert len(report.refused) == 1


def test_hidden_folders_caches_and_homes_are_passed_over(
    docs: Path, store: Store, terms: IngestOptions
) -> None:
    for folder, mark in ((".git", "x"), ("__pycache__", "x"), ("venv", "pyvenv.cfg")):
        (docs / folder).mkdir()
        (docs / folder / mark).write_text("")
        (docs / folder / "a.md").write_text("# a\n\nText.\n")
    (docs / ".hidden.md").write_text("# a\n\nText.\n")
    report = ingest([docs.parent], store, terms=terms)  # holds the home of the store as well
    assert report == Report()


def test_a_labelled_folder_may_move(
    docs: Path, store: Store, terms: IngestOptions, tmp_path: Path
) -> None:
    (docs / "ideas").mkdir()
    (docs / "ideas" / "pad.md").write_text(IDEA)
    (docs / "index.md").write_text("# No record\n")
    (docs / "prelude.hpp").write_text("#pragma once\n")
    assert ingest([docs], store, terms=terms, label="kb").added == ["kb:ideas/pad.md"]
    moved = docs.rename(tmp_path / "moved")
    assert ingest([moved], store, terms=terms, label="kb").skipped == ["kb:ideas/pad.md"]
    (moved / "ideas" / "pad.md").unlink()
    assert ingest([moved], store, terms=terms, label="kb").removed == ["kb:ideas/pad.md"]


def test_a_record_keeps_its_fields(docs: Path, store: Store, terms: IngestOptions) -> None:
    (docs / "pad.md").write_text(IDEA)
    ingest([docs], store, terms=terms)
    found = store.document("idea", "pad")
    assert found is not None
    assert found.record.title == "Pad the tile"
    assert found.path == "docs/pad.md"
    assert found.body == "## How\n\nAdd a column.\n"


def test_new_readers_read_everything_again(
    docs: Path, store: Store, terms: IngestOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    (docs / "a.md").write_text("# a\n\nText.\n")
    ingest([docs], store, terms=terms)
    for module in (entry, file_stat):
        monkeypatch.setattr(module, "VERSION", "next")
    assert ingest([docs], store, terms=terms).changed == ["docs/a.md"]


@pytest.mark.slow
def test_an_interrupted_ingest_keeps_what_it_read(
    docs: Path, store: Store, terms: IngestOptions
) -> None:
    for number in range(4):
        (docs / f"{number}.md").write_text(f"# {number}\n\nText.\n")

    def interrupt(what: str, done: float | None = None, total: float | None = None, /) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ingest([docs], store, terms=terms, progress=interrupt)
    report = ingest([docs], store, terms=terms)
    # The one that was being read at that moment may be kept too.
    assert report.skipped[:2] == ["docs/0.md", "docs/1.md"]
    assert report.skipped + report.added == [f"docs/{number}.md" for number in range(4)]
    assert report.added


def test_the_same_file_named_twice_is_read_once(
    docs: Path, store: Store, terms: IngestOptions
) -> None:
    (docs / "a.md").write_text("# a\n\nText.\n")
    report = ingest([docs, docs / "a.md"], store, terms=terms)
    assert (report.added, report.skipped) == (["docs/a.md"], [])


def two_of_one_name(docs: Path) -> list[Path]:
    files = [docs / folder / "README.md" for folder in ("a", "b")]
    for file in files:
        file.parent.mkdir()
        file.write_text(f"# {file.parent.name}\n\nText.\n")
    return files


def test_two_files_of_one_name_are_two_documents(
    docs: Path, store: Store, terms: IngestOptions
) -> None:
    files = two_of_one_name(docs)
    assert ingest(files, store, terms=terms).added == ["README.md", "b/README.md"]
    assert {name: len(page) for name, page in store.pages(["README.md"]).items()} == {
        "README.md": 1
    }
    for file in files:
        file.write_text(f"# {file.parent.name}\n\nMore text.\n")
    assert ingest(files, store, terms=terms).changed == ["README.md", "b/README.md"]


def test_two_files_of_one_name_that_are_read_at_once_are_two_documents(
    docs: Path, store: Store, terms: IngestOptions
) -> None:
    here, there = two_of_one_name(docs)

    def meanwhile(what: str, done: int = 0, of: int = 0) -> None:
        if (what, done, of) == ("reading documents", 0, 1):
            assert ingest([there], store, terms=terms).added == ["README.md"]

    assert ingest([here], store, terms=terms, progress=meanwhile).added == ["a/README.md"]
    assert set(store.pages(["README.md", "a/README.md"])) == {"README.md", "a/README.md"}
    for file in (here, there):
        file.write_text(f"# {file.parent.name}\n\nMore text.\n")
    assert ingest([here, there], store, terms=terms).changed == ["a/README.md", "README.md"]


def test_of_two_documents_that_an_older_version_called_the_same_the_later_is_renamed(
    docs: Path, store: Store, terms: IngestOptions
) -> None:
    files = two_of_one_name(docs)
    ingest(files, store, terms=terms)
    with writing(store.engine) as session:
        session.execute(update(DocumentRow).values(shown="README.md"))
    for file in files:
        file.write_text(f"# {file.parent.name}\n\nMore text.\n")
    assert ingest(files, store, terms=terms).changed == ["README.md", "b/README.md"]


def test_a_disk_that_is_away_removes_nothing(
    docs: Path, store: Store, terms: IngestOptions
) -> None:
    (docs / "a.md").write_text("# a\n\nText.\n")
    pattern = str(docs / "*.md")
    assert ingest([pattern], store, terms=terms).added == ["a.md"]
    docs.rename(docs.parent / "elsewhere")
    report = ingest([pattern], store, terms=terms)
    assert report.removed == []
    assert [name for name, _ in report.refused] == report.unread == [pattern]
    assert store.stats()["documents"] == 1


def test_an_address_is_to_be_downloaded_first_and_what_came_from_one_stays(
    docs: Path, store: Store, terms: IngestOptions
) -> None:
    url = "https://docs.example/notes.md"
    (docs / "a.md").write_text("# a\n\nText.\n")
    known = NewDocument(
        key=url, shown=url, digest="1", kind="document", name="notes", title="Notes", body=""
    )
    store.put(known)
    report = ingest([url, docs], store, terms=terms)
    ((name, reason),) = report.refused
    assert (name, report.unread, report.added) == (url, [url], ["docs/a.md"])
    assert "curl -LO" in reason
    assert store.stats()["documents"] == 2


def test_what_a_glob_matched_and_is_gone_is_removed(
    docs: Path, store: Store, terms: IngestOptions
) -> None:
    for name in ("a", "b"):
        (docs / f"{name}.md").write_text(f"# {name}\n\nText.\n")
    pattern = str(docs / "*.md")
    ingest([pattern], store, terms=terms)
    (docs / "b.md").unlink()
    assert ingest([pattern], store, terms=terms).removed == ["b.md"]


def test_what_has_not_changed_is_not_opened(
    docs: Path, store: Store, terms: IngestOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    (docs / "a.md").write_text("# a\n\nText.\n")
    monkeypatch.setattr(file_stat, "SETTLED", 0)
    ingest([docs], store, terms=terms)

    def opened(path: Path) -> bytes:
        raise AssertionError(f"{path} was opened")

    monkeypatch.setattr(entry, "read_bytes", opened)
    assert ingest([docs], store, terms=terms).skipped == ["docs/a.md"]


def test_a_file_too_young_for_its_times_is_read_again(
    docs: Path, store: Store, terms: IngestOptions
) -> None:
    path = docs / "a.md"
    path.write_text("# a\n\nText.\n")
    ingest([docs], store, terms=terms)
    about = path.stat()
    path.write_text("# a\n\nTexT.\n")  # as long as before
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert ingest([docs], store, terms=terms).changed == ["docs/a.md"]
