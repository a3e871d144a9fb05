from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

import pytest

from kb.errors import StoreError
from search.judging.spool.folder import (
    Folder,
    Leases,
    Unreadable,
    birthplace,
    entries,
    owner_name,
    read_plain,
    seal,
    unseal,
)

JOB = "judge-" + "0123456789abcdef" * 2
OTHER = "judge-" + "fedcba9876543210" * 2
BODY = {"source": "x = 1\n", "nested": {"list": [1, 2.5, None, "ü"]}}


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path / "spool").make()


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def test_a_sealed_file_says_what_it_was_given():
    assert unseal(seal("job", BODY).encode(), "job") == BODY


def test_a_file_that_is_cut_anywhere_is_not_whole():
    data = seal("job", BODY).encode()
    for size in range(len(data)):
        with pytest.raises(Unreadable, match="not whole"):
            unseal(data[:size], "job")


def test_a_file_with_one_changed_character_is_not_taken():
    text = seal("job", BODY)
    changed = text.replace("x = 1", "x = 2")
    assert changed != text
    with pytest.raises(Unreadable, match="hash"):
        unseal(changed.encode(), "job")


def test_a_file_of_another_kind_is_not_taken():
    with pytest.raises(Unreadable, match="a job of format 1, expected a outcome"):
        unseal(seal("job", BODY).encode(), "outcome")


def test_a_job_is_put_there_once(folder):
    folder.submit(JOB, BODY)
    folder.submit(JOB, BODY)
    assert [entry.job for entry in entries(folder.jobs)] == [JOB]
    claim = folder.claim(entries(folder.jobs)[0], "me-1-a")
    folder.submit(JOB, BODY)
    assert entries(folder.jobs) == []
    folder.answer(claim, {"job": JOB})
    folder.submit(JOB, BODY)
    assert entries(folder.jobs) == entries(folder.claimed) == []
    assert unseal(folder.outcome(JOB).read_bytes(), "outcome") == {"job": JOB}


