from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from ingest.collect import Source, gathered, reach
from ingest.isolation.pool import Confined
from ingest.sources.files import FoundFile

TEXT = "# Tiles\n\nA tile is kept in shared memory.\n"


@pytest.fixture
def tree(docs: Path) -> Path:
    for name in ("a.md", "in/b.md", "in/c.py", "in/deep/d.md"):
        (docs / name).parent.mkdir(parents=True, exist_ok=True)
        (docs / name).write_text(TEXT)
    return docs


def zipped(path: Path, **files: str) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for name, data in files.items():
            file.writestr(name, data)
    return path


def gather(desk: Confined, *sources: Source) -> dict[str, FoundFile]:
    with gathered(sources, desk) as found:
        return {one.shown: one for one in found}


def test_files_folders_and_globs_are_sources(desk: Confined, tree: Path) -> None:
    assert set(gather(desk, tree / "a.md")) == {"a.md"}
    assert set(gather(desk, str(tree / "in"))) == {"in/b.md", "in/c.py", "in/deep/d.md"}
    assert set(gather(desk, f"{tree}/**/*.md")) == {"a.md", "b.md", "d.md"}
    assert set(gather(desk, f"{tree}/in/[bc].*")) == {"b.md", "c.py"}
    assert len(gather(desk, tree, f"{tree}/**/*.md", tree / "in")) == 4


def test_a_pattern_that_matches_nothing_is_one_line(desk: Confined, tree: Path) -> None:
    ((name, found),) = gather(desk, f"{tree}/*.rst").items()
    assert (name, found.reason) == (f"{tree}/*.rst", "no file matches: check the pattern")


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(desk: Confined, tree: Path) -> None:
    (tree / "x[1].md").write_text(TEXT)
    assert set(gather(desk, tree / "x[1].md")) == {"x[1].md"}


@pytest.mark.slow
def test_an_archive_is_read_like_a_folder(desk: Confined, tree: Path) -> None:
    zipped(tree / "more.zip", **{"m/x.md": TEXT, "m/k.py": "x = 1\n", "o.json": ""})
    with gathered([tree], desk) as found:
        by_name = {one.shown: one for one in found}
        assert by_name["docs/more.zip/m/x.md"].path.read_text() == TEXT
        kernel = by_name["docs/more.zip/m/k.py"]
        spool = kernel.path
    assert kernel.identity == f"{tree}/more.zip/m/k.py"
    assert by_name["docs/more.zip/o.json"].reason is not None
    assert not spool.exists()  # what was unpacked is gone with the run


def test_a_broken_archive_costs_only_itself(desk: Confined, tree: Path) -> None:
    (tree / "bad.zip").write_bytes(b"PK\x03\x04 no more")
    (tree / "packed.tar.zst").write_bytes(b"\x28\xb5\x2f\xfd")
    found = gather(desk, tree)
    assert "a damaged archive" in str(found["docs/bad.zip"].reason)
    assert "cannot be opened here" in str(found["docs/packed.tar.zst"].reason)
    assert sum(one.reason is None for one in found.values()) == 4


def test_many_refused_files_of_an_archive_are_one_line(desk: Confined, tree: Path) -> None:
    path = tree / "slip.tar"
    with tarfile.open(path, "w") as file:
        for number in range(30):
            about = tarfile.TarInfo(f"../{number}.md")
            about.size = len(TEXT)
            file.addfile(about, io.BytesIO(TEXT.encode()))
    ((name, found),) = gather(desk, path).items()
    assert name == "slip.tar/../0.md"
    assert str(found.reason).startswith("and 29 more of slip.tar: a path that leads out")


def test_every_document_lies_within_the_reach_of_its_source(desk: Confined, tree: Path) -> None:
    archive = zipped(tree / "more.zip", **{"m/x.md": TEXT})
    sources = (tree, tree / "a.md", f"{tree}/**/*.md", f"{tree}/*/*.py", archive)
    for source in sources:
        found = gather(desk, source)
        assert found
        for one in found.values():
            assert reach(source).holds(one.identity), (source, one.identity)


def test_the_reach_of_a_source_ends_with_it(tree: Path) -> None:
    key = f"{tree}/in/b.md"
    assert not reach(tree / "a.md").holds(key)
    assert not reach(f"{tree}/*.md").holds(key)
    assert not reach(f"{tree}2").holds(key)
    assert not reach(str(tree).removesuffix("s")).holds(key)
    assert reach(f"{tree}/in/*.md").holds(key)


def test_names_that_no_file_can_have_are_refused_in_a_line(desk: Confined) -> None:
    for source in (f"[{'x' * 300}].md", "~nobody-of-this-name/x.md", f"{'x' * 300}.md"):
        (found,) = gather(desk, source).values()
        assert found.reason is not None
        assert reach(source).prefix
