from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest

from ingest.sources import gitignore
from ingest.sources.files import find, limit_of, printable, read_bytes
from kb.errors import RecordError

TEXT = "# a\n\nText.\n"


def shown(folder: Path) -> dict[str, str | None]:
    return {one.shown: one.reason for one in find([folder])}


def test_a_loop_of_links_is_one_line_and_the_rest_is_found(docs: Path) -> None:
    (docs / "ok.md").write_text(TEXT)
    (docs / "round.md").symlink_to(docs / "trip.md")
    (docs / "trip.md").symlink_to(docs / "round.md")
    (docs / "self").symlink_to(docs / "self")
    (docs / "up").symlink_to(docs)
    (docs / "in").mkdir()
    (docs / "in" / "again").symlink_to(docs / "in")
    found = shown(docs)
    assert found.pop("docs/ok.md") is None
    assert set(found) == {"docs/round.md", "docs/trip.md", "docs/self"}
    assert {reason for reason in found.values() if reason} == {"a loop of links: remove it"}


def test_a_loop_of_links_that_is_asked_for_is_one_line(docs: Path) -> None:
    (docs / "self.md").symlink_to(docs / "self.md")
    (only,) = find([docs / "self.md"])
    assert only.reason is not None
    assert "loop" in only.reason or "Too many levels" in only.reason


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("plain.md", "plain.md"),
        ("größe 3x4.md", "größe 3x4.md"),
        ("a\x1b[31mred\n.md", r"a\x1b[31mred\n.md"),
        ("gpj.\u202edm", r"gpj.\u202edm"),
        ("a\udcffb", r"a\udcffb"),
    ],
)
def test_a_name_is_shown_without_what_could_fool_a_reader(name: str, expected: str) -> None:
    assert printable(name) == expected


def test_odd_names_are_read_and_names_in_other_encodings_refused(docs: Path) -> None:
    (docs / "a\nb\x07.md").write_text(TEXT)
    Path(os.fsdecode(os.fsencode(docs) + b"/\xff\xfe.md")).write_text(TEXT)
    found = shown(docs)
    assert found.pop(r"docs/a\nb\x07.md") is None
    ((name, reason),) = found.items()
    assert name == r"docs/\udcff\udcfe.md"
    assert reason == "expected a name in UTF-8, found other bytes: rename it"


def test_a_file_of_two_gigabytes_is_refused_without_reading_it(docs: Path) -> None:
    for name in ("huge.md", "huge.pdf"):
        with (docs / name).open("wb") as file:
            file.truncate(2 << 30)
    with pytest.raises(RecordError, match=r"at most 8 MiB, found 2048\.0: split it"):
        read_bytes(docs / "huge.md")
    with pytest.raises(RecordError, match=r"at most 512 MiB, found 2048\.0: split it"):
        read_bytes(docs / "huge.pdf")
    assert limit_of(Path("X.PDF")) == 512 << 20


def test_devices_and_pipes_are_refused_without_waiting(docs: Path) -> None:
    os.mkfifo(docs / "pipe.md")
    for path in (docs / "pipe.md", Path("/dev/zero"), Path("/dev/null")):
        with pytest.raises(RecordError, match="found a device, pipe or socket"):
            read_bytes(path)


def test_a_link_put_in_the_place_of_a_file_is_not_followed(docs: Path) -> None:
    (docs / "a.md").symlink_to("/etc/hostname")
    with pytest.raises(RecordError, match="cannot be read"):
        read_bytes(docs / "a.md")


def test_the_empty_file_of_a_package_is_passed_over(docs: Path) -> None:
    (docs / "__init__.py").write_text("")
    (docs / "empty.py").write_text("")
    (docs / "in").mkdir()
    (docs / "in" / "__init__.py").write_text("x = 1\n")
    assert set(shown(docs)) == {"docs/empty.py", "docs/in/__init__.py"}


@pytest.fixture
def checkout(docs: Path) -> Path:
    git(docs, "init", "-q")
    for name in ("keep.md", "build/out.md", "deep/tmp.md", "deep/kept.md", "tracked.log.md"):
        (docs / name).parent.mkdir(exist_ok=True)
        (docs / name).write_text(TEXT)
    (docs / ".gitignore").write_text("build/\n*.log.md\n")
    (docs / "deep" / ".gitignore").write_text("*.md\n!kept.md\n")
    return docs


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=x", "-c", "user.email=x@example.com")
    subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True)


def test_what_a_checkout_ignores_is_passed_over(checkout: Path) -> None:
    assert shown(checkout) == {"docs/keep.md": None, "docs/deep/kept.md": None}


def test_what_is_tracked_is_read_though_a_pattern_ignores_it(checkout: Path) -> None:
    git(checkout, "add", "-f", "tracked.log.md")
    assert "docs/tracked.log.md" in shown(checkout)


def test_without_git_its_files_are_read(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert shown(checkout) == {"docs/keep.md": None, "docs/deep/kept.md": None}
    assert shown(checkout / "deep") == {"deep/kept.md": None}


@pytest.mark.parametrize("path", ["/nowhere", os.environ["PATH"]])
def test_an_ignored_folder_is_read_where_it_is_asked_for(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setenv("PATH", path)
    assert shown(checkout / "build") == {"build/out.md": None}


def test_a_strangers_checkout_runs_no_program_of_its_own(checkout: Path) -> None:
    trap = checkout / "trap.sh"
    trap.write_text(f"#!/bin/sh\ntouch {checkout}/sprung\n")
    trap.chmod(0o755)
    git(checkout, "config", "core.fsmonitor", str(trap))
    git(checkout, "config", "core.pager", str(trap))
    assert "docs/keep.md" in shown(checkout)
    assert not (checkout / "sprung").exists()


def test_a_git_that_hangs_is_given_up(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = checkout.parent / "bin"
    folder.mkdir()
    (folder / "git").write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(gitignore, "GIT_SECONDS", 0.2)
    assert shown(checkout) == {"docs/keep.md": None, "docs/deep/kept.md": None}


def test_a_folder_that_may_not_be_entered_does_not_stop_the_others(
    docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("closed", "open"):
        (docs / name).mkdir()
        (docs / name / "a.md").write_text(TEXT)
    plain = os.stat

    def closed(path: int | str | os.PathLike[str], **options: bool) -> os.stat_result:
        if str(path).startswith(f"{docs}/closed/"):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return plain(path, **options)

    monkeypatch.setattr(os, "stat", closed)
    assert shown(docs)["docs/open/a.md"] is None