def test_of_many_that_claim_a_job_one_has_it(folder):
    folder.submit(JOB, BODY)
    (entry,) = entries(folder.jobs)
    barrier = threading.Barrier(8)
    claims = []

    def claim(number):
        barrier.wait()
        claims.append(folder.claim(entry, f"host-{number}-a"))

    threads = [threading.Thread(target=claim, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (mine,) = [claim for claim in claims if claim is not None]
    assert [entry.owner for entry in entries(folder.claimed)] == [mine.owner]


def test_what_is_given_back_counts_the_judges_that_died_on_it(folder):
    folder.submit(JOB, BODY)
    tries = []
    for died in (False, True, True):
        (entry,) = entries(folder.jobs)
        tries.append(entry.tries)
        claim = folder.claim(entry, "host.example.org-12-ff")
        assert claim.owner == "host.example.org-12-ff"
        assert folder.give_back(claim, died=died)
        assert not folder.give_back(claim, died=died)
    assert tries == [0, 0, 1]
    assert entries(folder.jobs)[0].tries == 2


def test_an_answer_ends_every_copy_of_its_job(folder):
    """A folder that is copied back and forth brings a job again while it is judged."""
    folder.submit(JOB, BODY)
    claim = folder.claim(entries(folder.jobs)[0], "me-1-a")
    (folder.jobs / f"{JOB}.json").write_text(seal("job", BODY))
    folder.answer(claim, {"job": JOB})
    assert entries(folder.jobs) == entries(folder.claimed) == []


def test_files_that_are_still_being_copied_are_not_seen(folder):
    (folder.jobs / f".{JOB}.json.Xy12Zw").write_text("half")
    (folder.jobs / f".{JOB}.json").write_text("half")
    (folder.jobs / "notes.txt").write_text("")
    (folder.jobs / "other.json").write_text("{}")
    assert entries(folder.jobs) == []


@pytest.mark.parametrize("hours", [-48, 48])
def test_a_clock_that_is_wrong_neither_frees_nor_keeps_a_claim(folder, hours):
    """The owner's clock may be days off: what counts is whether its beat goes on."""
    clock = Clock()
    folder.submit(JOB, BODY)
    claim = folder.claim(entries(folder.jobs)[0], "far-7-a")
    leases = Leases(folder, 60, clock)
    for beat in range(20):
        folder.beat("far-7-a", {"beat": beat, "pid": 7, "birthplace": "elsewhere"})
        for path in (claim.path, folder.judges / "far-7-a.json"):
            stamp = path.stat().st_mtime + hours * 3600
            os.utime(path, (stamp, stamp))
        assert leases.stale("me-1-a") == []
        clock.now += 30
    clock.now += 31
    (gone,) = leases.stale("me-1-a")
    assert gone.job == JOB


def test_a_claim_whose_owner_never_beat_is_free_after_the_lease(folder):
    clock = Clock()
    folder.submit(JOB, BODY)
    folder.claim(entries(folder.jobs)[0], "far-7-a")
    leases = Leases(folder, 60, clock)
    assert leases.stale("me-1-a") == []
    clock.now += 59
    assert leases.stale("me-1-a") == []
    clock.now += 2
    assert [claim.owner for claim in leases.stale("me-1-a")] == ["far-7-a"]
    assert leases.stale("far-7-a") == []


def test_a_process_of_this_machine_that_has_ended_loses_its_claim_at_once(folder):
    ended = subprocess.Popen(["true"])
    ended.wait()
    folder.submit(JOB, BODY)
    folder.claim(entries(folder.jobs)[0], "near-7-a")
    folder.beat("near-7-a", {"beat": 1, "pid": ended.pid, "birthplace": birthplace()})
    assert [claim.job for claim in Leases(folder, 1e9, Clock()).stale("me-1-a")] == [JOB]
    folder.beat("near-7-a", {"beat": 2, "pid": os.getpid(), "birthplace": birthplace()})
    assert Leases(folder, 1e9, Clock()).stale("me-1-a") == []


def test_the_oldest_job_comes_first(folder):
    for number, job in enumerate((OTHER, JOB)):
        folder.submit(job, BODY)
        os.utime(folder.jobs / f"{job}.json", (1000 + number, 1000 + number))
    assert [entry.job for entry in entries(folder.jobs)] == [OTHER, JOB]


def test_a_disk_that_is_full_is_said_in_one_line(folder, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="No space left on device"):
        folder.submit(JOB, BODY)
    assert list(folder.jobs.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_said_in_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="spool folder"):
        Folder(tmp_path / "file").make()


@pytest.fixture
def users(tmp_path):
    """A file of the user, which links in the spool folder point to."""
    file = tmp_path / "users"
    file.write_text("mine")
    return file


def test_a_link_in_a_drafts_place_is_not_written_through(folder, users, monkeypatch):
    monkeypatch.setattr("secrets.token_hex", lambda _: "guessed")
    (folder.jobs / ".guessed.tmp").symlink_to(users)
    with pytest.raises(StoreError, match="File exists"):
        folder.submit(JOB, BODY)
    assert users.read_text() == "mine"


def test_drafts_have_names_that_nobody_can_guess(folder, monkeypatch):
    seen = []
    real = os.open

    def noted(path, *rest, **more):
        seen.append(os.path.basename(path))
        return real(path, *rest, **more)

    monkeypatch.setattr(os, "open", noted)
    for _ in range(2):
        folder.beat("me-7-a", {"beat": 1})
    drafts = [name for name in seen if name.endswith(".tmp")]
    assert len(set(drafts)) == 2
    assert not any("me-7-a" in name or str(os.getpid()) in name for name in drafts)


def test_a_link_under_a_files_own_name_is_replaced_not_followed(folder, users):
    (folder.judges / "me-7-a.json").symlink_to(users)
    folder.beat("me-7-a", {"beat": 1})
    assert users.read_text() == "mine"
    assert dict(folder.beats())["me-7-a"] == {"beat": 1}


@pytest.mark.parametrize("place", ["jobs", "claimed", "outcomes", "judges"])
def test_a_place_that_is_a_link_is_refused(tmp_path, place):
    (tmp_path / "spool").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "spool" / place).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="is a link"):
        Folder(tmp_path / "spool").make()
    assert list((tmp_path / "elsewhere").iterdir()) == []


def _pipe(path, _):
    os.mkfifo(path)


def _device(path, _):
    path.symlink_to("/dev/zero")


def _link(path, users):
    users.write_text(seal("beat", {"beat": 1}))
    path.symlink_to(users)


def _socket(path, _):
    import socket

    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(path))


def _large(path, _):
    with path.open("wb") as file:
        file.truncate(65 << 20)


def _tree(path, _):
    path.mkdir()


@pytest.mark.parametrize("made", [_pipe, _device, _link, _socket, _large, _tree])
def test_what_is_no_plain_file_is_not_read(folder, users, made, monkeypatch):
    monkeypatch.chdir(folder.judges)
    made(folder.judges / "far-7-a.json", users)
    assert dict(folder.beats()) == {}
    with pytest.raises((Unreadable, IsADirectoryError)):
        read_plain(folder.judges / "far-7-a.json")


@pytest.mark.parametrize(
    "body", [{}, {"beat": "one"}, {"beat": True}, {"beat": 1, "pid": -1}, {"beat": 1, "pid": 2**40}]
)
def test_a_beat_that_is_none_is_left_out(folder, body):
    folder.beat("far-7-a", body)
    assert dict(folder.beats()) == {}


def test_a_sealed_list_is_no_object():
    with pytest.raises(Unreadable, match="no object"):
        unseal(
            json.dumps({"kb_spool": 1, "kind": "beat", "sha256": "", "body": [1]}).encode(), "beat"
        )


def test_owners_of_one_machine_differ():
    code = "from search.judging.spool.folder import owner_name; print(owner_name())"
    names = {
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
        for _ in range(2)
    }
    assert len(names | {owner_name()}) == 3
