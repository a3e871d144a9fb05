from __future__ import annotations

import io
import stat
import tarfile
import zipfile
import zlib
from pathlib import Path

import pytest

from ingest.sources import archives
from ingest.sources.archives import Member, unpack
from kb.errors import RecordError

TEXT = "# Tiles\n\nA tile is kept in shared memory.\n"


@pytest.fixture
def room(tmp_path: Path) -> Path:
    folder = tmp_path / "room"
    folder.mkdir()
    return folder


def zipped(path: Path, **files: str | bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in files.items():
            file.writestr(name, data)
    return path


def tarred(path: Path, mode: str, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, mode) as file:  # type: ignore[call-overload]
        for about, data in members:
            about.size = about.size or len(data)
            file.addfile(about, io.BytesIO(data))
    return path


def named(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    about = tarfile.TarInfo(name)
    about.type, about.linkname = kind, link
    return about


def texts(members: list[Member]) -> dict[str, str]:
    return {one.name: Path(one.path).read_text() for one in members if one.path is not None}


def reasons(members: list[Member]) -> dict[str, str]:
    return {one.name: one.reason for one in members if one.reason is not None}


def test_a_zip_gives_its_readable_files(tmp_path: Path, room: Path) -> None:
    files = {"a/x.md": TEXT, "a/y.py": "x = 1\n", "a/.git/z.md": TEXT, "__MACOSX/w.md": TEXT}
    members = unpack(zipped(tmp_path / "docs.zip", **files, **{"p.png": b"\x89PNG"}), room)
    assert texts(members) == {"a/x.md": TEXT, "a/y.py": "x = 1\n"}
    assert reasons(members).keys() == {"p.png"}
    assert all(Path(one.path).is_relative_to(room) for one in members if one.path)


@pytest.mark.parametrize(
    ("suffix", "mode"),
    [
        (".tar", "w"),
        (".tar.gz", "w:gz"),
        (".tgz", "w:gz"),
        (".tar.xz", "w:xz"),
        (".tar.bz2", "w:bz2"),
    ],
)
def test_a_tar_gives_its_files_however_it_is_packed(
    tmp_path: Path, room: Path, suffix: str, mode: str
) -> None:
    path = tarred(tmp_path / f"docs{suffix}", mode, (named("d/x.md"), TEXT.encode()))
    assert texts(unpack(path, room)) == {"d/x.md": TEXT}


@pytest.mark.parametrize(
    "name", ["../out.md", "a/../../out.md", "/etc/out.md", "C:/out.md", "..\\out.md"]
)
def test_a_path_that_leads_out_of_the_archive_is_refused_and_the_rest_read(
    tmp_path: Path, room: Path, name: str
) -> None:
    path = zipped(tmp_path / "slip.zip", **{name: TEXT, "ok.md": TEXT})
    members = unpack(path, room)
    assert texts(members) == {"ok.md": TEXT}
    assert "leads out of the archive" in reasons(members)[name]
    assert {one.name for one in tmp_path.iterdir()} == {"room", "slip.zip"}


def test_links_and_devices_in_a_tar_are_refused(tmp_path: Path, room: Path) -> None:
    path = tarred(
        tmp_path / "links.tar",
        "w",
        (named("soft.md", tarfile.SYMTYPE, "/etc/passwd"), b""),
        (named("hard.md", tarfile.LNKTYPE, "../../x.md"), b""),
        (named("pipe.md", tarfile.FIFOTYPE), b""),
        (named("disk.md", tarfile.BLKTYPE), b""),
        (named("ok.md"), TEXT.encode()),
    )
    members = unpack(path, room)
    assert texts(members) == {"ok.md": TEXT}
    found = reasons(members)
    assert found.keys() == {"soft.md", "hard.md", "pipe.md", "disk.md"}
    assert all("found a link or a device" in reason for reason in found.values())


def test_a_link_in_a_zip_is_refused(tmp_path: Path, room: Path) -> None:
    path = tmp_path / "links.zip"
    about = zipfile.ZipInfo("soft.md")
    about.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(about, "/etc/passwd")
    assert "a link or a device" in reasons(unpack(path, room))["soft.md"]


def bomb(size: int) -> bytes:
    return b" " * size


@pytest.mark.slow
def test_a_zip_bomb_is_refused_before_it_fills_the_disk(tmp_path: Path, room: Path) -> None:
    files = {f"{number}.md": bomb(7 << 20) for number in range(20)}
    path = zipped(tmp_path / "bomb.zip", **files)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(RecordError, match=r"at most 200 times its size, found more \(a bomb\?\)"):
        unpack(path, room)
    assert sum(file.stat().st_size for file in room.rglob("*.md")) <= 32 << 20


def test_a_tar_bomb_of_files_that_nothing_reads_is_refused_too(tmp_path: Path, room: Path) -> None:
    path = tarred(tmp_path / "bomb.tar.gz", "w:gz", (named("zeros.bin"), bomb(40 << 20)))
    with pytest.raises(RecordError, match="times its size"):
        unpack(path, room)


def test_archives_in_archives_share_one_allowance(tmp_path: Path, room: Path) -> None:
    inner = zipped(tmp_path / "inner.zip", **{"x.md": bomb(7 << 20)}).read_bytes()
    outer = zipped(tmp_path / "outer.zip", **{f"{number}.zip": inner for number in range(9)})
    with pytest.raises(RecordError, match="times its size"):
        unpack(outer, room)
    assert sum(file.stat().st_size for file in room.rglob("*.md")) <= 32 << 20


def test_an_archive_in_an_archive_is_opened_and_one_too_deep_is_not(
    tmp_path: Path, room: Path
) -> None:
    data = zipped(tmp_path / "0.zip", **{"x.md": TEXT}).read_bytes()
    for depth in range(1, 4):
        data = zipped(
            tmp_path / f"{depth}.zip", **{f"y{depth}.md": TEXT, "in.zip": data}
        ).read_bytes()
    members = unpack(tmp_path / "3.zip", room)
    assert texts(members).keys() == {"y3.md", "in.zip/y2.md", "in.zip/in.zip/y1.md"}
    assert "more than 2 deep" in reasons(members)["in.zip/in.zip/in.zip"]


def test_an_encrypted_file_of_a_zip_is_refused(tmp_path: Path, room: Path) -> None:
    path = zipped(tmp_path / "secret.zip", **{"x.md": TEXT, "y.md": TEXT})
    data = bytearray(path.read_bytes())
    # zipfile writes no encrypted files: bit 0 of the flags in both headers of the first says so.
    data[data.index(b"PK\x03\x04") + 6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)
    members = unpack(path, room)
    assert "an encrypted one" in reasons(members)["x.md"]
    assert texts(members) == {"y.md": TEXT}


def test_a_damaged_file_of_a_zip_costs_only_itself(tmp_path: Path, room: Path) -> None:
    path = zipped(tmp_path / "bad.zip", **{"x.md": TEXT * 50, "y.md": TEXT})
    data = bytearray(path.read_bytes())
    data[60] ^= 0xFF
    path.write_bytes(data)
    members = unpack(path, room)
    assert "cannot be unpacked" in reasons(members)["x.md"]
    assert texts(members) == {"y.md": TEXT}


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tar.gz", "a.tar.xz"])
def test_what_is_no_archive_is_refused_in_one_line(tmp_path: Path, room: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"\x1f\x8b" * 2 + zlib.compress(b"nothing") * 50)
    with pytest.raises(RecordError, match="a damaged archive") as caught:
        unpack(path, room)
    assert "\n" not in str(caught.value)


def test_a_truncated_tar_is_refused(tmp_path: Path, room: Path) -> None:
    path = tarred(tmp_path / "cut.tar.gz", "w:gz", (named("x.md"), TEXT.encode() * 200))
    path.write_bytes(path.read_bytes()[:80])
    with pytest.raises(RecordError, match="a damaged archive"):
        unpack(path, room)


def test_a_large_file_of_an_archive_is_refused_alone(tmp_path: Path, room: Path) -> None:
    path = zipped(tmp_path / "large.zip", **{"x.md": bomb(9 << 20), "y.md": TEXT})
    members = unpack(path, room)
    assert "at most 8 MiB" in reasons(members)["x.md"]
    assert texts(members) == {"y.md": TEXT}


def test_too_many_files_are_refused(
    tmp_path: Path, room: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "MAX_MEMBERS", 5)
    path = zipped(tmp_path / "many.zip", **{f"{number}.md": TEXT for number in range(6)})
    with pytest.raises(RecordError, match="at most 5 files"):
        unpack(path, room)


@pytest.mark.filterwarnings("ignore:Duplicate name")  # zipfile warns of what is tested here
def test_two_files_of_one_name_are_told_apart(tmp_path: Path, room: Path) -> None:
    path = tmp_path / "twice.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("x.md", TEXT)
        file.writestr("x.md", "other")
    members = unpack(path, room)
    assert texts(members) == {"x.md": TEXT}
    assert "second file of this name" in reasons(members)["x.md"]


def test_names_cannot_move_a_terminals_cursor(tmp_path: Path, room: Path) -> None:
    path = tarred(tmp_path / "odd.tar", "w", (named("a\x1b[2Jb\n.md"), TEXT.encode()))
    assert texts(unpack(path, room)) == {r"a\x1b[2Jb\n.md": TEXT}


def test_a_name_that_is_too_long_is_refused(tmp_path: Path, room: Path) -> None:
    path = zipped(tmp_path / "long.zip", **{f"{'x' * 300}.md": TEXT})
    ((_, reason),) = reasons(unpack(path, room)).items()
    assert "at most 255 bytes" in reason
